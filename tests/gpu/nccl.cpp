// The drop-in for NCCL, on GPUs, as programs use it: this program has NCCL's declarations from
// bindings/nccl/abi.hpp, opens the drop-in where others open libnccl.so.2, and the real NCCL stands
// behind it. Ranks are processes, or threads of one process. Each chapter runs with symm doing
// every collective that it takes, with symm passing the messages too, and with all passed on to
// NCCL.
//   Ranks may share a GPU, which NCCL allows from 2.30 on.
//   With --alone there is no NCCL behind the drop-in, and symm serves by itself.
#include <dlfcn.h>

#include "bindings/nccl/abi.hpp"
#include "tests/gpu/world.hpp"
#include "tests/kernels/values.hpp"

namespace {
using gpu::cuda;
using gpu::expect;
using symm::Collective;
using symm::DType;
using symm::Op;
using symm::nccl::Comm;
using symm::nccl::Result;
using symm::nccl::UniqueId;
using symm::reference::Bytes;

// NCCL's own codes: ncclDataType_t and ncclRedOp_t in their order.
constexpr DType kTypes[] = {DType::i8, DType::u8, DType::i32, DType::u32, DType::i64, DType::u64,
    DType::f16, DType::f32, DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
constexpr Op kOps[] = {Op::sum, Op::prod, Op::max, Op::min, Op::avg};
constexpr int kInt32 = 2;
constexpr int kFloat16 = 6;
constexpr int kFloat32 = 7;
constexpr int kFloat64 = 8;
constexpr int kBfloat16 = 9;
constexpr int kSum = 0;
constexpr int kAvg = 4;
constexpr int kScalarDevice = 0;
constexpr int kSharedDeviceSince = 23000;
// What the drop-in says it is without NCCL.
constexpr int kAloneVersion = 22605;
constexpr int kSymmetricWindow = 1;
constexpr int kMostRanks = 72;

// NCCL's functions as the drop-in exports them.
struct Nccl {
  explicit Nccl(void* from) : library(from) {
    find("ncclGetVersion", get_version);
    find("ncclGetUniqueId", get_unique_id);
    find("ncclGetErrorString", error_string);
    find("ncclGetLastError", last_error);
    find("ncclCommInitRank", init);
    find("ncclCommInitRankConfig", init_config);
    find("ncclCommFinalize", finalize);
    find("ncclCommDestroy", destroy);
    find("ncclCommAbort", abort);
    find("ncclCommSplit", split);
    find("ncclCommCount", count);
    find("ncclCommUserRank", user_rank);
    find("ncclCommGetAsyncError", async_error);
    find("ncclCommWindowRegister", window_register);
    find("ncclCommWindowDeregister", window_deregister);
    find("ncclMemAlloc", mem_alloc);
    find("ncclMemFree", mem_free);
    find("ncclRedOpCreatePreMulSum", make_op);
    find("ncclRedOpDestroy", destroy_op);
    find("ncclGroupStart", group_start);
    find("ncclGroupEnd", group_end);
    find("ncclAllReduce", all_reduce);
    find("ncclReduceScatter", reduce_scatter);
    find("ncclReduce", reduce);
    find("ncclAllGather", all_gather);
    find("ncclAlltoAll", all_to_all);
    find("ncclBroadcast", broadcast);
    find("ncclBcast", bcast);
    find("ncclGather", gather);
    find("ncclScatter", scatter);
    find("ncclSend", send);
    find("ncclRecv", recv);
    find("symm_nccl_marker", marker);
  }

  template <class Call>
  void find(const char* name, Call& call) const {
    find(library, name, call);
  }
  template <class Call>
  static void find(void* library, const char* name, Call& call) {
    call = reinterpret_cast<Call>(dlsym(library, name));
    if (call == nullptr) gpu::give_up(std::string("there is no ") + name);
  }

  using Moved = Result (*)(const void*, void*, size_t, int, Comm, cudaStream_t);
  using Combined = Result (*)(const void*, void*, size_t, int, int, Comm, cudaStream_t);
  using Rooted = Result (*)(const void*, void*, size_t, int, int, Comm, cudaStream_t);

  void* library;
  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  const char* (*error_string)(Result);
  const char* (*last_error)(Comm);
  Result (*init)(Comm*, int, UniqueId, int);
  Result (*init_config)(Comm*, int, UniqueId, int, symm::nccl::Config*);
  Result (*finalize)(Comm);
  Result (*destroy)(Comm);
  Result (*abort)(Comm);
  Result (*split)(Comm, int, int, Comm*, symm::nccl::Config*);
  Result (*count)(Comm, int*);
  Result (*user_rank)(Comm, int*);
  Result (*async_error)(Comm, Result*);
  Result (*window_register)(Comm, void*, size_t, void**, int);
  Result (*window_deregister)(Comm, void*);
  Result (*mem_alloc)(void**, size_t);
  Result (*mem_free)(void*);
  Result (*make_op)(int*, void*, int, int, Comm);
  Result (*destroy_op)(int, Comm);
  Result (*group_start)();
  Result (*group_end)();
  Combined all_reduce;
  Combined reduce_scatter;
  Result (*reduce)(const void*, void*, size_t, int, int, int, Comm, cudaStream_t);
  Moved all_gather;
  Moved all_to_all;
  Rooted broadcast;
  Result (*bcast)(void*, size_t, int, int, Comm, cudaStream_t);
  Rooted gather;
  Rooted scatter;
  Result (*send)(const void*, size_t, int, int, Comm, cudaStream_t);
  Result (*recv)(void*, size_t, int, int, Comm, cudaStream_t);
  // The drop-in's own: gives the NCCL that it passes calls on to.
  void* (*marker)();
};

// The program that is a client, which never closes the library.
const Nccl& nccl() {
  static const Nccl loaded([] {
    void* const library = dlopen(SYMM_NCCL_DROP_IN, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) gpu::give_up(dlerror());
    return library;
  }());
  return loaded;
}

// ---- ranks

// What the ranks of a chapter share, in a file that all map.
struct Meet {
  std::atomic<int> arrived;
  std::atomic<int> round;
  std::atomic<int64_t> killed_at;
  std::atomic<int> killed_pid;
  // When each rank knew the name of the dead one.
  std::atomic<int64_t> named_at[kMostRanks];
  UniqueId ids[4];
};

// Ends a process that is stuck, and says where.
class Watch {
 public:
  explicit Watch(int seconds) {
    std::thread([this, seconds] {
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      const std::lock_guard lock(mutex_);
      gpu::give_up("no end after " + std::to_string(seconds) + " s: " + at_);
    }).detach();
  }
  void at(const std::string& what) {
    const std::lock_guard lock(mutex_);
    at_ = what;
  }

 private:
  std::mutex mutex_;
  std::string at_ = "the beginning";
};

Watch& watch() {
  static auto* const instance = new Watch(100);
  return *instance;
}

struct Member : gpu::Rank {
  Comm comm = nullptr;
  Meet* meet = nullptr;
  bool by_symm = false;
  // There is no NCCL.
  bool alone = false;
  bool in_threads = false;
  std::string directory;

  void together() const {
    const int round = meet->round;
    if (meet->arrived.fetch_add(1) + 1 == size) {
      meet->arrived = 0;
      meet->round = round + 1;
    }
    if (!support::eventually([&] { return meet->round != round; }, 120'000, 20)) {
      gpu::give_up("a rank does not come");
    }
  }
  std::string who(const std::string& what) const { return gpu::who(*this, what); }

  int device() const {
    int current = 0;
    cuda(cudaGetDevice(&current), "cudaGetDevice");
    return current;
  }

  // Waits until all ranks are idle, as gpu::Rank::settle() does for threads.
  void settle() const {
    wait();
    cuda(cudaStreamSynchronize(second), "cudaStreamSynchronize");
    together();
  }

  void right(Result result, const std::string& what) const {
    if (result == symm::nccl::kSuccess) return;
    gpu::give_up(who(what) + ": " + std::to_string(result) + " " + nccl().error_string(result) +
                 ": " + nccl().last_error(comm));
  }

  // A communicator of all ranks with the id of this number.
  Comm connect(int number) const {
    if (rank == 0) right(nccl().get_unique_id(&meet->ids[number]), "ncclGetUniqueId");
    together();
    Comm made = nullptr;
    right(nccl().init(&made, size, meet->ids[number], rank), "ncclCommInitRank");
    together();
    return made;
  }
};

// ---- collectives

struct Case {
  Collective collective;
  int type;
  int op;
  size_t count;
  int root = 0;
  bool in_place = false;
  bool is_bcast = false;

  symm::CollectiveTraits kind() const { return symm::traits(collective); }
  DType dtype() const { return kTypes[type]; }
  size_t unit() const { return count * symm::size_of(dtype()); }
  std::string text() const {
    return std::string(symm::collective_name(collective)) + " " + symm::dtype_name(dtype()) + " " +
           symm::op_name(kOps[op]) + " count " + std::to_string(count) + " root " +
           std::to_string(root) + (in_place ? " in place" : "") + (is_bcast ? " ncclBcast" : "");
  }
};

bool has_sign(DType dtype) {
  return dtype != DType::u8 && dtype != DType::u32 && dtype != DType::u64;
}

// Numbers whose results are exact in every type and in any order.
Bytes exact(DType dtype, Op op, int rank, size_t count) {
  Bytes made(count * symm::size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<int64_t>(i) + rank;
    int64_t value = op == Op::prod ? 1 + at % 2 : at % 3;
    if (has_sign(dtype) && op != Op::avg && at % 5 == 0) value = -value;
    symm::reference::store_bits(
        dtype, symm::reference::encode_integer(dtype, value), &made[i * symm::size_of(dtype)]);
  }
  return made;
}

// The operands of all ranks. What symm does has the bits of the reference for any values; NCCL adds
// in orders of its own.
std::vector<Bytes> operands_of(const Member& me, const Case& c, bool exactly) {
  std::vector<Bytes> send;
  const size_t count = c.count * (c.kind().send_per_rank ? static_cast<size_t>(me.size) : 1);
  for (int r = 0; r < me.size; ++r) {
    const auto seed = static_cast<unsigned>(r + 31 * static_cast<int>(c.count % 1000));
    send.push_back(exactly ? exact(c.dtype(), kOps[c.op], r, count)
                           : symm::testing::Values(c.dtype(), kOps[c.op], seed).make(count));
  }
  return send;
}

using Combine = std::function<symm::reference::Bits(const std::vector<symm::reference::Bits>&)>;

Bytes expected_of(
    const Member& me, const Case& c, const std::vector<Bytes>& send, const Combine& combine) {
  const auto reduced = [&](size_t at) {
    return symm::reference::combined(c.dtype(), send, at, c.count, c.dtype(), combine);
  };
  return symm::reference::result_of(c.collective, send, c.unit(), me.rank, c.root, reduced);
}

Bytes expected_of(const Member& me, const Case& c, const std::vector<Bytes>& send) {
  return expected_of(me, c, send, [&](const std::vector<symm::reference::Bits>& bits) {
    return symm::reference::reduce(c.dtype(), kOps[c.op], bits);
  });
}

Result enqueue(const Case& c, int op, Comm comm, void* send, void* recv, cudaStream_t stream) {
  switch (c.collective) {
    case Collective::allreduce:
      return nccl().all_reduce(send, recv, c.count, c.type, op, comm, stream);
    case Collective::reduce_scatter:
      return nccl().reduce_scatter(send, recv, c.count, c.type, op, comm, stream);
    case Collective::reduce:
      return nccl().reduce(send, recv, c.count, c.type, op, c.root, comm, stream);
    case Collective::allgather: return nccl().all_gather(send, recv, c.count, c.type, comm, stream);
    case Collective::alltoall: return nccl().all_to_all(send, recv, c.count, c.type, comm, stream);
    case Collective::gather:
      return nccl().gather(send, recv, c.count, c.type, c.root, comm, stream);
    case Collective::scatter:
      return nccl().scatter(send, recv, c.count, c.type, c.root, comm, stream);
    default:
      if (c.is_bcast) return nccl().bcast(recv, c.count, c.type, c.root, comm, stream);
      return nccl().broadcast(send, recv, c.count, c.type, c.root, comm, stream);
  }
}

void compare(const Member& me, const std::string& what, DType dtype, const void* at,
    const Bytes& want, bool as_numbers) {
  if (want.empty()) return;
  const auto got = me.download<std::byte>(at, want.size());
  std::string wrong = std::memcmp(got.data(), want.data(), want.size()) == 0 ? "" : "bytes";
  if (as_numbers) {
    const size_t elements = want.size() / symm::size_of(dtype);
    wrong = symm::reference::difference(dtype, got.data(), want.data(), elements);
  }
  expect(wrong.empty(), me.who(what) + ": " + wrong);
}

// One call. All operands are there before any kernel starts, and all kernels have ended before any
// rank fetches its result, for ranks that share a context.
void run(const Member& me, const Case& c, int op, const std::vector<Bytes>& send, const Bytes& want,
    const std::string& more = "") {
  const std::string what = c.text() + more;
  watch().at(me.who(what));
  const auto mine = static_cast<size_t>(me.rank);
  char* in = me.ordinary;
  char* out = me.ordinary + gpu::Rank::kBlock / 2;
  if (c.in_place) {
    out = in;
    if (c.collective == Collective::reduce_scatter) out = in + mine * c.unit();
    if (c.collective == Collective::allgather) in = out + mine * c.unit();
  } else {
    cuda(cudaMemsetAsync(out, 0xA5, want.size() + 16, me.stream), "poison");
  }
  const bool reads = !c.kind().from_root || me.rank == c.root;
  if (c.is_bcast) in = out;
  if (reads) me.upload(in, send[mine]);
  me.wait();
  me.together();

  const bool has_recv = !c.kind().to_root || me.rank == c.root || c.in_place;
  me.right(
      enqueue(c, op, me.comm, reads ? in : nullptr, has_recv ? out : nullptr, me.stream), what);
  me.wait();
  me.together();
  compare(me, what, c.dtype(), out, want, c.kind().has_op);
}

std::vector<Case> cases(int size, bool all) {
  std::vector<Case> list;
  const std::vector<size_t> counts =
      all ? std::vector<size_t>{1, 37, 4099} : std::vector<size_t>{37};
  for (int type = 0; type < static_cast<int>(std::size(kTypes)); ++type) {
    for (const size_t count : counts) {
      const bool in_place = (static_cast<size_t>(type) + count) % 2 == 0;
      const int root = type % size;
      for (int op = 0; op < static_cast<int>(std::size(kOps)); ++op) {
        list.push_back({Collective::allreduce, type, op, count, 0, in_place});
        if (!all && op != type % 5) continue;
        list.push_back({Collective::reduce_scatter, type, op, count, 0, in_place});
        list.push_back({Collective::reduce, type, op, count, root, in_place});
      }
      list.push_back({Collective::allgather, type, kSum, count, 0, in_place});
      list.push_back({Collective::alltoall, type, kSum, count});
      list.push_back({Collective::broadcast, type, kSum, count, root, in_place});
      list.push_back({Collective::broadcast, type, kSum, count, root, true, true});
      list.push_back({Collective::gather, type, kSum, count, root});
      list.push_back({Collective::scatter, type, kSum, count, root});
    }
  }
  if (!all) return list;
  for (const Collective c :
      {Collective::allreduce, Collective::reduce_scatter, Collective::reduce, Collective::allgather,
          Collective::alltoall, Collective::broadcast, Collective::gather, Collective::scatter}) {
    for (const int type : {kBfloat16, kFloat32, kInt32}) {
      list.push_back({c, type, kSum, 300'007, size - 1});
    }
  }
  list.push_back({Collective::allreduce, kFloat32, kSum, 5'000'011});
  list.push_back({Collective::allreduce, kBfloat16, kAvg, 3'000'001, 0, true});
  return list;
}

// An operation with a factor of each rank, which is passed by the host or lies on the device. symm
// does floats of up to 32 bits; others go to NCCL.
void run_scaled(const Member& me, int type, int residence) {
  const DType dtype = kTypes[type];
  const Case c{Collective::allreduce, type, kSum, 4099};
  const auto factor_of = [&](int rank) { return type == kInt32 ? 1 + rank : 0.5 * (1 + rank); };
  const double mine = factor_of(me.rank);
  std::byte bits[8] = {};
  uint64_t encoded = 0;
  if (type == kInt32) encoded = symm::reference::to_bits(static_cast<int32_t>(mine));
  if (type == kFloat64) encoded = symm::reference::to_bits(mine);
  if (type == kFloat32) encoded = symm::reference::to_bits(static_cast<float>(mine));
  if (encoded == 0) encoded = symm::reference::encode(dtype, static_cast<float>(mine));
  symm::reference::store_bits(dtype, encoded, bits);

  char* const on_device = me.ordinary + gpu::Rank::kBlock - 256;
  me.upload(on_device, bits, sizeof bits, me.stream);
  int op = 0;
  void* const scalar = residence == kScalarDevice ? static_cast<void*>(on_device) : bits;
  me.right(nccl().make_op(&op, scalar, type, residence, me.comm), "ncclRedOpCreatePreMulSum");

  const std::vector<Bytes> send = operands_of(me, c, !me.by_symm || type == kInt32);
  const Bytes want = expected_of(
      me, c, send, [&](std::vector<symm::reference::Bits> all) -> symm::reference::Bits {
        if (type != kInt32) {
          return symm::reference::reduce_scaled(
              dtype, Op::sum, all, dtype, SYMM_SCALE_BEFORE, factor_of, me.rank);
        }
        for (size_t rank = 0; rank < all.size(); ++rank) {
          all[rank] = static_cast<uint32_t>(all[rank] * (1 + rank));
        }
        return symm::reference::reduce(dtype, Op::sum, all);
      });
  run(me, c, op, send, want, residence == kScalarDevice ? ", device scalar" : ", host scalar");
  me.right(nccl().destroy_op(op, me.comm), "ncclRedOpDestroy");
}

bool log_says(const Member& me, const std::string& text) {
  std::ifstream file(me.directory + "/log");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  return all.find(text) != std::string::npos;
}

void collectives(Member& me) {
  for (const Case& c : cases(me.size, me.in_threads)) {
    const std::vector<Bytes> send = operands_of(me, c, !me.by_symm);
    run(me, c, c.op, send, expected_of(me, c, send));
  }
  for (const int type : {kFloat32, kBfloat16, kFloat16, kFloat64, kInt32}) {
    // f64 goes to NCCL, whose order is its own; integers go there, too.
    if (type == kFloat64 && me.by_symm) continue;
    if (type == kInt32 && me.alone) continue;
    run_scaled(me, type, symm::nccl::kScalarHostImmediate);
    run_scaled(me, type, kScalarDevice);
  }

  const std::string line = "collectives of rank " + std::to_string(me.rank) + " of " +
                           std::to_string(me.size) + " go to symm";
  expect(log_says(me, line) == me.by_symm, me.who(line));
}

// ---- groups, graphs, streams

// Floats of which element i of rank r is r + i % 7.
std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) {
    made[i] = static_cast<float>(rank) + static_cast<float>(i % 7);
  }
  return made;
}

// The sum of numbers() over all ranks, `times` over.
std::vector<float> sums(int size, size_t count, float times = 1) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) {
    const auto ranks = static_cast<float>(size);
    made[i] = times * (ranks * static_cast<float>(i % 7) + ranks * (ranks - 1) / 2);
  }
  return made;
}

float* at(const Member& me, size_t megabytes) {
  return reinterpret_cast<float*>(me.ordinary + (megabytes << 20));
}

void expect_floats(
    const Member& me, const float* where, const std::vector<float>& want, const std::string& what) {
  const auto got = me.download<float>(where, want.size());
  size_t wrong = 0;
  while (wrong < want.size() && got[wrong] == want[wrong]) {
    ++wrong;
  }
  const bool is_right = wrong == want.size();
  expect(is_right, me.who(what) + ": element " + std::to_string(wrong) +
                       (is_right ? ""
                                 : ": " + std::to_string(got[wrong]) + ", expected " +
                                       std::to_string(want[wrong])));
}

Result all_reduce(const Member& me, const float* in, float* out, size_t count, cudaStream_t on) {
  return nccl().all_reduce(in, out, count, kFloat32, kSum, me.comm, on);
}

// Sends to the next rank and receives from the last one.
void ring(const Member& me, const float* out, float* in, size_t count, cudaStream_t on) {
  me.right(nccl().group_start(), "ncclGroupStart");
  me.right(nccl().send(out, count, kFloat32, me.next(), me.comm, on), "ncclSend");
  me.right(nccl().recv(in, count, kFloat32, me.last(), me.comm, on), "ncclRecv");
  me.right(nccl().group_end(), "ncclGroupEnd");
}

void groups(Member& me) {
  constexpr size_t kCount = 10'007;
  me.upload(at(me, 0), numbers(me.rank, kCount));
  for (const int times : {1, 2, 3}) {
    me.wait();
    me.together();
    watch().at(me.who("group " + std::to_string(times)));
    me.right(nccl().group_start(), "ncclGroupStart");
    me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, me.stream), "all-reduce");
    me.right(nccl().group_start(), "ncclGroupStart");
    me.right(nccl().send(at(me, 0), kCount, kFloat32, me.next(), me.comm, me.stream), "ncclSend");
    me.right(nccl().recv(at(me, 16), kCount, kFloat32, me.last(), me.comm, me.stream), "ncclRecv");
    me.right(nccl().group_end(), "inner ncclGroupEnd");
    me.right(nccl().all_gather(at(me, 0), at(me, 24), kCount, kFloat32, me.comm, me.stream),
        "all-gather");
    me.right(nccl().group_end(), "ncclGroupEnd");
    me.wait();
    me.together();
    expect_floats(me, at(me, 8), sums(me.size, kCount), "all-reduce in a group");
    expect_floats(me, at(me, 16), numbers(me.last(), kCount), "messages in a group");
    for (int r = 0; r < me.size; ++r) {
      expect_floats(me, at(me, 24) + static_cast<size_t>(r) * kCount, numbers(r, kCount),
          "all-gather in a group");
    }
  }
}

