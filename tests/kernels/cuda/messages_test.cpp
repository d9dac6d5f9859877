// The kernel of messages, compiled for the host: whatever ranks send to each other, in any order of
// their lists and of their steps, through slots or straight to where it is received, with another
// number of blocks on each rank, comes whole and where it belongs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/args.hpp"
#include "tests/kernels/cuda/world.hpp"

extern "C" void symm_pass_messages(symm::cuda::MessagesArgs args);
#ifndef SYMM_LARGE_GROUPS
extern "C" void symm_list_messages(symm::cuda::ListArgs args);
#endif

namespace symm::cuda::model {
namespace {
constexpr uint32_t kChannels = 3;
constexpr uint64_t kSlot = 64;
constexpr std::byte kUntouched{0xA5};
// Bytes before and behind each place, which nobody may touch.
constexpr size_t kMargin = 32;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

struct Message {
  int from;
  int to;
  uint32_t channel;
  uint64_t bytes;
  bool is_direct;
  uint64_t room;
};

// What ranks pass in one launch each.
class Round {
 public:
  // The places of both sides are not aligned alike, unless the draw says so.
  Round(const std::vector<Message>& all, std::mt19937& random) : all_(all) {
    for (const Message& one : all) {
      out_.emplace_back(one.bytes + kMargin);
      in_.emplace_back(one.room + 2 * kMargin, kUntouched);
      out_at_.push_back(random() % 2 == 0 ? 0 : random() % kMargin);
      in_at_.push_back(kMargin + (random() % 2 == 0 ? 0 : random() % kMargin));
      in_.back().resize(in_at_.back() + one.room + kMargin, kUntouched);
      for (std::byte& byte : out_.back()) {
        byte = static_cast<std::byte>(random());
      }
    }
  }

  uint64_t out(size_t index) const { return address_of(out_[index].data() + out_at_[index]); }
  uint64_t in(size_t index) const { return address_of(in_[index].data() + in_at_[index]); }
  size_t in_at(size_t index) const { return in_at_[index]; }
  const std::vector<std::byte>& block(size_t index) const { return in_[index]; }
  const std::vector<Message>& all() const { return all_; }

  // Returns "" if all messages to a rank, or to any, are where they belong.
  std::string wrong(int rank = -1) const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (rank >= 0 && all_[i].to != rank) continue;
      std::vector<std::byte> expected(in_[i].size(), kUntouched);
      std::copy_n(out_[i].begin() + static_cast<long>(out_at_[i]), all_[i].bytes,
          expected.begin() + static_cast<long>(in_at_[i]));
      if (in_[i] == expected) continue;
      const auto at = std::mismatch(in_[i].begin(), in_[i].end(), expected.begin()).first;
      return "message " + std::to_string(i) + " of " + std::to_string(all_[i].bytes) +
             " bytes is wrong at " + std::to_string(at - in_[i].begin());
    }
    return "";
  }

 private:
  std::vector<Message> all_;
  std::deque<std::vector<std::byte>> out_;
  std::deque<std::vector<std::byte>> in_;
  std::vector<size_t> out_at_;
  std::vector<size_t> in_at_;
};

struct Side {
  size_t message;
  bool is_send;
};

class Passing {
 public:
  Passing(Ranks::Options options, int ranks)
      : n_(ranks),
        random_(options.seed),
        ranks_([&] {
          options.ranks = ranks;
          options.extra = kMessageSlots * kSlot + flow_at(0, ranks, kChannels, 0) + 64;
          return options;
        }()),
        tables_(static_cast<size_t>(ranks)) {}

  Ranks& ranks() { return ranks_; }

