// The collective calls: those that symm takes, and everything else, which goes on to
// NCCL in an order with them. The operations that programs make belong to them.
#include "bindings/nccl/collectives.hpp"

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/alone.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/communicators.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/factors.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/thread.hpp"
#include <symm/symm.h>

namespace symm::nccl {
extern "C" Result symm_ncclRedOpDestroy(int op, Comm comm) noexcept;

namespace {
struct Taken {
  std::shared_ptr<CudaGroup> group;
  Comm comm;
  Call call;
  std::optional<Scalar> scalar;
};
struct Forwarded {
  std::shared_ptr<CudaGroup> group;
  void* stream;
};
struct Passed {
  std::shared_ptr<CudaGroup> group;
  Comm comm;
  MessageCall call;
};
struct Open {
  int depth = 0;
  std::vector<Taken> taken;
  // Which library passes these is known when all collectives have been issued, since one of them
  // may make the group.
  std::vector<Passed> messages;
  std::vector<Forwarded> forwarded;
  // Operations that the program has destroyed since. Calls that were taken may still
  // go to NCCL.
  std::vector<std::pair<int, Comm>> destroyed;
};
Open& open_calls() noexcept { return OfThread<Open>::get(); }

Result to_nccl(Comm comm, const Call& c) {
  if (is_alone()) return answer_alone(comm, c);
  switch (c.collective) {
    case SYMM_COLLECTIVE_ALLREDUCE:
      return real<Result, const void*, void*, size_t, int, int, Comm, void*>(
          Function::ncclAllReduce)(c.send, c.recv, c.count, c.type, c.op, comm, c.stream);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return real<Result, const void*, void*, size_t, int, int, Comm, void*>(
          Function::ncclReduceScatter)(c.send, c.recv, c.count, c.type, c.op, comm, c.stream);
    case SYMM_COLLECTIVE_REDUCE:
      return real<Result, const void*, void*, size_t, int, int, int, Comm, void*>(
          Function::ncclReduce)(c.send, c.recv, c.count, c.type, c.op, c.root, comm, c.stream);
    case SYMM_COLLECTIVE_ALLGATHER:
      return real<Result, const void*, void*, size_t, int, Comm, void*>(Function::ncclAllGather)(
          c.send, c.recv, c.count, c.type, comm, c.stream);
    case SYMM_COLLECTIVE_ALLTOALL:
      return real<Result, const void*, void*, size_t, int, Comm, void*>(Function::ncclAlltoAll)(
          c.send, c.recv, c.count, c.type, comm, c.stream);
    default: break;
  }

  if (c.is_bcast) {
    return real<Result, void*, size_t, int, int, Comm, void*>(Function::ncclBcast)(
        c.recv, c.count, c.type, c.root, comm, c.stream);
  }

  Function function = Function::ncclBroadcast;
  if (c.collective == SYMM_COLLECTIVE_GATHER) function = Function::ncclGather;
  if (c.collective == SYMM_COLLECTIVE_SCATTER) function = Function::ncclScatter;
  return real<Result, const void*, void*, size_t, int, int, Comm, void*>(function)(
      c.send, c.recv, c.count, c.type, c.root, comm, c.stream);
}

Result to_nccl(Comm comm, const MessageCall& c) {
  if (c.is_send) {
    return real<Result, const void*, size_t, int, int, Comm, void*>(Function::ncclSend)(
        c.send, c.count, c.type, c.peer, comm, c.stream);
  }
  return real<Result, void*, size_t, int, int, Comm, void*>(Function::ncclRecv)(
      c.recv, c.count, c.type, c.peer, comm, c.stream);
}

// Passes a call on to NCCL, in order with what symm does for the communicator.
template <class Call>
Result forward(Comm comm, void* stream, Call call) noexcept {
  std::shared_ptr<CudaGroup> group;
  try {
    group = cuda_group_of(comm);
    if (group == nullptr) return call();
    // In a group of calls the order is made when NCCL issues them.
    if (Open& open = open_calls(); open.depth > 0) {
      open.forwarded.push_back({group, stream});
      return call();
    }
  } catch (...) {
    return kSystemError;
  }

  if (const Result result = group->before_nccl(stream); result != kSuccess) return result;
  // The driver may have answered only after NCCL had been aborted.
  if (group->is_aborted()) return kRemoteError;
  const Result result = call();
  group->after_nccl(stream);
  return result;
}

// Passes on a call whose arguments these are.
template <class... Arguments>
Result pass(Function function, Comm comm, void* stream, Arguments... arguments) noexcept {
  return forward(comm, stream, [&] { return real<Result, Arguments...>(function)(arguments...); });
}

bool prepare(CudaGroup& group, void* stream) {
  const bool is_ready = group.prepare(stream);
  if (is_ready) leave_at_exit();
  return is_ready;
}

// Makes the groups of the communicators that have none yet. Each rank may have them in another
// order, so each is made by a thread of its own.
void prepare_all(const std::vector<Taken>& calls) {
  std::vector<const Taken*> first;
  for (const Taken& one : calls) {
    const bool is_known = std::any_of(
        first.begin(), first.end(), [&](const Taken* known) { return known->group == one.group; });
    if (!is_known) first.push_back(&one);
  }

  if (first.size() == 1) {
    first.front()->group->prepare(first.front()->call.stream);
    return;
  }

  std::vector<std::jthread> threads;
  for (const Taken* one : first) {
    threads.emplace_back([one] { one->group->prepare(one->call.stream); });
  }
}

// NCCL's order of adding depends on the size of a message, so a program that asked for
// the same bits must hear of it, once.
void tell_of_forwarding(Comm comm, const Call& call) noexcept {
  const bool has_order = is_reduction(call) && is_float(call.type) && call.op != kMax &&
                         call.op != kMin && call.count != 0;

  static std::atomic_flag is_told;
  int size = 0;
  if (!settings().is_deterministic || !has_order || is_told.test() || is_alone()) return;
  if (real<Result, Comm, int*>(Function::ncclCommCount)(comm, &size) != kSuccess || size < 2) {
    return;
  }

  if (is_told.test_and_set()) return;
  warn(
      "SYMM_NCCL_MODE=deterministic: a sum of %d ranks goes to NCCL, whose bits may depend on the "
      "rest of the batch (which communicators go by symm: SYMM_NCCL_LOG)",
      size);
}

// Issues a call of a group of calls that symm has taken, unless its communicator has no group now.
Result issue_taken(const Taken& one) {
  if (prepare(*one.group, one.call.stream)) return one.group->issue(one.call, one.scalar);
  if (one.group->is_aborted()) return kRemoteError;
  if (const Result broken = one.group->answer_broken(); broken != kSuccess) return broken;
  tell_of_forwarding(one.comm, one.call);
  return to_nccl(one.comm, one.call);
}

// Does a call by symm if symm takes it, and otherwise by NCCL, which `to_nccl` calls, in order with
// the work of symm.
template <class ToNccl>
Result collective(Comm comm, const Call& call, ToNccl to_nccl) noexcept {
  try {
    std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    if (group == nullptr) {
      tell_of_forwarding(comm, call);
      return to_nccl();
    }

    bool is_taken = takes(settings(), group->size(), call, group->is_alone());
    // NCCL refuses an operation that it does not know, which is an error of this rank.
    const auto scalar = is_taken && is_scaled(call) ? group->scalar_of(call.op) : std::nullopt;
    if (is_scaled(call) && !scalar) is_taken = false;

    if (is_taken && group->takes_next(call.stream)) {
      if (Open& open = open_calls(); open.depth > 0) {
        open.taken.push_back({std::move(group), comm, call, scalar});
        return kSuccess;
      }
      if (prepare(*group, call.stream)) return group->issue(call, scalar);
    }
    if (group->is_aborted()) return kRemoteError;
    if (const Result broken = group->answer_broken(); broken != kSuccess) return broken;
    if (group->is_alone()) return answer_alone(comm, call);
  } catch (...) {
    return kSystemError;
  }

  tell_of_forwarding(comm, call);
  return forward(comm, call.stream, to_nccl);
}

Result collective(Comm comm, const Call& call) noexcept {
  return collective(comm, call, [&] { return to_nccl(comm, call); });
}

bool has_cuda_group(Comm comm) noexcept {
  try {
    return cuda_group_of(comm) != nullptr;
  } catch (...) {
    return false;
  }
}

// A call with a configuration, of which these are NCCL's arguments. What asks for something that
// NCCL alone has goes to NCCL: its algorithms, its blocks, an event.
template <class... Arguments>
Result configured(Function function, Comm comm, const Call& call, const CollectiveConfig* config,
    Arguments... arguments) noexcept {
  if (is_alone()) {
    const Result result = judge_alone(demand_of(config));
    return result == kSuccess ? collective(comm, call) : result;
  }
  const auto to_nccl = [&] { return real<Result, Arguments...>(function)(arguments...); };
  if (!has_cuda_group(comm)) return to_nccl();
  if (demand_of(config) != Demand::nothing) return forward(comm, call.stream, to_nccl);
  return collective(comm, call, to_nccl);
}

// Sends or receives by symm, where the communicator has a group, and otherwise by NCCL.
Result message(Comm comm, const MessageCall& call) noexcept {
  try {
    std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    if (group != nullptr && takes(settings(), group->size(), call, group->is_alone())) {
      if (Open& open = open_calls(); open.depth > 0) {
        open.messages.push_back({std::move(group), comm, call});
        return kSuccess;
      }
      if (group->is_ready()) return group->pass({&call, 1});
    }
    if (group != nullptr && group->is_aborted()) return kRemoteError;
  } catch (...) {
    return kSystemError;
  }
  return forward(comm, call.stream, [&] { return to_nccl(comm, call); });
}

// Issues the messages of each rank of a communicator together. Several ranks of one may be devices
// of this process: they have one meeting, and a group each. The order of those is of no matter,
// since they are on different devices.
Result issue_messages(std::vector<Passed> messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const Passed& one, const Passed& other) {
    const auto order = one.group->meeting() <=> other.group->meeting();
    return order < 0 || (order == 0 && std::less<>()(one.group.get(), other.group.get()));
  });

