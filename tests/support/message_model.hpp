// Messages that ranks draw at random, and what must come of them. All ranks draw the same from one
// seed.
#pragma once

#include "tests/support/group.hpp"

namespace support {
using Bytes = std::vector<std::byte>;

// The contents of a message: any two differ in each byte, nearly always.
inline void write_pattern(std::byte* to, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<std::byte>((seed * 167 + i * 31 + (i >> 8)) & 0xFF);
  }
}

inline bool has_pattern(const std::byte* at, size_t bytes, uint64_t seed) {
  Bytes expected(bytes);
  write_pattern(expected.data(), bytes, seed);
  return std::equal(expected.begin(), expected.end(), at);
}

// Messages that fit into a slot, that are left in the data area, and longer ones, about each limit.
inline constexpr size_t kLengths[] = {0, 1, 8, 43, 44, 45, 64, 1000, 4095, 4096, 4097, 8191, 8192,
    8193, 16'383, 16'384, 16'385, 65'536, 100'001, 262'144, 300'000};

// ---- a model

struct PlannedMessage {
  int from;
  int to;
  int channel;
  size_t bytes;
  size_t room;
  bool symmetric_source;
  bool symmetric_destination;
  uint64_t seed;
};

// The messages of a round, of which all ranks draw the same.
inline std::vector<PlannedMessage> draw_messages(std::mt19937_64& random, int ranks, int channels) {
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  std::vector<PlannedMessage> all(below(60));
  for (PlannedMessage& one : all) {
    const bool is_huge = below(100) == 0;
    const size_t bytes =
        is_huge ? (size_t{4} << 20) + below(9) : kLengths[below(std::size(kLengths))];
    one = {static_cast<int>(below(static_cast<size_t>(ranks))),
        static_cast<int>(below(static_cast<size_t>(ranks))),
        static_cast<int>(below(static_cast<size_t>(channels))), bytes,
        bytes + (below(2) == 0 ? 0 : below(100)), !is_huge && below(3) == 0,
        !is_huge && below(3) == 0, random()};
  }
  return all;
}

// A side of a planned message.
struct PlannedSide {
  const PlannedMessage* planned;
  bool is_send;
  std::byte* data;
};

// What is modelled: on GPUs messages are as long as the room for them, and go on a stream.
struct MessageModel {
  bool on_stream = false;
  void* stream = nullptr;
};

class RankOfMessageModel {
 public:
  RankOfMessageModel(const Group& group, int rank, uint64_t seed, const MessageModel& model)
      : group_(group), rank_(rank), model_(model), own_(seed * 1000 + static_cast<uint64_t>(rank)) {
    block_ = allocate(group, kBlock);
  }

  void make(const std::vector<PlannedMessage>& all) {
    std::vector<PlannedSide> sides;
    private_.clear();
    used_ = 0;
    for (const PlannedMessage& one : all) {
      if (one.from == rank_) add(sides, one, true);
      if (one.to == rank_) add(sides, one, false);
    }

    shuffle(sides);
    std::vector<symm_message_t> messages;
    for (const PlannedSide& side : sides) {
      const PlannedMessage& one = *side.planned;
      if (side.is_send) {
        messages.push_back(symm::sending(one.to, symm::Span(side.data, one.bytes), one.channel));
      } else {
        messages.push_back(
            symm::receiving(one.from, symm::Span(side.data, room(one)), one.channel));
      }
    }

    const std::vector<size_t> lengths = group_.messages(messages, {}, model_.stream);
    if (model_.on_stream) group_.synchronize(model_.stream);
    for (size_t i = 0; i < sides.size(); ++i) {
      expect(sides[i], lengths[i]);
    }
  }

 private:
  static constexpr size_t kBlock = size_t{8} << 20;

  size_t room(const PlannedMessage& one) const { return model_.on_stream ? one.bytes : one.room; }

  void add(std::vector<PlannedSide>& sides, const PlannedMessage& one, bool is_send) {
    const size_t bytes = is_send ? one.bytes : room(one);
    const bool symmetric = is_send ? one.symmetric_source : one.symmetric_destination;
    std::byte* data = nullptr;
    if (symmetric && used_ + bytes <= kBlock) {
      data = block_.at<std::byte>(rank_) + used_;
      used_ += bytes;
    } else {
      private_.emplace_back(bytes);
      data = private_.back().data();
    }
    if (is_send) write_pattern(data, bytes, one.seed);
    if (!is_send) std::fill_n(data, bytes, std::byte{0xA5});
    sides.push_back({&one, is_send, data});
  }

  // Puts the sides in any order that keeps the order of each flow.
  void shuffle(std::vector<PlannedSide>& sides) {
    std::vector<size_t> order(sides.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), own_);

    using Flow = std::tuple<bool, int, int>;
    const auto flow_of = [](const PlannedSide& side) {
      const PlannedMessage& one = *side.planned;
      return Flow(side.is_send, side.is_send ? one.to : one.from, one.channel);
    };
    std::map<Flow, std::vector<size_t>> places;
    for (size_t i = 0; i < order.size(); ++i) {
      places[flow_of(sides[order[i]])].push_back(i);
    }
    std::map<Flow, size_t> next;
    std::vector<PlannedSide> shuffled(sides.size());
    for (const PlannedSide& side : sides) {
      const Flow flow = flow_of(side);
      shuffled[places[flow][next[flow]++]] = side;
    }
    sides = std::move(shuffled);
  }

  void expect(const PlannedSide& side, size_t length) const {
    const PlannedMessage& one = *side.planned;
    ASSERT_EQ(length, one.bytes) << (side.is_send ? "sent" : "received");
    ASSERT_TRUE(has_pattern(side.data, one.bytes, one.seed))
        << one.bytes << " bytes from " << one.from << " to " << one.to << " on " << one.channel;
    if (side.is_send) return;
    const auto is_untouched = [](std::byte byte) { return byte == std::byte{0xA5}; };
    ASSERT_TRUE(std::all_of(side.data + one.bytes, side.data + room(one), is_untouched))
        << "behind the message";
  }

  const Group& group_;
  const int rank_;
  const MessageModel model_;
  std::mt19937_64 own_;
  Block block_;
  std::deque<Bytes> private_;
  size_t used_ = 0;
};

inline void follow_the_model(int ranks, int rank, const Group& group, int rounds, uint64_t seed,
    const MessageModel& model = {}) {
  std::mt19937_64 random(seed);
  RankOfMessageModel mine(group, rank, seed, model);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + " of seed " + std::to_string(seed));
    // Most rounds have so few flows that these are long.
    mine.make(draw_messages(random, ranks, round % 4 == 0 ? 64 : 2));
    if (testing::Test::HasFatalFailure()) return;
  }
  if (model.on_stream) return group.finalize();
  group.barrier();
}
}  // namespace support
