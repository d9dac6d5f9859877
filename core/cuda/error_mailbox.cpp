// The pinned page by which kernels report a failure to the host, and the host tells kernels
// that wait to give up.
#include "core/cuda/error_mailbox.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/base/background_tasks.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/tag_table.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
// The page begins with the error record. Behind it lie what kernels are told, and a word that was
// read from the device.
constexpr size_t kPage = 4096;
constexpr size_t kRead = 2048;

// The control blocks of small and of large groups have equal words.
using Small = ControlWordsOf<kSmallRanks>;
using Large = ControlWordsOf<kMaxRanks>;
constexpr size_t kSpoilt = offsetof(Small, spoilt);
constexpr size_t kAbort = offsetof(Small, abort);
static_assert(kSpoilt == offsetof(Large, spoilt) && kAbort == offsetof(Large, abort));
// What they are told is the same for both, as far as a small group has ranks.
using ToldOfAny = ToldOf<kMaxRanks>;
static_assert(offsetof(ToldOfAny, departed) == offsetof(ToldOf<kSmallRanks>, departed));
static_assert(kToldAt + sizeof(ToldOfAny) <= kRead);

Operation operation_of(const ErrorRecord& record) {
  return static_cast<Operation>(record.operation & ((1U << kOperationBits) - 1));
}

const char* name_of_operation(const ErrorRecord& record) {
  const Operation operation = operation_of(record);
  switch (operation) {
    case Operation::barrier: return "barrier";
    case Operation::wait_signal: return "wait_signal";
    case Operation::wait_value: return "wait_value";
    case Operation::send: return "send";
    case Operation::recv: return "recv";
    case Operation::messages: return "messages";
    case Operation::put_pieces: return "put_pieces";
    case Operation::get_pieces: return "get_pieces";
    case Operation::exchange_start: return "exchange_start";
    case Operation::exchange_finish: return "exchange_finish";
    case Operation::wait_ready: return "options.ready";
  }
  return collective_name(static_cast<Collective>(operation));
}

bool is_of_messages(const ErrorRecord& record) {
  const Operation operation = operation_of(record);
  return operation == Operation::send || operation == Operation::recv ||
         operation == Operation::messages;
}

bool is_of_exchange(const ErrorRecord& record) {
  const Operation operation = operation_of(record);
  return operation == Operation::exchange_start || operation == Operation::exchange_finish;
}

// "recv", or in a call of several "messages[2]: recv". Spoilt stages are no matter of a side.
std::string side_of(const ErrorRecord& record) {
  if (record.trouble == static_cast<uint32_t>(WaitError::spoilt)) return name_of_operation(record);
  const char* kind = (record.expected & 1U) != 0 ? "recv" : "send";
  if (operation_of(record) != Operation::messages) return kind;
  return format("messages[%u]: %s", record.expected >> 1, kind);
}

// The operation and where it was under way, as messages begin.
std::string place_of(const ErrorRecord& record, int device) {
  if (is_of_messages(record)) {
    return format("%s on device %d, channel %u", side_of(record).c_str(), device, record.channel);
  }
  const char* operation = name_of_operation(record);
  if (is_of_exchange(record)) {
    return format("%s on device %d, round %u", operation, device, record.expected);
  }
  if (operation_of(record) == Operation::wait_value) {
    return format("%s on device %d, word at 0x%lx", operation, device, record.peer_detail);
  }
  if (operation_of(record) == Operation::wait_ready) {
    return format("%s[%u] on device %d", operation, record.channel, device);
  }
  return format("%s on device %d, channel or block %u", operation, device, record.channel);
}

Failure timeout_of(
    const ErrorRecord& record, const TransportContext& context, const std::string& place) {
  const int peer = record.peer;
  const std::string who = context.rank_name(peer);
  const Operation operation = operation_of(record);

  if (operation == Operation::wait_ready) {
    return context.blame(context.rank, Status::timeout,
        text(place, " of rank ", context.rank, " was ", record.peer_count, ", and had not reached ",
            record.my_count, " before the deadline"));
  }
  if (operation == Operation::wait_value || operation == Operation::wait_signal) {
    const bool is_rank = peer >= 0 && peer < context.size;
    return context.blame(peer, Status::timeout,
        text(place, ": ", is_rank ? who + " did not come" : "nobody wrote it",
            " before the deadline (the word was ", record.peer_count, ", not ",
            sign_of(static_cast<Compare>(record.my_detail)), " ", record.my_count, ")"));
  }
  if (is_of_messages(record)) {
    const bool sends = (record.expected & 1U) == 0;
    const char* missing = sends ? "has not received what was sent" : "has sent nothing";
    if (record.seen != 0) missing = "has not passed all of the message";
    return context.blame(
        peer, Status::timeout, text(place, ": ", who, " ", missing, " before the deadline"));
  }
  if (is_of_exchange(record)) {
    const char* missing = record.channel != 0 ? "has not put its pieces" : "has not started it";
    return context.blame(
        peer, Status::timeout, text(place, ": ", who, " ", missing, " before the deadline"));
  }
  return context.blame(peer, Status::timeout,
      text(place, ": ", who, " did not come before the deadline (expected ", record.expected,
          ", seen ", record.seen, ")"));
}