  std::vector<Message> draw(size_t most) {
    static constexpr uint64_t kLengths[] = {0, 1, 3, 16, 63, 64, 65, 200, 1000, 5000};
    std::vector<Message> all(random_() % (most + 1));
    for (Message& one : all) {
      uint64_t bytes = kLengths[random_() % std::size(kLengths)];
      if (random_() % 16 == 0) bytes = 2 * kMessagePart + random_() % (2 * kMessagePart);
      one = {below(n_), below(n_), static_cast<uint32_t>(random_() % kChannels), bytes,
          bytes > 20'000 || random_() % 2 == 0, bytes};
    }
    return all;
  }

  // Launches what each rank sends and receives. `absent`: a rank that does not.
  void pass(const std::vector<Message>& all, int absent = -1) {
    const Round& round = rounds_.emplace_back(all, random_);
    for (int rank = 0; rank < n_; ++rank) {
      if (rank != absent) launch(round, rank, sides_of(all, rank));
    }
  }

  std::string run() {
    if (!ranks_.run()) return "nothing goes on";
    for (int rank = 0; rank < n_; ++rank) {
      if (ranks_.record(rank).state != 0) return "trouble";
    }
    for (const Round& round : rounds_) {
      if (std::string wrong = round.wrong(); !wrong.empty()) return wrong;
    }
    return early_;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  // In any order that keeps the order of each flow.
  std::vector<Side> sides_of(const std::vector<Message>& all, int rank) {
    std::map<std::tuple<bool, int, uint32_t>, std::deque<size_t>> flows;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].from == rank) flows[{true, all[i].to, all[i].channel}].push_back(i);
      if (all[i].to == rank) flows[{false, all[i].from, all[i].channel}].push_back(i);
    }
    std::vector<Side> sides;
    while (!flows.empty()) {
      const auto chosen = std::next(flows.begin(), below(static_cast<int>(flows.size())));
      sides.push_back({chosen->second.front(), std::get<0>(chosen->first)});
      chosen->second.pop_front();
      if (chosen->second.empty()) flows.erase(chosen);
    }
    return sides;
  }

  // The memory of a message, of which all ranks know where the others map it.
  uint64_t memory_of(const Round& round, size_t message) {
    const uint64_t id = ++memories_;
    for (int rank = 0; rank < n_; ++rank) {
      auto& table = tables_[static_cast<size_t>(rank)];
      MemoryEntry& entry = table.emplace_back();
      entry.id = id;
      entry.bytes = round.block(message).size();
      entry.block[round.all()[message].to] = address_of(round.block(message).data());
    }
    return id;
  }

  void launch(const Round& round, int rank, const std::vector<Side>& sides) {
    std::vector<SideArgs> list;
    std::map<std::tuple<bool, int, uint32_t>, std::vector<uint16_t>> flows;
    std::vector<size_t> in_slots;
    for (const Side& side : sides) {
      const Message& one = round.all()[side.message];
      SideArgs made{};
      made.channel = static_cast<uint16_t>(one.channel);
      if (one.from == one.to) {
        if (side.is_send) continue;
        made.kind = SideKind::copy;
        made.data = round.out(side.message);
        made.offset = round.in(side.message);
        made.bytes = one.bytes;
        made.peer = static_cast<uint8_t>(rank);
        list.push_back(made);
        continue;
      }

      const int peer = side.is_send ? one.to : one.from;
      auto& flow = flows[{side.is_send, peer, one.channel}];
      made.peer = static_cast<uint8_t>(peer);
      made.kind = side.is_send ? SideKind::send : SideKind::recv;
      made.data = side.is_send ? round.out(side.message) : round.in(side.message);
      made.bytes = side.is_send ? one.bytes : one.room;
      made.number = static_cast<uint16_t>(flow.size());
      made.before = flow.size() < kPosts ? SideArgs::kNone : flow[flow.size() - kPosts];
      if (!side.is_send && one.room != 0 && one.is_direct) {
        made.memory = memory_of(round, side.message);
        made.offset = round.in_at(side.message);
      } else if (!side.is_send && one.room != 0) {
        in_slots.push_back(list.size());
      }
      flow.push_back(static_cast<uint16_t>(list.size()));
      list.push_back(made);
    }

    for (const auto& [name, flow] : flows) {
      list[flow.back()].is_last = 1;
    }
    // Sometimes so few that slots are used many times.
    const bool has_few = random_() % 2 == 0;
    for (size_t i = 0; i < in_slots.size(); ++i) {
      const auto each = static_cast<uint32_t>(kMessageSlots / in_slots.size());
      list[in_slots[i]].offset =
          SlotRange{static_cast<uint32_t>(i) * each, has_few ? std::min(each, 3U) : each}.offset();
    }
    launch(rank, list);
  }

  void launch(int rank, const std::vector<SideArgs>& list) {
    MessagesArgs args{};
    args.comm = ranks_.comm(rank);
    args.comm.stage[0] = (ranks_.extra_at() + 63) / 64 * 64;
    args.words = args.comm.stage[0] + kMessageSlots * kSlot;
    args.slot = kSlot;
    args.count = static_cast<uint32_t>(list.size());
#ifndef SYMM_LARGE_GROUPS
    args.is_listed = list.size() > kSidesInside || random_() % 3 == 0 ? 1 : 0;
    for (size_t at = 0; args.is_listed != 0 && at < list.size(); at += kSidesInside) {
      const size_t part = std::min<size_t>(kSidesInside, list.size() - at);
      ListArgs lists{args.comm.control[rank] + args.words + offsetof(MessageWords, list) +
                         at * sizeof(SideArgs),
          part, {}};
      std::copy_n(list.begin() + static_cast<long>(at), part, lists.side);
      ranks_.launch(rank, [lists](const CollectiveArgs&) { symm_list_messages(lists); }, {}, 1);
    }
#endif
    if (args.is_listed == 0) std::copy(list.begin(), list.end(), args.side);
    // What a rank's launches have received is there when the next one begins.
    const Round* const before = rounds_.size() > 1 ? &rounds_[rounds_.size() - 2] : nullptr;
    const unsigned blocks = 1 + static_cast<unsigned>(random_()) % 3;
    ranks_.launch(
        rank,
        [this, args, rank, before](const CollectiveArgs&) mutable {
          if (before != nullptr && early_.empty()) early_ = before->wrong(rank);
          const auto& table = tables_[static_cast<size_t>(rank)];
          args.comm.memories = address_of(table.data());
          args.comm.memory_count = static_cast<int32_t>(table.size());
          symm_pass_messages(args);
        },
        {}, blocks);
  }

  int n_;
  std::mt19937 random_;
  Ranks ranks_;
  std::deque<Round> rounds_;
  std::vector<std::vector<MemoryEntry>> tables_;
  uint64_t memories_ = 0;
  std::string early_;
};

