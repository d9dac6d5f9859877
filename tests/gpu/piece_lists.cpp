// Lists of pieces on GPUs: lists drawn at random as memcpy would copy them, on the host and on the
// device, eagerly and in graphs that take other lists and numbers at each replay; long lists; and
// pieces that the device finds wrong.
#include "tests/support/piece_lists.hpp"

#include <cstdlib>

#include "tests/gpu/world.hpp"

namespace gpu {
namespace {
using ::symm::Pieces;
using ::symm::Span;

constexpr size_t kBytes = 1 << 20;
// Where a rank's ordinary memory has the source, what is got, lists and a number.
constexpr size_t kSource = 0;
constexpr size_t kSeen = kBytes;
constexpr size_t kList = 2 * kBytes;
constexpr size_t kNumber = kList + (32 << 20);

Span<const std::byte> source_of(const Rank& rank) {
  return {reinterpret_cast<const std::byte*>(rank.ordinary + kSource), kBytes};
}

std::vector<std::byte> bytes_at(const Rank& rank, const char* at) {
  return rank.download<std::byte>(at, kBytes);
}

// The first bytes of the block of the next rank, got through this rank's ordinary memory.
std::vector<std::byte> fetched(const Rank& rank, size_t bytes) {
  const Span<std::byte> seen(reinterpret_cast<std::byte*>(rank.ordinary + kSeen), bytes);
  const symm_piece_t all{0, 0, bytes, 1, 0, 0};
  rank.memory.get_pieces(
      rank.next(), 0, seen, Pieces(Span<const symm_piece_t>(&all, 1)), {}, rank.stream);
  return rank.download<std::byte>(rank.ordinary + kSeen, bytes);
}

void clear(const Rank& rank, char* at) {
  cuda(cudaMemsetAsync(at, 0, kBytes, rank.stream), "memset");
}

template <class T>
Span<const T> on_device(const Rank& rank, const std::vector<T>& values, size_t at = kList) {
  rank.upload(rank.ordinary + at, values);
  return {reinterpret_cast<const T*>(rank.ordinary + at), values.size()};
}

// Pieces of all lengths, also of many units, and of many short rows.
std::vector<symm_piece_t> drawn(std::mt19937_64& random) {
  const auto below = [&](uint64_t limit) { return random() % limit; };
  std::vector<symm_piece_t> pieces;
  const uint64_t step = uint64_t{1} << below(5);
  const size_t most = 1 + below(3000);
  uint64_t free = below(16) * step;
  while (pieces.size() < most) {
    uint64_t bytes = below(64 / step + 1) * step;
    if (below(4) == 0) bytes = below(700);
    if (below(16) == 0) bytes = below(100'000 / step) * step;
    symm_piece_t piece{0, free, bytes, below(4) == 0 ? below(300) : below(3), 0, 0};
    piece.to_stride = bytes + below(3) * step;
    const uint64_t rows = std::max<uint64_t>(piece.rows, 1);
    const uint64_t reach = (rows - 1) * piece.to_stride + bytes;
    if (free + reach > kBytes) break;

    piece.from_stride = below(3) == 0 ? 0 : piece.to_stride;
    piece.from = below((kBytes - reach) / step + 1) * step;
    free += (reach / step + 1 + below(3)) * step;
    pieces.push_back(piece);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

// Every rank puts into the block of the next one and gets from it, at the same time.
void lists(Rank& rank, std::barrier<>& together) {
  constexpr int kLists = 300;
  std::mt19937_64 random(static_cast<unsigned>(rank.rank));
  const auto source = support::distinct_bytes(kBytes, 1);
  rank.upload(rank.ordinary + kSource, source);
  for (int i = 0; i < kLists; ++i) {
    const std::vector<symm_piece_t> pieces = drawn(random);
    clear(rank, rank.block);
    clear(rank, rank.ordinary + kSeen);
    const bool by_device = i % 2 == 1;
    const Pieces list = by_device ? Pieces(on_device(rank, pieces)).on_device() : Pieces(pieces);
    rank.settle(together);

    rank.memory.put_pieces(rank.next(), 0, source_of(rank), list.with_signal(0), {}, rank.stream);
    rank.memory.wait_signal(rank.last(), 0, {}, rank.stream);
    // This rank alone has written the block of the next one.
    std::vector<std::byte> expected(kBytes);
    support::copy_as_said(expected.data(), source.data(), pieces);
    expect(fetched(rank, kBytes) == expected,
        who(rank, "list " + std::to_string(i) + (by_device ? " on the device" : "")));
    rank.settle(together);
  }
}

// 100,000 short lists, of which 64 are put at a time, each to a part of the block of its own, and
// then compared. In every other turn the device reads them.
void very_many(Rank& rank, std::barrier<>& together) {
  constexpr size_t kPart = 4096;
  constexpr size_t kParts = 64;
  constexpr size_t kAll = kParts * kPart;
  const size_t lists = std::getenv("SYMM_GPU_AMOUNT") != nullptr ? 2'000 : 100'000;
  support::PieceLists draw(static_cast<uint64_t>(rank.rank), kPart);
  const auto source = support::distinct_bytes(kPart, 1);
  rank.upload(rank.ordinary + kSource, source);
  const Span<const std::byte> from(
      reinterpret_cast<const std::byte*>(rank.ordinary + kSource), kPart);
  for (size_t turn = 0; turn * kParts < lists; ++turn) {
    std::vector<symm_piece_t> all;
    std::vector<size_t> ends;
    std::vector<std::byte> expected(kAll);
    for (size_t part = 0; part < kParts; ++part) {
      const std::vector<symm_piece_t> pieces = draw.draw();
      support::copy_as_said(&expected[part * kPart], source.data(), pieces);
      all.insert(all.end(), pieces.begin(), pieces.end());
      ends.push_back(all.size());
    }
    const bool by_device = turn % 2 == 1 && !all.empty();
    const Span<const symm_piece_t> there =
        by_device ? on_device(rank, all) : Span<const symm_piece_t>(all);
    cuda(cudaMemsetAsync(rank.block, 0, kAll, rank.stream), "memset");
    rank.settle(together);

    for (size_t part = 0; part < kParts; ++part) {
      const size_t first = part == 0 ? 0 : ends[part - 1];
      const Pieces list(there.subspan(first, ends[part] - first));
      rank.memory.put_pieces(rank.next(), part * kPart, from,
          by_device ? Pieces(list).on_device() : list, {}, rank.stream);
    }
    expect(fetched(rank, kAll) == expected, who(rank, "lists of turn " + std::to_string(turn)));
    rank.settle(together);
  }
}

void pages(Rank& rank, std::barrier<>& together) {
  support::PieceLists draw(static_cast<uint64_t>(rank.rank), kBytes);
  const auto source = support::distinct_bytes(kBytes, 2);
  rank.upload(rank.ordinary + kSource, source);
  for (size_t i = 0; i < 60; ++i) {
    const size_t sizes[] = {8, 16, 100, 512, 1000, 4096, 8192, 46'080};
    const size_t page = sizes[i % std::size(sizes)];
    const size_t all = kBytes / page;
    const size_t count = 1 + draw.below(all);
    const std::vector<uint64_t> from = draw.pages(count, all);
    const std::vector<uint64_t> to = draw.pages(count, all);
    clear(rank, rank.block);
    const Pieces list = i % 2 == 0 ? Pieces::pages(page, from, to)
                                   : Pieces::pages(page, on_device(rank, from),
                                         on_device(rank, to, kList + (8 << 20)))
                                         .on_device();
    rank.settle(together);
    rank.memory.put_pieces(rank.next(), 0, source_of(rank), list.with_signal(0), {}, rank.stream);
    rank.memory.wait_signal(rank.last(), 0, {}, rank.stream);
    rank.settle(together);

    std::vector<std::byte> expected(kBytes);
    for (size_t n = 0; n < count; ++n) {
      support::copy_as_said(
          expected.data(), source.data(), {from[n] * page, to[n] * page, page, 1, 0, 0});
    }
    // Each rank has drawn a list of its own, so it looks where it has written.
    const Span<std::byte> seen(reinterpret_cast<std::byte*>(rank.ordinary + kSeen), kBytes);
    rank.memory.get(rank.next(), 0, seen, {}, rank.stream);
    expect(bytes_at(rank, rank.ordinary + kSeen) == expected,
        who(rank, "pages of " + std::to_string(page)));
    rank.settle(together);
  }
}

// A graph keeps a short list of the host; of a list on the device it takes what is there at each
// replay, and as many pieces as the number says. Signals count replays.
void graphs(Rank& rank, std::barrier<>& together) {
  const auto source = support::distinct_bytes(kBytes, 3);
  rank.upload(rank.ordinary + kSource, source);
  std::vector<symm_piece_t> kept(32);
  for (uint64_t i = 0; i < kept.size(); ++i) {
    kept[i] = {i * 9000, i * 8192, 8192, 1, 0, 0};
  }
  const size_t most = 2000;
  const Span<const symm_piece_t> list(
      reinterpret_cast<const symm_piece_t*>(rank.ordinary + kList), most);
  const auto* const number = reinterpret_cast<const uint64_t*>(rank.ordinary + kNumber);
  const size_t second = 2 * kBytes;
  rank.settle(together);

  const Graph graph(rank, [&] {
    std::vector<symm_piece_t> passing = kept;
    rank.memory.put_pieces(
        rank.next(), 0, source_of(rank), Pieces(passing).with_signal(0), {}, rank.stream);
    std::fill(passing.begin(), passing.end(), symm_piece_t{});
    rank.memory.put_pieces(rank.next(), second, source_of(rank),
        Pieces(list).on_device(number).with_signal(1), {}, rank.stream);
    rank.memory.wait_signal(rank.last(), 0, {}, rank.stream);
    rank.memory.wait_signal(rank.last(), 1, {}, rank.stream);
  });

  std::mt19937_64 random(static_cast<unsigned>(rank.rank));
  for (int replay = 0; replay < 40; ++replay) {
    std::vector<symm_piece_t> pieces = drawn(random);
    pieces.resize(std::min(pieces.size(), most));
    const size_t count = random() % (pieces.size() + 1);
    rank.upload(rank.ordinary + kList, pieces);
    rank.upload(rank.ordinary + kNumber, std::vector<uint64_t>{count});
    clear(rank, rank.block);
    clear(rank, rank.block + second);
    rank.settle(together);
    graph.replay();
    rank.settle(together);

    const Span<std::byte> seen(reinterpret_cast<std::byte*>(rank.ordinary + kSeen), kBytes);
    std::vector<std::byte> expected(kBytes);
    support::copy_as_said(expected.data(), source.data(), kept);
    rank.memory.get(rank.next(), 0, seen, {}, rank.stream);
    expect(bytes_at(rank, rank.ordinary + kSeen) == expected, who(rank, "the list of the graph"));

    pieces.resize(count);
    std::fill(expected.begin(), expected.end(), std::byte{});
    support::copy_as_said(expected.data(), source.data(), pieces);
    rank.memory.get(rank.next(), second, seen, {}, rank.stream);
    expect(bytes_at(rank, rank.ordinary + kSeen) == expected,
        who(rank, "the list on the device, replay " + std::to_string(replay)));
    rank.settle(together);
  }
}

// A list on the host is the caller's again when the call has returned, though the stream waits.
void passing_lists(Rank& rank, std::barrier<>& together) {
  const auto source = support::distinct_bytes(kBytes, 4);
  rank.upload(rank.ordinary + kSource, source);
  clear(rank, rank.block);
  rank.settle(together);
  constexpr size_t kTimes = 20;
  std::vector<symm_piece_t> pieces(500);
  // Nobody signals channel 2 before all calls have returned.
  rank.memory.wait_signal(rank.rank, 2, {}, rank.stream);
  for (uint64_t time = 0; time < kTimes; ++time) {
    for (uint64_t i = 0; i < pieces.size(); ++i) {
      const uint64_t at = (time * pieces.size() + i) * 100;
      pieces[i] = {at, at, 1 + at / 100 % 100, 1, 0, 0};
    }
    rank.memory.put_pieces(rank.next(), 0, source_of(rank), Pieces(pieces), {}, rank.stream);
  }
  rank.memory.signal(rank.rank, 2, {}, rank.second);
  rank.settle(together);

  std::vector<std::byte> expected(kBytes);
  for (uint64_t n = 0; n < kTimes * pieces.size(); ++n) {
    std::copy_n(&source[n * 100], 1 + n % 100, &expected[n * 100]);
  }
  expect(bytes_at(rank, rank.block) == expected, who(rank, "lists that passed"));
  rank.settle(together);
}

// A page that is not there is named to all ranks, its neighbours are copied, and no signal comes.
void beyond(Rank& rank, std::barrier<>& together) {
  const auto source = support::distinct_bytes(kBytes, 5);
  rank.upload(rank.ordinary + kSource, source);
  clear(rank, rank.block);
  std::vector<uint64_t> table(1000);
  for (uint64_t i = 0; i < table.size(); ++i) {
    table[i] = i;
  }
  table[777] = Rank::kBlock / 512;
  const Span<const uint64_t> there = on_device(rank, table);
  rank.settle(together);
  if (rank.rank == 0) {
    rank.memory.put_pieces(rank.next(), 0, source_of(rank),
        Pieces::pages(512, {}, there).on_device().with_signal(0), {}, rank.stream);
  }
  try {
    rank.memory.wait_signal(rank.last(), 0, {}, rank.stream);
    rank.whole.synchronize(rank.stream);
    expect(false, who(rank, "no signal comes"));
  } catch (const ::symm::Error& error) {
    const std::string message = error.what();
    expect(message.find("call.to_table[777]") != std::string::npos, who(rank, message));
    expect(error.status() == SYMM_ERR_INVALID_ARGUMENT, who(rank, message));
  }
  rank.settle(together);
  if (rank.rank == 1) {
    auto expected = std::vector<std::byte>(source.begin(), source.begin() + 1000 * 512);
    std::fill_n(expected.begin() + 777 * 512, 512, std::byte{});
    expected.resize(kBytes);
    expect(bytes_at(rank, rank.block) == expected, who(rank, "all other pages are there"));
  }
  rank.settle(together);
}

TEST(PieceLists, AreCopiedAsMemcpyWould) { run_ranks(machine().ranks, lists); }

TEST(PieceLists, OfAnyKindAreCopiedAsMemcpyWould) { run_ranks(machine().ranks, very_many); }

TEST(PieceLists, OfPages) { run_ranks(machine().ranks, pages); }

TEST(PieceLists, InGraphs) { run_ranks(machine().ranks, graphs); }

TEST(PieceLists, BelongToTheCallerBehindTheCall) { run_ranks(machine().ranks, passing_lists); }

TEST(PieceLists, NameAPageThatIsNotThere) { run_ranks(machine().ranks, beyond); }
}  // namespace
}  // namespace gpu