// Both ranks may find a mismatch, and both say the same, as on the host: the higher one of them is
// to blame.
Failure mismatch_of(const ErrorRecord& record, const TransportContext& context) {
  const std::string mine = CallSignature::unpacked(record.my_detail, record.my_count).text();
  const std::string theirs = CallSignature::unpacked(record.peer_detail, record.peer_count).text();
  const bool peer_is_lower = record.peer < context.rank;
  const int lower = std::min(record.peer, context.rank);
  const int higher = std::max(record.peer, context.rank);
  return context.blame(higher, Status::mismatch,
      text("rank ", lower, " makes ", peer_is_lower ? theirs : mine, ", rank ", higher, " makes ",
          peer_is_lower ? mine : theirs));
}

Failure other_length_of(const ErrorRecord& record, const TransportContext& context) {
  const char* rows = record.expected == 1 ? "rows of " : "";
  const bool receives = record.expected == 2;
  const int sender = receives ? record.peer : context.rank;
  const int receiver = receives ? context.rank : record.peer;
  return context.blame(context.rank, Status::mismatch,
      text(name_of_operation(record), ": rank ", sender, " sends ", rows, record.my_detail,
          " elements to rank ", receiver, ", which expects ", record.peer_detail));
}

Failure beyond_capacity_of(const ErrorRecord& record, const TransportContext& context) {
  const char* operand = record.expected == 1 ? "recv" : "send";
  return context.blame(context.rank, Status::invalid_argument,
      text(name_of_operation(record), ": ",
          beyond_capacity(operand, static_cast<size_t>(record.peer), record.my_detail,
              record.peer_detail, record.my_count)));
}

// Both ranks find it, and both blame the one that receives, as on the host.
Failure other_message_of(const ErrorRecord& record, const TransportContext& context) {
  const bool receives = (record.expected & 1U) != 0;
  const int sender = receives ? record.peer : context.rank;
  const int receiver = receives ? context.rank : record.peer;
  return context.blame(receiver, Status::mismatch,
      text("recv: rank ", sender, " sends ", record.my_detail, " bytes on channel ", record.channel,
          " to rank ", receiver, ", which has room for ", record.my_count,
          ": on GPUs they have to be equal"));
}

// A program that keeps to the order of the two calls finds this out where a graph does not.
Failure out_of_turn_of(
    const ErrorRecord& record, const TransportContext& context, const std::string& place) {
  const bool starts = operation_of(record) == Operation::exchange_start;
  return context.blame(context.rank, Status::invalid_argument,
      text(place, ": ", starts ? "the last round is not finished" : "no round was started",
          ", as where a graph has one of the two calls"));
}

// The argument that has what is wrong, as the checks on the host name it.
std::string argument_of(const ErrorRecord& record) {
  const bool of_from = static_cast<PieceRule>(record.expected) == PieceRule::from;
  const char* const side = of_from ? "from" : "to";
  switch (record.seen) {
    case 0:
      return static_cast<PieceRule>(record.expected) == PieceRule::to_stride
                 ? format("call.pieces[%lu].to_stride", record.my_detail)
                 : format("call.pieces[%lu].%s", record.my_detail, side);
    case 1: return format("call.count: page %lu", record.my_detail);
    default: return format("call.%s_table[%lu]", side, record.my_detail);
  }
}

Failure bad_piece_of(const ErrorRecord& record, const TransportContext& context) {
  const auto blame = [&](const std::string& what) {
    return context.blame(context.rank, Status::invalid_argument,
        text(name_of_operation(record), ": ", what, " (read on the device)"));
  };

  switch (static_cast<PieceRule>(record.expected)) {
    case PieceRule::count:
      return blame(
          format("call.device_count: there are %lu pieces, more than the %lu of call.count",
              record.my_detail, record.peer_detail));
    case PieceRule::to_stride:
      return blame(format("%s: %lu is less than the %lu bytes of a row: rows overlap where they go",
          argument_of(record).c_str(), record.my_count, record.peer_detail));
    case PieceRule::from:
    case PieceRule::to: break;
  }

  const bool reads = static_cast<PieceRule>(record.expected) == PieceRule::from;
  const bool is_put = operation_of(record) == Operation::put_pieces;
  const std::string own = is_put ? "source" : "destination";
  const std::string side = reads == is_put ? own : "the block";
  const std::string size = record.peer_count == UINT64_MAX
                               ? "any memory"
                               : text("the ", record.peer_count, " bytes of ", side);
  return blame(format("%s: %lu bytes from byte %lu on go beyond %s", argument_of(record).c_str(),
      record.peer_detail, record.my_count, size.c_str()));
}
}  // namespace