void graphs(Member& me) {
  constexpr size_t kCount = 5003;
  constexpr int kCaptures = 3000;
  constexpr int kKept = 8;
  me.upload(at(me, 0), numbers(me.rank, kCount));
  // The first call makes symm's group; captures before it go to NCCL.
  me.together();
  me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, me.stream), "all-reduce");
  ring(me, at(me, 0), at(me, 16), kCount, me.stream);
  me.wait();
  me.together();

  std::vector<std::unique_ptr<gpu::Graph>> kept;
  for (int i = 0; i < kCaptures; ++i) {
    if (i % 100 == 0) watch().at(me.who("capture " + std::to_string(i)));
    if (i % (kCaptures / kKept) != 0) {
      cudaGraph_t graph = nullptr;
      cuda(cudaStreamBeginCapture(me.stream, cudaStreamCaptureModeThreadLocal), "begin capture");
      me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, me.stream), "captured all-reduce");
      cuda(cudaStreamEndCapture(me.stream, &graph), "end capture");
      cudaGraphDestroy(graph);
      continue;
    }
    // symm, NCCL and symm again, each of which reads what the one before has written.
    me.settle();
    kept.push_back(std::make_unique<gpu::Graph>(me, [&] {
      me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, me.stream), "first all-reduce");
      ring(me, at(me, 8), at(me, 16), kCount, me.stream);
      me.right(all_reduce(me, at(me, 16), at(me, 24), kCount, me.stream), "second all-reduce");
    }));
    me.settle();
  }

  const std::vector<float> want = sums(me.size, kCount, static_cast<float>(me.size));
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& graph : kept) {
      cuda(cudaMemsetAsync(at(me, 8), 0, size_t{32} << 20, me.stream), "clear");
      me.settle();
      watch().at(me.who("replay"));
      graph->replay();
      me.settle();
      expect_floats(me, at(me, 24), want, "replay of a graph");
    }
  }
  // Replays in a row, with eager calls between.
  for (int i = 0; i < 30; ++i) {
    kept[static_cast<size_t>(i) % kept.size()]->replay();
    me.right(all_reduce(me, at(me, 0), at(me, 40), kCount, me.stream), "eager all-reduce");
  }
  me.settle();
  expect_floats(me, at(me, 24), want, "replays in a row");
  expect_floats(me, at(me, 40), sums(me.size, kCount), "eager calls among replays");
  kept.clear();
}

