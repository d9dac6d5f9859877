#include "bindings/nccl/cuda_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/factors.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/place.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/symm_library.hpp"
#include "bindings/nccl/thread.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// All ranks begin at the same time, and deaths are noticed.
constexpr uint64_t kMakingMs = 120'000;

// How often ranks tell each other how far they are while they make a group.
constexpr std::chrono::milliseconds kRound{10};
// What they tell.
constexpr uint64_t kIsMaking = 0;
constexpr uint64_t kHasMade = 1;
constexpr uint64_t kHasFailed = 2;

// The driver answers at once, if it does.
constexpr std::chrono::milliseconds kAnswer{200};

// A thread whose wait has been ended leaves at once, if the driver answers it.
constexpr std::chrono::seconds kLeaving{2};

// symm_group_create() on a thread of its own, where it waits for the other ranks: nothing ends that
// wait when one of them fails before it comes, and so those who wait here must be able to leave.
class GroupCreation {
 public:
  static std::shared_ptr<GroupCreation> begin(
      const symm_group_config_t& config, std::string name, std::string directory);

  // Whether it is over, at the end of this time at the latest.
  bool is_over(std::chrono::milliseconds within);
  // What is_over() has found to be made is the caller's from now on; null if nothing is.
  symm_group_t* take();
  // Why nothing is made, once it is over.
  std::string reason();
  // What is made, or will be, is given back.
  void abandon();

 private:
  void end(symm_group_t* made, const char* why);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  bool is_abandoned_ = false;
  symm_group_t* made_ = nullptr;
  std::string reason_;
};

std::shared_ptr<GroupCreation> GroupCreation::begin(
    const symm_group_config_t& config, std::string name, std::string directory) {
  const auto creation = std::make_shared<GroupCreation>();
  start_thread([creation, config, name = std::move(name), directory = std::move(directory)] {
    symm_group_config_t own = config;
    own.name = name.c_str();
    own.bootstrap = directory.c_str();
    symm_group_t* made = nullptr;
    const bool is_made = symm_library().group_create(&own, &made) == SYMM_OK;
    creation->end(made, is_made ? "" : symm_library().last_error());
  });
  return creation;
}

void GroupCreation::end(symm_group_t* made, const char* why) {
  const std::lock_guard lock(mutex_);
  made_ = made;
  reason_ = why;
  is_over_ = true;
  if (is_abandoned_ && made_ != nullptr) symm_library().group_release(made_);
  changed_.notify_all();
}

bool GroupCreation::is_over(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [this] { return is_over_; });
}

symm_group_t* GroupCreation::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(made_, nullptr);
}

std::string GroupCreation::reason() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void GroupCreation::abandon() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
  if (is_over_ && made_ != nullptr) symm_library().group_release(std::exchange(made_, nullptr));
}
}  // namespace

class CudaGroup::Inside {
 public:
  // `group` is null if the group is not there, or is ending.
  explicit Inside(CudaGroup& all) : all_(all) {
    ++all_.inside_;
    const bool is_there = all_.state_ == State::ready && !all_.aborted_ && !all_.released_;
    if (is_there) group = all_.group_;
  }
  ~Inside() {
    if (--all_.inside_ > 0 || (!all_.aborted_ && !all_.released_)) return;
    const std::lock_guard lock(all_.mutex_);
    all_.tell_that_all_are_out();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  symm_group_t* group = nullptr;

 private:
  CudaGroup& all_;
};

CudaGroup::CudaGroup(std::shared_ptr<HostGroup> ranks, const Meeting& meeting, int rank, int size,
    int device, std::string name, uint32_t version, bool blocks, bool is_alone)
    : ranks_(std::move(ranks)),
      meeting_(meeting),
      rank_(rank),
      size_(size),
      device_(device),
      name_(std::move(name)),
      version_(version),
      blocks_(blocks),
      is_alone_(is_alone),
      has_driver_(driver_.open(device)) {}

bool CudaGroup::takes_next(void* stream) {
  const State state = state_;
  if (state != State::untried || !blocks_) return state == State::ready;
  bool is_known = true;
  const bool is_captured = has_driver_ && driver_.capture_of(stream, is_known) != 0;
  return !is_captured && is_known && agrees();
}

bool CudaGroup::agrees() {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_ || released_) return false;
    if (state_ != State::untried) return state_ == State::ready;
    go_in();
  }
  const bool is_agreed = ranks_->agreed();
  const std::lock_guard lock(mutex_);
  if (!is_agreed && state_ == State::untried) state_ = State::refused;
  come_out();
  return state_ != State::refused;
}

