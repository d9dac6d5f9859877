// The collective calls: all-reduces that symm takes, and everything else, which goes on to NCCL in
// an order with them.
#include "bindings/nccl/collectives.hpp"

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/communicators.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
struct Taken {
  std::shared_ptr<CudaGroup> group;
  Comm comm;
  AllReduce call;
};
struct Forwarded {
  std::shared_ptr<CudaGroup> group;
  void* stream;
};
struct Open {
  int depth = 0;
  std::vector<Taken> taken;
  std::vector<Forwarded> forwarded;
};
thread_local Open open_calls;

Result to_nccl(Comm comm, const AllReduce& call) {
  return real<Result, const void*, void*, size_t, int, int, Comm, void*>(Function::ncclAllReduce)(
      call.send, call.recv, call.count, call.type, call.op, comm, call.stream);
}

// Passes a call on to NCCL, in order with what symm does for the communicator.
template <class Call>
Result forward(Comm comm, void* stream, Call call) noexcept {
  std::shared_ptr<CudaGroup> group;
  try {
    group = cuda_group_of(comm);
    if (group == nullptr) return call();
    if (open_calls.depth > 0) open_calls.forwarded.push_back({group, stream});
  } catch (...) {
    return kSystemError;
  }
  // In a group of calls the order is made when NCCL issues them.
  if (open_calls.depth > 0) return call();
  if (const Result result = group->before_nccl(stream); result != kSuccess) return result;
  const Result result = call();
  group->after_nccl(stream);
  return result;
}

// Passes on a call whose arguments these are.
template <class... Arguments>
Result pass(Function function, Comm comm, void* stream, Arguments... arguments) noexcept {
  return forward(comm, stream, [&] { return real<Result, Arguments...>(function)(arguments...); });
}

bool prepare(CudaGroup& group) {
  const bool is_ready = group.prepare();
  if (is_ready) leave_at_exit();
  return is_ready;
}

// Makes the groups of the communicators that have none yet. Each rank may have them in another
// order, so each is made by a thread of its own.
void prepare_all(const std::vector<Taken>& calls) {
  std::vector<std::shared_ptr<CudaGroup>> groups;
  for (const Taken& one : calls) {
    bool is_new = true;
    for (const auto& known : groups) {
      is_new = is_new && known != one.group;
    }
    if (is_new) groups.push_back(one.group);
  }
  if (groups.size() == 1) {
    groups.front()->prepare();
    return;
  }
  std::vector<std::jthread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([group] { group->prepare(); });
  }
}
}  // namespace

void open_collectives() noexcept { ++open_calls.depth; }
int open_depth() noexcept { return open_calls.depth; }

int leave_collectives() noexcept {
  if (open_calls.depth > 0) --open_calls.depth;
  return open_calls.depth;
}

void drop_collectives() noexcept {
  open_calls.taken.clear();
  open_calls.forwarded.clear();
}

Result issue_collectives() noexcept {
  Result first = kSuccess;
  const auto note = [&](Result result) {
    if (first == kSuccess && result != kInProgress) first = result;
  };
  try {
    const std::vector<Taken> calls = std::exchange(open_calls.taken, {});
    if (!calls.empty()) prepare_all(calls);
    for (const Taken& one : calls) {
      if (prepare(*one.group)) {
        note(one.group->all_reduce(one.call));
      } else {
        note(one.group->is_aborted() ? kRemoteError : to_nccl(one.comm, one.call));
      }
    }
    for (const Forwarded& one : open_calls.forwarded) {
      note(one.group->before_nccl(one.stream));
    }
  } catch (...) {
    note(kSystemError);
  }
  return first;
}

void close_collectives() noexcept {
  for (const Forwarded& one : open_calls.forwarded) {
    one.group->after_nccl(one.stream);
  }
  drop_collectives();
}

// ---- calls