Ranks::Options options_of(unsigned seed) { return {.seed = seed, .threads = 1 + seed % 3 * 2}; }

TEST(MessageKernel, PassesWhateverIsDrawn) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      Passing passing(options_of(seed), ranks);
      if (seed % 3 == 0) passing.ranks().hold(static_cast<int>(seed) % ranks, seed * 7, 40'000);
      for (int round = 0; round < 4; ++round) {
        passing.pass(passing.draw(round == 0 ? 40 : 8));
      }
      ASSERT_EQ(passing.run(), "") << ranks << " ranks, seed " << seed;
    }
  }
}

// Many messages of one flow, more than are posted at a time, in launches of unequal lengths.
TEST(MessageKernel, KeepsTheOrderOfAFlow) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Passing passing(options_of(seed), 2);
    for (const size_t count : {size_t{1}, size_t{30}, size_t{7}, size_t{13}}) {
      std::vector<Message> all;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t bytes = 8 + i * 5 + seed;
        all.push_back({0, 1, 1, bytes, i % 3 == 0, bytes});
      }
      passing.pass(all);
    }
    ASSERT_EQ(passing.run(), "") << "seed " << seed;
  }
}

#ifndef SYMM_LARGE_GROUPS
// Far more sides than arguments hold.
TEST(MessageKernel, TakesLongLists) {
  Passing passing(options_of(1), 2);
  std::vector<Message> all;
  for (uint64_t i = 0; i < 300; ++i) {
    all.push_back({static_cast<int>(i % 2), static_cast<int>(i / 2 % 2), 0, 40, i % 4 < 2, 40});
  }
  passing.pass(all);
  passing.pass(all);
  EXPECT_EQ(passing.run(), "");
}
#endif

