// Ends of a message engine for tests.
#pragma once

#include "core/engine/message_engine.hpp"
#include "tests/support/core.hpp"

namespace support {
using namespace symm::engine;

// UCX, on loopback.
inline std::unique_ptr<Link> open_ucx_here(Sink& sink) { return open_ucx(sink, {"lo"}); }

// symm's own connections, on loopback.
inline std::unique_ptr<Link> open_secure_here(Sink& sink) {
  return open_secure(sink, {"127.0.0.1"});
}

// A message engine with the thread that serves it.
struct Served {
  explicit Served(const std::function<std::unique_ptr<Link>(Sink&)>& open)
      : messages(make_message_engine(open)) {}
  ~Served() {
    messages->stop();
    thread.join();
  }
  std::unique_ptr<MessageEngine> messages;
  std::thread thread{[this] { messages->serve(); }};
};

// A rank of a group: memory that others write to, what arrived, who was lost. Kind 2
// asks for a range of it, which kind 3 brings.
struct End final : Receiver {
  End(Served& at, uint64_t group, int rank, int size, size_t bytes = 1U << 20)
      : memory(bytes),
        revocation(std::make_shared<symm::Revocation>(size)),
        endpoint(at.messages->open_endpoint(group, rank, size, *this, revocation)) {}

  std::byte* place(int, const Head& head) noexcept override {
    return head.offset > memory.size() || head.bytes > memory.size() - head.offset
               ? nullptr
               : memory.data() + head.offset;
  }
  void arrived(int from, const Head& head) noexcept override {
    std::this_thread::sleep_for(pause);
    if (head.kind == 2) {
      endpoint->answer(from, {.kind = 3, .offset = head.value},
          std::span(memory).subspan(head.offset, head.call), {});
    }
    const std::lock_guard lock(mutex);
    heads.push_back(head);
  }
  void lost(int peer, const std::string& how) noexcept override {
    const std::lock_guard lock(mutex);
    losses.push_back(std::to_string(peer) + ": " + how);
  }
  void send(int rank, const Head& head, std::span<const std::byte> payload = {},
      uint64_t milliseconds = 20'000) {
    symm::LazyDeadline deadline(milliseconds);
    endpoint->send(rank, head, payload, deadline);
  }
  // Until so much has come, of messages or losses.
  bool await(size_t messages, size_t lost_peers = 0) {
    return eventually([&] {
      endpoint->progress();
      const std::lock_guard lock(mutex);
      return heads.size() >= messages && losses.size() >= lost_peers;
    });
  }

  std::vector<std::byte> memory;
  // How long each message that arrives takes.
  std::chrono::milliseconds pause{0};
  std::mutex mutex;
  std::vector<Head> heads;
  std::vector<std::string> losses;
  std::shared_ptr<symm::Revocation> revocation;
  std::unique_ptr<Endpoint> endpoint;
};
}  // namespace support