extern "C" {
Result symm_ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, Comm comm,
    void* stream) noexcept {
  const AllReduce call{send, recv, count, type, op, stream};
  try {
    const std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    if (group == nullptr) return to_nccl(comm, call);
    if (takes_all_reduce(settings(), group->size(), count, type, op) && group->takes_next(stream)) {
      if (open_calls.depth > 0) {
        open_calls.taken.push_back({group, comm, call});
        return kSuccess;
      }
      if (prepare(*group)) return group->all_reduce(call);
    }
    if (group->is_aborted()) return kRemoteError;
  } catch (...) {
    return kSystemError;
  }
  return forward(comm, stream, [&] { return to_nccl(comm, call); });
}

Result symm_ncclAllGather(
    const void* send, void* recv, size_t count, int type, Comm comm, void* stream) noexcept {
  return pass(Function::ncclAllGather, comm, stream, send, recv, count, type, comm, stream);
}

Result symm_ncclAlltoAll(
    const void* send, void* recv, size_t count, int type, Comm comm, void* stream) noexcept {
  return pass(Function::ncclAlltoAll, comm, stream, send, recv, count, type, comm, stream);
}

Result symm_ncclBcast(
    void* data, size_t count, int type, int root, Comm comm, void* stream) noexcept {
  return pass(Function::ncclBcast, comm, stream, data, count, type, root, comm, stream);
}

Result symm_ncclBroadcast(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return pass(Function::ncclBroadcast, comm, stream, send, recv, count, type, root, comm, stream);
}

Result symm_ncclGather(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return pass(Function::ncclGather, comm, stream, send, recv, count, type, root, comm, stream);
}

Result symm_ncclScatter(const void* send, void* recv, size_t count, int type, int root, Comm comm,
    void* stream) noexcept {
  return pass(Function::ncclScatter, comm, stream, send, recv, count, type, root, comm, stream);
}

Result symm_ncclReduce(const void* send, void* recv, size_t count, int type, int op, int root,
    Comm comm, void* stream) noexcept {
  return pass(Function::ncclReduce, comm, stream, send, recv, count, type, op, root, comm, stream);
}

Result symm_ncclReduceScatter(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream) noexcept {
  return pass(Function::ncclReduceScatter, comm, stream, send, recv, count, type, op, comm, stream);
}

Result symm_ncclSend(
    const void* data, size_t count, int type, int peer, Comm comm, void* stream) noexcept {
  return pass(Function::ncclSend, comm, stream, data, count, type, peer, comm, stream);
}

Result symm_ncclRecv(
    void* data, size_t count, int type, int peer, Comm comm, void* stream) noexcept {
  return pass(Function::ncclRecv, comm, stream, data, count, type, peer, comm, stream);
}

// A configuration may demand an algorithm of NCCL's, so these go to NCCL.
Result symm_ncclAllReduceConfig(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclAllReduceConfig, comm, stream, send, recv, count, type, op, comm,
      stream, config);
}

Result symm_ncclAllGatherConfig(const void* send, void* recv, size_t count, int type, Comm comm,
    void* stream, const void* config) noexcept {
  return pass(
      Function::ncclAllGatherConfig, comm, stream, send, recv, count, type, comm, stream, config);
}

Result symm_ncclAlltoAllConfig(const void* send, void* recv, size_t count, int type, Comm comm,
    void* stream, const void* config) noexcept {
  return pass(
      Function::ncclAlltoAllConfig, comm, stream, send, recv, count, type, comm, stream, config);
}

Result symm_ncclBroadcastConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclBroadcastConfig, comm, stream, send, recv, count, type, root, comm,
      stream, config);
}

Result symm_ncclGatherConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclGatherConfig, comm, stream, send, recv, count, type, root, comm, stream,
      config);
}

Result symm_ncclScatterConfig(const void* send, void* recv, size_t count, int type, int root,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclScatterConfig, comm, stream, send, recv, count, type, root, comm,
      stream, config);
}

Result symm_ncclReduceConfig(const void* send, void* recv, size_t count, int type, int op, int root,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclReduceConfig, comm, stream, send, recv, count, type, op, root, comm,
      stream, config);
}

Result symm_ncclReduceScatterConfig(const void* send, void* recv, size_t count, int type, int op,
    Comm comm, void* stream, const void* config) noexcept {
  return pass(Function::ncclReduceScatterConfig, comm, stream, send, recv, count, type, op, comm,
      stream, config);
}
}
}  // namespace symm::nccl
