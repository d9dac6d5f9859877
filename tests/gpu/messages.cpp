// Messages between ranks, drawn at random, round a ring and from all to all, also in graphs that
// are replayed between other calls; and what is told of those that do not come. Prints how long
// messages take there and back.
#include "tests/gpu/world.hpp"

namespace gpu {
namespace {
using Bytes = std::vector<uint8_t>;

// A run with less of everything, for kernels that are tried in more ways.
bool is_small() { return std::getenv("SYMM_GPU_AMOUNT") != nullptr; }

Bytes pattern(size_t bytes, uint64_t seed) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<uint8_t>(seed * 167 + i * 31 + (i >> 8) * 7);
  }
  return made;
}

struct Planned {
  int from;
  int to;
  int channel;
  size_t bytes;
  uint64_t seed;
  // Where the sides lie, and how far from a multiple of 256 bytes.
  bool in_block[2];
  size_t shift[2];
};

// The messages of a round, which all ranks draw alike.
std::vector<Planned> draw(std::mt19937_64& random, int ranks) {
  static constexpr size_t kLengths[] = {
      0, 1, 4, 15, 16, 17, 1000, 4096, 65'535, 65'536, 65'537, 262'144, 1'000'001};
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  std::vector<Planned> all(below(40));
  for (Planned& one : all) {
    size_t bytes = kLengths[below(std::size(kLengths))];
    if (below(60) == 0) bytes = (size_t{8} << 20) + below(100);
    const auto ends = static_cast<size_t>(ranks);
    one = {static_cast<int>(below(ends)), static_cast<int>(below(ends)), static_cast<int>(below(3)),
        bytes, random(), {below(2) == 0, below(2) == 0},
        {below(3) * below(33), below(3) * below(33)}};
  }
  return all;
}

// Gives out places in a rank's two memories.
class Places {
 public:
  explicit Places(const Rank& rank) : rank_(rank) {}

  // Null: there is no room.
  char* take(bool in_block, size_t bytes, size_t shift) {
    size_t& used = used_[in_block ? 1 : 0];
    const size_t at = used + shift;
    used = (at + bytes + 255) / 256 * 256;
    if (used > Rank::kBlock) return nullptr;
    return (in_block ? rank_.block : rank_.ordinary) + at;
  }

 private:
  const Rank& rank_;
  size_t used_[2] = {};
};

// One round; whether all messages were right.
bool pass(const Rank& rank, const std::vector<Planned>& all, std::mt19937_64& own) {
  struct Received {
    const char* at;
    const Planned* planned;
  };
  Places places(rank);
  std::vector<symm_message_t> sides;
  std::vector<Received> received;
  for (const Planned& one : all) {
    for (const bool sends : {true, false}) {
      if ((sends ? one.from : one.to) != rank.rank) continue;
      char* const at =
          places.take(one.in_block[sends ? 0 : 1], one.bytes, one.shift[sends ? 0 : 1]);
      if (at == nullptr) give_up("the round does not fit");
      if (sends) {
        rank.upload(at, pattern(one.bytes, one.seed));
        sides.push_back(::symm::sending(one.to, ::symm::Span(at, one.bytes), one.channel));
      } else {
        cuda(cudaMemsetAsync(at, 0xA5, one.bytes, rank.stream), "poison");
        sides.push_back(::symm::receiving(one.from, ::symm::Span(at, one.bytes), one.channel));
        received.push_back({at, &one});
      }
    }
  }

  // Another order, which keeps that of each flow: first all receives, or first all sends.
  if (own() % 2 == 0) {
    std::stable_sort(sides.begin(), sides.end(),
        [](const symm_message_t& a, const symm_message_t& b) { return a.kind > b.kind; });
  }
  rank.whole.messages(sides, {}, rank.stream);

  bool right = true;
  for (const Received& one : received) {
    const Planned& planned = *one.planned;
    right = right &&
            rank.download<uint8_t>(one.at, planned.bytes) == pattern(planned.bytes, planned.seed);
  }
  return right;
}

void model(Rank& rank, std::barrier<>& together) {
  std::mt19937_64 random(static_cast<unsigned>(rank.size));
  std::mt19937_64 own(static_cast<unsigned>(rank.rank));
  const int rounds = is_small() ? 8 : 40;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Planned> all = draw(random, rank.size);
    expect(pass(rank, all, own), who(rank, "round " + std::to_string(round)));
  }
  rank.settle(together);
}

// A graph sends other bytes round the ring each time, into both kinds of memory, and eager calls go
// between.
void ring(Rank& rank, std::barrier<>& together) {
  constexpr size_t kBytes = 700'001;
  char* const out = rank.ordinary;
  char* const in[] = {rank.ordinary + (size_t{8} << 20), rank.block + 12};
  const auto body = [&] {
    std::vector<symm_message_t> sides;
    for (const int channel : {0, 1}) {
      sides.push_back(::symm::sending(rank.next(), ::symm::Span(out, kBytes), channel));
      sides.push_back(::symm::receiving(rank.last(), ::symm::Span(in[channel], kBytes), channel));
    }
    rank.whole.messages(sides, {}, rank.stream);
  };
  rank.settle(together);
  const Graph graph(rank, body);
  rank.settle(together);

  const int rounds = is_small() ? 20 : 200;
  for (int round = 0; round < rounds; ++round) {
    const auto seed = [&](int of) { return static_cast<uint64_t>(round * rank.size + of); };
    rank.upload(out, pattern(kBytes, seed(rank.rank)));
    cuda(cudaMemsetAsync(in[0], 0xA5, kBytes, rank.stream), "poison");
    cuda(cudaMemsetAsync(in[1], 0xA5, kBytes, rank.stream), "poison");
    if (round % 5 == 4) {
      body();
    } else {
      graph.replay();
    }
    const Bytes wanted = pattern(kBytes, seed(rank.last()));
    for (const char* at : in) {
      expect(rank.download<uint8_t>(at, kBytes) == wanted,
          who(rank, "round " + std::to_string(round)));
    }
  }
  rank.settle(together);
}

