// NCCL, found at run time, carries collectives between the GPUs of several machines, in
// the order of streams. This file knows nothing of groups, nor of CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/revocation.hpp"
#include "core/base/timed_mutex.hpp"

namespace symm::engine {
// The progress of a watched call's work on its stream.
enum class Progress { waits, runs, over };

class StreamEngine {
 public:
  // The name of a communicator, which all of its ranks must know.
  using Id = std::array<std::byte, 128>;

  struct Owner {
    int rank = 0;
    int size = 1;
    // By rank.
    std::span<const int64_t> pids;
    std::shared_ptr<Revocation> revocation;
    // Fails the group, on all ranks.
    std::function<void(const Failure&)> fail;
  };

  // Throws Error(unavailable), which says what was looked for, where, and what to install.
  explicit StreamEngine(const Owner& owner);
  // The destructor never waits. Another thread waits until the issued work and the communicator
  // have ended.
  ~StreamEngine();
  StreamEngine(StreamEngine&&) = delete;

  // "nccl 2.27.3".
  const std::string& name() const noexcept;
  // Called on one rank, which shares the result.
  Id draw_id() const;
  void connect(const Id& id, Deadline deadline);

  // Issues the calls that `body` makes as one: when one of them has begun, all have.
  // Returns when they are on their streams.
  void together(uint64_t timeout_ms, const std::function<void()>& body);
  void send(const void* from, size_t bytes, int peer, void* stream);
  void recv(void* to, size_t bytes, int peer, void* stream);
  void allgather(const void* from, void* to, size_t bytes, void* stream);
  void broadcast(const void* from, void* to, size_t bytes, int root, void* stream);
  // Reductions by NCCL's arithmetic, in NCCL's order. `type` and `op` are NCCL's numbers.
  void allreduce(const void* from, void* to, size_t count, int type, int op, void* stream);
  void reduce_scatter(const void* from, void* to, size_t count, int type, int op, void* stream);

  // Fails the group if a call among these ranks has not ended `timeout_ms` after it began, or
  // soon after one of the ranks left. `progress` is called on a thread of the engine.
  void watch(const char* call, uint64_t timeout_ms, std::vector<int32_t> ranks,
      std::function<Progress()> progress);
  // Called when the group has failed. When this returns, NCCL uses no memory of the
  // group any more, or was given up.
  void await_end() const noexcept;

 private:
  struct State;
  void require(int result, const char* call) const;
  void settle(int result, const char* call, uint64_t timeout_ms);
  const std::shared_ptr<State> state_;
};
}  // namespace symm::engine