// Calls of one communicator on several streams are in the order in which they were made, from one
// library to the other, too. No event of this program orders them.
void streams(Member& me) {
  constexpr size_t kCount = 70'001;
  const cudaStream_t all[] = {me.stream, me.second};
  me.upload(at(me, 0), numbers(me.rank, kCount));
  me.settle();
  for (int turn = 0; turn < 20; ++turn) {
    watch().at(me.who("turn " + std::to_string(turn)));
    cuda(cudaMemsetAsync(at(me, 8), 0, size_t{32} << 20, me.stream), "clear");
    me.settle();
    const cudaStream_t one = all[turn % 2];
    const cudaStream_t other = all[1 - turn % 2];
    me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, one), "all-reduce");
    me.right(all_reduce(me, at(me, 8), at(me, 16), kCount, other), "all-reduce, other stream");
    ring(me, at(me, 16), at(me, 24), kCount, one);
    me.right(all_reduce(me, at(me, 24), at(me, 32), kCount, other), "all-reduce after NCCL's");
    me.settle();
    const auto ranks = static_cast<float>(me.size);
    expect_floats(me, at(me, 32), sums(me.size, kCount, ranks * ranks), "calls on two streams");
  }
}

// ---- communicators

void windows(Member& me) {
  constexpr size_t kBytes = size_t{16} << 20;
  constexpr size_t kCount = 1'000'003;
  me.together();
  me.right(all_reduce(me, at(me, 0), at(me, 8), 1, me.stream), "all-reduce");
  me.settle();
  void* memory = nullptr;
  void* window = nullptr;
  me.right(nccl().mem_alloc(&memory, kBytes), "ncclMemAlloc");
  me.right(nccl().window_register(me.comm, memory, kBytes, &window, kSymmetricWindow),
      "ncclCommWindowRegister");
  if (window == nullptr) std::printf("%s\n", me.who("NCCL gives no window here").c_str());
  auto* const in = static_cast<float*>(memory);
  float* const out = in + kCount + 5;
  me.upload(in, numbers(me.rank, kCount));
  for (int turn = 0; turn < 3; ++turn) {
    cuda(cudaMemsetAsync(out, 0, kCount * 4, me.stream), "clear");
    me.settle();
    watch().at(me.who("all-reduce in a window"));
    me.right(all_reduce(me, in, out, kCount, me.stream), "all-reduce in a window");
    me.settle();
    expect_floats(me, out, sums(me.size, kCount), "all-reduce in a window");
  }
  me.settle();
  if (window != nullptr) {
    me.right(nccl().window_deregister(me.comm, window), "ncclCommWindowDeregister");
  }
  me.together();
  me.right(nccl().mem_free(memory), "ncclMemFree");
}

