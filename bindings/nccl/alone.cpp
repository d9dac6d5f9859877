#include "bindings/nccl/alone.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/alone_communicators.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/driver.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/mixture.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
using alone::close_group;
using alone::describe;
using alone::describe_child;
using alone::end;
using alone::find;
using alone::guard;
using alone::Job;
using alone::make;
using alone::open_group;
using alone::refuse;
using alone::Shared;

// What the program has besides communicators.
struct Handles {
  std::mutex mutex;
  // What ncclRedOpCreatePreMulSum() has made.
  std::set<std::pair<int, Comm>> operations;
  int next_operation = kFirstOwnOp;
  // Windows by their handles, which are numbers.
  std::map<uintptr_t, void*> windows;
  uintptr_t next_window = 1;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

Result no_communicator(const char* call) {
  return refuse(kInvalidArgument, std::string(call) + ": this is no communicator of this process");
}

// Its children are made before it does anything else.
bool is_complete(const alone::Alone& one) { return one.state == kSuccess && one.making == 0; }

constexpr const char* kNoDevice =
    "there is no CUDA driver (libcuda.so.1), or no device: symm doctor says what is missing; the "
    "drop-in needs a GPU";

// NCCL's name for a collective.
const char* name_of(const Call& call) {
  switch (call.collective) {
    case SYMM_COLLECTIVE_ALLREDUCE: return "ncclAllReduce";
    case SYMM_COLLECTIVE_REDUCE_SCATTER: return "ncclReduceScatter";
    case SYMM_COLLECTIVE_REDUCE: return "ncclReduce";
    case SYMM_COLLECTIVE_ALLGATHER: return "ncclAllGather";
    case SYMM_COLLECTIVE_ALLTOALL: return "ncclAlltoAll";
    case SYMM_COLLECTIVE_GATHER: return "ncclGather";
    case SYMM_COLLECTIVE_SCATTER: return "ncclScatter";
    default: return call.is_bcast ? "ncclBcast" : "ncclBroadcast";
  }
}

// Why a collective is refused that the variables leave to NCCL.
std::string why_excluded(const Call& call) {
  const std::string name = name_of(call);
  if (!settings().refusal.empty()) {
    return name + ": " + settings().refusal +
           "; until that is mended no collective goes to symm, and this process has no NCCL (" +
           real_library().reason + ")";
  }
  const char* const ops = variable("SYMM_NCCL_OPS");
  return name + ", which SYMM_NCCL_OPS=" + (ops != nullptr ? ops : "") + " leaves to NCCL," +
         needs_nccl();
}

Result too_many(const char* call, int size) {
  return refuse(kInvalidUsage, std::string(call) + ": a communicator of " + std::to_string(size) +
                                   " ranks, more than " + std::to_string(kMostRanks) + "," +
                                   needs_nccl());
}

// Why an id is none that this process can meet by; "" if it is.
std::string objection(const UniqueId& id) {
  if (!is_alone_id(id)) {
    return "the unique id was not made by a process without NCCL, and this process has none (" +
           real_library().reason + "): have NCCL in all processes, or in none (SYMM_NCCL=none)";
  }
  if (is_of_another_machine(id)) return "a communicator of several machines" + needs_nccl();
  return meeting_of(id) ? "" : "the unique id is damaged";
}

Result init(
    const char* call, Comm* comm, int size, const UniqueId& id, int rank, const Config* config) {
  const std::string name = std::string(call) + ": ";
  if (comm == nullptr) return refuse(kInvalidArgument, name + "there is no place for it");
  *comm = nullptr;
  if (size < 1 || rank < 0 || rank >= size) {
    return refuse(kInvalidArgument,
        name + "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks");
  }
  if (size > kMostRanks) return too_many(call, size);
  if (const std::string why = objection(id); !why.empty()) {
    const auto meeting = is_alone_id(id) ? std::nullopt : meeting_of(id);
    if (meeting) leave_mark(*meeting, rank);
    return refuse(kInvalidUsage, name + why);
  }

  const Shared one = describe(config);
  one->rank = rank;
  one->size = size;
  one->meeting = *meeting_of(id);
  if (!Driver::current_device(one->device)) {
    return refuse(kCudaError, name + kNoDevice);
  }
  return make({{one, comm}});
}

// ---- NCCL's functions

Result get_version(int* version) noexcept {
  if (version == nullptr) return kInvalidArgument;
  *version = real_library().version_code;
  return kSuccess;
}

Result get_unique_id(UniqueId* id) noexcept {
  if (id == nullptr) return kInvalidArgument;
  make_alone_id(*id);
  return kSuccess;
}

Result init_rank(Comm* comm, int size, UniqueId id, int rank) noexcept {
  return guard(
      "ncclCommInitRank", [&] { return init("ncclCommInitRank", comm, size, id, rank, nullptr); });
}

Result init_rank_config(Comm* comm, int size, UniqueId id, int rank, Config* config) noexcept {
  return guard("ncclCommInitRankConfig",
      [&] { return init("ncclCommInitRankConfig", comm, size, id, rank, config); });
}

// Several ids spare NCCL's first rank work; one is enough to meet by.
Result init_rank_scalable(
    Comm* comm, int size, int rank, int count, UniqueId* ids, Config* config) noexcept {
  return guard("ncclCommInitRankScalable", [&] {
    if (count < 1 || ids == nullptr) {
      return refuse(kInvalidArgument, "ncclCommInitRankScalable: there is no unique id");
    }
    return init("ncclCommInitRankScalable", comm, size, ids[0], rank, config);
  });
}

Result init_all(Comm* comms, int count, const int* devices) noexcept {
  return guard("ncclCommInitAll", [&] {
    if (comms == nullptr || count < 1) {
      return refuse(kInvalidArgument, "ncclCommInitAll: there are no communicators");
    }
    if (count > kMostRanks) return too_many("ncclCommInitAll", count);
    int device = 0;
    if (!Driver::current_device(device)) {
      return refuse(kCudaError, std::string("ncclCommInitAll: ") + kNoDevice);
    }

    UniqueId id;
    make_alone_id(id);
    add_meeting(id);
    const auto meeting = meeting_of(id);
    if (!meeting) return refuse(kSystemError, "ncclCommInitAll: the kernel draws no numbers");
    std::vector<Job> jobs;
    for (int rank = 0; rank < count; ++rank) {
      const Shared one = describe(nullptr);
      one->meeting = *meeting;
      one->rank = rank;
      one->size = count;
      one->device = devices != nullptr ? devices[rank] : rank;
      jobs.push_back({one, comms + rank});
    }
    return make(jobs);
  });
}

// As in NCCL, there is nothing to do for no communicator.
Result end_one(const char* call, Comm comm, bool aborts) noexcept {
  if (comm == nullptr) return kSuccess;
  return guard(call, [&] {
    {
      const std::lock_guard lock(handles().mutex);
      std::erase_if(handles().operations, [&](const auto& made) { return made.second == comm; });
    }
    return end(comm, aborts) ? kSuccess : no_communicator(call);
  });
}

Result destroy(Comm comm) noexcept { return end_one("ncclCommDestroy", comm, false); }
Result abort_all(Comm comm) noexcept { return end_one("ncclCommAbort", comm, true); }

// symm's work is complete, or has been aborted, before this is called.
Result finalize(Comm comm) noexcept {
  return guard("ncclCommFinalize",
      [&] { return find(comm) != nullptr ? kSuccess : no_communicator("ncclCommFinalize"); });
}

Result revoke(Comm comm, int) noexcept {
  return guard("ncclCommRevoke",
      [&] { return find(comm) != nullptr ? kSuccess : no_communicator("ncclCommRevoke"); });
}

// Tells one number of a communicator.
template <class Number>
Result tell(const char* call, Comm comm, int* to, Number number) noexcept {
  return guard(call, [&] {
    const Shared one = find(comm);
    if (one == nullptr) return no_communicator(call);
    if (to == nullptr) return refuse(kInvalidArgument, std::string(call) + ": there is no place");
    *to = number(*one);
    return kSuccess;
  });
}

Result count(Comm comm, int* to) noexcept {
  return tell("ncclCommCount", comm, to, [](const alone::Alone& one) { return one.size; });
}

Result user_rank(Comm comm, int* to) noexcept {
  return tell("ncclCommUserRank", comm, to, [](const alone::Alone& one) { return one.rank; });
}

Result cu_device(Comm comm, int* to) noexcept {
  return tell("ncclCommCuDevice", comm, to, [](const alone::Alone& one) { return one.device; });
}

Result get_async_error(Comm comm, Result* error) noexcept {
  return tell("ncclCommGetAsyncError", comm, error, [](const alone::Alone& one) {
    const Result state = one.state;
    return state == kSuccess && one.making > 0 ? kInProgress : state;
  });
}

Result group_start() noexcept {
  open_group();
  return kSuccess;
}

Result group_end() noexcept {
  return guard("ncclGroupEnd", [] {
    Result result = kSuccess;
    if (close_group(false, result)) return result;
    return refuse(kInvalidUsage, "ncclGroupEnd: no group of calls is open");
  });
}

// A group of calls that is simulated makes nothing.
Result group_simulate_end(void*) noexcept {
  return guard("ncclGroupSimulateEnd", [] {
    Result result = kSuccess;
    if (!close_group(true, result)) {
      return refuse(kInvalidUsage, "ncclGroupSimulateEnd: no group of calls is open");
    }
    return refuse(kInvalidUsage, "ncclGroupSimulateEnd: an estimate of times" + needs_nccl());
  });
}

Result make_op(int* op, void* scalar, int type, int, Comm comm) noexcept {
  return guard("ncclRedOpCreatePreMulSum", [&] {
    const std::string name = "ncclRedOpCreatePreMulSum: ";
    const Shared one = find(comm);
    if (one == nullptr) return no_communicator("ncclRedOpCreatePreMulSum");
    if (!is_complete(*one)) {
      return refuse(kInvalidArgument, name + "the communicator is in progress or failed");
    }
    if (op == nullptr || scalar == nullptr) {
      return refuse(kInvalidArgument, name + "there is no scalar, or no place for the operation");
    }
    if (!dtype_of(type)) {
      return refuse(kInvalidArgument, name + "no data type is " + std::to_string(type));
    }
    if (!has_factors(type)) {
      return refuse(kInvalidUsage, name + "a factor of integers or of f64" + needs_nccl());
    }
    const std::lock_guard lock(handles().mutex);
    *op = handles().next_operation++;
    handles().operations.emplace(*op, comm);
    return kSuccess;
  });
}

Result destroy_op(int op, Comm comm) noexcept {
  return guard("ncclRedOpDestroy", [&] {
    {
      const std::lock_guard lock(handles().mutex);
      if (handles().operations.erase({op, comm}) == 1) return kSuccess;
    }
    return refuse(kInvalidArgument,
        "ncclRedOpDestroy: the communicator has no operation " + std::to_string(op));
  });
}

Result mem_alloc(void** memory, size_t bytes) noexcept {
  return guard("ncclMemAlloc", [&] {
    if (memory == nullptr) return refuse(kInvalidArgument, "ncclMemAlloc: there is no place");
    *memory = nullptr;
    if (bytes == 0) return kSuccess;
    *memory = Driver::make_shared_memory(bytes);
    if (*memory != nullptr) return kSuccess;
    return refuse(kCudaError, "ncclMemAlloc: the CUDA driver has not given " +
                                  std::to_string(bytes) + " bytes that ranks can share");
  });
}

Result mem_free(void* memory) noexcept {
  return guard("ncclMemFree", [&] {
    if (memory == nullptr || Driver::end_shared_memory(memory)) return kSuccess;
    return refuse(kInvalidArgument, "ncclMemFree: ncclMemAlloc() has not given this address");
  });
}

// symm takes any memory, so there is nothing to register.
Result register_memory(Comm comm, void*, size_t, void** handle) noexcept {
  return guard("ncclCommRegister", [&] {
    if (find(comm) == nullptr) return no_communicator("ncclCommRegister");
    if (handle != nullptr) *handle = nullptr;
    return kSuccess;
  });
}

Result deregister_memory(Comm comm, void*) noexcept {
  return guard("ncclCommDeregister",
      [&] { return find(comm) != nullptr ? kSuccess : no_communicator("ncclCommDeregister"); });
}

Result register_window(Comm comm, void* memory, size_t, void** window, int) noexcept {
  return guard("ncclCommWindowRegister", [&] {
    if (find(comm) == nullptr) return no_communicator("ncclCommWindowRegister");
    if (memory == nullptr || window == nullptr) {
      return refuse(kInvalidArgument, "ncclCommWindowRegister: there is no memory, or no place");
    }
    const std::lock_guard lock(handles().mutex);
    const uintptr_t number = handles().next_window++;
    handles().windows.emplace(number, memory);
    *window = reinterpret_cast<void*>(number);
    return kSuccess;
  });
}

Result deregister_window(Comm, void* window) noexcept {
  return guard("ncclCommWindowDeregister", [&] {
    {
      const std::lock_guard lock(handles().mutex);
      const bool was_there = handles().windows.erase(reinterpret_cast<uintptr_t>(window)) == 1;
      if (was_there || window == nullptr) return kSuccess;
    }
    return refuse(kInvalidArgument, "ncclCommWindowDeregister: this is no window");
  });
}

Result pointer_of_window(Comm, void* window, void** memory) noexcept {
  return guard("ncclWinGetUserPtr", [&] {
    {
      const std::lock_guard lock(handles().mutex);
      const auto found = handles().windows.find(reinterpret_cast<uintptr_t>(window));
      if (found != handles().windows.end() && memory != nullptr) {
        *memory = found->second;
        return kSuccess;
      }
    }
    return refuse(kInvalidArgument, "ncclWinGetUserPtr: this is no window, or there is no place");
  });
}

// Why symm has not taken a message: the communicator, or one of the arguments.
Result answer_message(const char* call, size_t count, int type, int peer, Comm comm) noexcept {
  return guard(call, [&] {
    const std::string name = std::string(call) + ": ";
    const Shared one = find(comm);
    if (one == nullptr) return no_communicator(call);
    if (!is_complete(*one)) {
      return refuse(kInvalidArgument, name + "the communicator is in progress or failed");
    }
    if (peer < 0 || peer >= one->size) {
      return refuse(kInvalidArgument,
          name + "peer " + std::to_string(peer) + " of " + std::to_string(one->size) + " ranks");
    }
    const std::optional<symm_dtype_t> dtype = dtype_of(type);
    if (!dtype) return refuse(kInvalidArgument, name + "no data type is " + std::to_string(type));
    if (count <= uint64_t{INT64_MAX} / bytes_of(*dtype)) return refuse_unasked(call);
    return refuse(kInvalidArgument,
        name + "count " + std::to_string(count) + " is more than memory has addresses");
  });
}

Result send(const void*, size_t count, int type, int peer, Comm comm, void*) noexcept {
  return answer_message("ncclSend", count, type, peer, comm);
}

Result recv(void*, size_t count, int type, int peer, Comm comm, void*) noexcept {
  return answer_message("ncclRecv", count, type, peer, comm);
}

// NCCL's debugging is not there to be begun anew.
void reset_debug() noexcept {}

struct StandIn {
  Function function;
  void* code;
};
template <class Call>
StandIn with(Function function, Call* call) {
  return {function, reinterpret_cast<void*>(call)};
}
}  // namespace

