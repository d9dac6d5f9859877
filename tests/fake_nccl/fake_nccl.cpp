// A libnccl.so.2 over the fake driver. Calls that are issued on a
// stream move data between processes by datagrams. Sums are in the
// order n-1 .. 0, unlike those of symm. Each call is in progress for
// the first three looks at its state, unless its communicator blocks.
// Words in $FAKE_NCCL direct it:
//
//   old      an old version
//   odd      another version
//   refuses  no unique id is made
//   absent   the communicator is never made
//   breaks   there is an error once a call has been issued
//   stuck    an abort does not return
//   lame     issued calls do not end
//   slow     an abort or a destruction takes 0.3 s
//   wrong    reductions move nothing
//   late     a call of a communicator that blocks takes 3 ms to be issued
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capi/include/symm/symm.h"
#include "core/engine/nccl_api.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tools/bench/reference.hpp"

using namespace symm::engine::nccl;
namespace reference = symm::reference;

struct symm::engine::nccl::ncclComm {
  int rank = 0;
  int size = 0;
  int socket = -1;
  int looks = 3;
  bool blocks = false;
  std::string id;
  std::atomic<Result> error{kSuccess};
  std::atomic<bool> gone{false};
  std::atomic<bool> asked{false};
  std::vector<std::deque<std::byte>> inbox;  // by source
};

// A call of a communicator that blocks is a group of its own.
extern "C" Result ncclGroupEnd();
// The fake driver defines this call.
extern "C" int cuStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id);

namespace {
bool told(const char* word) {
  const char* const script = std::getenv("FAKE_NCCL");
  return script != nullptr && std::strstr(script, word) != nullptr;
}

struct Operation {
  bool is_send;
  std::byte* at;
  size_t left;
  int peer;
};

struct Call {
  std::vector<Operation> operations;
  std::vector<std::function<void()>> in_the_end;
};

struct Group {
  int depth = 0;
  Comm comm = nullptr;
  void* stream = nullptr;
  Call call;
};

thread_local Group group;

// The destructors of NCCL's CUDA runtime are called when
// a process ends, and then no thread may be in NCCL.
std::atomic<int> ends{0};

struct Runtime {
  ~Runtime() {
    if (ends != 0) _exit(86);
  }
};

constexpr size_t kFragment = 16384;

sockaddr_un address_of(const ncclComm& comm, int rank, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int bytes = std::snprintf(
      address.sun_path + 1, sizeof address.sun_path - 1, "fake_nccl.%s.%d", comm.id.c_str(), rank);
  *length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(bytes));
  return address;
}

// Moves the data of a call as far as is possible at once. Messages between two ranks keep their
// order. Returns whether the call has ended.
bool advance(ncclComm& comm, Call& call) {
  std::byte packet[sizeof(int) + kFragment];
  for (;;) {
    const ssize_t got = ::recv(comm.socket, packet, sizeof packet, MSG_DONTWAIT);
    if (got <= 0) break;
    int source = 0;
    std::memcpy(&source, packet, sizeof source);
    auto& from = comm.inbox[static_cast<size_t>(source)];
    from.insert(from.end(), packet + sizeof source, packet + got);
  }

  std::set<std::pair<bool, int>> waits;
  for (Operation& one : call.operations) {
    if (waits.contains({one.is_send, one.peer})) continue;
    while (one.left != 0) {
      size_t moved = std::min(one.left, kFragment);
      if (one.is_send) {
        std::memcpy(packet, &comm.rank, sizeof comm.rank);
        std::memcpy(packet + sizeof comm.rank, one.at, moved);
        socklen_t length = 0;
        const sockaddr_un to = address_of(comm, one.peer, &length);
        if (sendto(comm.socket, packet, sizeof comm.rank + moved, MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&to), length) < 0) {
          break;
        }
      } else {
        auto& from = comm.inbox[static_cast<size_t>(one.peer)];
        moved = std::min(moved, from.size());
        if (moved == 0) break;
        std::copy_n(from.begin(), moved, one.at);
        from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(moved));
      }

      one.at += moved;
      one.left -= moved;
    }

    if (one.left != 0) waits.insert({one.is_send, one.peer});
  }

  if (!waits.empty()) return false;
  for (const auto& last : call.in_the_end) {
    last();
  }

  return true;
}

