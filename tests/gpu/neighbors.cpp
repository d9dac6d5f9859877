// Exchanges of neighbours on real GPUs: random meshes, long lists that many blocks share, in graphs
// that are replayed between other calls; and what is told of a neighbour that does not come. Prints
// how long a round of halos takes, beside a put of pieces with a signal to each neighbour.
#include "tests/gpu/world.hpp"
#include "tests/support/exchange_mesh.hpp"

namespace gpu {
namespace {
using Bytes = std::vector<std::byte>;
using support::copy_as_said;
using support::ExchangeMesh;

// A run with less of everything, for kernels that are tried in more ways.
bool is_small() { return std::getenv("SYMM_GPU_AMOUNT") != nullptr; }

Bytes pattern(size_t bytes, uint64_t seed) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(seed * 167 + i * 31 + (i >> 8) * 7);
  }
  return made;
}

// Rounds with nothing but the exchange between ranks; some are a graph's. Each result is read
// behind the finish, in the stream.
void meshes(Rank& rank, std::barrier<>& together) {
  const uint64_t all = is_small() ? 4 : 15;
  for (uint64_t seed = 0; seed < all; ++seed) {
    const ExchangeMesh mesh(rank.size, seed + static_cast<uint64_t>(rank.size) * 100);
    std::vector<symm_neighbor_t> neighbors =
        mesh.neighbors_of(rank.rank, rank.memory, Bytes(ExchangeMesh::kArea));
    for (symm_neighbor_t& neighbor : neighbors) {
      neighbor.source = rank.ordinary;
    }
    const ::symm::NeighborExchange exchange = rank.whole.exchange(neighbors);
    Bytes expected(mesh.block_bytes());
    cuda(cudaMemsetAsync(rank.block, 0, expected.size(), rank.stream), "zeros");
    rank.settle(together);
    const auto body = [&] {
      exchange.start({}, rank.stream);
      exchange.finish({}, rank.stream);
    };
    const Graph graph(rank, body);
    rank.settle(together);

    for (uint64_t round = 1; round <= 20; ++round) {
      rank.upload(rank.ordinary, ExchangeMesh::source_of(static_cast<size_t>(rank.rank), round));
      if (round % 3 == 0) {
        body();
      } else {
        graph.replay();
      }
      mesh.do_round(rank.rank, round, expected);
      expect(rank.download<std::byte>(rank.block, expected.size()) == expected,
          who(rank, "mesh " + std::to_string(seed) + ", round " + std::to_string(round)));
    }
    rank.settle(together);
  }
}

