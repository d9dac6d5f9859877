// Calls that do not block: what a request tells and when, the order of calls, and what becomes of
// requests when ranks die or abort, or when handles are dropped.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/options.hpp"

namespace support {
namespace {
using symm::Request;
using Floats = std::vector<float>;

symm::Options into(Request& request, uint64_t timeout_ms = 0) {
  symm::Options options;
  options.request = &request;
  options.timeout_ms = timeout_ms;
  return options;
}

// An all-reduce under way, of `count` elements, each rank's number + 1 times `factor`.
struct Sum {
  Sum(const Group& group, size_t count, float factor = 1, uint64_t timeout_ms = 0)
      : send(count, static_cast<float>(group.info().rank + 1) * factor),
        recv(count),
        expected(factor * static_cast<float>(group.size() * (group.size() + 1) / 2)) {
    group.allreduce(send, recv, SYMM_OP_SUM, into(request, timeout_ms));
  }
  void expect_right() const {
    EXPECT_EQ(recv, Floats(recv.size(), expected)) << recv.size() << " elements";
  }

  Floats send;
  Floats recv;
  float expected;
  Request request;
};

std::vector<size_t> shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

void sum_many(int rank, const Group& group) {
  constexpr size_t kMany = 60;
  std::vector<std::unique_ptr<Sum>> sums;
  for (size_t i = 0; i < kMany; ++i) {
    sums.push_back(std::make_unique<Sum>(group, size_t{1} << i % 16, static_cast<float>(i + 1)));
  }
  for (const size_t i : shuffled(kMany, static_cast<uint64_t>(rank))) {
    sums[i]->request.wait();
    sums[i]->expect_right();
    EXPECT_TRUE(sums[i]->request.test());
  }
  EXPECT_STREQ(sums[0]->request.info().call, "allreduce");
  EXPECT_EQ(sums[0]->request.info().done, 1);
}

TEST(Requests, AreAwaitedInAnyOrder) {
  for (const int size : {1, 2, 4}) {
    as_processes(size, sum_many);
  }
  as_threads(3, sum_many);
}

TEST_F(Multinode, RequestsAreAwaitedInAnyOrder) { expect_on_all_layouts(sum_many); }

// Blocking calls come behind what was begun before them, on all ranks alike.
TEST(Requests, BlockingCallsKeepTheOrder) {
  as_processes(3, [](int rank, const Group& group) {
    for (int round = 0; round < 40; ++round) {
      Sum first(group, 20'000);
      Sum second(group, 5, 3);
      float value = 2;
      // One rank has waited for its requests before, the others go straight on.
      if (round % 3 == rank) second.request.wait();
      group.allreduce(symm::Span<const float>(&value, 1), symm::Span(&value, 1), SYMM_OP_SUM);
      EXPECT_EQ(value, 6);
      EXPECT_TRUE(first.request.test());
      EXPECT_TRUE(second.request.test());
      first.expect_right();
      second.expect_right();

      Request barrier;
      group.barrier({}, 0, barrier);
      group.barrier();
      EXPECT_TRUE(barrier.test());
    }
  });
}

// Each rank receives without blocking and sends: the pattern that blocking calls cannot have.
void pass_around(int rank, const Group& group) {
  const int size = group.size();
  const auto right = static_cast<int32_t>((rank + 1) % size);
  const auto left = static_cast<int32_t>((rank + size - 1) % size);
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) {
    const std::vector<int> sent(count, rank);
    std::vector<int> came(count + 1, -1);
    Request receive;
    EXPECT_EQ(group.recv(left, came, 0, receive), 0U) << "nothing is written";
    group.send(right, sent);
    receive.wait();
    EXPECT_EQ(receive.info().value, count * sizeof(int));
    EXPECT_EQ(std::vector<int>(came.begin(), came.end() - 1), std::vector<int>(count, left));

    Request send;
    group.send(right, sent, 1, send);
    group.recv(left, came, 1);
    send.wait();
    EXPECT_EQ(send.info().value, 0U);
  }
  group.barrier();
}

TEST(Requests, OfMessagesHoldUpNoMessage) {
  for (const int size : {1, 2, 4}) {
    as_processes(size, pass_around);
  }
  as_threads(3, pass_around);
}

TEST_F(Multinode, RequestsOfMessagesHoldUpNoMessage) { expect_on_all_layouts(pass_around); }

// Messages of one channel meet in the order of the calls, whichever of them block.
TEST(Requests, OfMessagesKeepTheirOrderOnAChannel) {
  as_processes(2, [](int rank, const Group& group) {
    constexpr size_t kMessages = 150;
    const auto peer = static_cast<int32_t>(1 - rank);
    std::mt19937_64 random(static_cast<uint64_t>(rank));
    std::vector<std::vector<uint32_t>> data;
    for (uint32_t i = 0; i < kMessages; ++i) {
      data.emplace_back(1 + i * i % 4000, rank == 0 ? i : 0);
    }

    std::vector<Request> requests(kMessages);
    for (size_t i = 0; i < kMessages; ++i) {
      const bool blocks = random() % 4 == 0;
      symm::CallOptions options;
      if (!blocks) options.request = &requests[i];
      if (rank == 0) {
        group.send(peer, data[i], 2, options);
      } else {
        group.recv(peer, data[i], 2, options);
      }
    }
    for (const size_t i : shuffled(kMessages, 7)) {
      if (requests[i]) requests[i].wait();
    }
    for (uint32_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(data[i], std::vector<uint32_t>(1 + i * i % 4000, i)) << "message " << i;
    }
  });
}

// A batch of messages, and neighbours that exchange blocks.
TEST(Requests, OfManyMessagesAtOnce) {
  as_processes(3, [](int rank, const Group& group) {
    std::vector<int> came(3, -1);
    std::vector<symm_message_t> messages;
    for (int32_t peer = 0; peer < 3; ++peer) {
      messages.push_back(symm::receiving(peer, symm::Span(&came[static_cast<size_t>(peer)], 1)));
      messages.push_back(symm::sending(peer, symm::Span<const int>(&rank, 1)));
    }
    Request request;
    group.messages(messages, request);
    messages.clear();
    request.wait();
    EXPECT_EQ(request.info().value, 3 * sizeof(int));
    EXPECT_EQ(came, (std::vector<int>{0, 1, 2}));
  });
}

// Signals, copies and waits. A wait holds up nothing, and is awaited with others.
void signal_and_wait(int rank, const Group& group) {
  const Block block = allocate(group, 4096);
  const auto peer = static_cast<int32_t>((rank + 1) % group.size());
  const auto from = static_cast<int32_t>((rank + group.size() - 1) % group.size());
  std::vector<Request> waits(2);
  block.memory.wait_signal(from, 0, waits[0]);
  block.memory.wait_value64(8, SYMM_COMPARE_GE, 5, waits[1]);
  Sum sum(group, 10);
  sum.request.wait();
  EXPECT_FALSE(waits[0].test());
  EXPECT_FALSE(waits[1].test());
  group.barrier();

  const uint64_t words[1] = {static_cast<uint64_t>(rank + 40)};
  std::vector<Request> puts(3);
  block.memory.put(peer, 0, words, puts[0]);
  block.memory.write_value64(peer, 8, 5, puts[1]);
  block.memory.signal(peer, 0, puts[2]);
  for (Request& request : waits) {
    request.wait();
  }
  EXPECT_EQ(block.at<uint64_t>(rank)[0], static_cast<uint64_t>(from + 40));
  for (Request& request : puts) {
    request.wait();
  }

  Request read;
  EXPECT_EQ(block.memory.read_value64(peer, 0, read), 0U) << "nothing is written";
  read.wait();
  EXPECT_EQ(read.info().value, static_cast<uint64_t>(rank + 40));
  group.barrier();
}

TEST(Requests, OfSignalsCopiesAndWords) {
  for (const int size : {1, 2, 3}) {
    as_processes(size, signal_and_wait);
  }
}

TEST_F(Multinode, RequestsOfSignalsCopiesAndWords) { expect_on_all_layouts(signal_and_wait); }

// A list of pieces is read at once, and the word that an atomic fetches is the request's number.
TEST(Requests, OfPiecesAndAtomics) {
  const Group group = alone("pieces");
  const Block block = allocate(group, 64);
  const std::vector<uint64_t> source = {5, 6, 7};
  Request copy;
  {
    std::vector<symm_piece_t> pieces = {{0, 16, 8, 0, 0, 0}, {16, 0, 8, 0, 0, 0}};
    block.memory.put_pieces(0, 0, source, symm::Pieces(pieces), copy);
    pieces.assign(2, {0, 1 << 20, 8, 0, 0, 0});
  }
  copy.wait();
  EXPECT_EQ(block.at<uint64_t>(0)[0], 7U);
  EXPECT_EQ(block.at<uint64_t>(0)[2], 5U);

  Request atomic;
  uint64_t fetched = 99;
  block.memory.atomic64(0, 16, SYMM_ATOMIC_ADD, 3, 0, &fetched, atomic);
  atomic.wait();
  EXPECT_EQ(atomic.info().value, 5U);
  EXPECT_EQ(fetched, 99U) << "is left alone";
  EXPECT_EQ(block.at<uint64_t>(0)[2], 8U);
}

// A deadline of a wait ends the wait, and neither the call nor the group.
TEST(Requests, GoOnWhenAWaitMissesItsDeadline) {
  as_processes(2, [](int rank, const Group& group) {
    int token = 0;
    if (rank == 1) group.recv(0, symm::Span(&token, 1));
    Sum sum(group, 100);
    if (rank == 0) {
      EXPECT_FALSE(sum.request.test());
      for (const uint64_t ms : {uint64_t{20}, SYMM_TIMEOUT_NOW}) {
        expect_failure(SYMM_ERR_TIMEOUT, {"request: the allreduce is not done within"},
            [&] { sum.request.wait({ms}); });
        expect_failure(SYMM_ERR_TIMEOUT, {"requests: none of the 1 is done within"},
            [&] { Request::wait_any({&sum.request, 1}, {ms}); });
      }
      EXPECT_EQ(group.status().status, SYMM_OK);
      EXPECT_EQ(sum.request.info().done, 0);
      group.send(1, symm::Span<const int>(&token, 1));
    }
    sum.request.wait();
    sum.expect_right();
  });
}

// A receive that blocks can look once. A request of one is what waits for it.
TEST(Requests, OfAReceiveDoNotLookOnce) {
  as_processes(2, [](int rank, const Group& group) {
    int token = 0;
    if (rank == 0) {
      Request request;
      expect_failure(SYMM_ERR_INVALID_ARGUMENT,
          {"options.timeout_ms: SYMM_TIMEOUT_NOW, but a request waits", "without one looks once"},
          [&] { group.recv(1, symm::Span(&token, 1), 0, {request, SYMM_TIMEOUT_NOW}); });
    }
    group.barrier();
    expect_sum(group);
  });
}

// The call's own deadline ends the call, as if it had blocked.
TEST(Requests, EndAtTheDeadlineOfTheirCall) {
  as_processes(2, [](int rank, const Group& group) {
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
      return;
    }
    Sum sum(group, 100, 1, 50);
    for (int look = 0; look < 2; ++look) {
      expect_failure(SYMM_ERR_TIMEOUT, {"rank 1"}, [&] { sum.request.wait(); });
      EXPECT_EQ(last_failure().rank, 1);
    }
    EXPECT_EQ(sum.request.info().status, SYMM_ERR_TIMEOUT);
  });
}

TEST(Requests, TheFirstThatIsDoneIsFound) {
  as_processes(2, [](int rank, const Group& group) {
    const auto peer = static_cast<int32_t>(1 - rank);
    std::vector<int> came(3, -1);
    std::vector<Request> requests(4);
    for (int32_t channel = 0; channel < 3; ++channel) {
      group.recv(peer, symm::Span(&came[static_cast<size_t>(channel)], 1), channel,
          requests[static_cast<size_t>(channel)]);
    }
    for (const int32_t channel : {2, 0, 1}) {
      const int value = 10 + channel;
      group.send(peer, symm::Span(&value, 1), channel);
      const size_t found = Request::wait_any(requests);
      EXPECT_EQ(found, static_cast<size_t>(channel));
      EXPECT_EQ(came[found], 10 + channel);
      requests[found].reset();
      // Neither rank sends on while the other still looks.
      group.barrier();
    }
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"requests: none of the 4 is given"},
        [&] { Request::wait_any(requests); });
  });
}

