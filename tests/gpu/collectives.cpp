// Every collective with every type, operation and algorithm, on symmetric and ordinary
// memory, in place or not, at awkward sizes and addresses, gives bit for bit the result of
// the scalar reference on the host. SYMM_GPU_AMOUNT=small or tiny chooses fewer cases, for
// many ranks on few GPUs and for slow tools.
#include <algorithm>
#include <array>

#include "tests/gpu/world.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/options.hpp"

namespace {
using symm::DType;
using symm::Op;
using symm::reference::Bytes;

enum class Place { symmetric, symmetric_in_place, ordinary, ordinary_in_place, ordinary_odd };
constexpr Place kPlaces[] = {Place::symmetric, Place::symmetric_in_place, Place::ordinary,
    Place::ordinary_in_place, Place::ordinary_odd};
const char* const kPlaceNames[] = {
    "symmetric", "symmetric in place", "ordinary", "ordinary in place", "ordinary, odd address"};

// The collectives other than all-reduce.
constexpr symm_collective_t kOthers[] = {SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_ALLGATHER,
    SYMM_COLLECTIVE_BROADCAST, SYMM_COLLECTIVE_REDUCE, SYMM_COLLECTIVE_ALLTOALL};
constexpr symm_collective_t kScans[] = {SYMM_COLLECTIVE_SCAN, SYMM_COLLECTIVE_EXSCAN};

struct Case {
  symm_collective_t collective;
  DType dtype;
  Op op;
  size_t count;
  int root;
  symm_scale_t position = SYMM_SCALE_NONE;
  bool by_pointer = false;  // then each rank has a factor of its own
  DType to{};               // the type of the results, if it is not `dtype`
  symm_order_t order = SYMM_ORDER_RANKS;

  symm::CollectiveTraits kind() const {
    return symm::traits(static_cast<symm::Collective>(collective));
  }

  bool changes_type() const { return to != DType{}; }

  DType result() const { return changes_type() ? to : dtype; }

  bool is_scaled() const { return position != SYMM_SCALE_NONE || changes_type(); }