bool CudaGroup::settle() noexcept {
  bool is_there = false;
  try {
    if (agrees()) {
      const std::lock_guard making(making_);
      is_there = make_once();
    }
  } catch (const std::exception&) {
    log("no collective of rank %d of %d goes to symm: a lock failed", rank_, size_);
  }

  const std::lock_guard lock(mutex_);
  settled_ = true;
  return is_there;
}

bool CudaGroup::is_settled() noexcept {
  const std::lock_guard lock(mutex_);
  return settled_;
}

bool CudaGroup::is_busy() noexcept {
  const Inside inside(*this);
  return inside.group != nullptr && has_work(inside.group);
}

bool CudaGroup::prepare(void* stream) {
  // A window that is meeting is new until it has met.
  if (state_ == State::ready && !windows_.has_new()) return true;
  const std::lock_guard making(making_);
  const bool is_there = make_once();
  if (is_there && windows_.has_new()) meet_windows(stream);
  return is_there;
}

// A call that is captured is captured on all ranks.
void CudaGroup::meet_windows(void* stream) {
  const Inside inside(*this);
  bool is_known = true;
  const bool is_captured = driver_.capture_of(stream, is_known) != 0;
  if (inside.group == nullptr || is_captured || !is_known) return;

  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    ++awaiting_;
  }

  try {
    windows_.meet(inside.group, *ranks_);
  } catch (const std::exception&) {
    fail(SYMM_ERR_OUT_OF_MEMORY, "no memory for a window");
  }
  condemn_if_broken();

  const std::lock_guard lock(mutex_);
  --awaiting_;
}

bool CudaGroup::make_once() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::untried || aborted_ || released_) return state_ == State::ready;
    go_in();
  }
  symm_group_t* made = nullptr;
  std::optional<Place> place;
  bool is_made = false;
  try {
    is_made = make(made, place);
    if (!is_made) broken_ = condemn_if_broken();
  } catch (const std::exception&) {
    log("no collective of rank %d of %d goes to symm: no memory", rank_, size_);
  }

  const std::lock_guard lock(mutex_);
  group_ = made;
  if (is_made) place_.swap(place);
  state_ = is_made ? State::ready : State::refused;
  come_out();
  return is_made && !aborted_ && !released_;
}

// Returns false.
bool CudaGroup::refuse(const std::string& why) {
  log("no collective of rank %d of %d goes to symm: %s", rank_, size_, why.c_str());
  const std::lock_guard lock(mutex_);
  refusal_ = why;
  return false;
}

std::string CudaGroup::refusal() {
  const std::lock_guard lock(mutex_);
  return refusal_.empty() ? "there is no memory, or it was aborted" : refusal_;
}

bool CudaGroup::make(symm_group_t*& made, std::optional<Place>& place) {
  const bool is_able = has_driver_ && order_.prepare();
  if (is_able) place = Place::take(name_, meeting_, is_alone_ ? INT_MAX : kTakenByDefault);
  if (!ranks_->all_wish(place.has_value())) {
    if (const auto failure = ranks_->failure_told(version_)) return refuse(failure->sentence);
    if (!Driver::is_there()) return refuse("there is no CUDA driver");
    if (!is_able) {
      return refuse(
          "the CUDA driver gives no context, or no event, of device " + std::to_string(device_));
    }
    return refuse(place ? "another rank has not chosen it" : "SYMM_NCCL_COMMS");
  }

  const uint64_t timeout = settings().timeout_ms;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank_;
  config.size = size_;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = device_;
  config.flags = SYMM_GROUP_ON_DEVICE | SYMM_GROUP_OVERLAPPING_DEVICES;
  config.flags |= SYMM_GROUP_VARIABLES_AT_LOAD;
  config.create_timeout_ms = kMakingMs;
  config.timeout_ms = timeout != 0 ? timeout : SYMM_TIMEOUT_INFINITE;
  if (!create(config, made)) return false;
  symm_group_info_t info{};
  info.struct_size = sizeof info;
  const bool is_known = symm_library().group_info(made, &info) == SYMM_OK;
  const bool in_tree = is_known && (info.flags & SYMM_GROUP_TREE_ORDER) != 0;
  const char* const order = in_tree ? ", which adds floats in tree order" : "";
  log("collectives of rank %d of %d go to symm%s", rank_, size_, order);
  return true;
}