// Children by colour, in reverse order of the ranks; and one that the last rank has no part in.
void splits(Member& me) {
  constexpr size_t kCount = 3001;
  const auto sum_in = [&](Comm comm, int members, float first, float step) {
    me.upload(at(me, 0), numbers(me.rank, kCount));
    me.settle();
    if (comm != nullptr) {
      me.right(nccl().all_reduce(at(me, 0), at(me, 8), kCount, kFloat32, kSum, comm, me.stream),
          "all-reduce of a child");
    }
    me.settle();
    if (comm == nullptr) return;
    std::vector<float> want(kCount, 0);
    for (int k = 0; k < members; ++k) {
      for (size_t i = 0; i < kCount; ++i) {
        want[i] += first + step * static_cast<float>(k) + static_cast<float>(i % 7);
      }
    }
    expect_floats(me, at(me, 8), want, "sum of a child");
  };

  Comm half = nullptr;
  watch().at(me.who("split"));
  const int colors = me.size >= 4 ? 2 : 1;
  me.right(nccl().split(me.comm, me.rank % colors, -me.rank, &half, nullptr), "ncclCommSplit");
  int rank = -1;
  int size = -1;
  me.right(nccl().user_rank(half, &rank), "ncclCommUserRank");
  me.right(nccl().count(half, &size), "ncclCommCount");
  expect(
      size == me.size / colors && rank == size - 1 - me.rank / colors, me.who("a child's ranks"));
  sum_in(half, size, static_cast<float>(me.rank % colors), static_cast<float>(colors));

  Comm most = nullptr;
  const bool is_out = me.rank == me.size - 1;
  me.right(nccl().split(me.comm, is_out ? -1 : 7, me.rank, &most, nullptr), "ncclCommSplit");
  expect((most == nullptr) == is_out, me.who("no colour, no child"));
  sum_in(most, me.size - 1, 0, 1);
  if (most != nullptr) me.right(nccl().destroy(most), "ncclCommDestroy");
  me.right(nccl().destroy(half), "ncclCommDestroy");
  me.together();
  sum_in(me.comm, me.size, 0, 1);
}

