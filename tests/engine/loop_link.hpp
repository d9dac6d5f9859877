// A link between threads of one process, with all that an engine may do to messages: they overtake each other, are sent at once
// or when they have been fetched piece by piece, and stay as they are for a while; lines break. What happens follows from a seed
// and from the order in which threads come.
#pragma once

#include <sys/eventfd.h>
#include <list>
#include "core/base/fd.hpp"
#include "tests/engine/engine_support.hpp"

namespace support {
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

  Transfer send(Parcel& parcel) noexcept override {
    const std::lock_guard lock(net_.mutex);
    LoopLink& to = *net_.links[lines_[static_cast<size_t>(parcel.line)]];
    const bool fetched = !parcel.payload.empty() && net_.one_in(2);
    to.inbox_.push_back({index_, decode(parcel.bytes).value(), {}, fetched ? &parcel : nullptr});
    if (!fetched) to.inbox_.back().pushed.assign(parcel.payload.begin(), parcel.payload.end());
    eventfd_write(to.event_.get(), 1);
    return fetched ? Transfer::under_way : Transfer::whole;
  }

  bool progress() noexcept override {
    if (net_.stalled) return false;
    const std::lock_guard lock(net_.mutex);
    for (auto& [parcel, ended] : std::exchange(sent_, {})) sink_.sent(*parcel, ended);
    for (const size_t other : std::exchange(broken_, {})) {
      for (size_t line = 0; line < lines_.size(); ++line)
        if (lines_[line] == other) sink_.lost(static_cast<int>(line), "it broke");
    }
    const bool any = !inbox_.empty();
    for (auto message = inbox_.begin(); message != inbox_.end();)
      message = net_.one_in(3) && step(*message) ? inbox_.erase(message) : std::next(message);
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
    there.drop(index_), drop(other);
    there.broken_.push_back(index_), broken_.push_back(other);
  }
 private:
  struct Message {
    size_t from;
    Head head;
    symm::Bytes pushed;
    Parcel* fetched;
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
    const std::span<const std::byte> payload = message.fetched != nullptr ? message.fetched->payload : message.pushed;
    if (message.at == nullptr && !payload.empty()) message.at = sink_.place(message.head);
    const bool dropped = message.at == nullptr && !payload.empty();
    const size_t piece = dropped ? 0 : message.fetched != nullptr ? (payload.size() - message.moved + 1) / 2 : payload.size();
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
  std::vector<std::pair<Parcel*, Transfer>> sent_;
  std::vector<size_t> broken_;
};
}  // namespace support