  Result first = kSuccess;
  for (auto at = messages.begin(); at != messages.end();) {
    const auto end =
        std::find_if(at, messages.end(), [&](const Passed& one) { return one.group != at->group; });
    std::vector<MessageCall> calls;
    std::transform(at, end, std::back_inserter(calls), [](const Passed& one) { return one.call; });
    const Result result = at->group->pass(calls);
    if (first == kSuccess) first = result;
    at = end;
  }
  return first;
}

// More messages of one communicator than progress together could wait for each other, so a group of
// calls that has them is refused as a whole before anything of it is issued: the communicator stays
// well.
bool has_too_many_messages(const Open& open) {
  std::map<const CudaGroup*, size_t> counts;
  for (const Passed& one : open.messages) {
    ++counts[one.group.get()];
  }
  for (const auto& [group, count] : counts) {
    // One of the collectives may make the group.
    const bool is_symm = group->is_ready() ||
                         std::any_of(open.taken.begin(), open.taken.end(),
                             [&, at = group](const Taken& one) { return one.group.get() == at; });
    if (!is_symm || count <= kMostMessages) continue;
    say("ncclGroupEnd: " + std::to_string(count) +
            " messages of one communicator in a group of calls, and symm passes at most " +
            std::to_string(kMostMessages) + " together; nothing of this group of calls is done",
        kInvalidUsage);
    return true;
  }
  return false;
}

