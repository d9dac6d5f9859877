// Messages over a link that does to them all that an engine may.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "tests/engine/engine_support.hpp"

namespace {
using namespace support;

// Between threads of one process: they overtake each other, are sent at once or when
// they have been fetched piece by piece, and stay as they are for a while; lines break.
// What happens follows from a seed and from the order in which threads come.
class LoopLink;

struct LoopNet {
  explicit LoopNet(uint64_t seed) : random(seed) {}

  bool one_in(unsigned n) { return random() % n == 0; }

  std::mutex mutex;
  std::mt19937_64 random;
  std::vector<LoopLink*> links;
  std::atomic<bool> stalled = false;
};

class LoopLink final : public Link {
 public:
  LoopLink(LoopNet& net, Sink& sink) : net_(net), sink_(sink), index_(net.links.size()) {
    address_.push_back(static_cast<std::byte>(index_));
    net.links.push_back(this);
  }

  const std::string& name() const override { return name_; }

  const std::string& where() const override { return name_; }

  const symm::Bytes& address() const override { return address_; }

  int connect(std::span<const std::byte> address) override {
    lines_.push_back(static_cast<size_t>(address[0]));
    return static_cast<int>(lines_.size()) - 1;
  }

  Transfer send(Envelope& envelope) noexcept override {
    const std::lock_guard lock(net_.mutex);
    LoopLink& to = *net_.links[lines_[static_cast<size_t>(envelope.line)]];
    const bool fetched = !envelope.payload.empty() && net_.one_in(2);
    to.inbox_.push_back(
        {index_, decode(envelope.bytes).value(), {}, fetched ? &envelope : nullptr});
    if (!fetched) to.inbox_.back().pushed.assign(envelope.payload.begin(), envelope.payload.end());
    eventfd_write(to.event_.get(), 1);
    return fetched ? Transfer::under_way : Transfer::whole;
  }

  bool progress() noexcept override {
    if (net_.stalled) return false;
    const std::lock_guard lock(net_.mutex);
    for (auto& [envelope, ended] : std::exchange(sent_, {})) {
      sink_.sent(*envelope, ended);
    }

    for (const size_t other : std::exchange(broken_, {})) {
      for (size_t line = 0; line < lines_.size(); ++line) {
        if (lines_[line] == other) sink_.lost(static_cast<int>(line), "it broke");
      }
    }

    const bool any = !inbox_.empty();
    for (auto message = inbox_.begin(); message != inbox_.end();) {
      message = net_.one_in(3) && step(*message) ? inbox_.erase(message) : std::next(message);
    }

    return any;
  }

  int arm() noexcept override {
    const std::lock_guard lock(net_.mutex);
    eventfd_t count = 0;
    eventfd_read(event_.get(), &count);
    return inbox_.empty() && sent_.empty() && broken_.empty() ? event_.get() : -1;
  }

  void close(int line) noexcept override { break_with(lines_[static_cast<size_t>(line)]); }

  void break_with(size_t other) {
    const std::lock_guard lock(net_.mutex);
    LoopLink& there = *net_.links[other];
    there.drop(index_);
    drop(other);
    there.broken_.push_back(index_);
    broken_.push_back(other);
  }

 private:
  struct Message {
    size_t from;
    Head head;
    symm::Bytes pushed;
    Envelope* fetched;
    std::byte* at = nullptr;
    size_t moved = 0;
    bool broken = false;
  };

  // True: it has arrived.
  bool step(Message& message) {
    if (message.broken) {
      if (message.at != nullptr) sink_.arrived(message.head, Transfer::broken);
      return true;
    }

    const std::span<const std::byte> payload =
        message.fetched != nullptr ? message.fetched->payload : message.pushed;
    if (message.at == nullptr && !payload.empty()) message.at = sink_.place(message.head);
    const bool dropped = message.at == nullptr && !payload.empty();
    size_t piece = payload.size();
    if (message.fetched != nullptr) piece = (payload.size() - message.moved + 1) / 2;
    if (dropped) piece = 0;
    if (piece != 0) std::memcpy(message.at + message.moved, payload.data() + message.moved, piece);
    message.moved += piece;
    if (!dropped && message.moved < payload.size()) return false;
    if (message.fetched != nullptr) tell(message, Transfer::whole);
    if (!dropped) sink_.arrived(message.head, Transfer::whole);

    return true;
  }

  void tell(const Message& message, Transfer ended) {
    net_.links[message.from]->sent_.emplace_back(message.fetched, ended);
    eventfd_write(net_.links[message.from]->event_.get(), 1);
  }