// Both ranks record both lengths.
TEST(MessageKernel, RefusesOtherLengthsOnBothSides) {
  for (const bool is_direct : {false, true}) {
    for (const uint64_t room : {uint64_t{90}, uint64_t{400'000}, uint64_t{0}}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        Ranks::Options options = options_of(seed);
        options.timeout_ns = 500'000;
        Passing passing(options, 2);
        passing.pass({{0, 1, 2, 100, is_direct, room}, {1, 0, 0, 50, is_direct, 50}});
        ASSERT_TRUE(passing.ranks().run());
        for (const int rank : {0, 1}) {
          const ErrorRecord& record = passing.ranks().record(rank);
          ASSERT_EQ(record.trouble, static_cast<uint32_t>(WaitError::other_message)) << rank;
          EXPECT_EQ(record.peer, 1 - rank);
          EXPECT_EQ(record.channel, 2U);
          EXPECT_EQ(record.my_detail, 100U);
          EXPECT_EQ(record.my_count, room);
          EXPECT_EQ(record.expected & 1U, static_cast<uint32_t>(rank));
        }
      }
    }
  }
}

// A rank that does not come, or has left, is named, with the side that waits for it.
TEST(MessageKernel, NamesTheRankThatDoesNotCome) {
  for (const bool has_left : {false, true}) {
    for (const bool is_send : {false, true}) {
      Ranks::Options options = options_of(3);
      options.timeout_ns = 500'000;
      Passing passing(options, 3);
      if (has_left) passing.ranks().told(0).departed.add(2);
      const Message lost = is_send ? Message{0, 2, 1, 8, true, 8} : Message{2, 0, 1, 8, true, 8};
      passing.pass({{0, 1, 0, 8, false, 8}, lost}, 2);
      ASSERT_TRUE(passing.ranks().run());
      const ErrorRecord& record = passing.ranks().record(0);
      const WaitError trouble = has_left ? WaitError::departed : WaitError::timeout;
      EXPECT_EQ(record.trouble, static_cast<uint32_t>(trouble));
      EXPECT_EQ(record.peer, 2);
      EXPECT_EQ(record.channel, 1U);
      EXPECT_EQ(record.expected & 1U, is_send ? 0U : 1U);
      EXPECT_EQ(record.seen, 0U);
    }
  }
}

// What a rank had sent before it left is received.
TEST(MessageKernel, ReceivesWhatALeftRankHasSent) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Passing passing(options_of(seed), 2);
    // Rank 1 has posted both when it is held up, and rank 0 leaves meanwhile.
    passing.ranks().hold(1, 10, 60'000);
    passing.ranks().at_end = [&](int member) {
      if (member == 0) passing.ranks().told(1).departed.add(0);
    };
    passing.pass({{0, 1, 0, 100, false, 100}, {0, 1, 1, 100, true, 100}});
    EXPECT_EQ(passing.run(), "") << seed;
  }
}

// A receive through slots asks whether the stages may be used, whichever blocks take the chunks;
// one that needs none does not.
TEST(MessageKernel, LeavesSpoiltStagesAlone) {
  for (uint32_t channel = 0; channel < kChannels; ++channel) {
    for (const bool is_direct : {false, true}) {
      Ranks::Options options = options_of(channel);
      options.timeout_ns = 500'000;
      Passing passing(options, 2);
      passing.ranks().words(1).spoilt = 1;
      passing.pass({{0, 1, channel, 80, is_direct, 80}});
      ASSERT_TRUE(passing.ranks().run());
      const WaitError trouble = is_direct ? WaitError::none : WaitError::spoilt;
      EXPECT_EQ(passing.ranks().record(1).trouble, static_cast<uint32_t>(trouble)) << channel;
    }
  }
}
}  // namespace
}  // namespace symm::cuda::model