// Either all ranks have a group afterwards, or none has: they tell each other in rounds how far
// they are, so that one that fails alone, or dies, or is aborted, ends the wait of the others.
bool CudaGroup::create(const symm_group_config_t& config, symm_group_t*& made) {
  std::shared_ptr<GroupCreation> creation;
  std::string why;
  try {
    creation = GroupCreation::begin(config, "nccl-" + text_of(meeting_) + "-cuda", meeting_place());
  } catch (const std::exception&) {
    why = "there is no memory, or no thread";
  }

  while (true) {
    uint64_t mine = kHasFailed;
    if (creation != nullptr) {
      mine = creation->is_over(kRound) ? kHasMade : kIsMaking;
      if (mine == kHasMade) why = creation->reason();
      if (!why.empty()) mine = kHasFailed;
    }
    const auto all = ranks_->exchange({mine});
    const bool is_over = !all || std::find(all->begin(), all->end(), kHasFailed) != all->end();
    if (is_over) {
      if (creation != nullptr) creation->abandon();
      if (!why.empty()) return refuse(why);
      if (all) return refuse("another rank could not make its part");
      const auto failure = ranks_->failure_told(version_);
      return refuse(failure ? failure->sentence : "a rank has died or left");
    }
    if (std::find(all->begin(), all->end(), kIsMaking) == all->end()) break;
  }
  made = creation->take();
  return true;
}

Result CudaGroup::issue(const Call& call, const std::optional<Scalar>& scalar) noexcept {
  const Inside inside(*this);
  if (inside.group == nullptr) return kRemoteError;
  try {
    if (const Result told = answer_told(); told != kSuccess) return told;
    const std::lock_guard lock(order_mutex_);
    const uint64_t capture = driver_.capture_of(call.stream);
    if (!order_.before_symm(capture, call.stream)) {
      return fail(SYMM_ERR_CUDA, "a call of the CUDA driver failed");
    }

    symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
    if (scalar) {
      options.scale_position = SYMM_SCALE_BEFORE;
      options.scale_pointer = Factors::of(device_).find(driver_, *scalar, call.stream, capture);
      if (options.scale_pointer == nullptr) {
        return fail(SYMM_ERR_CUDA, "a call of the CUDA driver failed");
      }
    }
    const symm_status_t status = enqueue(inside.group, call, scalar ? &options : nullptr);
    if (status != SYMM_OK) return fail(status);
    order_.after_symm(capture);
    if (capture != 0) was_captured_ = true;
    return kSuccess;
  } catch (const std::exception&) {
    return fail(SYMM_ERR_OUT_OF_MEMORY, "no memory for a call");
  }
}

symm_status_t CudaGroup::enqueue(
    symm_group_t* group, const Call& call, const symm_collective_options_t* options) noexcept {
  const SymmLibrary& symm = symm_library();
  const symm_dtype_t dtype = *dtype_of(call.type);
  // An operation of the program's own is a sum of what was multiplied.
  const symm_op_t op = op_of(call.op).value_or(SYMM_OP_SUM);
  const auto& [collective, send, recv, count, type, number, root, stream, is_bcast] = call;

  switch (collective) {
    case SYMM_COLLECTIVE_ALLREDUCE:
      return symm.allreduce(group, send, recv, count, dtype, op, options, stream);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return symm.reduce_scatter(group, send, recv, count, dtype, op, options, stream);
    case SYMM_COLLECTIVE_REDUCE:
      return symm.reduce(group, send, recv, count, dtype, op, root, options, stream);
    case SYMM_COLLECTIVE_ALLGATHER:
      return symm.allgather(group, send, recv, count, dtype, options, stream);
    case SYMM_COLLECTIVE_ALLTOALL:
      return symm.alltoall(group, send, recv, count, dtype, options, stream);
    case SYMM_COLLECTIVE_BROADCAST:
      return symm.broadcast(group, send, recv, count, dtype, root, options, stream);
    case SYMM_COLLECTIVE_GATHER:
      return symm.gather(group, send, recv, count, dtype, root, options, stream);
    default: return symm.scatter(group, send, recv, count, dtype, root, options, stream);
  }
}

