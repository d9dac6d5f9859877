// SPDX-License-Identifier: Apache-2.0
//
// How one collective call keeps step with its peers: kernels/host/execution.hpp's Sync on the words of the control segments.
#pragma once

#include "core/host/transport.hpp"

namespace symm::host {

class CallSync final : public Sync {
 public:
  CallSync(HostTransport& transport, const PreparedCall& prepared, uint64_t timeout_ms);

  void enter(const void* payload, size_t size) override;
  const std::byte* await_entry(int peer) override;
  void arrive() override;
  void await(int peer) override;

  // At the end of a call of `bytes`: prefetch for writing what the next one will write if it is like this one. Others read it
  // last in the call before this.
  void prefetch_next_for_write(size_t bytes) const noexcept;

  uint32_t op() const noexcept { return op_; }
  LazyDeadline& deadline() noexcept { return deadline_; }

 private:
  void await_former_call();
  void compare(int peer, const EntryLine& entry);
  [[noreturn]] void report_mismatch(int peer);
  void await_word(Word& word, uint32_t target, int peer);

  HostTransport& transport_;
  const PreparedCall& prepared_;
  LazyDeadline deadline_;
  uint32_t op_;
};

}  // namespace symm::host