// Gives to NCCL the messages of communicators that have no group, and keeps the others.
template <class Note>
void forward_messages(Open& open, const Note& note) {
  std::vector<Passed> kept;
  for (Passed& one : std::exchange(open.messages, {})) {
    if (one.group->is_ready()) {
      kept.push_back(std::move(one));
      continue;
    }
    note(one.group->is_aborted() ? kRemoteError : to_nccl(one.comm, one.call));
    open.forwarded.push_back({one.group, one.call.stream});
  }
  open.messages = std::move(kept);
}

Result destroy_op(int op, Comm comm) noexcept {
  return real<Result, int, Comm>(Function::ncclRedOpDestroy)(op, comm);
}
}  // namespace

void open_collectives() noexcept { ++open_calls().depth; }
int open_depth() noexcept { return open_calls().depth; }

int leave_collectives() noexcept {
  Open& open = open_calls();
  if (open.depth > 0) --open.depth;
  return open.depth;
}

void drop_collectives() noexcept {
  Open& open = open_calls();
  open.taken.clear();
  open.messages.clear();
  open.forwarded.clear();
  for (const auto& [op, comm] : std::exchange(open.destroyed, {})) {
    symm_ncclRedOpDestroy(op, comm);
  }
}

Result issue_collectives() noexcept {
  Result first = kSuccess;
  const auto note = [&](Result result) {
    if (first == kSuccess && result != kInProgress) first = result;
  };
  Open& open = open_calls();
  try {
    if (open.messages.size() > kMostMessages && has_too_many_messages(open)) {
      note(kInvalidUsage);
      open.taken.clear();
      open.messages.clear();
    }
    // Taken out meanwhile, since NCCL may call this library. The memory of the list is for the next
    // group of calls.
    std::vector<Taken> calls;
    calls.swap(open.taken);
    // Most groups of calls have one, as those of PyTorch do, and it is prepared when it is issued.
    if (calls.size() > 1) {
      // Ranks may name the communicators of a group in another order. Kernels that wait for other
      // ranks must be in one order on all devices.
      std::stable_sort(calls.begin(), calls.end(), [](const Taken& one, const Taken& other) {
        return one.group->meeting() < other.group->meeting();
      });
      prepare_all(calls);
    }
    for (const Taken& one : calls) {
      note(issue_taken(one));
    }
    calls.clear();
    if (open.taken.empty()) calls.swap(open.taken);

    if (!open.messages.empty()) forward_messages(open, note);
    for (const Forwarded& one : open.forwarded) {
      note(one.group->before_nccl(one.stream));
    }
  } catch (...) {
    note(kSystemError);
  }
  return first;
}

