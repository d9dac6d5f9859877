// symm's part in a communicator: a CUDA group of its ranks, by whose kernels
// collectives go, and the order between that work and NCCL's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/driver.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/place.hpp"
#include "bindings/nccl/symm_library.hpp"
#include "bindings/nccl/windows.hpp"
#include "bindings/nccl/work_order.hpp"
#include <symm/symm.h>

namespace symm::nccl {
// symm_messages() takes no more at a time where its messages go by kernels.
inline constexpr size_t kMostMessages = 1024;

class CudaGroup : public std::enable_shared_from_this<CudaGroup> {
 public:
  // `device` is the ordinal that NCCL tells. `name` is the communicator's, `version`
  // the NCCL that its maker was compiled with. `is_alone`: there is no NCCL that does what symm
  // does not.
  CudaGroup(std::shared_ptr<HostGroup> ranks, const Meeting& meeting, int rank, int size,
      int device, std::string name, uint32_t version, bool blocks, bool is_alone = false);
  CudaGroup(const CudaGroup&) = delete;
  CudaGroup& operator=(const CudaGroup&) = delete;

  int size() const { return size_; }
  bool is_alone() const { return is_alone_; }
  // Equal on all ranks, and different for each communicator.
  const Meeting& meeting() const { return meeting_; }

  // Whether the next collective that symm takes goes to symm. It goes to NCCL if the ranks have
  // not agreed, and in a capture as long as there is no group: NCCL demands that a call is
  // captured on all ranks or on none. Waits for the ranks' agreement, and not for the program.
  bool takes_next(void* stream);

  // Makes the group, unless that was tried before. Returns whether there is a group. All
  // ranks succeed, or all fail, and then NCCL does all collectives. Before a call on
  // `stream` outside of captures, windows that are new become symmetric memory. Waits for
  // the others to make this call.
  bool prepare(void* stream);

  // Where prepare() has returned false because the ranks did not come to an answer before the
  // deadline, or one of them has died: the result of this and of all later calls, which says why
  // again. kSuccess: NCCL does the call.
  Result answer_broken();

  // Called after prepare() has returned true. `scalar` is that of the call's
  // operation, if it is_scaled().
  Result issue(const Call& call, const std::optional<Scalar>& scalar) noexcept;

  // Whether the group is there. If it is when ranks send and receive, it is on all of them: it was
  // made in a collective before, and NCCL demands one order of calls.
  bool is_ready() const { return state_ == State::ready; }
  // Passes messages, at most kMostMessages, which progress together. Called where is_ready().
  Result pass(std::span<const MessageCall> calls) noexcept;

  // The operations that ncclRedOpCreatePreMulSum() has made for the communicator.
  void note_op(int op, const Scalar& scalar);
  void forget_op(int op) noexcept;
  std::optional<Scalar> scalar_of(int op);

  // Around a call that goes on to NCCL: NCCL orders what is issued on different streams for one
  // communicator, and so these order it with what symm has issued.
  Result before_nccl(void* stream) noexcept;
  void after_nccl(void* stream) noexcept;

  // Makes the group, or finds that there is none, for a communicator that does not block, or that
  // symm serves by itself. Waits for the other ranks to make this call; whether the group is there.
  // No call goes to symm before.
  bool settle() noexcept;
  // Why there is no group, once settle() has said so.
  std::string refusal();
  // Whether settle() has returned.
  bool is_settled() noexcept;
  // Whether work that symm has issued outside of captures is under way.
  bool is_busy() noexcept;
  bool blocks() const { return blocks_; }

  Windows& windows() { return windows_; }

  std::optional<GroupFailure> failure();
  // The program has been told that the communicator has failed: issue() fails from now on. The
  // group itself may notice later.
  void condemn(const GroupFailure& failure);

  // Waits until what symm has issued outside of captures is over, as NCCL waits for its
  // own work before a communicator ends. abort() ends the wait.
  void complete() noexcept;

  // Ends calls of other threads, and all ranks' work if some is under way here, and waits a while
  // until no thread is inside: the driver may answer one only when NCCL has been aborted, too.
  // Nothing goes to symm afterwards. Any thread.
  void abort() noexcept;
  // Whether a call that was under way must not go on to NCCL, which is ending the communicator.
  bool is_aborted() noexcept;
  // Gives the group up when no thread is inside. Never waits.
  void release() noexcept;

 private:
  enum class State { untried, refused, ready };
  // Counts the threads that work on the group.
  class Inside;

  bool agrees();
  bool make_once();
  void meet_windows(void* stream);
  bool condemn_if_broken();
  bool make(symm_group_t*& made, std::optional<Place>& place);
  bool create(const symm_group_config_t& config, symm_group_t*& made);
  bool refuse(const std::string& why);
  void* stream_behind(symm_group_t* group) noexcept;
  bool has_work(symm_group_t* group) noexcept;
  bool may_have_work() noexcept;
  symm_status_t enqueue_messages(
      symm_group_t* group, std::span<const MessageCall> calls, void* stream);
  symm_status_t enqueue(
      symm_group_t* group, const Call& call, const symm_collective_options_t* options) noexcept;
  // The result of a call on a communicator that has failed, which says why again; else kSuccess.
  Result answer_told();
  // `why` is null if a call of symm has just failed, and so has said why.
  Result fail(symm_status_t status, const char* why = nullptr) noexcept;
  // Around a wait for other ranks while there is no group yet.
  void go_in() noexcept;
  void come_out() noexcept;
  void tell_that_all_are_out() noexcept;
  void give_up() noexcept;

  const std::shared_ptr<HostGroup> ranks_;
  const Meeting meeting_;
  const int rank_;
  const int size_;
  const int device_;
  const std::string name_;
  const uint32_t version_;
  const bool blocks_;
  const bool is_alone_;
  Driver driver_;
  bool has_driver_ = false;

  std::atomic<Result> told_{kSuccess};
  std::mutex told_mutex_;
  std::string told_sentence_;

  // Held by whoever makes the group.
  std::mutex making_;

  // Held by whoever changes what stands below, up to `place_`. A call that finds the group ready
  // takes no lock: it writes `inside_` and then reads the rest, and a thread that ends the group
  // writes the rest and then reads `inside_`, so one of both sees the other (sequential
  // consistency).
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_{State::untried};
  symm_group_t* group_ = nullptr;
  std::atomic<int> inside_{0};
  // The threads inside that wait for words of other ranks, which HostGroup::interrupt() ends.
  int awaiting_ = 0;
  bool settled_ = false;
  std::string refusal_;
  // The ranks came to no answer.
  std::atomic<bool> broken_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> released_{false};
  // While the group is there.
  std::optional<Place> place_;

  // Held while work is issued, so that what stands below tells of the order of it.
  std::mutex order_mutex_;
  WorkOrder order_{driver_};
  Windows windows_;

  std::mutex ops_mutex_;
  std::map<int, Scalar> ops_;

  // A graph may be replayed after the communicator has ended.
  bool was_captured_ = false;
};
}  // namespace symm::nccl
