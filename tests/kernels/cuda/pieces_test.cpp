// The kernels of collectives with counts, compiled for the host: with all
// lengths, places and kinds of memory, and in every order of steps that is
// drawn, all results are where they belong and no other byte is touched.
// Also the kernel that widens and narrows operands of scaled calls.
#include "tests/support/pieces.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"
#include "tools/bench/reference.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::PiecesArgs> symm_pieces_move,
    symm_pieces_reduce_any, symm_pieces_reduce_bf16, symm_pieces_reduce_f32;
extern "C" void symm_convert(symm::cuda::ConvertArgs args);

namespace symm::cuda::model {
namespace {
using support::Bytes;
using support::DrawnPieces;
using support::PiecesKind;
constexpr uint64_t kTile = 512;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

uint64_t bits_of(DType dtype, float value) {
  if (dtype == DType::boolean) return value == 0 ? 0 : 1;
  if (dtype == DType::f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  return dtype == DType::f32 ? std::bit_cast<uint32_t>(value) : reference::encode(dtype, value);
}

// The faults of a call.
struct Wrong {
  // Bytes that rank 0 sends to rank 1 beyond those that rank 1 expects.
  uint64_t more = 0;
  // Counts of all ranks lie on the device.
  bool by_device = false;
  // The capacity of send, on all ranks.
  uint64_t capacity = UINT64_MAX;
  // The rank that makes no call.
  int absent = -1;
  // The size of recv's memory that peers know.
  uint64_t memory = UINT64_MAX;
};

// Calls that every rank makes one after the other. All are launched at once.
class Calls {
 public:
  explicit Calls(const Ranks::Options& options)
      : ranks_(options),
        n_(static_cast<size_t>(options.ranks)),
        blocks_(options.blocks),
        random_(options.seed) {}

  Ranks& ranks() { return ranks_; }

  void launch_any() {
    constexpr PiecesKind kMoves[] = {PiecesKind::alltoallv, PiecesKind::allgatherv,
        PiecesKind::gather, PiecesKind::scatter, PiecesKind::rows, PiecesKind::gatherv,
        PiecesKind::scatterv};
    constexpr DType kTwoParts[] = {DType::c64, DType::c128, DType::f32_i32, DType::i64_i64};
    switch (random_() % 10) {
      case 0: return reduce(DType::f64, symm_pieces_reduce_any);
      case 1: return reduce(DType::bf16, symm_pieces_reduce_bf16);
      case 2: return reduce(DType::f32, symm_pieces_reduce_f32);
      case 3: return reduce(DType::i16, symm_pieces_reduce_any);
      case 4: return reduce(kTwoParts[random_() % std::size(kTwoParts)], symm_pieces_reduce_any);
      default: return move(kMoves[random_() % std::size(kMoves)]);
    }
  }

  void move(PiecesKind kind, const Wrong& wrong = {}) {
    const bool exchanges = kind == PiecesKind::alltoallv;
    const bool by_device = wrong.by_device || (exchanges && random_() % 3 == 0);
    Call& call = begin(kind, 1, !by_device && random_() % 3 == 0);

    for (size_t rank = 0; rank < n_; ++rank) {
      PiecesArgs args{};
      add_rows(call, rank, args);
      lists(call, rank, args, wrong, by_device);
      const bool is_symmetric = !(exchanges && call.drawn.is_in_place) && random_() % 2 == 0;
      if (static_cast<int>(rank) != wrong.absent) {
        launch(call, rank, args, symm_pieces_move, is_symmetric, wrong.memory);
      }
    }
  }

  void reduce(DType dtype, void (*kernel)(PiecesArgs)) {
    Op op = Op::avg;
    while (kernel == symm_pieces_reduce_any) {
      op = reference::kOps[random_() % std::size(reference::kOps)];
      if (reference::are_combined(dtype, op)) break;
    }
    support::Elements elements;
    elements.make = [&](std::byte* element) {
      const auto number = [&]() -> reference::Bits {
        return is_float(dtype) ? bits_of(dtype, draw_number(random_))
                               : reference::encode_integer(dtype, static_cast<int>(random_() % 9));
      };
      // The parts of a pair do not follow from each other.
      const reference::Bits first = number();
      const bool has_parts = has_two_parts(dtype);
      reference::store_bits(dtype,
          has_parts ? reference::join(dtype, reference::first_of(dtype, first),
                          reference::second_of(dtype, number()))
                    : first,
          element);
    };
    const bool in_tree = depends_on_order(dtype, op) && random_() % 2 == 0;
    const symm_order_t order = in_tree ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS;

    elements.reduce = [&](const std::vector<const std::byte*>& of_all, std::byte* result) {
      std::vector<reference::Bits> bits;
      for (const std::byte* element : of_all) {
        bits.push_back(reference::load_bits(dtype, element));
      }
      reference::store_bits(dtype, reference::reduce(dtype, op, bits, order), result);
    };

    const PiecesKind kind =
        random_() % 2 == 0 ? PiecesKind::reduced_rows : PiecesKind::reduce_scatterv;
    Call& call = begin(kind, size_of(dtype), random_() % 3 == 0, elements);
    for (size_t rank = 0; rank < n_; ++rank) {
      PiecesArgs args{};
      args.call.op = static_cast<int32_t>(op);
      args.call.dtype = static_cast<int32_t>(combined_as(dtype, op));
      add_rows(call, rank, args);
      args.call.in_tree = in_tree ? 1 : 0;
      lists(call, rank, args, {}, false);
      launch(call, rank, args, kernel, false);
    }
  }

  // Returns "" if all calls ended and all results are right.
  std::string run() {
    if (!ranks_.run()) return "nothing goes on";
    for (size_t rank = 0; rank < n_; ++rank) {
      if (ranks_.record(static_cast<int>(rank)).state != 0) return "trouble";
    }

    for (size_t call = 0; call < calls_.size(); ++call) {
      for (size_t rank = 0; rank < n_; ++rank) {
        const support::PiecesOfRank& mine = calls_[call]->drawn.of[rank];
        const Bytes& got = calls_[call]->images[rank];
        if (got != mine.after) {
          const auto at =
              std::mismatch(got.begin(), got.end(), mine.after.begin()).first - got.begin();
          return "call " + std::to_string(call) + ", rank " + std::to_string(rank) +
                 " is wrong at byte " + std::to_string(at) + " of " + std::to_string(got.size());
        }
      }
    }

    return "";
  }

 private:
  struct Call {
    DrawnPieces drawn;
    std::vector<Bytes> images;
    // Counts and displacements of send and recv by rank, for calls with counts on the device.
    std::vector<std::array<support::Counts, 4>> numbers;
  };

  Call& begin(
      PiecesKind kind, size_t element, bool in_place, const support::Elements& elements = {}) {
    DrawnPieces drawn(kind, n_, element, in_place, random_, elements);
    Call& call = *calls_.emplace_back(std::make_unique<Call>(Call{std::move(drawn), {}, {}}));
    for (const auto& mine : call.drawn.of) {
      call.images.push_back(mine.before);
    }
    call.numbers.resize(n_);
    return call;
  }

  static void add_rows(const Call& call, size_t rank, PiecesArgs& args) {
    args.row_bytes = call.drawn.row;
    args.row_stride = call.drawn.of[rank].stride;
  }

  void lists(Call& call, size_t rank, PiecesArgs& args, const Wrong& wrong, bool by_device) const {
    const support::PiecesOfRank& mine = call.drawn.of[rank];
    auto& all = call.numbers[rank];
    all = mine.lists(1);
    if (rank == 0 && n_ > 1) all[0][1] += wrong.more;

    for (const size_t which : {0, 1}) {
      const support::Counts& counts = all[2 * which];
      const support::Counts& displacements = all[2 * which + 1];
      const uint64_t room =
          which == 0 ? std::min<uint64_t>(wrong.capacity, mine.send_bytes + 8) : mine.recv_bytes;
      if (by_device) {
        args.counts[which] = {address_of(counts.data()), address_of(displacements.data()), room};
      }
      for (size_t r = 0; r < n_ && !by_device; ++r) {
        (which == 0 ? args.send : args.recv)[r] = PiecesArgs::Range{displacements[r], counts[r]};
      }
    }
  }

  // The operands lie in the memory of this call, of
  // which peers know `bytes`, or in private memory.
  void launch(Call& call, size_t rank, PiecesArgs args, void (*kernel)(PiecesArgs),
      bool is_symmetric, uint64_t bytes = UINT64_MAX) {
    constexpr Collective kCollectives[] = {Collective::alltoallv, Collective::allgatherv,
        Collective::reduce_scatterv, Collective::gather, Collective::scatter,
        Collective::allgather_rows, Collective::reduce_scatter_rows, Collective::gatherv,
        Collective::scatterv};
    const support::PiecesOfRank& mine = call.drawn.of[rank];
    args.call.comm = ranks_.comm(static_cast<int>(rank));
    args.call.comm.memories = address_of(memories_.data());
    args.call.comm.memory_count = static_cast<int32_t>(memories_.size());
    args.call.collective = static_cast<int32_t>(kCollectives[static_cast<size_t>(call.drawn.kind)]);
    args.call.detail = calls_.size();
    args.call.work_groups = static_cast<int32_t>(blocks_);
    args.call.send = address_of(call.images[rank].data() + mine.send_at);
    args.call.recv = address_of(call.images[rank].data() + mine.recv_at);
    args.element = static_cast<uint32_t>(call.drawn.element);
    if (is_symmetric) {
      args.call.recv_memory = calls_.size();
      args.call.recv_offset = mine.recv_at;
      MemoryEntry& entry = memories_[calls_.size()];
      entry = {calls_.size(), bytes, {}};
      for (size_t r = 0; r < n_; ++r) {
        entry.block[r] = address_of(call.images[r].data());
      }
    }

    // The kernel that moves has one more block, for the rank's own piece, except where one block
    // is all that there may be.
    const bool has_one = blocks_ == 1 && calls_.size() % 2 == 0;
    ranks_.launch(
        static_cast<int>(rank), [args, kernel](const CollectiveArgs&) { kernel(args); }, args.call,
        kernel == symm_pieces_move && !has_one ? blocks_ + 1 : blocks_);
  }

  Ranks ranks_;
  size_t n_;
  unsigned blocks_;
  std::mt19937 random_;
  std::array<MemoryEntry, 16> memories_{};
  std::vector<std::unique_ptr<Call>> calls_;
};

Ranks::Options options_of(int ranks, unsigned seed) {
  return {.ranks = ranks,
      .seed = seed,
      .blocks = 1 + seed % 2,
      .threads = static_cast<unsigned>(ranks) + seed / 2 % 2,
      .slot = kTile,
      .work_groups = 2};
}

TEST(Pieces, GoWhereTheyBelong) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (unsigned seed = 0; seed < 24; ++seed) {
      Calls calls(options_of(ranks, seed));
      if (seed % 3 == 0) calls.ranks().hold(static_cast<int>(seed) % ranks, seed * 7, 40'000);
      for (int call = 0; call < 5; ++call) {
        calls.launch_any();
      }
      ASSERT_EQ(calls.run(), "") << ranks << " ranks, seed " << seed;
    }
  }
}

// A rank whose call is wrong records why, and nothing is stored where it does not belong.
TEST(Pieces, ThatDoNotFitAreRecorded) {
  struct Case {
    Wrong wrong;
    WaitError trouble;
    int peer;  // -1: any
  };

  const Case cases[] = {
      {{.more = 3}, WaitError::other_length, 1},
      {{.more = 3, .by_device = true}, WaitError::other_length, 1},
      {{.by_device = true, .capacity = 5}, WaitError::beyond_capacity, -1},
      {{.absent = 1}, WaitError::timeout, 1},
      {{.memory = 5}, WaitError::unknown_memory, -1},
  };

  for (const Case& one : cases) {
    int told = 0;
    for (unsigned seed = 0; seed < 20 && told < 3; ++seed) {
      Ranks::Options options = options_of(2, seed);
      options.timeout_ns = 100'000;
      Calls calls(options);
      calls.move(PiecesKind::alltoallv, one.wrong);

      ASSERT_TRUE(calls.ranks().run());
      const ErrorRecord& record = calls.ranks().record(0);
      if (record.state == 0 || record.trouble != static_cast<uint32_t>(one.trouble)) {
        continue;  // the pieces that were drawn fit, or are wrong elsewhere
      }

      ++told;
      if (one.peer >= 0) {
        EXPECT_EQ(record.peer, one.peer);
      }
    }

    EXPECT_EQ(told, 3) << static_cast<uint32_t>(one.trouble);
  }
}

// The operand of a conversion, and what it becomes with a factor.
struct Conversion {
  Bytes in;
  Bytes out;
};

// Draws `blocks` blocks of `count` elements, which begin `stride` bytes after each other in the
// operand and follow each other in the result.
Conversion draw_conversion(DType from, DType to, uint64_t count, uint64_t blocks, uint64_t stride,
    float factor, std::mt19937& random) {
  Conversion drawn{
      Bytes(blocks * stride + 16), Bytes(blocks * count * size_of(to) + 16, support::kUntouched)};
  for (uint64_t b = 0; b < blocks; ++b) {
    for (uint64_t i = 0; i < count; ++i) {
      std::byte* element = &drawn.in[b * stride + i * size_of(from)];
      const float value = std::ldexp(static_cast<float>(random() % 200) - 100, -3);
      const uint64_t bits = bits_of(from, value);
      const float read = is_small_float(from) ? reference::decode(from, bits) : value;
      reference::store_bits(from, bits, element);
      reference::store_bits(
          to, bits_of(to, read * factor), &drawn.out[(b * count + i) * size_of(to)]);
    }
  }
  return drawn;
}

void expect_conversion(DType narrow, bool narrows, uint64_t count, std::mt19937& random) {
  const DType wide = narrow == DType::f64 || narrow == DType::boolean ? narrow : DType::f32;
  const DType from = narrows ? wide : narrow;
  const DType to = narrows ? narrow : wide;
  const bool by_pointer = narrow != DType::f64 && random() % 2 == 0;
  const float factor = narrow == DType::boolean ? 1.0F : 0.375F;
  const uint64_t blocks = 1 + random() % 3;
  const uint64_t stride = (count + random() % 5) * size_of(from);
  const Conversion expected = draw_conversion(from, to, count, blocks, stride, factor, random);
  Bytes out(expected.out.size(), support::kUntouched);

  const ConvertArgs args{address_of(expected.in.data()), address_of(out.data()), count, blocks,
      stride, by_pointer ? address_of(&factor) : 0, by_pointer ? 99 : factor,
      static_cast<int32_t>(from), static_cast<int32_t>(to)};
  Ranks ranks({.ranks = 1, .threads = 3});
  ranks.launch(0, [args](const CollectiveArgs&) { symm_convert(args); }, {}, 2);

  ASSERT_TRUE(ranks.run());
  EXPECT_EQ(out, expected.out) << dtype_name(from) << " to " << dtype_name(to) << ", " << count;
}

TEST(Convert, WidensAndNarrowsScaledOperands) {
  std::mt19937 random(1);
  support::for_each_combination(
      std::tuple(std::array{DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f32,
                     DType::f64, DType::boolean},
          std::array{false, true}, std::array<uint64_t, 3>{1, 37, 500}),
      [&](DType narrow, bool narrows, uint64_t count) {
        expect_conversion(narrow, narrows, count, random);
      });
}
}  // namespace
}  // namespace symm::cuda::model
