// SPDX-License-Identifier: Apache-2.0
//
// The kernels of collectives in pieces as they are: whatever the lengths, places and kinds of memory, and in every order of steps
// that is drawn, all that belongs somewhere is there and nothing else is touched. And those that widen and narrow what is scaled.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/kernels/cuda/world.hpp"
#include "tests/kernels/reference.hpp"

extern "C" void symm_pieces_move(symm::cuda::PiecesArgs args);
extern "C" void symm_pieces_reduce_any(symm::cuda::PiecesArgs args);
extern "C" void symm_pieces_reduce_bf16(symm::cuda::PiecesArgs args);
extern "C" void symm_pieces_reduce_f32(symm::cuda::PiecesArgs args);
extern "C" void symm_convert(symm::cuda::ConvertArgs args);

namespace symm::cuda::model {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte kUntouched{0xEE};
constexpr uint64_t kTile = 512;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

struct Operand {
  Bytes send, recv, expected;
  std::vector<uint64_t> numbers[4];  // counts and displacements of send and recv, on the device
  bool in_place = false;
};

// Of rank 0's piece for rank 1: so many bytes more than that one expects; of all: where counts are, the room of send, who does
// not come, and the size of the memory that peers know.
struct Wrong {
  uint64_t more = 0;
  bool by_device = false;
  uint64_t capacity = UINT64_MAX;
  int absent = -1;
  uint64_t memory = UINT64_MAX;
};

// Some calls one after the other on every rank, all launched at once.
class Calls {
 public:
  explicit Calls(const Ranks::Options& options)
      : ranks_(options), n_(static_cast<size_t>(options.ranks)), blocks_(options.blocks), random_(options.seed) {}
  Ranks& ranks() { return ranks_; }

  void launch_any() {
    switch (random_() % 9) {
      case 0: return reduce(DType::f64, symm_pieces_reduce_any);
      case 1: return reduce(DType::bf16, symm_pieces_reduce_bf16);
      case 2: return reduce(DType::f32, symm_pieces_reduce_f32);
      case 3: return reduce(DType::i16, symm_pieces_reduce_any);
      case 4: return pieces(Collective::allgatherv);
      case 5: return pieces(Collective::gather);
      case 6: return pieces(Collective::scatter);
      case 7: return pieces(Collective::allgather_rows);
      default: return pieces(Collective::alltoallv);
    }
  }

  void pieces(Collective collective, const Wrong& wrong = {}) {
    const bool exchanges = collective == Collective::alltoallv;
    const bool in_rows = collective == Collective::allgather_rows;
    const bool to_all = in_rows || collective == Collective::allgatherv;  // the same
    const bool by_device = wrong.by_device || (exchanges && random_() % 3 == 0);
    const bool in_place = exchanges && !by_device && random_() % 3 == 0;
    const size_t root = random_() % n_;
    const uint64_t row = in_rows ? 1 + random_() % 700 : 0;
    const uint64_t stride = n_ * row + random_() % 9;
    const uint64_t equal = in_rows ? row * (2 + random_() % 40) : length();
    std::vector<std::vector<uint64_t>> bytes(n_, std::vector<uint64_t>(n_, 0));
    for (size_t from = 0; from < n_; ++from) {
      const uint64_t own = in_rows ? equal : length();
      for (size_t to = 0; to < n_; ++to) {
        uint64_t& here = bytes[from][to];
        if (exchanges) here = in_place && to < from ? bytes[to][from] : length();
        if (to_all) here = own;
        if (collective == Collective::gather ? to == root : collective == Collective::scatter && from == root) here = equal;
      }
    }
    auto& operands = begin();
    for (size_t rank = 0; rank < n_; ++rank) {
      Operand& mine = operands[rank];
      PiecesArgs args{};
      args.row_bytes = row;
      args.row_stride = in_rows ? stride : 0;
      std::vector<uint64_t> out = bytes[rank];
      std::vector<uint64_t> in;
      for (size_t from = 0; from < n_; ++from) in.push_back(bytes[from][rank]);
      if (rank == 0 && n_ > 1) out[1] += wrong.more;
      mine.in_place = in_place;
      lay(in, args.recv, mine.recv);
      if (in_rows) {
        for (size_t from = 0; from < n_; ++from) args.recv[from].at = from * row;
        mine.recv.assign(equal / row * stride, kUntouched);
      }
      lay(out, args.send, mine.send);
      if (in_place) {
        std::copy_n(args.recv, n_, args.send);
        mine.send = mine.recv;
      }
      mine.expected = mine.recv;
      for (size_t peer = 0; peer < n_; ++peer) {
        if (to_all) args.send[peer] = args.send[0];
        fill(mine.send, args.send[peer], rank, to_all ? 0 : peer);
        fill(mine.expected, args.recv[peer], peer, to_all ? 0 : rank, row, stride);
      }
      if (by_device) on_device(mine, args, wrong.capacity);
      if (static_cast<int>(rank) != wrong.absent)
        launch(rank, collective, args, symm_pieces_move, operands, !in_place && random_() % 2 == 0, wrong.memory);
    }
  }