// One row of some megabytes, which goes in bulk, strided rows and a thousand short pieces, to the
// next rank and to the last one.
void long_lists(Rank& rank, std::barrier<>& together) {
  constexpr size_t kArea = size_t{8} << 20;
  constexpr size_t kLong = (size_t{5} << 20) + 16;
  std::vector<symm_piece_t> pieces{{16, 0, kLong, 1, 0, 0}, {0, kLong, 24, 20'000, 100, 40},
      {7, kLong + 1'000'000, 70'000, 9, 80'000, 70'001}};
  for (uint64_t i = 0; i < 1000; ++i) {
    pieces.push_back({i * 3, kLong + 2'000'000 + i * 8, 1 + i % 8, 1, 0, 0});
  }
  size_t bytes = 0;
  for (const symm_piece_t& piece : pieces) {
    bytes += piece.bytes * piece.rows;
  }

  // Rank r has what comes from the last rank first, and then what comes from the next one.
  const bool has_two = rank.next() != rank.last();
  const auto putting = [&](int peer, size_t at) {
    return ::symm::neighbor(
        peer, rank.memory, at, ::symm::Span(rank.ordinary, kArea), pieces, bytes);
  };
  std::vector<symm_neighbor_t> neighbors{putting(rank.next(), 0)};
  if (has_two) neighbors.push_back(putting(rank.last(), kArea));
  const ::symm::NeighborExchange exchange = rank.whole.exchange(neighbors);
  const size_t areas = has_two ? 2 : 1;
  Bytes expected(areas * kArea);
  cuda(cudaMemsetAsync(rank.block, 0, expected.size(), rank.stream), "zeros");
  rank.settle(together);

  const uint64_t rounds = is_small() ? 3 : 12;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const auto seed = [&](int of) { return round * 100 + static_cast<uint64_t>(of); };
    rank.upload(rank.ordinary, pattern(kArea, seed(rank.rank)));
    exchange.start({}, rank.stream);
    exchange.finish({}, rank.stream);
    copy_as_said(expected.data(), pattern(kArea, seed(rank.last())).data(), pieces);
    if (has_two) {
      copy_as_said(expected.data() + kArea, pattern(kArea, seed(rank.next())).data(), pieces);
    }
    expect(rank.download<std::byte>(rank.block, expected.size()) == expected,
        who(rank, "round " + std::to_string(round)));
  }
  rank.settle(together);
}

// The start of a rank that is ahead ends, and its finish gives up at the deadline.
void nobody_starts(Rank& rank, std::barrier<>& together) {
  static constexpr symm_piece_t kWord = {0, 0, 8, 1, 0, 0};
  const auto word = [&](int peer) {
    return ::symm::neighbor(peer, rank.memory, 0, ::symm::Span(rank.ordinary, 8), {&kWord, 1}, 8);
  };
  std::vector<symm_neighbor_t> neighbors;
  if (rank.rank < 2) neighbors.push_back(word(1 - rank.rank));
  const ::symm::NeighborExchange exchange = rank.whole.exchange(neighbors);
  rank.settle(together);
  if (rank.rank == 0) {
    exchange.start({}, rank.stream);
    expect(symm_group_synchronize(rank.group, rank.stream, nullptr) == SYMM_OK, "a start");
    exchange.finish({}, rank.stream);
    const symm_status_t status = symm_group_synchronize(rank.group, rank.stream, nullptr);
    expect(status == SYMM_ERR_TIMEOUT, who(rank, symm_last_error()));
    for (const char* said : {"round 1", "rank 1", "has not started it"}) {
      expect(std::strstr(symm_last_error(), said) != nullptr, symm_last_error());
    }
  }
  rank.settle(together);
}

// Six faces of a cube of doubles, of which half go to the next rank and half to the last one.
void times(Rank& rank, std::barrier<>& together) {
  constexpr int kCalls = 20;
  constexpr uint64_t kSide = 130;  // with the halo
  constexpr uint64_t kCell = sizeof(double);
  constexpr uint64_t kRow = kSide * kCell;
  constexpr uint64_t kPlane = kSide * kRow;
  constexpr uint64_t kCube = kSide * kPlane;
  constexpr uint64_t kInside = kSide - 2;
  static_assert(kCube <= Rank::kBlock);
  // From the layer at the edge of the source to the halo of the block, low and high of each axis.
  const auto faces = [&](bool low) {
    const uint64_t from = low ? 1 : kInside;
    const uint64_t to = low ? kInside + 1 : 0;
    std::vector<symm_piece_t> pieces{{from * kPlane + kRow + kCell, to * kPlane + kRow + kCell,
                                         kInside * kCell, kInside, kRow, kRow},
        {kPlane + from * kRow + kCell, kPlane + to * kRow + kCell, kInside * kCell, kInside, kPlane,
            kPlane}};
    for (uint64_t plane = 1; plane <= kInside; ++plane) {
      const uint64_t at = plane * kPlane + kRow;
      pieces.push_back({at + from * kCell, at + to * kCell, kCell, kInside, kRow, kRow});
    }
    return pieces;
  };
  const std::vector<symm_piece_t> lists[] = {faces(true), faces(false)};
  const int peers[] = {rank.last(), rank.next()};
  const size_t bytes = 3 * kInside * kInside * kCell;
  const ::symm::Span source(rank.ordinary, kCube);
  std::vector<symm_neighbor_t> neighbors;
  const bool is_pair = peers[0] == peers[1];
  for (int i = 0; i < 2; ++i) {
    neighbors.push_back(::symm::neighbor(peers[i], rank.memory, 0, source, lists[i], bytes));
  }
  const ::symm::NeighborExchange exchange = rank.whole.exchange(neighbors);

  const auto measure = [&](const std::function<void()>& body) {
    rank.settle(together);
    const Graph graph(rank, body);
    rank.settle(together);
    graph.replay();
    rank.settle(together);
    const auto start = std::chrono::steady_clock::now();
    graph.replay();
    rank.wait();
    const double us = 1e6 * seconds_since(start) / kCalls;
    rank.settle(together);
    return us;
  };
  const double rounds = measure([&] {
    for (int i = 0; i < kCalls; ++i) {
      exchange.start({}, rank.stream);
      exchange.finish({}, rank.stream);
    }
  });

  // What a program without exchanges would do: tell neighbours that they may write, wait for that,
  // put the pieces, whose list is too long for a graph unless it is in memory of the device.
  char* list = rank.ordinary + (Rank::kBlock - (size_t{1} << 20));
  for (int i = 0; i < 2; ++i) {
    rank.upload(list + i * (512 << 10), lists[i]);
  }
  const double puts = measure([&] {
    for (int call = 0; call < kCalls; ++call) {
      for (int i = 0; i < (is_pair ? 1 : 2); ++i) {
        rank.memory.signal(peers[i], 0, {}, rank.stream);
      }
      for (int i = 0; i < (is_pair ? 1 : 2); ++i) {
        rank.memory.wait_signal(peers[i], 0, {}, rank.stream);
      }
      for (int i = 0; i < 2; ++i) {
        symm_pieces_call_t given = SYMM_PIECES_CALL_INIT;
        given.pieces = reinterpret_cast<const symm_piece_t*>(list + i * (512 << 10));
        given.count = lists[i].size();
        given.flags = SYMM_PIECES_ON_DEVICE | SYMM_PIECES_SIGNAL;
        given.channel = 1 + i;
        given.op = SYMM_SIGNAL_ADD;
        given.value = 1;
        const symm_status_t status = symm_put_pieces(
            rank.memory.get(), peers[i], 0, rank.ordinary, kCube, &given, nullptr, rank.stream);
        if (status != SYMM_OK) give_up(symm_last_error());
      }
      for (int i = 0; i < 2; ++i) {
        rank.memory.wait_signal(peers[1 - i], 1 + i, {}, rank.stream);
      }
    }
  });
  if (rank.rank != 0) return;
  std::printf(
      "six faces of 128^3 doubles: %.2f us a round, %.2f us by puts of pieces and signals\n",
      rounds, puts);
}

TEST(Neighbors, OfRandomMeshesAreAsMemcpyWouldBe) { run_ranks(machine().ranks, meshes); }

TEST(Neighbors, OfLongListsAreAsMemcpyWouldBe) { run_ranks(machine().ranks, long_lists); }

TEST(Neighbors, ThatDoNotStartAreTold) { run_ranks(machine().ranks, nobody_starts, 1000); }

TEST(Neighbors, Times) {
  if (is_small()) GTEST_SKIP() << "a small run";
  run_ranks(machine().ranks, times);
}
}  // namespace
}  // namespace gpu