Result issued(Comm comm) {
  if (comm->blocks) return kSuccess;
  comm->looks = 3;
  if (told("breaks")) comm->error = kRemoteError;
  return kInProgress;
}

Result add(Comm comm, void* stream, const std::function<void(Call& call)>& to) {
  const bool alone = group.depth == 0;
  group.comm = comm;
  group.stream = stream;
  to(group.call);
  if (!alone) return kSuccess;
  if (!comm->blocks) return 4;  // symm issues all calls in groups
  if (told("late")) usleep(3'000);
  ++group.depth;
  return ncclGroupEnd();
}

std::byte* writable(const void* at) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(at));
}

// Types and operations by NCCL's codes.
constexpr symm_dtype_t kTypes[] = {SYMM_DTYPE_I8, SYMM_DTYPE_U8, SYMM_DTYPE_I32, SYMM_DTYPE_U32,
    SYMM_DTYPE_I64, SYMM_DTYPE_U64, SYMM_DTYPE_F16, SYMM_DTYPE_F32, SYMM_DTYPE_F64,
    SYMM_DTYPE_BF16};
constexpr symm_op_t kOps[] = {SYMM_OP_SUM, SYMM_OP_PROD, SYMM_OP_MAX, SYMM_OP_MIN, SYMM_OP_AVG};

// Combines from the last rank on. For sums of floats, this order gives other bits than symm's.
void combine(const std::vector<std::vector<std::byte>>& operands, std::byte* to, symm_dtype_t type,
    symm_op_t op) {
  std::vector<reference::Bits> bits(operands.size());
  for (size_t at = 0; at < operands[0].size(); at += reference::size_of(type)) {
    const auto element = [&](const auto& operand) {
      return reference::load_bits(type, &operand[at]);
    };
    std::transform(operands.rbegin(), operands.rend(), bits.begin(), element);
    reference::store_bits(type, reference::reduce(type, op, bits), to + at);
  }
}

// Combines the part of `from` that belongs to this rank on all ranks, or all of `from`.
Result reduce(const void* from, void* to, size_t count, int type, int op, Comm comm, void* stream,
    bool in_parts) {
  if (told("wrong")) return kSuccess;
  return add(comm, stream, [=](Call& call) {
    const size_t bytes = count * reference::size_of(kTypes[type]);
    const auto operands =
        std::make_shared<std::vector<std::vector<std::byte>>>(static_cast<size_t>(comm->size));

    for (int rank = 0; rank < comm->size; ++rank) {
      auto& operand = (*operands)[static_cast<size_t>(rank)];
      operand.resize(bytes);
      std::byte* const part = writable(from) + (in_parts ? static_cast<size_t>(rank) * bytes : 0);
      if (rank == comm->rank) {
        call.in_the_end.emplace_back([=, &operand] { std::memcpy(operand.data(), part, bytes); });
        continue;
      }
      call.operations.push_back({true, part, bytes, rank});
      call.operations.push_back({false, operand.data(), bytes, rank});
    }

    // Also where no result is wanted, since it keeps the operands as long as the call.
    call.in_the_end.emplace_back([=] {
      if (to != nullptr) combine(*operands, writable(to), kTypes[type], kOps[op]);
    });
  });
}
}  // namespace