ErrorMailbox::ErrorMailbox(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  void* host = nullptr;
  driver.require(
      driver.cuMemHostAlloc(&host, kPage, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
      "cuMemHostAlloc", "an error record");
  std::memset(host, 0, kPage);
  host_ = static_cast<std::byte*>(host);

  CUresult result = driver.cuMemHostGetDevicePointer(&address_, host, 0);
  const char* call = "cuMemHostGetDevicePointer";
  if (result == CUDA_SUCCESS) {
    call = "cuStreamCreate";
    result = driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  }
  if (result != CUDA_SUCCESS) {
    driver.cuMemFreeHost(host);
    driver.require(result, call);
  }
}

ErrorMailbox::~ErrorMailbox() {
  // A kernel may still write the record.
  device_->defer([&driver = device_->driver(), host = host_, stream = stream_] {
    driver.cuStreamDestroy(stream);
    driver.cuMemFreeHost(host);
  });
}

CUdeviceptr ErrorMailbox::abort_word(const Allocation& control) noexcept {
  return control.address() + kAbort;
}

bool ErrorMailbox::has_record() const noexcept {
  return reinterpret_cast<const std::atomic<uint32_t>*>(host_)->load(std::memory_order_acquire) !=
         0;
}

const ErrorRecord& ErrorMailbox::record() const noexcept {
  return *reinterpret_cast<const ErrorRecord*>(host_);
}

uint64_t ErrorMailbox::read(CUdeviceptr word, size_t bytes) {
  const Driver& driver = device_->driver();
  const std::lock_guard lock(reading_);
  auto& copy = *reinterpret_cast<std::atomic<uint64_t>*>(host_ + kRead);
  // The bytes that a shorter word leaves alone.
  copy.store(0, std::memory_order_relaxed);
  driver.require(driver.cuMemcpyAsync(address_ + kRead, word, bytes, stream_), "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return copy.load(std::memory_order_acquire);
}

void ErrorMailbox::tell(const std::shared_ptr<Allocation>& control,
    const std::shared_ptr<Allocation>& stages, bool abort,
    const RankSetOf<kMaxRanks>& departed) noexcept {
  auto& told = *reinterpret_cast<ToldOfAny*>(host_ + kToldAt);
  for (int word = 0; word < RankSetOf<kMaxRanks>::kWords; ++word) {
    std::atomic_ref(told.departed.word[word]).fetch_or(departed.word[word]);
  }
  if (!abort) return;
  std::atomic_ref(told.abort).store(1);
  do_elsewhere([=, self = shared_from_this()] { self->store(*control, *stages); });
}

void ErrorMailbox::store(const Allocation& control, const Allocation& stages) noexcept {
  const Driver& driver = device_->driver();
  // If there is no context any more, there is no kernel either.
  const ContextGuard current(*device_, std::nothrow);
  const CUdeviceptr one = address_ + kToldAt + offsetof(ToldOfAny, abort);
  // `spoilt` comes before `abort`, and so before a kernel leaves: the next one finds it.
  driver.cuMemcpyAsync(stages.address() + kSpoilt, one, sizeof(uint32_t), stream_);
  driver.cuMemcpyAsync(control.address() + kAbort, one, sizeof(uint32_t), stream_);
}

Failure failure_of(
    const ErrorRecord& record, const TransportContext& context, int device, const TagTable& tags) {
  // The thread that finds the record may be in a call of its own, with another tag.
  const CallTag tagged(tags.find(record.operation >> kOperationBits).c_str());
  const int peer = record.peer;
  const std::string place = place_of(record, device);

  switch (static_cast<WaitError>(record.trouble)) {
    case WaitError::timeout: return timeout_of(record, context, place);
    case WaitError::departed: return context.blame_departed(peer, place);
    case WaitError::mismatch: return mismatch_of(record, context);
    case WaitError::other_length: return other_length_of(record, context);
    case WaitError::beyond_capacity: return beyond_capacity_of(record, context);
    case WaitError::other_message: return other_message_of(record, context);
    case WaitError::bad_piece: return bad_piece_of(record, context);
    case WaitError::out_of_turn: return out_of_turn_of(record, context, place);
    case WaitError::unknown_memory:
      return context.blame(context.rank, Status::mismatch,
          format("%s: an operand of rank %d lies in a memory that rank %d has released",
              place.c_str(), peer, context.rank));
    case WaitError::other_place:
      return context.blame(peer, Status::mismatch,
          format("%s: rank %d's operands do not lie where rank %d's do; it needs one memory and "
                 "one offset on all ranks",
              name_of_operation(record), peer, context.rank));
    case WaitError::spoilt:
      return context.blame(
          peer, Status::aborted, place + ": a group that shares its scratch has failed");
    case WaitError::aborted:
    case WaitError::none: break;
  }
  return context.blame(
      peer, Status::internal, text(place, ": error record of kind ", record.trouble));
}
}  // namespace symm::cuda
