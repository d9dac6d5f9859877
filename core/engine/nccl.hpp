// What carries collectives between the GPUs of several machines, in the order of
// streams: NCCL, found at run time. Of groups and of CUDA nothing is known here.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/base/timed_mutex.hpp"

namespace symm::engine {
// How far work has come that is on a stream. Asked on a thread of the engine's own.
enum class Progress { waits, runs, over };

class StreamEngine {
 public:
  using Id = std::array<std::byte, 128>;  // of a communicator, which all of its ranks are told
  struct Owner {
    int rank = 0, size = 1;
    std::span<const int64_t> pids;  // by rank
    std::shared_ptr<Revocation> revocation;
    std::function<void(const Failure&)> fail;  // the group, on all ranks
  };
  // Throws Error(unavailable): what was looked for, where, what to install.
  explicit StreamEngine(const Owner& owner);
  // Never waits. Another thread lets what was issued end, or what is left of it.
  ~StreamEngine();
  StreamEngine(StreamEngine&&) = delete;

  const std::string& name() const noexcept;  // "nccl 2.27.3"
  Id draw_id() const;                        // on one rank
  void connect(const Id& id, Deadline deadline);

  // Issue the calls that `body` makes, as one: all of them have begun when one has.
  // Returns when they are on their streams.
  void together(uint64_t timeout_ms, const std::function<void()>& body);
  void send(const void* from, size_t bytes, int peer, void* stream);
  void recv(void* to, size_t bytes, int peer, void* stream);
  void allgather(const void* from, void* to, size_t bytes, void* stream);
  void broadcast(const void* from, void* to, size_t bytes, int root, void* stream);
  // NCCL's own arithmetic, in an order of its own; `type` and `op` as NCCL counts them.
  void allreduce(const void* from, void* to, size_t count, int type, int op, void* stream);
  void reduce_scatter(const void* from, void* to, size_t count, int type, int op, void* stream);

  // Fail the group if what `progress` asks about, of these ranks, does not end so long
  // after it began, or soon after one left.
  void watch(const char* what, uint64_t timeout_ms, std::vector<int32_t> whom,
      std::function<Progress()> progress);
  // The group has failed: when this returns, NCCL has let go, or has been given up.
  void await_end() const noexcept;

 private:
  struct State;
  void require(int result, const char* call) const;
  void settle(int result, const char* call, uint64_t timeout_ms);
  const std::shared_ptr<State> state_;
};
}  // namespace symm::engine
