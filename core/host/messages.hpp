// Passes messages between this rank and others, in the threads that send and receive. All sides of
// a call progress together, in one wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/host/controls.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/message_pair.hpp"

namespace symm::host {
class Messages {
 public:
  // `pull`: as MessagePair::Surroundings::pull.
  Messages(Controls& controls, size_t pull);
  ~Messages();

  // Whether `peer` is a thread of this process, which can read its memory anywhere.
  void connect(int peer, bool same_process);

  // As Transport::pass_messages() and Transport::post_messages().
  void pass(std::span<MessageSide> sides, uint64_t timeout_ms);
  std::unique_ptr<PostedMessages> post(std::span<MessageSide> sides);

 private:
  class Call;
  class Posted;

  void finish(Call& call, uint64_t timeout_ms, Failure failure);
  MessagePair& pair_of(int peer);
  MessagePair& make_pair_of(int peer);
  MessagePair::Surroundings surroundings(const MailboxShape& shape);

  Controls& controls_;
  const size_t llc_bytes_;
  const size_t pull_;
  Word news_{0};
  std::vector<bool> same_process_;
  std::mutex making_;
  // Made when the first call needs them, by rank.
  std::vector<std::unique_ptr<MessagePair>> pairs_;
  std::vector<std::atomic<MessagePair*>> made_;
};
}  // namespace symm::host