// A communicator that does not block.
void pending(Member& me) {
  constexpr size_t kCount = 3001;
  symm::nccl::Config config{symm::nccl::kLeastConfig, symm::nccl::kConfigMagic, 21400, 0};
  const auto settled = [&](Comm comm) {
    Result state = symm::nccl::kInProgress;
    const auto is_over = [&] {
      me.right(nccl().async_error(comm, &state), "ncclCommGetAsyncError");
      return state != symm::nccl::kInProgress;
    };
    expect(support::eventually(is_over), me.who("a communicator settles"));
    me.right(state, "a communicator that does not block");
  };
  const auto begun = [&](Result result, const char* what) {
    if (result != symm::nccl::kInProgress) me.right(result, what);
  };
  if (me.rank == 0) me.right(nccl().get_unique_id(&me.meet->ids[1]), "ncclGetUniqueId");
  me.together();
  Comm comm = nullptr;
  watch().at(me.who("init without blocking"));
  begun(nccl().init_config(&comm, me.size, me.meet->ids[1], me.rank, &config),
      "ncclCommInitRankConfig");
  settled(comm);
  me.upload(at(me, 0), numbers(me.rank, kCount));
  for (int turn = 0; turn < 3; ++turn) {
    me.settle();
    begun(nccl().all_reduce(at(me, 0), at(me, 8), kCount, kFloat32, kSum, comm, me.stream),
        "all-reduce");
    settled(comm);
    me.settle();
    expect_floats(me, at(me, 8), sums(me.size, kCount), "sum without blocking");
  }
  watch().at(me.who("finalize without blocking"));
  begun(nccl().finalize(comm), "ncclCommFinalize");
  settled(comm);
  me.right(nccl().destroy(comm), "ncclCommDestroy");
}

void expect_context(const Member& me, const std::string& what) {
  cudaStream_t fresh = nullptr;
  const bool is_usable = cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking) == cudaSuccess &&
                         cudaMemsetAsync(me.ordinary, 0, 1 << 20, fresh) == cudaSuccess &&
                         cudaStreamSynchronize(fresh) == cudaSuccess;
  expect(is_usable, me.who(what) + ": the context stays usable");
}