  double factor(int rank) const {
    return by_pointer ? static_cast<double>(0.7F + static_cast<float>(rank)) : 0.1;
  }
};

// The operands of all ranks, and the result that each rank must get.
struct Expected {
  std::vector<Bytes> send;
  std::vector<Bytes> recv;
};

Expected expected_of(const Case& c, int n) {
  Expected e;
  for (int r = 0; r < n; ++r) {
    e.send.push_back(symm::testing::Values(
        c.dtype, c.op, static_cast<unsigned>(r + 31 * static_cast<int>(c.count % 1000)))
            .make(c.count * (c.kind().send_per_rank ? static_cast<size_t>(n) : 1)));
  }

  const bool alike = c.collective == SYMM_COLLECTIVE_ALLREDUCE &&
                     (c.position != SYMM_SCALE_AFTER || !c.by_pointer);
  Bytes all;  // the same for every rank
  for (int r = 0; r < n; ++r) {
    const auto combine = [&](const std::vector<symm::reference::Bits>& bits) {
      const auto factor = [&](int rank) { return c.factor(rank); };
      return c.is_scaled() ? symm::reference::reduce_scaled(
                                 c.dtype, c.op, bits, c.result(), c.position, factor, r, c.order)
                           : symm::reference::reduce(c.dtype, c.op, bits, c.order);
    };

    if (c.kind().of_prefix) {
      const auto collective = static_cast<symm::Collective>(c.collective);
      const int ranks = symm::ranks_combined(collective, r, n);
      const std::vector<Bytes> first(e.send.begin(), e.send.begin() + ranks);
      e.recv.push_back(symm::reference::combined(c.dtype, first, 0, c.count, c.result(), combine));
      continue;
    }

    const auto reduced = [&](size_t at) {
      if (!alike || all.empty()) {
        all = symm::reference::combined(c.dtype, e.send, at, c.count, c.result(), combine);
      }
      return all;
    };

    e.recv.push_back(symm::reference::result_of(static_cast<symm::Collective>(c.collective), e.send,
        c.count * symm::size_of(c.dtype), r, c.root, reduced));
  }

  return e;
}

symm_status_t call(const gpu::Rank& rank, const Case& c, const void* send, void* recv,
    symm_algorithm_t algorithm) {
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.algorithm = algorithm;
  options.order = c.order;
  // Some of the calls may have few blocks, the same on all ranks.
  constexpr int32_t kLimits[] = {0, 1, 0, 3, 0};
  options.max_blocks = kLimits[(c.count + static_cast<size_t>(algorithm)) % std::size(kLimits)];
  options.scale_position = c.position;
  if (c.changes_type()) options.result_dtype = static_cast<symm_dtype_t>(c.to);
  char* const factor_at = rank.ordinary + gpu::Rank::kBlock - 256;

  if (c.by_pointer) {
    const auto factor = static_cast<float>(c.factor(rank.rank));
    gpu::cuda(
        cudaMemcpyAsync(factor_at, &factor, sizeof factor, cudaMemcpyHostToDevice, rank.stream),
        "factor");
    options.scale_pointer = factor_at;
  } else if (c.position != SYMM_SCALE_NONE) {
    options.scale = c.factor(rank.rank);
  }

  const auto made = support::call_of(c.collective, send, recv, c.count,
      static_cast<symm_dtype_t>(c.dtype), static_cast<symm_op_t>(c.op), c.root);
  return support::run(rank.group, made, &options, rank.stream);
}

// Bytes that a hybrid cube mesh of any 8 ranks carries in any case, whatever the plan table says.
constexpr size_t kMeshBytes = 32768;

std::string describe(
    const gpu::Rank& rank, const Case& c, Place place, symm_algorithm_t algorithm) {
  return "collective " + std::to_string(c.collective) + " " + symm::dtype_name(c.dtype) + " " +
         symm::op_name(c.op) + (c.is_scaled() ? " scaled " + std::to_string(c.position) : "") +
         (c.changes_type() ? std::string(" to ") + symm::dtype_name(c.to) : "") +
         (c.order == SYMM_ORDER_TREE ? " in tree order" : "") + " count " +
         std::to_string(c.count) + " " + kPlaceNames[static_cast<size_t>(place)] + " " +
         symm::algorithm_name(static_cast<symm::Algorithm>(algorithm)) + " rank " +
         std::to_string(rank.rank) + " of " + std::to_string(rank.size);
}

// Whether the algorithm must take the call.
bool is_required(const Case& c, int ranks, Place place, symm_algorithm_t algorithm) {
  const bool sums_for_all = c.collective == SYMM_COLLECTIVE_ALLREDUCE && !c.is_scaled();
  const bool is_copied =
      !c.kind().has_op || (sums_for_all && c.count % static_cast<size_t>(ranks) == 0);
  return algorithm == SYMM_ALGORITHM_AUTO ||
         (algorithm == SYMM_ALGORITHM_COPY_ENGINE && place == Place::symmetric && is_copied) ||
         (algorithm == SYMM_ALGORITHM_HYBRID_CUBE_MESH && ranks == 8 && sums_for_all &&
             c.count * symm::size_of(c.dtype) <= kMeshBytes);
}

// One call of one rank at one place with one algorithm, if the algorithm takes the call. The
// operands of all ranks are there before any rank's kernel starts, and all kernels have ended
// before any rank fetches its result: a copy can wait in the driver behind the copy of another
// rank that waits for its kernel, which in turn waits for the kernel of this rank.
void check(const gpu::Rank& rank, std::barrier<>& together, const Case& c, const Expected& e,
    Place place, symm_algorithm_t algorithm) {
  const auto me = static_cast<size_t>(rank.rank);
  const Bytes& send = e.send[me];
  const Bytes& want = e.recv[me];
  const size_t unit = c.count * symm::size_of(c.dtype);
  const bool in_place = place == Place::symmetric_in_place || place == Place::ordinary_in_place;
  char* base =
      place == Place::symmetric || place == Place::symmetric_in_place ? rank.block : rank.ordinary;

  // Ranks pass different offsets where they may, and every other rank passes an address that
  // is not a multiple of 16.
  size_t offset =
      algorithm == SYMM_ALGORITHM_COPY_ENGINE ? 8 : static_cast<size_t>(rank.rank) * 256;
  if (place == Place::ordinary_odd) {
    offset += symm::size_of(c.dtype) * static_cast<size_t>(1 + rank.rank % 2);
  }

  char* in = base + offset;
  const size_t recv_bytes = c.count * symm::size_of(c.result()) *
                            (c.kind().recv_per_rank ? static_cast<size_t>(rank.size) : 1);
  if (in_place && c.changes_type()) return;

  char* out = base + gpu::Rank::kBlock / 2 + offset;
  if (in_place) {
    out = in;
    if (c.collective == SYMM_COLLECTIVE_REDUCE_SCATTER) out = in + me * unit;
    if (c.collective == SYMM_COLLECTIVE_ALLGATHER) in = out + me * unit;
  } else {
    gpu::cuda(cudaMemsetAsync(out, 0xA5, recv_bytes + 16, rank.stream), "poison");
  }

  const bool reads = !c.kind().from_root || rank.rank == c.root;
  if (reads) rank.upload(in, send);
  rank.wait();
  together.arrive_and_wait();

  const symm_status_t status = call(rank, c, in, out, algorithm);
  const bool must = is_required(c, rank.size, place, algorithm);
  if (status == SYMM_ERR_INVALID_ARGUMENT && !must) return;

  const std::string what = describe(rank, c, place, algorithm);
  if (status != SYMM_OK) gpu::give_up(what + ": " + symm_last_error());
  rank.wait();
  together.arrive_and_wait();

  const auto got = rank.download<std::byte>(out, want.size() + (in_place ? 0 : 16));
  const symm_failure_t health = rank.whole.status();
  if (health.status != SYMM_OK) gpu::give_up(what + ": " + health.message);

  const size_t elements = want.size() / symm::size_of(c.result());
  std::string wrong = std::memcmp(got.data(), want.data(), want.size()) == 0 ? "" : "bytes";
  if (c.kind().has_op) {
    wrong = symm::reference::difference(c.result(), got.data(), want.data(), elements);
  }
  for (size_t i = want.size(); i < got.size() && !want.empty(); ++i) {
    if (got[i] != std::byte{0xA5}) wrong = "written beyond the end";
  }
  gpu::expect(wrong.empty(), what + ": " + wrong);
}

// The calls of a run. The last rank is the root of those that have one.
class Cases {
 public:
  explicit Cases(int n) : root_(n - 1) {}