void* alone_function(Function function) noexcept {
  static const StandIn all[] = {
      with(Function::ncclGetVersion, get_version),
      with(Function::ncclGetUniqueId, get_unique_id),
      with(Function::ncclCommInitRank, init_rank),
      with(Function::ncclCommInitRankConfig, init_rank_config),
      with(Function::ncclCommInitRankScalable, init_rank_scalable),
      with(Function::ncclCommInitAll, init_all),
      with(Function::ncclCommDestroy, destroy),
      with(Function::ncclCommAbort, abort_all),
      with(Function::ncclCommFinalize, finalize),
      with(Function::ncclCommRevoke, revoke),
      with(Function::ncclCommCount, count),
      with(Function::ncclCommUserRank, user_rank),
      with(Function::ncclCommCuDevice, cu_device),
      with(Function::ncclCommGetAsyncError, get_async_error),
      with(Function::ncclGroupStart, group_start),
      with(Function::ncclGroupEnd, group_end),
      with(Function::ncclGroupSimulateEnd, group_simulate_end),
      with(Function::ncclRedOpCreatePreMulSum, make_op),
      with(Function::ncclRedOpDestroy, destroy_op),
      with(Function::ncclMemAlloc, mem_alloc),
      with(Function::ncclMemFree, mem_free),
      with(Function::ncclCommRegister, register_memory),
      with(Function::ncclCommDeregister, deregister_memory),
      with(Function::ncclCommWindowRegister, register_window),
      with(Function::ncclCommWindowDeregister, deregister_window),
      with(Function::ncclWinGetUserPtr, pointer_of_window),
      with(Function::ncclSend, send),
      with(Function::ncclRecv, recv),
      with(Function::ncclResetDebugInit, reset_debug),
      with(Function::ncclResetDebugInitInternal, reset_debug),
  };
  const auto* const found = std::find_if(
      std::begin(all), std::end(all), [&](const StandIn& one) { return one.function == function; });
  return found != std::end(all) ? found->code : nullptr;
}