// The first rank's work waits for ranks that never come, and another thread aborts. `wait` is how
// the first rank waits for that work, which is on `stream`.
void abort_while(Member& me, cudaStream_t stream, const std::function<cudaError_t()>& wait) {
  constexpr size_t kCount = 100'003;
  me.together();
  me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, stream), "all-reduce");
  me.settle();
  const auto start = std::chrono::steady_clock::now();
  if (me.rank == 0) {
    me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, stream), "lonely all-reduce");
    watch().at(me.who("abort from another thread"));
    Result result = symm::nccl::kInternalError;
    const int device = me.device();
    std::thread other([&] {
      usleep(300'000);
      cuda(cudaSetDevice(device), "cudaSetDevice");
      result = nccl().abort(me.comm);
    });
    expect(wait() == cudaSuccess, me.who("the stream goes on"));
    other.join();
    expect(result == symm::nccl::kSuccess, me.who("ncclCommAbort: " + std::to_string(result)));
    const double took = gpu::seconds_since(start);
    std::printf("%s after %.0f ms\n", me.who("aborted").c_str(), took * 1e3);
    expect(took < 5, me.who("an abort ends what waits"));
  }
  me.together();
  if (me.rank != 0) me.right(nccl().abort(me.comm), "ncclCommAbort");
  me.comm = nullptr;
  expect_context(me, "after an abort");
}

void aborts(Member& me) {
  abort_while(me, me.stream, [&] { return cudaStreamSynchronize(me.stream); });
}

