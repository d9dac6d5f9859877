// What messages do whichever machines their ranks are on: each function is run by all ranks of a
// group of two, or of as many as it says.
#pragma once

#include "tests/support/message_model.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
// ---- order

// Each rank lists what it receives first, or what it sends first: in single calls one of these
// would wait for ever.
inline void go_round_a_ring(int ranks, int rank, const Group& group, size_t bytes) {
  Bytes in(bytes);
  Bytes out(bytes);
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 20; ++round) {
    const auto seed = [&](int of) { return static_cast<uint64_t>(round * ranks + of); };
    write_pattern(out.data(), bytes, seed(rank));
    std::vector<symm_message_t> sides{symm::sending(next, out), symm::receiving(previous, in)};
    if ((round + rank) % 2 == 0) std::swap(sides[0], sides[1]);
    group.messages(sides);
    ASSERT_TRUE(has_pattern(in.data(), bytes, seed(previous))) << round;
  }
}

// One call with 2^20 sides, half of them sends, through mailboxes that have room for few.
inline void pass_as_many_as_a_call_may_have(int rank, const Group& group) {
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
  constexpr size_t kEach = size_t{1} << 15;
#else
  constexpr size_t kEach = size_t{1} << 19;
#endif
  const auto value = [](int of, size_t number) {
    return static_cast<uint32_t>(number * 2 + static_cast<size_t>(of));
  };
  std::vector<uint32_t> out(kEach);
  std::vector<uint32_t> in(kEach);
  std::vector<symm_message_t> sides;
  sides.reserve(2 * kEach);
  for (size_t i = 0; i < kEach; ++i) {
    out[i] = value(rank, i);
    sides.push_back(symm::sending(1 - rank, symm::Span<const uint32_t>(&out[i], 1)));
    sides.push_back(symm::receiving(1 - rank, symm::Span<uint32_t>(&in[i], 1)));
  }
  group.messages(sides);
  for (size_t i = 0; i < kEach; ++i) {
    ASSERT_EQ(in[i], value(1 - rank, i)) << i;
  }
}

// The receiver asks for channels in the order opposite to that of the sender, one call after the
// other. Messages of any length, as many as channels can hold.
inline void take_channels_backwards(int rank, const Group& group, bool symmetric) {
  constexpr int kChannels = 6;
  constexpr int kEach = 40;
  constexpr size_t kMost = 20'000;
  const Block block = allocate(group, kChannels * kEach * kMost);
  Bytes own(kChannels * kEach * kMost);
  std::byte* const base = symmetric ? block.at<std::byte>(rank) : own.data();
  const auto length = [](int channel, int number) {
    return static_cast<size_t>(channel * 3000 + number * 100);
  };
  const auto place = [&](int channel, int number) {
    return base + static_cast<size_t>(channel * kEach + number) * kMost;
  };

  if (rank == 0) {
    std::vector<symm_message_t> sides;
    for (int channel = 0; channel < kChannels; ++channel) {
      for (int number = 0; number < kEach; ++number) {
        const size_t bytes = length(channel, number);
        write_pattern(place(channel, number), bytes, static_cast<uint64_t>(number));
        sides.push_back(symm::sending(1, symm::Span(place(channel, number), bytes), channel));
      }
    }
    group.messages(sides);
  } else {
    for (int channel = kChannels - 1; channel >= 0; --channel) {
      for (int number = 0; number < kEach; ++number) {
        const symm::Span room(place(channel, number), kMost);
        ASSERT_EQ(group.recv(0, room, channel), length(channel, number));
        ASSERT_TRUE(
            has_pattern(room.data(), length(channel, number), static_cast<uint64_t>(number)));
      }
    }
  }
  group.barrier();
}

// A rank sends to all and receives from all, parts of all lengths, none among them.
inline void go_from_all_to_all(int ranks, int rank, const Group& group) {
  const auto length = [](int from, int to) {
    return static_cast<size_t>((from * 7 + to * 3) % 5) * 15'001;
  };
  std::vector<Bytes> out;
  std::vector<Bytes> in;
  for (int peer = 0; peer < ranks; ++peer) {
    out.emplace_back(length(rank, peer));
    in.emplace_back(length(peer, rank));
    write_pattern(out.back().data(), out.back().size(), static_cast<uint64_t>(rank * 10 + peer));
  }

  std::vector<symm_message_t> sides;
  for (int peer = 0; peer < ranks; ++peer) {
    sides.push_back(symm::sending(peer, out[static_cast<size_t>(peer)]));
  }
  for (int peer = 0; peer < ranks; ++peer) {
    sides.push_back(symm::receiving(peer, in[static_cast<size_t>(peer)]));
  }
  group.messages(sides);
  for (int peer = 0; peer < ranks; ++peer) {
    const Bytes& part = in[static_cast<size_t>(peer)];
    ASSERT_TRUE(has_pattern(part.data(), part.size(), static_cast<uint64_t>(peer * 10 + rank)));
  }
}

// Threads of a rank have a channel each. What one thread finds in the mailbox is another one's.
inline void keep_to_channels_of_threads(int rank, const Group& group) {
  as_threads(4, [&](int channel) {
    Bytes room(size_t{1} << 17);
    for (int round = 0; round < 300; ++round) {
      const size_t bytes = kLengths[static_cast<size_t>(round * 5 + channel) % 19];
      const auto seed = static_cast<uint64_t>(round * 4 + channel);
      if ((round + channel + rank) % 2 == 0) {
        write_pattern(room.data(), bytes, seed);
        group.send(1 - rank, symm::Span(room.data(), bytes), channel);
      } else {
        ASSERT_EQ(group.recv(1 - rank, room, channel), bytes);
        ASSERT_TRUE(has_pattern(room.data(), bytes, seed)) << "round " << round;
      }
    }
  });
  group.barrier();
}