  void add_tiny();
  void add_unscaled();
  void add_scaled();
  void add_large();
  void add_trees();

  // Leaves out elements of operands that would not fit into half of a block, as those of 16 ranks.
  void fit(int ranks);

  std::vector<Case> list;

 private:
  void add(symm_collective_t c, DType dtype, Op op, size_t count) {
    list.push_back({c, dtype, op, count, root_});
  }
  void add_scaled(symm_collective_t c, DType dtype, size_t count, symm_scale_t position, int turn);

  const int root_;
};

void Cases::add_tiny() {
  for (const DType dtype : {DType::bf16, DType::i32}) {
    add(SYMM_COLLECTIVE_ALLREDUCE, dtype, Op::sum, 1027);
    add(SYMM_COLLECTIVE_ALLREDUCE, dtype, Op::sum, 30011);
    list.back().order = SYMM_ORDER_TREE;
    for (const auto c : kOthers) {
      add(c, dtype, Op::sum, 1027);
    }
    for (const auto c : kScans) {
      add(c, dtype, Op::sum, 1027);
    }
  }
}

void Cases::add_unscaled() {
  size_t turn = 0;
  for (const DType dtype : symm::reference::kDTypes) {
    for (const Op op : symm::reference::kOps) {
      if (!symm::reference::has_op(dtype, op)) continue;  // is refused
      for (const size_t count : {size_t{1}, size_t{37}, size_t{4099}}) {
        add(SYMM_COLLECTIVE_ALLREDUCE, dtype, op, count);
      }
      ++turn;
      if (op != Op::avg) add(kScans[turn % 2], dtype, op, 1031);
    }
  }

  for (const DType dtype : {DType::bf16, DType::f32, DType::u8, DType::f64}) {
    for (const size_t count : {size_t{1}, size_t{1023}, size_t{20011}, size_t{65536}}) {
      for (const auto c : kOthers) {
        add(c, dtype, c == SYMM_COLLECTIVE_REDUCE ? Op::max : Op::sum, count);
      }
    }
  }
}

// Scales where a position is given, widens the result of a narrow type to f32, and narrows that of
// f32.
void Cases::add_scaled(
    symm_collective_t c, DType dtype, size_t count, symm_scale_t position, int turn) {
  constexpr DType kNarrow[] = {DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2};
  if (position != SYMM_SCALE_NONE) {
    list.push_back(
        {c, dtype, turn % 3 == 0 ? Op::avg : Op::sum, count, root_, position, turn % 2 == 0});
  }
  if (dtype != DType::f64) {
    const bool by_pointer = position != SYMM_SCALE_NONE && turn % 2 == 1;
    list.push_back({c, dtype, turn % 3 == 1 ? Op::avg : Op::sum, count, root_, position, by_pointer,
        dtype == DType::f32 ? kNarrow[turn % 4] : DType::f32});
  }
}

void Cases::add_scaled() {
  int turn = 0;
  const auto add_next = [&](DType dtype, symm_collective_t c, size_t count, symm_scale_t position) {
    ++turn;
    add_scaled(c, dtype, count, position, turn);
  };
  support::for_each_combination(
      std::tuple(
          std::array{DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f32, DType::f64},
          std::array<symm_collective_t, 3>{
              SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_REDUCE},
          std::array<size_t, 4>{1, 37, 4099, 300007},
          std::array<symm_scale_t, 3>{SYMM_SCALE_NONE, SYMM_SCALE_BEFORE, SYMM_SCALE_AFTER}),
      add_next);
}

void Cases::add_large() {
  for (const DType dtype :
      {DType::bf16, DType::f16, DType::f32, DType::i32, DType::f64, DType::f8e4m3}) {
    add(SYMM_COLLECTIVE_ALLREDUCE, dtype, Op::sum, 300007);
    add(SYMM_COLLECTIVE_ALLREDUCE, dtype, Op::avg, 65536);
  }

  add(SYMM_COLLECTIVE_ALLREDUCE, DType::bf16, Op::sum, 3000001);
  add(SYMM_COLLECTIVE_ALLREDUCE, DType::f32, Op::sum, 4194304);
  add(SYMM_COLLECTIVE_ALLREDUCE, DType::f32, Op::sum, 5000011);

  // Two ranks take two launches for this reduce; more ranks take two for those that follow.
  add(SYMM_COLLECTIVE_REDUCE, DType::bf16, Op::sum, 9000011);
  for (const auto c : {SYMM_COLLECTIVE_REDUCE, SYMM_COLLECTIVE_BROADCAST}) {
    add(c, DType::bf16, Op::sum, 7000011);
  }

  for (const auto c : kScans) {
    for (const DType dtype : {DType::bf16, DType::i64}) {
      for (const size_t count : {size_t{20011}, size_t{300007}, size_t{3000001}}) {
        add(c, dtype, Op::sum, count);
      }
    }
  }

  for (const size_t count : {size_t{300007}, size_t{1} << 18}) {
    for (const auto c : kOthers) {
      for (const DType dtype : {DType::bf16, DType::f32}) {
        add(c, dtype, Op::sum, count);
      }
    }
  }
}

void Cases::add_trees() {
  constexpr DType kFloats[] = {
      DType::bf16, DType::f32, DType::f16, DType::f64, DType::f8e4m3, DType::f8e5m2};
  int turn = 0;
  for (const DType dtype : kFloats) {
    for (const symm_collective_t c :
        {SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_REDUCE}) {
      for (const size_t count : {size_t{1}, size_t{1023}, size_t{4099}, size_t{300007}}) {
        constexpr Op kOps[] = {Op::sum, Op::avg, Op::sum, Op::prod};
        ++turn;
        const bool changes = dtype != DType::f64 && turn % 3 == 0;
        const DType to = dtype == DType::f32 ? DType::bf16 : DType::f32;
        const symm_scale_t position = turn % 5 == 0 ? SYMM_SCALE_AFTER : SYMM_SCALE_NONE;
        list.push_back({c, dtype, kOps[turn % 4], count, root_, position, false,
            changes ? to : DType{}, SYMM_ORDER_TREE});
      }
    }
  }
}

void Cases::fit(int ranks) {
  // Operands begin up to 256 bytes a rank behind the beginning of their half.
  const auto n = static_cast<size_t>(ranks);
  const size_t room = gpu::Rank::kBlock / 2 - 256 * (n + 1);

  for (Case& c : list) {
    const bool per_rank = c.kind().send_per_rank || c.kind().recv_per_rank;
    const size_t element = std::max(symm::size_of(c.dtype), symm::size_of(c.result()));
    const size_t most = room / (element * (per_rank ? n : 1));
    // A count that is odd stays so.
    if (c.count > most) c.count = most - (most + c.count) % 2;
  }
}

// A tool that checks kernels makes them a hundred times slower, so for it the cases are `tiny`.
std::vector<Case> cases(int n, bool small, bool tiny) {
  Cases all(n);
  if (tiny) {
    all.add_tiny();
    return all.list;
  }

  all.add_unscaled();
  all.add_scaled();
  // Up to three ranks have one order.
  if (n > 3) all.add_trees();
  if (!small) all.add_large();
  all.fit(n);
  return all.list;
}

TEST(Collectives, HaveTheBitsOfTheReference) {
  const int n = gpu::machine().ranks;
  const char* asked = std::getenv("SYMM_GPU_AMOUNT");
  const std::string amount = asked == nullptr ? "" : asked;
  const bool small = amount == "small" || amount == "tiny";
  const std::vector<Case> list = cases(n, small, amount == "tiny");
  std::vector<Expected> expected(list.size());
  std::atomic<size_t> next{0};

  support::as_threads(
      static_cast<int>(std::max(1U, std::thread::hardware_concurrency())), [&](int) {
        for (size_t i = next++; i < list.size(); i = next++) {
          expected[i] = expected_of(list[i], n);
        }
      });

  // Ranks that are threads share the hardware queues of their GPU, of which there are 32. Copies
  // need two streams of a rank at a time, and a copy behind the waiting kernel of another rank
  // would wait for ever.
  int devices = 0;
  gpu::cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  const bool has_queues = n <= 8 * devices;
  if (!has_queues) std::printf("copy engine: SKIPPED, %d ranks share the queues of a GPU\n", n);

  gpu::run_ranks(n, [&](gpu::Rank& rank, std::barrier<>& together) {
    for (size_t i = 0; i < list.size(); ++i) {
      for (const Place place : kPlaces) {
        if (small && place != Place::symmetric && place != Place::ordinary_odd) continue;
        for (const symm_algorithm_t algorithm : {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_LL,
                 SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED,
                 SYMM_ALGORITHM_HYBRID_CUBE_MESH, SYMM_ALGORITHM_MARKED,
                 SYMM_ALGORITHM_COPY_ENGINE}) {
          if (algorithm == SYMM_ALGORITHM_COPY_ENGINE && !has_queues) continue;
          check(rank, together, list[i], expected[i], place, algorithm);
        }
      }
    }
  });
}
}  // namespace