// The driver begins no copy for another thread before this one is over.
void aborts_copy(Member& me) {
  std::vector<std::byte> pageable(100'003);
  abort_while(me, nullptr, [&] {
    return cudaMemcpy(pageable.data(), me.ordinary, pageable.size(), cudaMemcpyDeviceToHost);
  });
}

// The last rank's process is killed, and the others hear its name. `wait` is what they do behind an
// all-reduce with it, which is on `stream`.
void kill_before(Member& me, cudaStream_t stream, const std::function<cudaError_t()>& wait) {
  constexpr size_t kCount = 100'003;
  for (int i = 0; i < 3; ++i) {
    me.together();
    me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, stream), "all-reduce");
    me.settle();
  }
  if (me.rank == me.size - 1) {
    me.meet->killed_pid = getpid();
    me.meet->killed_at = support::now_ns();
    raise(SIGKILL);
  }
  watch().at(me.who("death of a rank"));
  me.right(all_reduce(me, at(me, 0), at(me, 8), kCount, stream), "all-reduce with the dead");
  expect(wait() == cudaSuccess, me.who("the stream goes on"));
  Result state = symm::nccl::kSuccess;
  const auto is_known = [&] {
    me.right(nccl().async_error(me.comm, &state), "ncclCommGetAsyncError");
    return state != symm::nccl::kSuccess;
  };
  expect(support::eventually(is_known, 10'000, 100), me.who("a death is noticed"));
  const double took = static_cast<double>(support::now_ns() - me.meet->killed_at) / 1e6;
  const std::string said = nccl().last_error(nullptr);
  const std::string named = "rank " + std::to_string(me.size - 1) + " (pid " +
                            std::to_string(me.meet->killed_pid) + ") died";
  expect(state == symm::nccl::kRemoteError, me.who("state " + std::to_string(state)));
  expect(said.find(named) != std::string::npos, me.who("'" + said + "' has '" + named + "'"));
  me.meet->named_at[me.rank] = support::now_ns();
  std::printf("%s: %.1f ms: %s\n", me.who("killed").c_str(), took, said.c_str());

  me.right(nccl().abort(me.comm), "ncclCommAbort");
  me.comm = nullptr;
  expect(cudaStreamSynchronize(me.stream) == cudaSuccess, me.who("the stream goes on"));
  expect_context(me, "after a death");
}

void kill(Member& me) {
  kill_before(me, me.stream, [] { return cudaSuccess; });
}

void kill_copy(Member& me) {
  std::vector<std::byte> pageable(100'003);
  kill_before(me, nullptr, [&] {
    return cudaMemcpy(pageable.data(), me.ordinary, pageable.size(), cudaMemcpyDeviceToHost);
  });
}

// What a trial of kill() left: milliseconds from the kill to when each survivor knew the name.
std::vector<double> named_after(const std::string& directory, int size) {
  const support::Shared<Meet> meet(directory + "/meet");
  std::vector<double> all;
  for (int rank = 0; rank + 1 < size; ++rank) {
    const int64_t at = meet->named_at[rank];
    expect(at != 0, "rank " + std::to_string(rank) + " has named the dead rank");
    if (at != 0) all.push_back(static_cast<double>(at - meet->killed_at) / 1e6);
  }
  return all;
}

// A death is noticed on the host, and half of all survivors must know it within 10 ms. Each must
// where every rank has a GPU. Where ranks share one, a call of the driver before the survivor asks
// may wait for the time slices of the others, and the last one has a second.
void judge_naming(std::vector<double> all, bool shares) {
  constexpr double kBound = 10;
  constexpr double kSharedBound = 1000;
  ASSERT_FALSE(all.empty());
  std::sort(all.begin(), all.end());
  const double median = all[all.size() / 2];
  std::printf(
      "a death was known by name to %zu survivors after %.1f ms (median), %.1f ms at most\n",
      all.size(), median, all.back());
  EXPECT_LT(median, kBound);
  EXPECT_LT(all.back(), shares ? kSharedBound : kBound);
}

// ---- time on the host

// A way in which programs make a call.
struct Way {
  std::string name;
  std::function<void()> call;
};

// Nanoseconds of the host for one call.
struct HostTime {
  // One call after another.
  double warm = 0;
  // After other work, which leaves little of the call's code and data in the caches.
  double cold = 0;
};

bool shares_devices(const Member& me) { return me.size > gpu::machine().devices; }

double median_of(std::vector<double>& all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

// Medians. The ways take turns.
std::vector<HostTime> host_times(const Member& me, const std::vector<Way>& ways) {
  constexpr int kTurns = 101;
  constexpr int kCalls = 50;
  constexpr int kColdCalls = 2;
  constexpr size_t kLine = 64;
  std::vector<char> others(size_t{8} << 20);
  std::vector<std::vector<double>> warm(ways.size());
  std::vector<std::vector<double>> cold(ways.size());

  const auto ns_since = [](int64_t start) {
    return static_cast<double>(support::now_ns() - start);
  };
  const auto settle = [&me] {
    if (!shares_devices(me)) cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    me.settle();
  };
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t way = 0; way < ways.size(); ++way) {
      settle();
      const int64_t start = support::now_ns();
      for (int i = 0; i < kCalls; ++i) {
        ways[way].call();
      }
      warm[way].push_back(ns_since(start) / kCalls);

      settle();
      for (int i = 0; i < kColdCalls; ++i) {
        for (size_t at = 0; at < others.size(); at += kLine) {
          ++others[at];
        }
        const int64_t begin = support::now_ns();
        ways[way].call();
        cold[way].push_back(ns_since(begin));
      }
    }
  }
  settle();

  std::vector<HostTime> medians;
  for (size_t way = 0; way < ways.size(); ++way) {
    medians.push_back({median_of(warm[way]), median_of(cold[way])});
  }
  return medians;
}

// An all-reduce as a library makes it on a stream: symm's own call, NCCL's own, the drop-in's.
using AllReduce = std::function<void(cudaStream_t)>;

// The call by itself, in a group of calls, and in one with an event behind it, which is what
// PyTorch does for each collective: on a stream of the program's own, and on the legacy stream,
// which is PyTorch's current one unless it is told otherwise. Ranks that share a context cannot
// share that stream, on which they would wait for each other.
std::vector<Way> ways_of(const Member& me, const std::string& who, const AllReduce& call,
    const std::function<void(const std::function<void()>&)>& in_group, cudaEvent_t event) {
  std::vector<Way> ways;
  std::vector<std::pair<std::string, cudaStream_t>> streams{{"", me.stream}};
  if (!shares_devices(me)) streams.emplace_back(", legacy stream", nullptr);
  for (const auto& [where, stream] : streams) {
    const auto plain = [call, on = stream] { call(on); };
    const auto grouped = [plain, in_group] { in_group(plain); };
    const auto noted = [grouped, event, on = stream] {
      grouped();
      cuda(cudaEventRecord(event, on), "cudaEventRecord");
    };
    ways.push_back({who + where, plain});
    ways.push_back({who + ", in a group" + where, grouped});
    ways.push_back({who + ", in a group, and an event" + where, noted});
  }
  return ways;
}

// The ways through the drop-in, and behind them those past it: symm's own call where symm does it,
// and NCCL's own functions where it is passed on.
std::vector<Way> all_ways(const Member& me, symm_group_t* own, cudaEvent_t event) {
  constexpr size_t kCount = 256;
  const auto sum_by = [&me](Nccl::Combined by) {
    return [&me, by](cudaStream_t on) {
      me.right(by(at(me, 0), at(me, 8), kCount, kFloat32, kSum, me.comm, on), "all-reduce");
    };
  };
  const auto group_by = [&me](Result (*start)(), Result (*end)()) {
    return [&me, start, end](const std::function<void()>& body) {
      me.right(start(), "ncclGroupStart");
      body();
      me.right(end(), "ncclGroupEnd");
    };
  };

  std::vector<Way> ways = ways_of(me, "the drop-in", sum_by(nccl().all_reduce),
      group_by(nccl().group_start, nccl().group_end), event);
  std::vector<Way> past;
  if (me.by_symm) {
    const auto sum = [&me, own](cudaStream_t on) {
      gpu::symm(symm_allreduce(
                    own, at(me, 0), at(me, 8), kCount, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, on),
          "symm_allreduce");
    };
    past = ways_of(me, "symm_allreduce", sum, [](const auto& body) { body(); }, event);
  } else {
    void* const library = nccl().marker();
    if (library == nullptr) gpu::give_up("host_time: the drop-in has loaded no NCCL");
    Nccl::Combined sum = nullptr;
    Result (*start)() = nullptr;
    Result (*end)() = nullptr;
    Nccl::find(library, "ncclAllReduce", sum);
    Nccl::find(library, "ncclGroupStart", start);
    Nccl::find(library, "ncclGroupEnd", end);
    past = ways_of(me, "NCCL", sum_by(sum), group_by(start, end), event);
  }
  ways.insert(ways.end(), past.begin(), past.end());
  return ways;
}

// The drop-in's own part of a call, beside symm's own call where symm does it, and beside NCCL's
// own functions where it is passed on. The times are printed; whether they are right depends on
// what else the machine does.
void host_time(Member& me) {
  me.together();
  symm::Group own;
  if (me.by_symm) {
    own = gpu::form(me.rank, me.size, me.device(), "dir://" + me.directory, 20'000,
        SYMM_GROUP_OVERLAPPING_DEVICES, "host time");
  }
  cudaEvent_t event = nullptr;
  cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");

  watch().at(me.who("host time"));
  const std::vector<Way> ways = all_ways(me, own.get(), event);
  for (const Way& way : ways) {
    way.call();
  }
  const std::vector<HostTime> times = host_times(me, ways);
  const size_t half = ways.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const HostTime& through = times[i];
    const HostTime& past = times[half + i];
    std::printf("%s: %.0f ns a call, %s %.0f: %+.0f ns; after other work %.0f and %.0f: %+.0f ns\n",
        me.who(ways[i].name).c_str(), through.warm, ways[half + i].name.c_str(), past.warm,
        through.warm - past.warm, through.cold, past.cold, through.cold - past.cold);
  }
  cudaEventDestroy(event);
}

// ---- chapters

using Body = void (*)(Member&);
constexpr std::pair<const char*, Body> kChapters[] = {{"collectives", collectives},
    {"groups", groups}, {"graphs", graphs}, {"streams", streams}, {"windows", windows},
    {"splits", splits}, {"pending", pending}, {"host_time", host_time}, {"aborts", aborts},
    {"aborts_copy", aborts_copy}, {"kill", kill}, {"kill_copy", kill_copy}};

// The last rank is killed in it.
bool is_of_death(const std::string& chapter) { return chapter.starts_with("kill"); }