std::string needs_nccl() {
  return " needs NCCL, and this process has none (" + real_library().reason +
         "): install it, or name its libnccl.so.2 in SYMM_NCCL";
}

std::optional<AloneGroups> alone_groups(Comm comm) noexcept {
  try {
    const Shared one = find(comm);
    if (one == nullptr) return std::nullopt;
    const std::lock_guard lock(one->mutex);
    return AloneGroups{one->ranks, one->cuda_group};
  } catch (...) {
    return std::nullopt;
  }
}

Result split_alone(Comm parent, int color, int key, Comm* child, const Config* config,
    const std::optional<Meeting>& meeting) noexcept {
  return guard("ncclCommSplit", [&] {
    const Shared from = find(parent);
    if (from == nullptr || !meeting) return no_communicator("ncclCommSplit");
    if (child == nullptr) return refuse(kInvalidArgument, "ncclCommSplit: there is no place");
    *child = nullptr;
    if (!is_complete(*from)) {
      return refuse(kInvalidArgument, "ncclCommSplit: the communicator is in progress or failed");
    }

    const Shared one = describe_child(config, from);
    one->meeting = *meeting;
    return make({{one, child, from, true, color, key}});
  });
}

Result shrink_alone(Comm parent, const int* excluded, int count, Comm* child, const Config* config,
    const std::optional<Meeting>& meeting) noexcept {
  return guard("ncclCommShrink", [&] {
    const Shared from = find(parent);
    if (from == nullptr) return no_communicator("ncclCommShrink");
    if (child == nullptr || (excluded == nullptr && count > 0)) {
      return refuse(kInvalidArgument, "ncclCommShrink: there is no place, or no list of ranks");
    }
    *child = nullptr;
    if (count < 0 || count > from->size) {
      return refuse(kInvalidArgument, "ncclCommShrink: a list of " + std::to_string(count) +
                                          " ranks to leave out, of " + std::to_string(from->size));
    }
    if (!meeting) return no_communicator("ncclCommShrink");
    const std::set<int> left_out(excluded, excluded + count);
    const bool is_known =
        left_out.empty() || (*left_out.begin() >= 0 && *left_out.rbegin() < from->size);
    if (!is_known || left_out.contains(from->rank)) {
      return refuse(kInvalidArgument,
          "ncclCommShrink: the list has a rank that is none of the "
          "communicator's, or that calls this");
    }

    const Shared one = describe_child(config, from);
    one->meeting = *meeting;
    one->rank = from->rank -
                static_cast<int>(std::distance(left_out.begin(), left_out.lower_bound(from->rank)));
    one->size = from->size - static_cast<int>(left_out.size());
    for (int rank = 0; rank < from->size; ++rank) {
      if (!left_out.contains(rank)) one->members.push_back(rank);
    }
    return make({{one, child, from}});
  });
}