// ---- what cannot be

inline void refuse_what_is_longer_than_the_room(int rank, const Group& group, size_t bytes) {
  Bytes data(bytes);
  group.barrier();
  const std::vector<std::string> words = {"rank 0 sends " + std::to_string(bytes) + " bytes",
      "channel 3", "rank 1", "room for " + std::to_string(bytes - 1)};
  if (rank == 1) {
    expect_failure(
        SYMM_ERR_MISMATCH, words, [&] { group.recv(0, symm::Span(data.data(), bytes - 1), 3); });
  } else {
    // A short message was left, and its sender has returned.
    const Outcome sent = outcome_of([&] { group.send(1, data, 3); });
    if (sent.status != SYMM_OK) expect_ended(sent, SYMM_ERR_MISMATCH, words);
    EXPECT_TRUE(sent.status != SYMM_OK || bytes < 8192);
  }
  EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_MISMATCH; }));
  EXPECT_EQ(group.status().rank, 1) << group.status().message;
}

inline void wait_in_vain_and_go_on(int rank, const Group& group) {
  uint64_t word = 0;
  const symm::Span one(&word, 1);
  if (rank == 1) {
    const Outcome late = expect_failure(SYMM_ERR_TIMEOUT,
        {"recv: rank 0", "has sent nothing on channel 2 within 30 ms"},
        [&] { group.recv(0, one, 2, 30); });
    EXPECT_EQ(late.rank, 0);
    expect_failure(SYMM_ERR_TIMEOUT, {"recv: rank 0", "has sent nothing on channel 2"},
        [&] { group.recv(0, one, 2, SYMM_TIMEOUT_NOW); });
    // Both sides of the call are taken back: they are not in the way of what comes later.
    expect_failure(SYMM_ERR_TIMEOUT, {"messages[0]: recv: rank 0"}, [&] {
      const symm_message_t sides[] = {symm::receiving(0, one, 3), symm::receiving(1, one, 3)};
      group.messages(sides, 20);
    });

    group.barrier();
    EXPECT_EQ(group.recv(0, one, 3), sizeof word);
    EXPECT_EQ(word, 77U);
    group.barrier();
    EXPECT_EQ(group.recv(0, one, 2, SYMM_TIMEOUT_NOW), sizeof word);
    EXPECT_EQ(word, 78U);
  } else {
    group.barrier();
    word = 77;
    group.send(1, one, 3);
    word = 78;
    group.send(1, one, 2);
    group.barrier();
  }
  group.barrier();
  EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
}

// A message that is there when a call looks once is received whole, however long it is.
inline void receive_by_looks(int rank, const Group& group) {
  Bytes data(size_t{6} << 20);
  if (rank == 0) {
    write_pattern(data.data(), data.size(), 5);
    group.send(1, data, 0);
  } else {
    EXPECT_TRUE(eventually([&] {
      return outcome_of([&] { group.recv(0, data, 0, SYMM_TIMEOUT_NOW); }).status == SYMM_OK;
    }));
    EXPECT_TRUE(has_pattern(data.data(), data.size(), 5));
  }
  group.barrier();
}

// A send that the other rank was told of cannot be taken back.
inline void send_what_is_not_taken(int rank, const Group& group) {
  const Bytes data(100'000);
  group.barrier();
  if (rank == 0) {
    const Outcome late = expect_failure(SYMM_ERR_TIMEOUT,
        {"send: rank 1", "has not taken all of the message on channel 0 within 50 ms"},
        [&] { group.send(1, data, 0, 50); });
    EXPECT_EQ(late.rank, 1);
  }
  EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
  EXPECT_EQ(group.status().rank, 1) << group.status().message;
}

// Short messages are sent before they are received, up to a number; then a send waits, and has
// sent nothing if it waits in vain.
inline void leave_as_many_as_there_is_room_for(
    int rank, const Group& group, std::atomic<int>& sent) {
  if (rank == 0) {
    Outcome last;
    for (int number = 0; last.status == SYMM_OK && number < 1000; ++number) {
      last = outcome_of([&] { group.send(1, symm::Span(&number, 1), 7, 50); });
      if (last.status == SYMM_OK) sent = number + 1;
    }
    expect_ended(last, SYMM_ERR_TIMEOUT, {"send: rank 1", "has not received what was sent before"});
    EXPECT_GE(sent, 8);
    EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
  }

  group.barrier();
  for (int i = 0; rank == 1 && i < sent; ++i) {
    int number = -1;
    group.recv(0, symm::Span(&number, 1), 7);
    ASSERT_EQ(number, i);
  }
  if (rank == 1) {
    int none = 0;
    expect_failure(SYMM_ERR_TIMEOUT, {"has sent nothing"},
        [&] { group.recv(0, symm::Span(&none, 1), 7, SYMM_TIMEOUT_NOW); });
  }
  group.barrier();
}

// Ranks that wait for each other in a receive and in a barrier are told so after a second.
inline void wait_in_a_circle_with_a_barrier(int rank, const Group& group) {
  uint64_t word = 0;
  const auto wait = [&] {
    if (rank == 0) {
      group.barrier();
    } else {
      group.recv(0, symm::Span(&word, 1), 0);
    }
  };
  expect_failure(SYMM_ERR_MISMATCH,
      {"rank 0 makes barrier on channel 0", "rank 1 makes send, recv or messages"}, wait);
}
}  // namespace support