  void drop(size_t from) {
    for (Message& message : inbox_) {
      if (message.from != from || std::exchange(message.broken, true)) continue;
      if (message.fetched != nullptr) tell(message, Transfer::broken);
    }
    eventfd_write(event_.get(), 1);
  }

  LoopNet& net_;
  Sink& sink_;
  const size_t index_;
  const std::string name_ = "loop";
  symm::Bytes address_;
  symm::Fd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::vector<size_t> lines_;
  std::list<Message> inbox_;
  std::vector<std::pair<Envelope*, Transfer>> sent_;
  std::vector<size_t> broken_;
};

constexpr size_t kBytes = 4096;  // the largest message
constexpr int kRanks = 3;

// Three processes with a rank of a group each.
struct Three {
  explicit Three(uint64_t seed) : net(seed) {
    for (int rank = 0; rank < kRanks; ++rank) {
      served.emplace_back(std::make_unique<Served>(
          [&](Sink& sink) { return std::make_unique<LoopLink>(net, sink); }));
      ends.emplace_back(std::make_unique<End>(*served.back(), seed, rank, kRanks));
    }
    for (auto& end : ends) {
      for (int to = 0; to < kRanks; ++to) {
        end->endpoint->connect(to, served[static_cast<size_t>(to)]->messages->address());
      }
    }
  }

  LoopNet net;
  std::vector<std::unique_ptr<Served>> served;
  std::vector<std::unique_ptr<End>> ends;
};

std::byte byte_of(uint64_t value, size_t at) { return static_cast<std::byte>(value * 31 + at); }

constexpr size_t kMessagesToEach = 24;  // a third of them asks for an answer

// Sends message `i` of `rank` to rank `to`, by one of the two ways.
void send_message(End& end, int rank, size_t i, int to, uint64_t seed) {
  const auto payload = std::make_shared<std::vector<std::byte>>((i * 997 + seed) % kBytes);
  for (size_t at = 0; at < payload->size(); ++at) {
    (*payload)[at] = byte_of(i, at);
  }

  const size_t place = (static_cast<size_t>(rank) * kMessagesToEach + i) * kBytes;
  const Head head{.kind = 1, .memory = i, .offset = place};
  if (i % 2 == 0) {
    end.send(to, head, *payload);
  } else {
    end.endpoint->dispatch(to, head, *payload, payload);
  }
  if (i % 3 == 0) {
    end.send(
        to, {.kind = 2,
                .offset = place,
                .value = (1U << 19) + (static_cast<size_t>(to) * kMessagesToEach + i) * kBytes / 2,
                .call = kBytes / 2});
  }
}

void expect_whole(const End& end, const Head& head) {
  for (size_t at = 0; at < head.bytes; ++at) {
    ASSERT_EQ(end.memory[head.offset + at], byte_of(head.memory, at));
  }
}

TEST(MessageEngine, MessagesOutOfOrderAreHeldBackAndAllArriveWhole) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Three three(seed);
    as_threads(kRanks, [&](int rank) {
      End& end = *three.ends[static_cast<size_t>(rank)];
      for (size_t i = 0; i < kMessagesToEach; ++i) {
        for (int to = 0; to < kRanks; ++to) {
          send_message(end, rank, i, to, seed);
        }
      }

      EXPECT_TRUE(end.await(kRanks * kMessagesToEach * 5 / 3)) << seed;
    });
    for (auto& end : three.ends) {
      EXPECT_TRUE(end->losses.empty()) << end->losses[0];
      uint64_t next[kRanks] = {};
      for (const Head& head : end->heads) {
        EXPECT_EQ(head.sequence, next[head.source]++) << seed;
        if (head.kind != 1) continue;
        ASSERT_NO_FATAL_FAILURE(expect_whole(*end, head));
      }
    }
  }
}

// A stranger who speaks the engine's language, and knows the group and its ranks, but not the key,
// which travels over the mesh.
struct Stranger final : Sink {
  std::byte* place(const Head&) noexcept override { return nullptr; }
  void arrived(const Head&, Transfer) noexcept override {}
  void sent(Envelope&, Transfer) noexcept override {}
  void lost(int, const std::string&) noexcept override {}
};