Result refuse_unasked(const char* call) noexcept {
  return guard(call, [&] {
    return refuse(kInvalidArgument,
        std::string(call) +
            ": the communicator is in progress until ncclCommGetAsyncError() tells "
            "that it is complete");
  });
}

Result answer_alone(Comm comm, const Call& call) noexcept {
  return guard("a collective", [&] {
    const Shared one = find(comm);
    if (one == nullptr) return no_communicator("a collective");
    if (!is_complete(*one)) {
      return refuse(kInvalidArgument, "a collective of a communicator in progress, or failed");
    }
    if (!dtype_of(call.type)) {
      return refuse(kInvalidArgument, "no data type is " + std::to_string(call.type));
    }
    if (call.root < 0 || call.root >= one->size) {
      return refuse(kInvalidArgument,
          "root " + std::to_string(call.root) + " of " + std::to_string(one->size) + " ranks");
    }
    if (is_reduction(call) && !op_of(call.op)) {
      const std::lock_guard lock(handles().mutex);
      const bool is_made = handles().operations.contains({call.op, comm});
      if (!is_made || !has_factors(call.type)) {
        return refuse(kInvalidArgument, "operation " + std::to_string(call.op) +
                                            " is none of the communicator's for this data type");
      }
    }
    if (call.count == 0) return kSuccess;
    if ((settings().collectives & 1U << call.collective) == 0) {
      return refuse(kInvalidUsage, why_excluded(call));
    }
    if (takes(settings(), one->size, call, true)) return refuse_unasked("a collective");
    return refuse(kInvalidArgument,
        "count " + std::to_string(call.count) + " is more than memory has addresses");
  });
}