  void reduce(DType dtype, void (*kernel)(PiecesArgs)) {
    const uint64_t element = size_of(dtype);
    std::vector<uint64_t> bytes;
    for (size_t r = 0; r < n_; ++r) bytes.push_back(length() / element * element);
    const Op op = kernel == symm_pieces_reduce_any ? reference::kOps[random_() % 5] : Op::avg;
    auto& operands = begin();
    std::vector<PiecesArgs> all(n_);
    for (size_t rank = 0; rank < n_; ++rank) {
      Operand& mine = operands[rank];
      lay(bytes, all[rank].send, mine.send);
      for (size_t i = 0; i + element <= mine.send.size(); i += element)
        reference::store_bits(dtype, support::encode_integer(static_cast<int32_t>(dtype), static_cast<int>(random_() % 9)),
                              &mine.send[i]);
    }
    for (size_t rank = 0; rank < n_; ++rank) {
      Operand& mine = operands[rank];
      for (size_t r = 0; r < n_; ++r) all[rank].recv[r] = {0, bytes[rank]};
      mine.recv.assign(bytes[rank] + 3, kUntouched);
      mine.expected = mine.recv;
      for (uint64_t i = 0; i < bytes[rank]; i += element) {
        std::vector<uint64_t> of_all;
        for (size_t r = 0; r < n_; ++r)
          of_all.push_back(reference::load_bits(dtype, &operands[r].send[all[r].send[rank].at + i]));
        reference::store_bits(dtype, reference::reduce(dtype, op, of_all), &mine.expected[i]);
      }
      all[rank].call.op = static_cast<int32_t>(op);
      all[rank].call.dtype = static_cast<int32_t>(dtype);
      all[rank].element = static_cast<uint32_t>(element);
      launch(rank, Collective::reduce_scatterv, all[rank], kernel, operands, false);
    }
  }

  // "": all ended, and all is right.
  std::string run() {
    if (!ranks_.run()) return "nothing goes on";
    for (size_t rank = 0; rank < n_; ++rank) {
      if (ranks_.record(static_cast<int>(rank)).state != 0) return "trouble";
    }
    for (size_t call = 0; call < calls_.size(); ++call) {
      for (size_t rank = 0; rank < n_; ++rank) {
        const Operand& mine = (*calls_[call])[rank];
        const Bytes& got = mine.in_place ? mine.send : mine.recv;
        if (got != mine.expected) {
          const auto at = std::mismatch(got.begin(), got.end(), mine.expected.begin()).first - got.begin();
          return "call " + std::to_string(call) + ", rank " + std::to_string(rank) + " is wrong at byte " + std::to_string(at) +
                 " of " + std::to_string(got.size());
        }
      }
    }
    return "";
  }

 private:
  std::vector<Operand>& begin() { return *calls_.emplace_back(std::make_unique<std::vector<Operand>>(n_)); }

