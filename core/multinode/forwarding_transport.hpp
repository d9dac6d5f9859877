// A transport whose calls another one carries out: the transport of the ranks of one
// machine, which a transport of several machines owns and extends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"

namespace symm::multinode {
class ForwardingTransport : public Transport, public DeviceTransport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> local)
      : Transport(static_cast<DeviceTransport&>(*this), *local), local_(std::move(local)) {}

  OutgoingMessage share() const override { return local_->share(); }
  void connect(int peer, Message message, const PeerIdentity& identity) override {
    local_->connect(peer, std::move(message), identity);
  }
  void ready() override { local_->ready(); }

  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override {
    local_->barrier(ranks, channel, timeout_ms, stream);
  }
  void finish(int channel, uint64_t timeout_ms) override { local_->finish(channel, timeout_ms); }

  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      uint64_t timeout_ms, void* stream) override {
    local_->send_signal(memory, rank, channel, op, value, timeout_ms, stream);
  }
  void take_signal(
      const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) override {
    local_->take_signal(memory, rank, channel, timeout_ms, stream);
  }
  SignalState look_at_signal(const MemoryView& memory, int rank, int channel) override {
    return local_->look_at_signal(memory, rank, channel);
  }
  void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any,
      uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) override {
    local_->wait_signals(memory, waits, any, timeout_ms, out_index, out_seen, stream);
  }
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes,
      uint64_t timeout_ms, void* stream) override {
    local_->write_value(memory, rank, offset, value, bytes, timeout_ms, stream);
  }
  void wait_value(const MemoryView& memory, const void* word, size_t bytes, Compare compare,
      uint64_t value, uint64_t timeout_ms, void* stream) override {
    local_->wait_value(memory, word, bytes, compare, value, timeout_ms, stream);
  }

  void change_value(const MemoryView& memory, int rank, size_t offset, const AtomicChange& change,
      void* fetched, uint64_t timeout_ms, void* stream) override {
    local_->change_value(memory, rank, offset, change, fetched, timeout_ms, stream);
  }
  uint64_t read_value(const MemoryView& memory, int rank, size_t offset, size_t bytes,
      uint64_t timeout_ms) override {
    return local_->read_value(memory, rank, offset, bytes, timeout_ms);
  }

  void put(const MemoryView& memory, int rank, size_t offset, const void* from, size_t bytes,
      uint64_t timeout_ms, void* stream) override {
    local_->put(memory, rank, offset, from, bytes, timeout_ms, stream);
  }
  void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes,
      uint64_t timeout_ms, void* stream) override {
    local_->get(memory, rank, offset, to, bytes, timeout_ms, stream);
  }
  void fill(const MemoryView& memory, int rank, size_t offset, const Copies& copies,
      uint64_t timeout_ms, void* stream) override {
    local_->fill(memory, rank, offset, copies, timeout_ms, stream);
  }
  bool streams_pieces() const noexcept override { return local_->streams_pieces(); }
  void put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override {
    local_->put_pieces(memory, rank, offset, from, pieces, timeout_ms, stream);
  }
  void get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override {
    local_->get_pieces(memory, rank, offset, to, pieces, timeout_ms, stream);
  }
  void copy(void* to, const void* from, size_t bytes, void* stream) override {
    local_->copy(to, from, bytes, stream);
  }
  void fill_here(void* to, const Copies& copies, void* stream) override {
    local_->fill_here(to, copies, stream);
  }

  void collective(const CollectiveCall& call) override { local_->collective(call); }
  void batch(std::span<CollectiveCall> calls) override { local_->batch(calls); }
  PlanReport plan(const CollectiveCall& call) override { return local_->plan(call); }
  void stream_wait(void* stream, void* after) override { local_->stream_wait(stream, after); }
  bool stream_done(void* stream) override { return local_->stream_done(stream); }

  uint64_t scratch_bytes() const noexcept override { return local_->scratch_bytes(); }
  uint64_t lent_bytes() const noexcept override { return local_->lent_bytes(); }
  int max_ranks() const noexcept override { return local_->max_ranks(); }
  Transport* lender() noexcept override { return local_->lender(); }
  void let_go() noexcept override { local_->let_go(); }
  std::string engine() const override { return local_->engine(); }

  void check_device_errors() override { local_->device().check_device_errors(); }
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override {
    local_->device().memory_added(memory);
  }
  void memory_removed(const MemoryView& memory) noexcept override {
    local_->device().memory_removed(memory);
  }
  int max_memories() const noexcept override { return local_->device().max_memories(); }
  size_t block_unit() const noexcept override { return local_->device().block_unit(); }
  Tables device_tables(const MemoryView& memory) const override {
    return local_->device().device_tables(memory);
  }

  std::string why_no_multicast() const override { return local_->device().why_no_multicast(); }
  void add_multicast(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks,
      OutOfBand& out_of_band) override {
    local_->device().add_multicast(memory, blocks, out_of_band);
  }

 private:
  const std::unique_ptr<Transport> local_;
};
}  // namespace symm::multinode