extern "C" {
Result ncclGetVersion(int* version) {
  *version = 22703;
  if (told("odd")) *version = 22901;
  if (told("old")) *version = 21703;
  return kSuccess;
}

Result ncclGetUniqueId(Id* id) {
  std::snprintf(
      id->bytes, sizeof id->bytes, "%x%x", std::random_device()(), std::random_device()());
  return told("refuses") ? 3 : kSuccess;
}

Result ncclCommInitRankConfig(Comm* comm, int size, Id id, int rank, Config* config) {
  if (config->size != 48 || config->magic != 0xcafebeef || config->version > 22703 ||
      config->blocking != 0) {
    return 4;
  }

  static const Runtime runtime;
  Comm const made = new ncclComm;
  *comm = made;
  made->rank = rank;
  made->size = size;
  made->id = id.bytes;
  made->inbox.resize(static_cast<size_t>(size));
  made->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  socklen_t length = 0;
  const sockaddr_un address = address_of(*made, rank, &length);
  return bind(made->socket, reinterpret_cast<const sockaddr*>(&address), length) == 0
             ? kInProgress
             : kSystemError;
}

Result ncclCommInitRank(Comm* comm, int size, Id id, int rank) {
  Config config;
  const Result made = ncclCommInitRankConfig(comm, size, id, rank, &config);
  if (made != kInProgress) return made;
  (*comm)->blocks = true;
  (*comm)->looks = 0;
  return kSuccess;
}

Result ncclCommGetAsyncError(Comm comm, Result* error) {
  if (comm->asked.exchange(true)) {
    std::fputs("two threads ask one communicator\n", stderr);
    std::abort();
  }

  usleep(20);
  *error = comm->error;
  if (*error == kSuccess && (told("absent") || comm->looks > 0)) {
    --comm->looks;
    *error = kInProgress;
  }

  comm->asked = false;
  return kSuccess;
}

Result ncclCommFinalize(Comm comm) {
  comm->looks = 3;
  return kInProgress;
}

// The communicator stays in memory: work that was issued on streams still asks for it.
Result ncclCommAbort(Comm comm) {
  ++ends;
  while (told("stuck")) {
    sleep(1);
  }
  if (told("slow")) usleep(300'000);
  close(comm->socket);
  comm->gone = true;
  --ends;
  return kSuccess;
}

Result ncclCommDestroy(Comm comm) { return ncclCommAbort(comm); }

Result ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

Result ncclGroupEnd() {
  if (--group.depth != 0) return kSuccess;
  Call call = std::exchange(group.call, {});
  if (call.operations.empty() && call.in_the_end.empty()) return kSuccess;

  Comm const comm = group.comm;
  int captured = 0;
  unsigned long long capture = 0;
  cuStreamGetCaptureInfo(group.stream, &captured, &capture);

  // Graphs of the fake driver remember nothing.
  if (captured != 0) return issued(comm);
  fake_cuda::enqueue(
      group.stream, [comm, lame = told("lame"), call = std::make_shared<Call>(std::move(call))] {
        return comm->gone || (!lame && advance(*comm, *call));
      });

  return issued(comm);
}

Result ncclSend(const void* from, size_t count, int, int peer, Comm comm, void* stream) {
  return add(comm, stream,
      [=](Call& call) { call.operations.push_back({true, writable(from), count, peer}); });
}

Result ncclRecv(void* to, size_t count, int, int peer, Comm comm, void* stream) {
  return add(comm, stream,
      [=](Call& call) { call.operations.push_back({false, writable(to), count, peer}); });
}

Result ncclAllGather(const void* from, void* to, size_t count, int, Comm comm, void* stream) {
  return add(comm, stream, [=](Call& call) {
    for (int rank = 0; rank < comm->size; ++rank) {
      std::byte* const part = writable(to) + static_cast<size_t>(rank) * count;
      if (rank == comm->rank && part != from) {
        call.in_the_end.emplace_back([=] { std::memcpy(part, from, count); });
      }
      if (rank == comm->rank) continue;
      call.operations.push_back({true, writable(from), count, rank});
      call.operations.push_back({false, part, count, rank});
    }
  });
}

Result ncclBroadcast(
    const void* from, void* to, size_t count, int, int root, Comm comm, void* stream) {
  return add(comm, stream, [=](Call& call) {
    if (root != comm->rank) return call.operations.push_back({false, writable(to), count, root});
    for (int rank = 0; rank < comm->size; ++rank) {
      if (rank != root) call.operations.push_back({true, writable(from), count, rank});
    }
    call.in_the_end.emplace_back([=] { std::memmove(to, from, count); });
  });
}

Result ncclAllReduce(
    const void* from, void* to, size_t count, int type, int op, Comm comm, void* stream) {
  return reduce(from, to, count, type, op, comm, stream, false);
}

Result ncclReduceScatter(
    const void* from, void* to, size_t count, int type, int op, Comm comm, void* stream) {
  return reduce(from, to, count, type, op, comm, stream, true);
}

Result ncclReduce(
    const void* from, void* to, size_t count, int type, int op, int root, Comm comm, void* stream) {
  return reduce(from, comm->rank == root ? to : nullptr, count, type, op, comm, stream, false);
}

const char* ncclGetErrorString(Result result) {
  return result == kRemoteError ? "remote process exited" : "internal error";
}

const char* ncclGetLastError(Comm) { return "fake"; }
}