  // Of more chunks than there are slots, of one, or nothing.
  uint64_t length() {
    constexpr uint64_t kMost[] = {1, 40, 3000, 20'000};
    return random_() % kMost[random_() % 4];
  }

  static void fill(Bytes& operand, const PiecesArgs::Range& piece, size_t from, size_t to, uint64_t row = 0,
                   uint64_t stride = 0) {
    for (uint64_t i = 0; i < piece.bytes; ++i) {
      const uint64_t at = row == 0 ? i : i / row * stride + i % row;
      operand[piece.at + at] = static_cast<std::byte>((from * 31 + to * 7 + i * 13 + i / 256) % 237);
    }
  }

  // Pieces in any order, with gaps.
  void lay(const std::vector<uint64_t>& bytes, PiecesArgs::Range (&pieces)[kMaxRanks], Bytes& operand) {
    std::vector<size_t> order(n_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    uint64_t at = random_() % 2 * 16;
    for (const size_t r : order) {
      pieces[r] = {at, bytes[r]};
      at += bytes[r] + random_() % 3 * 8;
    }
    operand.assign(at, kUntouched);
  }

  static void on_device(Operand& mine, PiecesArgs& args, uint64_t capacity) {
    for (const size_t which : {0, 1}) {
      std::vector<uint64_t>* lists = &mine.numbers[2 * which];
      for (PiecesArgs::Range& piece : which == 0 ? args.send : args.recv) {
        lists[0].push_back(piece.bytes);
        lists[1].push_back(piece.at);
        piece = {};
      }
      const uint64_t room = which == 0 ? std::min<uint64_t>(capacity, mine.send.size()) : mine.recv.size();
      args.counts[which] = {address_of(lists[0].data()), address_of(lists[1].data()), room};
    }
  }

  // In the memory of this call, of which `bytes` are known, or in private memory.
  void launch(size_t rank, Collective collective, PiecesArgs args, void (*kernel)(PiecesArgs), std::vector<Operand>& operands,
              bool is_symmetric, uint64_t bytes = UINT64_MAX) {
    Operand& mine = operands[rank];
    args.call.comm = ranks_.comm(static_cast<int>(rank));
    args.call.comm.memories = address_of(memories_.data());
    args.call.comm.memory_count = static_cast<int32_t>(memories_.size());
    args.call.collective = static_cast<int32_t>(collective);
    args.call.detail = calls_.size();
    args.call.work_groups = static_cast<int32_t>(blocks_);
    args.call.send = address_of(mine.send.data());
    args.call.recv = address_of(mine.in_place ? mine.send.data() : mine.recv.data());
    if (args.element == 0) args.element = 1;
    if (is_symmetric) {
      args.call.recv_memory = calls_.size();
      MemoryEntry& entry = memories_[calls_.size()];
      entry = {calls_.size(), bytes, {}};
      for (size_t r = 0; r < n_; ++r) entry.block[r] = address_of(operands[r].recv.data());
    }
    ranks_.launch(
        static_cast<int>(rank), [args, kernel](const CollectiveArgs&) { kernel(args); }, args.call,
        kernel == symm_pieces_move ? blocks_ + 1 : blocks_);  // one for the rank's own piece
  }

  Ranks ranks_;
  size_t n_;
  unsigned blocks_;
  std::mt19937 random_;
  std::array<MemoryEntry, 16> memories_{};
  std::vector<std::unique_ptr<std::vector<Operand>>> calls_;
};

Ranks::Options options_of(int ranks, unsigned seed) {
  Ranks::Options options;
  options.ranks = ranks;
  options.seed = seed;
  options.blocks = 1 + seed % 2;
  options.threads = static_cast<unsigned>(ranks) + seed / 2 % 2;
  options.slot = kTile;
  options.work_groups = 2;
  return options;
}

TEST(Pieces, BelongWhereTheyAre) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (unsigned seed = 0; seed < 24; ++seed) {
      Calls calls(options_of(ranks, seed));
      if (seed % 3 == 0) calls.ranks().hold(static_cast<int>(seed) % ranks, seed * 7, 40'000);
      for (int call = 0; call < 5; ++call) calls.launch_any();
      ASSERT_EQ(calls.run(), "") << ranks << " ranks, seed " << seed;
    }
  }
}

// Who goes wrong writes why, and nothing is stored where it does not belong.
TEST(Pieces, ThatDoNotFitAreToldOf) {
  struct Case {
    Wrong wrong;
    WaitError trouble;
    int peer;  // -1: whichever
  };
  const Case cases[] = {
      {{.more = 3}, WaitError::other_length, 1},
      {{.more = 3, .by_device = true}, WaitError::other_length, 1},
      {{.by_device = true, .capacity = 5}, WaitError::beyond_capacity, -1},
      {{.absent = 1}, WaitError::timeout, 1},
      {{.memory = 5}, WaitError::unknown_memory, -1},
  };
  for (const Case& one : cases) {
    bool was_told = false;
    for (unsigned seed = 0; seed < 6; ++seed) {
      Ranks::Options options = options_of(2, seed);
      options.timeout_ns = 100'000;
      Calls calls(options);
      calls.pieces(Collective::alltoallv, one.wrong);
      ASSERT_TRUE(calls.ranks().run());
      const ErrorRecord& record = calls.ranks().record(0);
      if (record.state == 0 || record.trouble != static_cast<uint32_t>(one.trouble))
        continue;  // what was drawn fits, or not there
      was_told = true;
      if (one.peer >= 0) {
        EXPECT_EQ(record.peer, one.peer);
      }
    }
    EXPECT_TRUE(was_told) << static_cast<uint32_t>(one.trouble);
  }
}

uint64_t bits_of(DType dtype, float value) {
  if (dtype == DType::boolean) return value == 0 ? 0 : 1;
  if (dtype == DType::f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  return dtype == DType::f32 ? std::bit_cast<uint32_t>(value) : reference::encode_small(dtype, value);
}

TEST(Convert, WidensAndNarrowsWhatIsScaled) {
  std::mt19937 random(1);
  for (const DType narrow : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f32, DType::f64, DType::boolean}) {
    for (const bool narrows : {false, true}) {
      for (const uint64_t count : {uint64_t{1}, uint64_t{37}, uint64_t{500}}) {
        const DType wide = narrow == DType::f64 || narrow == DType::boolean ? narrow : DType::f32;
        const DType from = narrows ? wide : narrow;
        const DType to = narrows ? narrow : wide;
        const bool by_pointer = narrow != DType::f64 && random() % 2 == 0;
        const float factor = narrow == DType::boolean ? 1.0F : 0.375F;
        const uint64_t blocks = 1 + random() % 3;
        const uint64_t stride = (count + random() % 5) * size_of(from);
        Bytes in(blocks * stride + 16);
        Bytes out(blocks * count * size_of(to) + 16, kUntouched);
        Bytes expected = out;
        for (uint64_t b = 0; b < blocks; ++b) {
          for (uint64_t i = 0; i < count; ++i) {
            std::byte* element = &in[b * stride + i * size_of(from)];
            const float drawn = std::ldexp(static_cast<float>(random() % 200) - 100, -3);
            const uint64_t bits = bits_of(from, drawn);
            const float read = is_small_float(from) ? reference::decode_small(from, bits) : drawn;
            reference::store_bits(from, bits, element);
            reference::store_bits(to, bits_of(to, read * factor), &expected[(b * count + i) * size_of(to)]);
          }
        }
        const ConvertArgs args{address_of(in.data()),
                               address_of(out.data()),
                               count,
                               blocks,
                               stride,
                               by_pointer ? address_of(&factor) : 0,
                               by_pointer ? 99 : factor,
                               static_cast<int32_t>(from),
                               static_cast<int32_t>(to)};
        Ranks::Options options;
        options.ranks = 1;
        options.threads = 3;
        Ranks ranks(options);
        ranks.launch(
            0, [args](const CollectiveArgs&) { symm_convert(args); }, {}, 2);
        ASSERT_TRUE(ranks.run());
        EXPECT_EQ(out, expected) << name_of(from) << " to " << name_of(to) << ", " << count;
      }
    }
  }
}

}  // namespace
}  // namespace symm::cuda::model