TEST(Requests, OfTwoGroupsGoOnSideBySide) {
  as_processes(2, [](int rank, const Group& group) {
    const Group other = group.split(0, 0);
    // The ranks begin in different orders, which one group could not have.
    std::optional<Sum> one;
    std::optional<Sum> two;
    if (rank == 0) one.emplace(group, 1000);
    two.emplace(other, 1000, 2);
    if (rank == 1) one.emplace(group, 1000);
    const std::vector<Request> both = {one->request, two->request};
    const size_t first = Request::wait_any(both);
    both[1 - first].wait();
    both[first].wait();
    one->expect_right();
    two->expect_right();
  });
}

// What waits or is queued when a rank dies says the same as the group.
TEST(Requests, AllFailWithTheirGroup) {
  const Bootstrap meeting;
  Processes ranks(3, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 3);
    const Block block = allocate(group, 64);
    group.barrier();
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      raise(SIGKILL);
    }

    std::vector<std::unique_ptr<Sum>> sums;
    for (int i = 0; i < 3; ++i) {
      sums.push_back(std::make_unique<Sum>(group, 100));
    }
    int room = 0;
    std::vector<Request> others(2);
    group.recv(2, symm::Span(&room, 1), 0, others[0]);
    block.memory.wait_signal(2, 0, others[1]);
    for (const auto& sum : sums) {
      others.push_back(sum->request);
    }

    for (const Request& request : others) {
      const Outcome outcome = outcome_of([&] { request.wait({10'000}); });
      expect_ended(outcome, SYMM_ERR_PEER_FAILED, {"rank 2", group.status().message});
      EXPECT_EQ(outcome.rank, 2);
      EXPECT_EQ(request.info().status, SYMM_ERR_PEER_FAILED);
    }
    EXPECT_EQ(Request::wait_any(others), 0U);
    // What is begun now is refused, by the call or by its request.
    const Outcome late = outcome_of([&] { Sum(group, 100).request.wait(); });
    expect_ended(late, SYMM_ERR_PEER_FAILED, {group.status().message});
  });
  ranks.expect_success({2});
}

TEST(Requests, AreCancelledByAnAbort) {
  as_processes(2, [](int rank, const Group& group) {
    int room = 0;
    Request receive;
    group.recv(1 - rank, symm::Span(&room, 1), 0, receive);
    group.barrier();
    if (rank == 0) group.abort("cancelled");
    expect_failure(
        SYMM_ERR_ABORTED, {"rank 0 aborted the group: cancelled"}, [&] { receive.wait({10'000}); });
  });
}

// Without handles of the request and of the group, a call goes on, and its group stays.
TEST(Requests, GoOnWhenHandlesAreDropped) {
  const Bootstrap meeting;
  as_processes(2, [&](int rank) {
    Group group = create(meeting.processes(), rank, 2);
    Floats send(1000, 1);
    Floats recv(1000);
    {
      Request dropped;
      group.allreduce(send, recv, SYMM_OP_SUM, into(dropped));
    }
    // A later call of the same order shows that it is over.
    group.barrier();
    EXPECT_EQ(recv, Floats(1000, 2));

    int value = 7;
    Request last;
    if (rank == 0) {
      group.recv(1, symm::Span(&value, 1), 0, last);
      group.barrier();
      group.reset();
      last.wait();
      EXPECT_EQ(value, 9);
    } else {
      group.barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const int sent = 9;
      group.send(0, symm::Span(&sent, 1));
    }
  });
}

// Finalizing waits for collectives that were begun before.
TEST(Requests, AreOverWhenTheirGroupIsFinalized) {
  as_processes(2, [](int, const Group& group) {
    Sum sum(group, 50'000);
    group.finalize();
    EXPECT_TRUE(sum.request.test());
    sum.expect_right();
  });
}

// Messages and waits that nobody answers, with deadlines of all kinds.
class Pending {
 public:
  Pending(int rank, const Group& group)
      : rank_(rank), block_(allocate(group, 64)), long_(size_t{1} << 20) {
    const auto peer = static_cast<int32_t>((rank + 1) % group.size());
    group.recv(peer, symm::Span(&room_[0], 1), 0, add(SYMM_TIMEOUT_INFINITE));
    group.recv(rank, symm::Span(&room_[1], 1), 1, add());
    group.send(peer, long_, 2, add());
    const std::vector<symm_message_t> both = {symm::receiving(peer, symm::Span(&room_[2], 1), 3),
        symm::sending(peer, symm::Span<const uint64_t>(long_), 4)};
    group.messages(both, add(SYMM_TIMEOUT_INFINITE));
    block_.memory.wait_signal(peer, 0, add());
    block_.memory.wait_value64(8, SYMM_COMPARE_GE, 5, add(SYMM_TIMEOUT_INFINITE));
  }

  void expect_left_over() const {
    for (const Request& request : requests_) {
      const Outcome outcome = outcome_of([&] { request.wait({10'000}); });
      expect_ended(outcome, SYMM_ERR_INVALID_HANDLE,
          {"request: rank " + std::to_string(rank_) + " (pid ", "has finalized the group"});
      EXPECT_EQ(outcome.rank, rank_) << request.info().call;
      EXPECT_EQ(outcome.pid, getpid());
      EXPECT_EQ(request.info().status, SYMM_ERR_INVALID_HANDLE);
    }
  }

 private:
  symm::CallOptions add(uint64_t timeout_ms = 0) { return {requests_.emplace_back(), timeout_ms}; }

  const int rank_;
  const Block block_;
  std::vector<uint64_t> long_;
  int room_[3] = {};
  std::list<Request> requests_;
};

// All ranks have the same answer, also those that find that others are gone already.
void finalize_with_pending(int rank, Group group) {
  Pending pending(rank, group);
  if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  group.finalize();
  EXPECT_EQ(group.status().status, SYMM_OK);
  // Rank 0 comes last and goes first.
  if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  pending.expect_left_over();
  EXPECT_EQ(group.status().status, SYMM_OK);
}

TEST(Requests, ThatArePendingWhenTheirGroupIsFinalizedSaySo) {
  for (int round = 0; round < 10; ++round) {
    const Bootstrap meeting;
    as_processes(
        3, [&](int rank) { finalize_with_pending(rank, create(meeting.processes(), rank, 3)); });
  }
  as_threads(3, [](int rank, const Group& group) { finalize_with_pending(rank, group); });
}

TEST_F(Multinode, RequestsThatArePendingAtTheEndSaySo) {
  expect_on_machines(
      "aba", [](int rank, const Group& group) { finalize_with_pending(rank, group.split(0)); });
}

// A message that is under way when its group is finalized comes whole, or is left over. The group
// does not fail of it.
TEST(Requests, ThatAreUnderWayWhenTheirGroupIsFinalized) {
  for (int round = 0; round < 10; ++round) {
    as_processes(2, [](int rank, const Group& group) {
      std::vector<uint64_t> data(size_t{1} << 20, rank == 0 ? 7 : 0);
      Request request;
      if (rank == 0) {
        group.send(1, data, 0, request);
      } else {
        group.recv(0, data, 0, request);
      }
      group.finalize();
      const Outcome outcome = outcome_of([&] { request.wait({10'000}); });
      if (outcome.status != SYMM_OK) {
        expect_ended(outcome, SYMM_ERR_INVALID_HANDLE, {"has finalized the group"});
      } else {
        EXPECT_EQ(data, std::vector<uint64_t>(data.size(), 7));
      }
      EXPECT_EQ(group.status().status, SYMM_OK);
    });
  }
}

// A rank that waits for one that leaves without finalizing names it; a request keeps its rank.
TEST(Requests, OfARankThatIsReleasedKeepItInTheGroup) {
  const Bootstrap meeting;
  as_processes(2, [&](int rank) {
    Group group = create(meeting.processes(), rank, 2);
    int room = 0;
    Request receive;
    group.recv(1 - rank, symm::Span(&room, 1), 0, {receive, rank == 0 ? 300U : 10'000U});
    group.barrier();
    group.reset();
    if (rank == 0) {
      expect_failure(SYMM_ERR_TIMEOUT, {"rank 1", "has sent nothing"}, [&] { receive.wait(); });
    } else {
      const Outcome outcome = outcome_of([&] { receive.wait(); });
      expect_ended(outcome, SYMM_ERR_PEER_FAILED, {"rank 0", "has left the group"});
      EXPECT_EQ(outcome.rank, 0);
    }
  });
}

// The caller's lists may change as soon as the call has returned.
TEST(Requests, KeepNoListOfTheCaller) {
  as_processes(2, [](int rank, const Group& group) {
    const size_t mine = rank == 0 ? 3 : 5;
    const Floats send(mine, static_cast<float>(rank));
    Floats recv(8, -1);
    std::vector<size_t> counts = {3, 5};
    Sum before(group, 100'000);
    Request gather;
    {
      std::string tag = "a tag that goes";
      symm::Options options = into(gather);
      options.tag = tag.c_str();
      group.allgatherv(send, recv, {counts}, options);
      tag.assign(tag.size(), '?');
    }
    std::vector<int32_t> set = {0, 1};
    Request barrier;
    group.barrier(set, 1, barrier);
    counts.assign(2, 1'000'000);
    set.assign(2, 77);
    barrier.wait();
    gather.wait();
    EXPECT_EQ(recv, (Floats{0, 0, 0, 1, 1, 1, 1, 1}));
    before.request.wait();
  });
}

TEST(Requests, OfBatches) {
  as_processes(2, [](int rank, const Group& group) {
    const Floats send(4, static_cast<float>(rank + 1));
    std::vector<Floats> recv(3, Floats(4));
    std::vector<symm_collective_call_t> calls;
    for (Floats& to : recv) {
      calls.push_back(
          call_of(SYMM_COLLECTIVE_ALLREDUCE, send.data(), to.data(), 4, SYMM_DTYPE_F32).value);
    }
    Request request;
    symm::BatchOptions options;
    options.request = &request;
    group.batch(calls, options);
    calls.assign(3, SYMM_COLLECTIVE_CALL_INIT);
    request.wait();
    EXPECT_EQ(recv, std::vector<Floats>(3, Floats(4, 3)));
    EXPECT_STREQ(request.info().call, "batch");

    group.batch(std::vector<symm_collective_call_t>(), options);
    request.wait();
  });
}

bool is_readable(int fd, int timeout_ms) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, timeout_ms) == 1 && (one.revents & POLLIN) != 0;
}

TEST(Requests, MakeADescriptorReadable) {
  as_processes(2, [](int rank, const Group& group) {
    int room = 0;
    Request receive;
    group.recv(1 - rank, symm::Span(&room, 1), 0, receive);
    const int fd = receive.fd();
    EXPECT_FALSE(is_readable(fd, 20));
    group.barrier();
    group.send(1 - rank, symm::Span<const int>(&rank, 1));
    EXPECT_TRUE(is_readable(fd, 10'000));
    EXPECT_TRUE(receive.test());
    EXPECT_EQ(receive.fd(), fd);

    // That of a request that is over is readable at once.
    Sum sum(group, 1);
    sum.request.wait();
    EXPECT_TRUE(is_readable(sum.request.fd(), 0));
  });
}

TEST(Requests, WrongArgumentsAreRefusedAtOnce) {
  const Group group = alone("refused");
  const Block block = allocate(group, 64);
  Request request;
  float value = 1;
  symm_request_t* raw = nullptr;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.request = &raw;
  expect_failed(symm_allreduce(group.get(), nullptr, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM,
                    &options, nullptr),
      SYMM_ERR_INVALID_ARGUMENT, {"send: is NULL"});
  expect_failed(
      symm_allreduce(group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, &value),
      SYMM_ERR_INVALID_ARGUMENT, {"stream: must be NULL"});
  EXPECT_EQ(raw, nullptr);

  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"rank: 1 is not in 0 .. 0"},
      [&] { group.send(1, symm::Span<const float>(&value, 1), 0, request); });
  expect_failure(SYMM_ERR_UNSUPPORTED, {"options.request: this call has no form"},
      [&] { group.synchronize(nullptr, request); });
  EXPECT_FALSE(request);

  // What is checked where it runs, the request tells.
  block.memory.put(0, 4096, symm::Span<const float>(&value, 1), request);
  expect_failure(
      SYMM_ERR_INVALID_ARGUMENT, {"beyond the block of 64 bytes"}, [&] { request.wait(); });
  expect_failure(
      SYMM_ERR_INVALID_ARGUMENT, {"beyond the block of 64 bytes"}, [&] { request.test(); });
}

// The threads of this process that make calls of requests.
size_t request_threads() {
  size_t count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == "symm-request") ++count;
  }
  return count;
}

// So many calls may wait for other ranks, each by a thread that goes when it has nothing to do.
void begin_too_many(int, const Group& group) {
  constexpr size_t kMost = 256;
  EXPECT_EQ(request_threads(), 0U);
  std::vector<int> room(kMost + 1);
  std::vector<Request> requests(kMost + 1);
  const auto receive = [&](size_t i) { group.recv(0, symm::Span(&room[i], 1), 0, requests[i]); };
  for (size_t i = 0; i < kMost; ++i) {
    receive(i);
  }
  // A thread has its name soon after it has begun.
  EXPECT_TRUE(eventually([] { return request_threads() == kMost; })) << request_threads();
  expect_failure(SYMM_ERR_OUT_OF_MEMORY, {"options.request: 256 requests", "symm_messages()"},
      [&] { receive(kMost); });
  // Calls of other kinds find their threads all the same.
  Sum sum(group, 10);
  sum.request.wait();

  for (size_t i = 0; i < kMost; ++i) {
    const int value = static_cast<int>(i);
    group.send(0, symm::Span(&value, 1));
    requests[i].wait();
    EXPECT_EQ(room[i], value);
  }
  EXPECT_TRUE(eventually([] { return request_threads() == 0; })) << request_threads();
}

TEST(Requests, HaveAsManyThreadsAsCallsWait) { as_processes(1, begin_too_many); }

// A rank whose request waits for the others may be busy for long: then nobody stands still.
TEST(Requests, OfABusyRankAreNoStandstill) {
  as_processes(2, [](int rank, const Group& group) {
    int token = 0;
    if (rank == 0) {
      Sum sum(group, 100);
      std::this_thread::sleep_for(std::chrono::milliseconds(1800));
      group.send(1, symm::Span<const int>(&token, 1));
      sum.request.wait();
      sum.expect_right();
    } else {
      group.recv(0, symm::Span(&token, 1));
      Sum sum(group, 100);
      sum.request.wait();
      sum.expect_right();
    }
  });
}

// Whoever has seen that a call is over may begin another one, also with as many as there may be.
TEST(Requests, LeaveTheirPlaceBeforeTheyAreDone) {
  const Group group = alone("places");
  int room = 0;
  std::vector<Request> others(255);
  for (Request& request : others) {
    group.recv(0, symm::Span(&room, 1), 1, {request, SYMM_TIMEOUT_INFINITE});
  }
  for (int i = 0; i < 200; ++i) {
    Request last;
    group.recv(0, symm::Span(&room, 1), 0, last);
    group.send(0, symm::Span<const int>(&i, 1));
    while (!last.test()) {
    }
  }
  group.abort("enough");
  for (const Request& request : others) {
    expect_failure(SYMM_ERR_ABORTED, {"enough"}, [&] { request.wait(); });
  }
}

// Lists are copied, so what they cannot be is found before.
TEST(Requests, RefuseListsThatCannotBe) {
  const Group group = alone("lists");
  const Block block = allocate(group, 64);
  symm_request_t* request = nullptr;
  symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
  options.request = &request;
  const int32_t rank = 0;
  for (const size_t count : {size_t{2}, size_t{1} << 61, SIZE_MAX}) {
    expect_failed(symm_barrier(group.get(), &rank, count, 0, &options, nullptr),
        SYMM_ERR_INVALID_ARGUMENT, {"ranks: ", "and the group has 1"});
  }

  const symm_piece_t piece = {0, 0, 8, 0, 0, 0};
  symm_pieces_call_t call = SYMM_PIECES_CALL_INIT;
  call.pieces = &piece;
  call.count = SIZE_MAX;
  uint64_t source = 0;
  expect_failed(
      symm_put_pieces(block.memory.get(), 0, 0, &source, sizeof source, &call, &options, nullptr),
      SYMM_ERR_INVALID_ARGUMENT, {"call.count: "});
  EXPECT_EQ(request, nullptr);
}

// Handles are dropped in any order while threads wait, and the group is aborted.
TEST(Requests, EndForAllWhoWait) {
  const Bootstrap meeting;
  as_processes(2, [&](int rank) {
    Group group = create(meeting.processes(), rank, 2);
    std::vector<int> room(256);
    std::vector<Request> requests(256);
    for (size_t i = 0; i < requests.size(); ++i) {
      group.recv(1 - rank, symm::Span(&room[i], 1), static_cast<int32_t>(i % 8), requests[i]);
    }
    Sum sum(group, 1000);
    sum.request.wait();

    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < requests.size(); i += t % 2 + 1) {
          const Request mine = requests[i];
          const Outcome outcome = outcome_of([&] { mine.wait({20'000}); });
          if (outcome.status == SYMM_ERR_ABORTED) ++ended;
        }
      });
    }
    threads.emplace_back([&] {
      const Outcome outcome = outcome_of([&] { Request::wait_any(requests, {20'000}); });
      EXPECT_EQ(outcome.status, SYMM_OK);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(rank == 0 ? 50 : 30));
    if (rank == 0) group.abort("over");
    group.reset();
    for (std::thread& thread : threads) {
      thread.join();
    }
    int expected = 0;
    for (size_t t = 0; t < 8; ++t) {
      for (size_t i = t; i < requests.size(); i += t % 2 + 1) {
        ++expected;
      }
    }
    EXPECT_EQ(ended, expected);
    requests.clear();
    EXPECT_TRUE(eventually([] { return request_threads() == 0; })) << request_threads();
  });
}

// A process that ends with calls under way ends, and the others hear of it.
TEST(Requests, DoNotHoldUpTheEndOfTheirProcess) {
  const Bootstrap meeting;
  Processes ranks(3, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 3);
    const Block block = allocate(group, 64);
    static int room[2];
    std::vector<Request> requests(3);
    group.recv((rank + 1) % 3, symm::Span(&room[0], 1), 0, requests[0]);
    block.memory.wait_signal((rank + 1) % 3, 0, requests[1]);
    group.barrier();
    if (rank == 2) {
      for (Request& request : requests) {
        request.reset();
      }
      exit(0);
    }
    Sum sum(group, 100);
    const Outcome outcome = outcome_of([&] { sum.request.wait({10'000}); });
    expect_ended(outcome, SYMM_ERR_PEER_FAILED, {"rank 2"});
    // Another rank may have left meanwhile, for the same reason.
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Outcome other = outcome_of([&] { requests[i].wait({10'000}); });
      EXPECT_EQ(other.status, SYMM_ERR_PEER_FAILED);
    }
  });
  ranks.expect_success();
}

// The end of a process meets threads that end calls, and the group that goes with the last one.
TEST(Requests, MayGoWithTheirGroupWhileTheirProcessEnds) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 30; ++round) {
    const auto pause = std::chrono::microseconds(random() % 300);
    const Bootstrap meeting;
    as_processes(2, [&](int rank) {
      Group group = create(meeting.processes(), rank, 2);
      // What calls work with outlives them, so it is not destroyed when the process ends.
      static Floats& recv = *new Floats(64);
      static const Floats& send = *new Floats(64, 1);
      {
        Request sum;
        Request barrier;
        group.allreduce(send, recv, SYMM_OP_SUM, into(sum));
        group.barrier({}, 0, barrier);
      }
      group.reset();
      std::this_thread::sleep_for(pause);
      exit(0);
    });
  }
}

// A random program of all kinds of calls, alike on all ranks: what blocks, what is awaited when and
// by what, and which handles are dropped, each rank draws for itself.
class RandomProgram {
 public:
  RandomProgram(const Group& group, uint64_t seed)
      : group_(group),
        rank_(group.info().rank),
        size_(group.size()),
        block_(allocate(group, 4096)),
        alike_(seed),
        own_(seed * 31 + static_cast<uint64_t>(rank_) + 1) {}
  // Where the group fails, what calls work with stays until they are over.
  ~RandomProgram() {
    for (const auto& begun : under_way_) {
      if (begun->request) outcome_of([&] { begun->request.wait(); });
    }
  }
  RandomProgram(RandomProgram&&) = delete;

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      make_one(i);
      await_some();
    }
    while (!under_way_.empty()) {
      end(own_() % under_way_.size());
    }
  }

 private:
  struct Begun {
    Request request;
    std::vector<int> data;
    std::vector<int> expected;
    size_t value = 0;
  };

  void make_one(int i) {
    Begun& begun = add();
    const size_t count = 1 + alike_() % (i % 5 == 0 ? 30'000 : 40);
    const auto kind = alike_() % 5;
    const bool blocks = own_() % 4 == 0;
    begun.data.assign(count, rank_ + i);
    Request* const into = blocks ? nullptr : &begun.request;
    symm::CallOptions call;
    call.request = into;

    if (kind == 0 || kind == 1) {
      begun.expected.assign(count, size_ * i + size_ * (size_ - 1) / 2);
      symm::Options options;
      options.request = into;
      group_.allreduce(kept(begun.data), begun.data, SYMM_OP_SUM, options);
    } else if (kind == 2) {
      begun.expected = begun.data;
      group_.barrier({}, static_cast<int32_t>(alike_() % 2), call);
    } else {
      pass_around(begun, static_cast<int32_t>(alike_() % 3), blocks, i);
    }
  }

  // Each rank receives from its left and sends to its right, and one of the two may block.
  void pass_around(Begun& begun, int32_t channel, bool blocks, int i) {
    const int left = (rank_ + size_ - 1) % size_;
    const int right = (rank_ + 1) % size_;
    const std::vector<int>& sent = kept(begun.data);
    begun.expected.assign(sent.size(), left + i);
    Begun& sending = add();
    if (blocks) {
      group_.send(right, sent, channel, sending.request);
      group_.recv(left, begun.data, channel);
      return;
    }

    begun.value = sent.size() * sizeof(int);
    group_.recv(left, begun.data, channel, begun.request);
    symm::CallOptions options;
    if (own_() % 2 == 0) options.request = &sending.request;
    group_.send(right, sent, channel, options);
  }

  Begun& add() {
    under_way_.push_back(std::make_unique<Begun>());
    return *under_way_.back();
  }
  const std::vector<int>& kept(const std::vector<int>& data) { return sent_.emplace_back(data); }

  void await_some() {
    while (under_way_.size() > 40 || (!under_way_.empty() && own_() % 3 == 0)) {
      if (own_() % 4 != 0) {
        end(under_way_.size() > 40 ? 0 : own_() % under_way_.size());
        continue;
      }
      std::vector<Request> requests;
      for (const auto& begun : under_way_) {
        if (!begun->request) return end(0);
        requests.push_back(begun->request);
      }
      end(Request::wait_any(requests));
    }
  }

  void end(size_t index) {
    const Begun& begun = *under_way_[index];
    if (begun.request) {
      if (own_() % 8 == 0) {
        EXPECT_TRUE(is_readable(begun.request.fd(), 30'000));
      }
      begun.request.wait();
      EXPECT_EQ(begun.request.info().value, begun.value);
    }
    EXPECT_EQ(begun.data, begun.expected);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(index));
  }

  const Group& group_;
  const int rank_;
  const int size_;
  const Block block_;
  std::mt19937_64 alike_;
  std::mt19937_64 own_;
  std::list<std::vector<int>> sent_;
  std::vector<std::unique_ptr<Begun>> under_way_;
};

TEST(Requests, OfRandomPrograms) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    as_processes(1 + static_cast<int>(seed % 3),
        [&](int, const Group& group) { RandomProgram(group, seed).run(150); });
  }
  as_threads(3, [&](int, const Group& group) { RandomProgram(group, 77).run(150); });
}

// Wherever a rank is killed, what the others have begun ends, and names it.
TEST(Requests, OfRandomProgramsEndWhenARankIsKilled) {
  std::mt19937_64 random(5);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto pause = std::chrono::microseconds(random() % 30'000);
    const Bootstrap meeting;
    Processes ranks(3, [&](int rank) {
      const Group group = create(meeting.processes(), rank, 3);
      group.barrier();
      std::thread death;
      if (rank == 1) {
        death = std::thread([&] {
          std::this_thread::sleep_for(pause);
          raise(SIGKILL);
        });
      }
      const Outcome outcome = outcome_of([&] { RandomProgram(group, seed).run(1'000'000); });
      expect_ended(outcome, SYMM_ERR_PEER_FAILED, {"rank 1"});
      EXPECT_EQ(outcome.rank, 1);
      if (rank == 1) death.join();
    });
    ranks.expect_success({1});
  }
}

// Threads that a burst of calls has needed go, though other calls go on.
TEST(Requests, NeedNoMoreThreadsThanGoOnAtOnce) {
  as_processes(1, [](int, const Group& group) {
    static constexpr size_t kBurst = 60;
    std::vector<int> room(kBurst);
    std::vector<Request> requests(kBurst);
    for (size_t i = 0; i < kBurst; ++i) {
      group.recv(0, symm::Span(&room[i], 1), 0, requests[i]);
    }
    EXPECT_TRUE(eventually([] { return request_threads() >= kBurst; }));
    for (size_t i = 0; i < kBurst; ++i) {
      group.send(0, symm::Span<const int>(&room[i], 1));
      requests[i].wait();
    }

    // One of them is used for each call of this loop.
    const auto go_on = [&] {
      for (int i = 0; i < 50; ++i) {
        Sum(group, 1).request.wait();
      }
      return request_threads() <= 3;
    };
    EXPECT_TRUE(eventually(go_on)) << request_threads();
  });
}

// A forked child has no requests, and the parent's go on.
TEST(Requests, AreNotTheChildsOfAFork) {
  as_processes(2, [](int rank, const Group& group) {
    int room = 0;
    Request receive;
    group.recv(1 - rank, symm::Span(&room, 1), 0, receive);
    receive.fd();
    const pid_t child = fork();
    if (child == 0) {
      const symm_status_t status = symm_request_wait(receive.get(), nullptr);
      _exit(status == SYMM_ERR_INVALID_HANDLE ? 0 : 1);
    }
    int ended = -1;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    group.barrier();
    group.send(1 - rank, symm::Span<const int>(&rank, 1));
    receive.wait();
    EXPECT_EQ(room, 1 - rank);
  });
}
}  // namespace
}  // namespace support