Result judge_alone(Demand demand) noexcept {
  return guard("a collective", [&] {
    switch (demand) {
      case Demand::wrong:
        return refuse(kInvalidArgument, "the configuration of a collective is none");
      case Demand::event: return refuse(kInvalidUsage, "a launchCompletionEvent" + needs_nccl());
      case Demand::algorithm:
        return refuse(kInvalidUsage, "an algSelection with forceAlgSelection" + needs_nccl());
      default: return kSuccess;
    }
  });
}

Result refuse_alone_id(const UniqueId& id, int size, int rank) noexcept {
  return guard("a communicator", [&] {
    const auto meeting = watching() ? meeting_of(id) : std::nullopt;
    if (meeting && size > 1 && rank >= 0 && rank < size) {
      const auto ranks = HostGroup::meet(*meeting, rank, size, {0, false, true});
      // The others may come after this one has given up.
      if (ranks == nullptr || (!ranks->agreed() && !ranks->has_met())) leave_mark(*meeting, rank);
      if (ranks != nullptr) ranks->leave();
    }
    return refuse(kInvalidUsage,
        "the unique id was made by a process without NCCL, and this process has NCCL " +
            real_library().version + " (" + real_library().file +
            "): have NCCL in all processes, or in none (SYMM_NCCL=none)");
  });
}
}  // namespace symm::nccl