void run_member(Body body, int rank, int size, bool in_threads, const std::string& directory) {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  cuda(cudaSetDevice(rank % devices), "cudaSetDevice");
  Member me;
  me.rank = rank;
  me.size = size;
  me.in_threads = in_threads;
  const char* const ops = std::getenv("SYMM_NCCL_OPS");
  me.by_symm = ops == nullptr || std::string(ops) != "none";
  const char* const behind = std::getenv("SYMM_NCCL");
  me.alone = behind != nullptr && std::string(behind) == "none";
  me.directory = directory;
  me.meet = static_cast<Meet*>(support::map_shared(sizeof(Meet), directory + "/meet"));
  me.set_up();
  watch().at(me.who("connect"));
  me.comm = me.connect(0);
  body(me);
  if (me.comm == nullptr) return;

  me.settle();
  watch().at(me.who("ncclCommDestroy"));
  me.right(nccl().destroy(me.comm), "ncclCommDestroy");
  me.together();
}

// Who does what a chapter asks for.
enum class By : uint8_t { nccl, symm, symm_with_messages };

const char* name_of(By by) {
  switch (by) {
    case By::nccl: return "by_nccl";
    case By::symm: return "by_symm";
    case By::symm_with_messages: return "by_symm_with_messages";
  }
  return "";
}

// Runs a chapter in processes, or in threads of one, that meet in `directory`.
void run_trial(
    const support::TemporaryDirectory& directory, const char* chapter, By by, bool in_threads) {
  const int size = gpu::machine().ranks;
  const bool shares = size > gpu::machine().devices;
  const auto prepare = [&](int rank) {
    if (by != By::nccl) setenv("SYMM_NCCL_MODE", "deterministic", 1);
    if (by == By::nccl) setenv("SYMM_NCCL_OPS", "none", 1);
    if (by == By::symm_with_messages) setenv("SYMM_NCCL_OPS", "all,sendrecv", 1);
    if (shares) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    if (shares) setenv("NCCL_MAX_CTAS", "4", 1);
    // Connecting later allocates memory, which may wait for kernels of ranks in this context.
    if (in_threads) setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    if (in_threads) setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("SYMM_NCCL_COMMS", "*", 1);
    setenv("SYMM_NCCL_LOG", (directory / "log").c_str(), 1);
    return std::vector<std::string>{chapter, in_threads ? "threads" : "processes",
        std::to_string(rank), std::to_string(size), directory.path()};
  };
  gpu::run_roles(in_threads ? 1 : size, prepare, is_of_death(chapter) ? size - 1 : -1);
  if (testing::Test::HasFailure()) {
    std::ifstream log(directory / "log");
    std::cout << log.rdbuf();
  }
}

using Parameters = std::tuple<const char*, By, bool>;
class Chapters : public testing::TestWithParam<Parameters> {};

TEST_P(Chapters, AreRight) {
  const auto [chapter, by, in_threads] = GetParam();
  const int size = gpu::machine().ranks;
  const bool alone = gpu::machine().alone;
  int version = 0;
  if (alone && by == By::nccl) GTEST_SKIP() << "there is no NCCL that calls are passed on to";
  if (alone && by == By::symm_with_messages)
    GTEST_SKIP() << "without NCCL, symm passes them anyway";
  // Before the first call, which looks for it; the ranks inherit it.
  if (alone) setenv("SYMM_NCCL", "none", 1);
  if (nccl().get_version(&version) != symm::nccl::kSuccess) {
    const std::string why = nccl().last_error(nullptr);
    const char* const named = std::getenv("SYMM_NCCL");
    const bool is_named = named != nullptr && *named != '\0';
    ASSERT_FALSE(is_named) << "SYMM_NCCL names an NCCL that cannot be used: " << why;
    GTEST_SKIP() << "no NCCL behind the drop-in: " << why;
  }
  if (alone) {
    ASSERT_EQ(version, kAloneVersion);
  }
  const bool shares = size > gpu::machine().devices;
  if (shares && !alone && version < kSharedDeviceSince) {
    GTEST_SKIP() << "ranks share a GPU from NCCL 2.30 on, and here is " << version;
  }

  const bool is_kill = is_of_death(chapter);
  const int trials = is_kill ? gpu::machine().trials : 1;
  std::vector<double> named;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    const support::TemporaryDirectory directory;
    run_trial(directory, chapter, by, in_threads);
    if (!is_kill || HasFailure()) continue;
    const std::vector<double> more = named_after(directory.path(), size);
    named.insert(named.end(), more.begin(), more.end());
  }
  if (is_kill && !HasFailure()) judge_naming(named, shares);
}

std::string name_of_case(const testing::TestParamInfo<Parameters>& info) {
  const auto [chapter, by, in_threads] = info.param;
  return std::string(chapter) + "_" + name_of(by) + (in_threads ? "_in_threads" : "_in_processes");
}

INSTANTIATE_TEST_SUITE_P(Drop, Chapters,
    testing::Combine(testing::Values("collectives", "groups", "graphs", "streams", "windows",
                         "splits", "pending", "aborts"),
        testing::Values(By::nccl, By::symm), testing::Bool()),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(Messages, Chapters,
    testing::Combine(testing::Values("groups", "graphs", "streams", "windows"),
        testing::Values(By::symm_with_messages), testing::Bool()),
    name_of_case);
// Processes that share a GPU have it by turns, which fills the streams.
INSTANTIATE_TEST_SUITE_P(Time, Chapters,
    testing::Combine(
        testing::Values("host_time"), testing::Values(By::nccl, By::symm), testing::Values(true)),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(Death, Chapters,
    testing::Combine(
        testing::Values("kill"), testing::Values(By::nccl, By::symm), testing::Values(false)),
    name_of_case);
// Threads that share a GPU share its null stream, too. A kernel of NCCL waits for a dead rank until
// the program aborts, which this one does not before the copy is over.
INSTANTIATE_TEST_SUITE_P(Copies, Chapters,
    testing::Combine(testing::Values("aborts_copy"), testing::Values(By::nccl, By::symm),
        testing::Values(false)),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(DeathDuringACopy, Chapters,
    testing::Combine(
        testing::Values("kill_copy"), testing::Values(By::symm), testing::Values(false)),
    name_of_case);
}  // namespace

int gpu::role(const std::vector<std::string>& words) {
  Body body = nullptr;
  for (const auto& [name, chapter] : kChapters) {
    if (words[0] == name) body = chapter;
  }
  const bool in_threads = words[1] == "threads";
  const int rank = std::stoi(words[2]);
  const int size = std::stoi(words[3]);
  if (!in_threads) {
    run_member(body, rank, size, false, words[4]);
    return role_result();
  }
  support::as_threads(
      size, [&](int r) { gpu::or_give_up([&] { run_member(body, r, size, true, words[4]); }); });
  return role_result();
}