// Parts of all lengths, from all to all at once, with more sides than a kernel's arguments hold.
void all_to_all(Rank& rank, std::barrier<>& together) {
  const auto length = [&](int from, int to, int part) {
    return static_cast<size_t>((from * 7 + to * 3 + part) % 9) * 15'001;
  };
  Places places(rank);
  std::vector<symm_message_t> sides;
  std::vector<std::pair<const char*, Bytes>> wanted;
  const int parts = std::max(1, 96 / rank.size);
  const auto seed = [&](int from, int to, int part) {
    return static_cast<uint64_t>((from * rank.size + to) * parts + part);
  };
  for (int peer = 0; peer < rank.size; ++peer) {
    for (int part = 0; part < parts; ++part) {
      const size_t out = length(rank.rank, peer, part);
      char* const from = places.take(false, out, 0);
      const size_t in = length(peer, rank.rank, part);
      char* const to = places.take(part % 2 == 0, in, 0);
      if (from == nullptr || to == nullptr) give_up("the parts do not fit");
      rank.upload(from, pattern(out, seed(rank.rank, peer, part)));
      sides.push_back(::symm::sending(peer, ::symm::Span(from, out)));
      sides.push_back(::symm::receiving(peer, ::symm::Span(to, in)));
      wanted.emplace_back(to, pattern(in, seed(peer, rank.rank, part)));
    }
  }
  rank.whole.messages(sides, {}, rank.stream);
  for (const auto& [at, bytes] : wanted) {
    expect(rank.download<uint8_t>(at, bytes.size()) == bytes, who(rank, "a part"));
  }
  rank.settle(together);
}

void other_length(Rank& rank, std::barrier<>& together) {
  if (rank.rank == 0) rank.whole.send(1, ::symm::Span(rank.ordinary, 40), 3, {}, rank.stream);
  if (rank.rank == 1) rank.whole.recv(0, ::symm::Span(rank.block, 41), 3, {}, rank.stream);
  const symm_status_t status = symm_group_synchronize(rank.group, rank.stream, nullptr);
  const std::string said = symm_last_error();
  if (rank.rank < 2) {
    expect(status == SYMM_ERR_MISMATCH, who(rank, said));
    expect(said.find("rank 0 sends 40 bytes on channel 3 to rank 1") != std::string::npos, said);
  }
  rank.settle(together);
}

void nobody_sends(Rank& rank, std::barrier<>& together) {
  if (rank.rank == 0) {
    rank.whole.recv(1, ::symm::Span(rank.ordinary, 64), 2, {}, rank.stream);
    const symm_status_t status = symm_group_synchronize(rank.group, rank.stream, nullptr);
    expect(status == SYMM_ERR_TIMEOUT, who(rank, symm_last_error()));
    expect(std::strstr(symm_last_error(), "has sent nothing") != nullptr, symm_last_error());
  }
  rank.settle(together);
}

// Half of the time that a message takes to the next rank and back, by graphs of single calls; and
// how long it takes when all ranks send and receive at a time.
void times(Rank& rank, std::barrier<>& together) {
  constexpr int kCalls = 20;
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
  for (const size_t bytes : {size_t{8}, size_t{8} << 10, size_t{1} << 20, size_t{16} << 20}) {
    for (const bool in_block : {true, false}) {
      char* const room = in_block ? rank.block : rank.ordinary + Rank::kBlock / 2;
      const ::symm::Span in(room, bytes);
      const ::symm::Span out(rank.ordinary, bytes);
      const double there_and_back = measure([&] {
        for (int i = 0; i < kCalls && rank.rank < 2; ++i) {
          if (rank.rank == 0) rank.whole.send(1, out, 0, {}, rank.stream);
          rank.whole.recv(1 - rank.rank, in, 0, {}, rank.stream);
          if (rank.rank == 1) rank.whole.send(0, out, 0, {}, rank.stream);
        }
      });
      const double round_the_ring = measure([&] {
        const std::vector<symm_message_t> sides{
            ::symm::sending(rank.next(), out), ::symm::receiving(rank.last(), in)};
        for (int i = 0; i < kCalls; ++i) {
          rank.whole.messages(sides, {}, rank.stream);
        }
      });
      if (rank.rank != 0) continue;
      std::printf("%9zu bytes into %s memory: %.2f us one way, %.2f us round the ring\n", bytes,
          in_block ? "symmetric" : "private", there_and_back / 2, round_the_ring);
    }
  }
}

TEST(Messages, AreAsTheModelSays) { run_ranks(machine().ranks, model); }

TEST(Messages, GoRoundARingInGraphs) { run_ranks(machine().ranks, ring); }

TEST(Messages, GoFromAllToAll) { run_ranks(machine().ranks, all_to_all); }

TEST(Messages, OfOtherLengthsAreToldOnBothRanks) { run_ranks(machine().ranks, other_length); }

TEST(Messages, ThatDoNotComeAreTold) { run_ranks(machine().ranks, nobody_sends, 1000); }

TEST(Messages, Times) {
  if (is_small()) GTEST_SKIP() << "a small run";
  run_ranks(machine().ranks, times);
}
}  // namespace
}  // namespace gpu