Result CudaGroup::pass(std::span<const MessageCall> calls) noexcept {
  const Inside inside(*this);
  if (inside.group == nullptr) return kRemoteError;
  try {
    if (const Result told = answer_told(); told != kSuccess) return told;
    const std::lock_guard lock(order_mutex_);
    void* const stream = calls.front().stream;
    const uint64_t capture = driver_.capture_of(stream);
    if (!order_.before_symm(capture, stream)) {
      return fail(SYMM_ERR_CUDA, "a call of the CUDA driver failed");
    }
    const symm_status_t status = enqueue_messages(inside.group, calls, stream);
    if (status != SYMM_OK) return fail(status);
    order_.after_symm(capture);
    if (capture != 0) was_captured_ = true;
    return kSuccess;
  } catch (const std::exception&) {
    return fail(SYMM_ERR_OUT_OF_MEMORY, "no memory for a call");
  }
}

// All messages go on one stream, which waits for the others' and is waited for by them, as
// NCCL's group of calls on several streams.
symm_status_t CudaGroup::enqueue_messages(
    symm_group_t* group, std::span<const MessageCall> calls, void* stream) {
  const SymmLibrary& symm = symm_library();
  std::vector<symm_message_t> messages;
  std::set<void*> others;
  for (const MessageCall& call : calls) {
    symm_message_t message = SYMM_MESSAGE_INIT;
    message.kind = call.is_send ? SYMM_MESSAGE_SEND : SYMM_MESSAGE_RECV;
    message.rank = call.peer;
    message.source = call.send;
    message.destination = call.recv;
    message.bytes = call.count * bytes_of(*dtype_of(call.type));
    messages.push_back(message);
    if (call.stream != stream) others.insert(call.stream);
  }

  symm_status_t status = SYMM_OK;
  for (void* other : others) {
    if (status == SYMM_OK) status = symm.stream_wait(group, stream, other, nullptr);
  }
  if (status == SYMM_OK) {
    status = symm.messages(group, messages.data(), messages.size(), nullptr, nullptr, stream);
  }
  for (void* other : others) {
    if (status == SYMM_OK) status = symm.stream_wait(group, other, stream, nullptr);
  }
  return status;
}

void CudaGroup::note_op(int op, const Scalar& scalar) {
  const std::lock_guard lock(ops_mutex_);
  ops_[op] = scalar;
}

void CudaGroup::forget_op(int op) noexcept {
  const std::lock_guard lock(ops_mutex_);
  ops_.erase(op);
}

std::optional<Scalar> CudaGroup::scalar_of(int op) {
  const std::lock_guard lock(ops_mutex_);
  const auto found = ops_.find(op);
  return found != ops_.end() ? std::optional(found->second) : std::nullopt;
}

void CudaGroup::condemn(const GroupFailure& failure) {
  const std::lock_guard lock(told_mutex_);
  if (told_ == kSuccess) told_sentence_ = failure.sentence;
  told_ = failure.result;
}

Result CudaGroup::answer_told() {
  const Result told = told_;
  if (told == kSuccess) return kSuccess;
  const std::lock_guard lock(told_mutex_);
  say_again(told_sentence_, told);
  return told;
}

// Whether the ranks can come to no answer any more: calls fail from now on.
bool CudaGroup::condemn_if_broken() {
  const auto failure = ranks_->failure_told(version_);
  if (failure) condemn(*failure);
  return failure.has_value();
}

Result CudaGroup::answer_broken() { return broken_ ? answer_told() : kSuccess; }

// Fails all ranks: after a refusal on this rank only, the others would wait for ever.
Result CudaGroup::fail(symm_status_t status, const char* why) noexcept {
  try {
    if (why == nullptr) why = symm_library().last_error();
    const std::string sentence = why;
    std::optional<GroupFailure> failed = failure_of(group_, version_);
    if (!failed) symm_library().group_abort(group_, why);
    const Result result = failed ? failed->result : result_of(status, version_);
    say(sentence, result);
    return result;
  } catch (const std::exception&) {
    return result_of(status, version_);
  }
}