TEST(MessageEngine, MessagesOfAStrangerAreDropped) {
  constexpr uint64_t kGroup = 5;
  constexpr size_t kMessages = 50;
  const std::vector<std::byte> payload(100, std::byte{7});
  for (const size_t bytes : {size_t{0}, payload.size()}) {
    LoopNet net(kGroup);
    Stranger stranger;
    Envelope forged;
    LoopLink link(net, stranger);
    const auto open = [&](Sink& sink) { return std::make_unique<LoopLink>(net, sink); };
    Served served[] = {Served(open), Served(open)};
    End victim(served[0], kGroup, 0, 2);
    End other(served[1], kGroup, 1, 2);
    other.endpoint->connect(0, served[0].messages->address());

    const symm::Bytes address = served[0].messages->address();
    forged.line = link.connect(std::span(address).subspan(sizeof(Key)));
    forged.head = {.kind = 1, .source = 1, .target = 0, .group = kGroup, .bytes = bytes};
    encode(forged.head, forged.bytes);
    forged.payload = std::span(payload).first(bytes);
    link.send(forged);

    for (size_t i = 0; i < kMessages; ++i) {
      other.send(0, {.kind = 9});
    }
    ASSERT_TRUE(victim.await(kMessages));
    EXPECT_TRUE(victim.losses.empty()) << victim.losses[0];
    EXPECT_EQ(std::count_if(victim.heads.begin(), victim.heads.end(),
                  [](const Head& head) { return head.kind == 9; }),
        static_cast<std::ptrdiff_t>(kMessages));
    EXPECT_EQ(victim.heads.size(), kMessages);
    EXPECT_EQ(std::count(victim.memory.begin(), victim.memory.end(), std::byte{7}), 0);
  }
}

TEST(MessageEngine, LeavesMessagesToPollingThreadsUntilTheySleep) {
  Three three(1);
  End& end = *three.ends[1];
  const auto count = [&] {
    const std::lock_guard lock(end.mutex);
    return end.heads.size();
  };

  end.endpoint->polls(symm::Polling::begins);
  three.served[1]->messages->address();  // what it began before is over
  three.ends[0]->send(1, {.kind = 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(count(), 0U);
  end.endpoint->polls(symm::Polling::ends);
  end.endpoint->polls(symm::Polling::sleeps);
  EXPECT_TRUE(eventually([&] { return count() == 1; }));
}

TEST(MessageEngine, ACutLetsWhatIsUnderWayEndIfItTakesNotLong) {
  int in_time = 0;                                // where nothing else took so long
  for (uint64_t seed = 1; in_time < 6; ++seed) {  // every other message is fetched
    ASSERT_LT(seed, 100U);
    Three three(seed);
    const auto payload = std::make_shared<std::vector<std::byte>>(kBytes);
    three.net.stalled = true;
    three.ends[1]->endpoint->dispatch(0, {.kind = 1}, *payload, payload);
    std::thread soon([&] { three.net.stalled = usleep(5'000) != 0; });
    const int64_t began = now_ns();
    three.ends[1]->endpoint->cut(0);
    const bool had_to_end = now_ns() - began >= 20'000'000;
    soon.join();
    if (had_to_end) continue;
    ++in_time;
    ASSERT_TRUE(three.ends[0]->await(1)) << seed;
  }
}

TEST(MessageEngine, NothingIsTouchedAfterACutAndNobodyHangsWhenLinesBreak) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Three three(seed);
    as_threads(kRanks, [&](int rank) {
      End& end = *three.ends[static_cast<size_t>(rank)];
      const std::vector<std::byte> payload(kBytes, std::byte{7});
      try {
        for (size_t i = 0; i < 40; ++i) {
          if (rank == 0 && i == seed) end.endpoint->cut(1);
          if (rank == 0 && i == seed) {
            std::fill_n(end.memory.begin() + kBytes, kBytes, std::byte{1});
          }
          if (rank == 2 && i == 2 * seed) {
            dynamic_cast<LoopLink*>(three.net.links[2])->break_with(1);
          }
          for (int to = 0; to < kRanks; ++to) {
            end.send(to, {.kind = 1, .offset = static_cast<uint64_t>(rank) * kBytes}, payload);
          }
        }
      } catch (const symm::Error& error) {
        EXPECT_EQ(error.status(), symm::Status::peer_failed) << error.what();
      }
    });

    EXPECT_EQ(std::count(three.ends[0]->memory.begin() + kBytes,
                  three.ends[0]->memory.begin() + 2 * kBytes, std::byte{1}),
        kBytes);
    EXPECT_TRUE(three.ends[0]->losses.empty());
    EXPECT_TRUE(three.ends[2]->await(0, 1));
  }
}
}  // namespace