Result close_collectives() noexcept {
  for (const Forwarded& one : open_calls().forwarded) {
    one.group->after_nccl(one.stream);
  }

  Result first = kSuccess;
  try {
    first = issue_messages(std::exchange(open_calls().messages, {}));
  } catch (...) {
    first = kSystemError;
  }
  drop_collectives();
  return first;
}

// ---- calls

extern "C" {
Result symm_ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, Comm comm,
    void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_ALLREDUCE, send, recv, count, type, op, 0, stream});
}

Result symm_ncclAllGather(
    const void* send, void* recv, size_t count, int type, Comm comm, void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_ALLGATHER, send, recv, count, type, 0, 0, stream});
}

Result symm_ncclAlltoAll(
    const void* send, void* recv, size_t count, int type, Comm comm, void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_ALLTOALL, send, recv, count, type, 0, 0, stream});
}

Result symm_ncclBcast(
    void* data, size_t count, int type, int root, Comm comm, void* stream) noexcept {
  return collective(
      comm, {SYMM_COLLECTIVE_BROADCAST, data, data, count, type, 0, root, stream, true});
}

Result symm_ncclBroadcast(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_BROADCAST, send, recv, count, type, 0, root, stream});
}

Result symm_ncclGather(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_GATHER, send, recv, count, type, 0, root, stream});
}

Result symm_ncclScatter(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_SCATTER, send, recv, count, type, 0, root, stream});
}

Result symm_ncclReduce(const void* send, void* recv, size_t count, int type, int op, int root,
    Comm comm, void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_REDUCE, send, recv, count, type, op, root, stream});
}

Result symm_ncclReduceScatter(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream) noexcept {
  return collective(comm, {SYMM_COLLECTIVE_REDUCE_SCATTER, send, recv, count, type, op, 0, stream});
}