Result CudaGroup::before_nccl(void* stream) noexcept {
  const Inside inside(*this);
  if (inside.group == nullptr) return kSuccess;
  const std::lock_guard lock(order_mutex_);
  if (!order_.must_wait_for_symm(driver_.capture_of(stream))) return kSuccess;
  auto* const all = reinterpret_cast<void*>(static_cast<uintptr_t>(SYMM_ALL_STREAMS));
  const symm_status_t status = symm_library().stream_wait(inside.group, stream, all, nullptr);
  return status == SYMM_OK ? kSuccess : fail(status);
}

void CudaGroup::after_nccl(void* stream) noexcept {
  const Inside inside(*this);
  if (inside.group == nullptr) return;
  try {
    const std::lock_guard lock(order_mutex_);
    order_.after_nccl(driver_.capture_of(stream), stream);
  } catch (const std::exception&) {
    log("work of NCCL is not waited for: no memory");
  }
}

std::optional<GroupFailure> CudaGroup::failure() {
  const Inside inside(*this);
  if (inside.group == nullptr) return std::nullopt;
  return failure_of(inside.group, version_);
}

// A stream that waits for all streams that symm has worked on; null if there is none to be had.
void* CudaGroup::stream_behind(symm_group_t* group) noexcept {
  void* const behind = driver_.make_stream();
  if (behind == nullptr) return nullptr;
  auto* const all = reinterpret_cast<void*>(static_cast<uintptr_t>(SYMM_ALL_STREAMS));
  if (symm_library().stream_wait(group, behind, all, nullptr) == SYMM_OK) return behind;
  driver_.end_stream(behind);
  return nullptr;
}

bool CudaGroup::has_work(symm_group_t* group) noexcept {
  void* const behind = stream_behind(group);
  if (behind == nullptr) return true;
  const bool is_over = driver_.is_over(behind);
  driver_.end_stream(behind);
  return !is_over;
}

// The driver is asked on a thread of its own. While a thread of the program copies to pageable
// memory, it answers no other one until the work before that copy is over, and that may be the
// work that an abort is to end, of symm or of NCCL. So no answer says that there is work, and
// nobody waits for that thread, which has a reference to the group. The mutex is held.
bool CudaGroup::may_have_work() noexcept {
  if (symm_library().group_retain(group_) != SYMM_OK) return true;
  try {
    const auto told = std::make_shared<std::promise<bool>>();
    std::future<bool> answer = told->get_future();
    start_thread([self = shared_from_this(), group = group_, told] {
      told->set_value(self->has_work(group));
      symm_library().group_release(group);
    });
    return answer.wait_for(kAnswer) != std::future_status::ready || answer.get();
  } catch (...) {
    symm_library().group_release(group_);
    return true;
  }
}

void CudaGroup::complete() noexcept {
  const Inside inside(*this);
  if (inside.group == nullptr) return;
  void* const behind = stream_behind(inside.group);
  if (behind == nullptr) return;
  driver_.await(behind);
  driver_.end_stream(behind);
}

void CudaGroup::abort() noexcept {
  std::unique_lock lock(mutex_);
  aborted_ = true;
  if (awaiting_ > 0) ranks_->interrupt();
  if (group_ != nullptr && (inside_ > 0 || may_have_work())) {
    symm_library().group_abort(group_, "ncclCommAbort()");
  }
  const bool are_out = changed_.wait_for(lock, kLeaving, [this] { return inside_ == 0; });
  if (!are_out) log("rank %d of %d is aborted while a thread is in the driver", rank_, size_);
}

bool CudaGroup::is_aborted() noexcept { return aborted_; }

// The mutex is held.
void CudaGroup::go_in() noexcept {
  ++inside_;
  ++awaiting_;
}

// The mutex is held.
void CudaGroup::come_out() noexcept {
  --awaiting_;
  --inside_;
  tell_that_all_are_out();
}

// The mutex is held.
void CudaGroup::tell_that_all_are_out() noexcept {
  if (inside_ > 0) return;
  changed_.notify_all();
  if (released_) give_up();
}

void CudaGroup::release() noexcept {
  const std::lock_guard lock(mutex_);
  if (released_.exchange(true) || inside_ > 0) return;
  give_up();
}

// The mutex is held. Graphs that were captured may be replayed until the process ends, so what
// they refer to stays.
void CudaGroup::give_up() noexcept {
  if (group_ == nullptr) return;
  place_.reset();
  symm_group_t* const group = std::exchange(group_, nullptr);
  if (was_captured_) return;
  windows_.release();
  symm_library().group_release(group);
}
}  // namespace symm::nccl