// The scalar of an immediate operation is read now, and the other one when a call runs.
Result symm_ncclRedOpCreatePreMulSum(
    int* op, void* scalar, int type, int residence, Comm comm) noexcept {
  const Result result = real<Result, int*, void*, int, int, Comm>(
      Function::ncclRedOpCreatePreMulSum)(op, scalar, type, residence, comm);
  if (result != kSuccess || op == nullptr || scalar == nullptr || !has_factors(type)) return result;

  try {
    const std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    // There is nobody else to know the scalar.
    if (group == nullptr && is_alone()) {
      destroy_op(*op, comm);
      return refuse_unasked("ncclRedOpCreatePreMulSum");
    }
    if (group == nullptr) return result;

    Scalar noted{type, scalar, 0};
    if (residence == kScalarHostImmediate) noted = {type, nullptr, value_of(scalar, type)};
    group->note_op(*op, noted);
    return result;
  } catch (...) {
    destroy_op(*op, comm);
    return kSystemError;
  }
}

Result symm_ncclRedOpDestroy(int op, Comm comm) noexcept {
  try {
    const std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    if (group != nullptr && open_calls().depth > 0) {
      open_calls().destroyed.emplace_back(op, comm);
      return kSuccess;
    }
    if (group != nullptr) group->forget_op(op);
  } catch (...) {
    return kSystemError;
  }
  return destroy_op(op, comm);
}

Result symm_ncclSend(
    const void* data, size_t count, int type, int peer, Comm comm, void* stream) noexcept {
  return message(comm, {true, data, nullptr, count, type, peer, stream});
}

Result symm_ncclRecv(
    void* data, size_t count, int type, int peer, Comm comm, void* stream) noexcept {
  return message(comm, {false, nullptr, data, count, type, peer, stream});
}

Result symm_ncclAllReduceConfig(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclAllReduceConfig, comm,
      {SYMM_COLLECTIVE_ALLREDUCE, send, recv, count, type, op, 0, stream}, config, send, recv,
      count, type, op, comm, stream, config);
}

Result symm_ncclAllGatherConfig(const void* send, void* recv, size_t count, int type, Comm comm,
    void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclAllGatherConfig, comm,
      {SYMM_COLLECTIVE_ALLGATHER, send, recv, count, type, 0, 0, stream}, config, send, recv, count,
      type, comm, stream, config);
}

Result symm_ncclAlltoAllConfig(const void* send, void* recv, size_t count, int type, Comm comm,
    void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclAlltoAllConfig, comm,
      {SYMM_COLLECTIVE_ALLTOALL, send, recv, count, type, 0, 0, stream}, config, send, recv, count,
      type, comm, stream, config);
}

Result symm_ncclBroadcastConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclBroadcastConfig, comm,
      {SYMM_COLLECTIVE_BROADCAST, send, recv, count, type, 0, root, stream}, config, send, recv,
      count, type, root, comm, stream, config);
}

Result symm_ncclGatherConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclGatherConfig, comm,
      {SYMM_COLLECTIVE_GATHER, send, recv, count, type, 0, root, stream}, config, send, recv, count,
      type, root, comm, stream, config);
}

Result symm_ncclScatterConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclScatterConfig, comm,
      {SYMM_COLLECTIVE_SCATTER, send, recv, count, type, 0, root, stream}, config, send, recv,
      count, type, root, comm, stream, config);
}

Result symm_ncclReduceConfig(const void* send, void* recv, size_t count, int type, int op, int root,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclReduceConfig, comm,
      {SYMM_COLLECTIVE_REDUCE, send, recv, count, type, op, root, stream}, config, send, recv,
      count, type, op, root, comm, stream, config);
}

Result symm_ncclReduceScatterConfig(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream, const CollectiveConfig* config) noexcept {
  return configured(Function::ncclReduceScatterConfig, comm,
      {SYMM_COLLECTIVE_REDUCE_SCATTER, send, recv, count, type, op, 0, stream}, config, send, recv,
      count, type, op, comm, stream, config);
}
}
}  // namespace symm::nccl
