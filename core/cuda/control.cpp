#include "core/cuda/control.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/background_tasks.hpp"
#include "core/base/error.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
constexpr size_t kPage = 4096;
constexpr size_t kWords = 1024;  // where in the page {abort, departed} lie,
constexpr size_t kRead = 2048;   // and what was read
}  // namespace

Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::cuda, key); };
  Tuning tuning;
  tuning.ll_max = value("ll");
  tuning.one_shot_max = value("one_shot");
  tuning.scatter_max = value("scatter");
  tuning.marked_max = value("marked");
  tuning.two_shot_max = value("two_shot");
  tuning.two_shot_chunk = value("chunk");
  tuning.threads = static_cast<int>(value("threads"));
  tuning.direct_max = value("flat");
  tuning.relay_max = value("relay");
  tuning.reduce_max = value("reduce");
  tuning.engine_min = value("copy_engine");
  tuning.movers = static_cast<int>(value("bulk"));
  tuning.early = static_cast<int>(value("early"));
  tuning.work_groups = static_cast<int>(value("work_groups"));
  tuning.width = static_cast<int>(value("width"));
  tuning.tile = value("tile");
  tuning.multiprocessors = static_cast<int>(value("multiprocessors"));
  tuning.groups = static_cast<int>(value("groups"));
  tuning.hop = value("hop");
  return tuning;
}

std::shared_ptr<Allocation> create_control(
    const std::shared_ptr<Device>& device, int size, const Layout& layout) {
  auto control = Allocation::create(device, layout.bytes);
  SYMM_POINT("cuda.control");
  const Driver& driver = device->driver();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  if (const uint64_t words = static_cast<uint64_t>(size - 1) * layout.two_shot_slot; words != 0) {
    driver.require(driver.cuMemsetD32Async(
                       control->address() + layout.two_shot, 0xFFFFFFFFU, words, device->stream()),
        "cuMemsetD32Async");
  }
  driver.require(driver.cuStreamSynchronize(device->stream()), "cuStreamSynchronize");
  return control;
}

Failure failure_of(const ErrorRecord& record, const TransportContext& context, int device) {
  const auto known = [](uint32_t operation) {
    switch (static_cast<Operation>(operation)) {
      case Operation::barrier: return "barrier";
      case Operation::wait_signal: return "wait_signal";
      case Operation::wait_value: return "wait_value";
    }
    return name_of(static_cast<Collective>(operation));
  };
  const int peer = record.peer;
  const bool valid = peer >= 0 && peer < context.size;
  const std::string who = context.name_of(peer);
  const auto operation = static_cast<Operation>(record.operation);
  const bool is_value = operation == Operation::wait_value;
  const std::string what = is_value ? format("%s on device %d, word at 0x%lx",
                                          known(record.operation), device, record.peer_detail)
                                    : format("%s on device %d, channel or block %u",
                                          known(record.operation), device, record.channel);
  if (record.trouble == static_cast<uint32_t>(WaitError::timeout) &&
      (is_value || operation == Operation::wait_signal)) {
    return context.blame(peer, Status::timeout,
        text(what, ": ", valid ? who + " did not come" : "nobody wrote it",
            " before the deadline (the word was ", record.peer_count, ", not ",
            sign_of(static_cast<Compare>(record.my_detail)), " ", record.my_count, ")"));
  }
  switch (static_cast<WaitError>(record.trouble)) {
    case WaitError::timeout:
      return context.blame(peer, Status::timeout,
          text(what, ": ", who, " did not come before the deadline (expected ", record.expected,
              ", seen ", record.seen, ")"));
    case WaitError::departed: return context.blame_departed(peer, what);
    case WaitError::mismatch: {
      const std::string mine = CallSignature::unpacked(record.my_detail, record.my_count).text();
      const std::string theirs =
          CallSignature::unpacked(record.peer_detail, record.peer_count).text();
      // Both may find it: they say the same, as on the host.
      const int wrong = std::max(peer, context.rank);
      return context.blame(wrong, Status::mismatch,
          text("rank ", std::min(peer, context.rank), " makes ",
              peer < context.rank ? theirs : mine, ", rank ", wrong, " makes ",
              peer < context.rank ? mine : theirs));
    }
    case WaitError::unknown_memory:
      return context.blame(context.rank, Status::mismatch,
          format("%s: an operand of rank %d lies in a memory that rank %d has released",
              what.c_str(), peer, context.rank));
    case WaitError::other_length: {
      const char* rows = record.expected == 1 ? "rows of " : "";
      const bool receives = record.expected == 2;
      return context.blame(context.rank, Status::mismatch,
          text(known(record.operation), ": rank ", receives ? peer : context.rank, " sends ", rows,
              record.my_detail, " elements to rank ", receives ? context.rank : peer,
              ", which expects ", record.peer_detail));
    }
    case WaitError::beyond_capacity:
      return context.blame(context.rank, Status::invalid_argument,
          text(known(record.operation), ": ",
              beyond_capacity(record.expected == 1 ? "recv" : "send", static_cast<size_t>(peer),
                  record.my_detail, record.peer_detail, record.my_count)));
    case WaitError::spoilt:
      return context.blame(
          peer, Status::aborted, what + ": a group that shares its scratch has failed");
    case WaitError::other_place:
      return context.blame(peer, Status::mismatch,
          format("%s: rank %d's operands do not lie where rank %d's do; it needs one memory and "
                 "one offset on all ranks",
              known(record.operation), peer, context.rank));
    case WaitError::aborted:
    case WaitError::none: break;
  }
  return context.blame(
      peer, Status::internal, text(what, ": error record of kind ", record.trouble));
}

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

bool ErrorMailbox::has_record() const noexcept {
  return reinterpret_cast<const std::atomic<uint32_t>*>(host_)->load(std::memory_order_acquire) !=
         0;
}

const ErrorRecord& ErrorMailbox::record() const noexcept {
  return *reinterpret_cast<const ErrorRecord*>(host_);
}

uint64_t ErrorMailbox::read(CUdeviceptr word) {
  const Driver& driver = device_->driver();
  const std::lock_guard lock(reading_);
  driver.require(
      driver.cuMemcpyAsync(address_ + kRead, word, sizeof(uint64_t), stream_), "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return reinterpret_cast<const std::atomic<uint64_t>*>(host_ + kRead)
      ->load(std::memory_order_acquire);
}

void ErrorMailbox::tell(const std::shared_ptr<Allocation>& control,
    const std::shared_ptr<Allocation>& stages, bool abort, uint32_t departed) noexcept {
  if (abort) abort_.store(1, std::memory_order_release);
  departed_.fetch_or(departed, std::memory_order_release);
  do_elsewhere([=, self = shared_from_this()] {
    self->store(control->address(), stages->address(), abort);
  });
}

void ErrorMailbox::store(CUdeviceptr control, CUdeviceptr stages, bool abort) noexcept {
  const Driver& driver = device_->driver();
  // Both only grow, so it does not matter which of two
  // copies comes first, nor that one may be under way.
  auto* words = reinterpret_cast<std::atomic<uint32_t>*>(host_ + kWords);
  words[0].store(abort_.load(std::memory_order_acquire), std::memory_order_relaxed);
  words[1].store(departed_.load(std::memory_order_acquire), std::memory_order_release);
  // where there is no context any more, there is no kernel either
  const ContextGuard current(*device_, std::nothrow);
  // Before a kernel leaves, so that the next one finds it.
  if (abort) {
    driver.cuMemcpyAsync(
        stages + offsetof(ControlWords, spoilt), address_ + kWords, sizeof(uint32_t), stream_);
  }
  driver.cuMemcpyAsync(
      control + offsetof(ControlWords, abort), address_ + kWords, 2 * sizeof(uint32_t), stream_);
}

void MemoryTable::add(const MemoryEntry& entry) {
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(
      entries_.begin(), entries_.end(), [](const MemoryEntry& known) { return known.id == 0; });
  if (free == entries_.end()) {
    throw Error(Status::out_of_memory,
        format("a group on the CUDA back end has at most %d memories", kMaxMemories));
  }
  write(static_cast<size_t>(free - entries_.begin()), entry);
}

void MemoryTable::erase(uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(
      entries_.begin(), entries_.end(), [&](const MemoryEntry& known) { return known.id == id; });
  if (found == entries_.end()) return;
  try {
    write(static_cast<size_t>(found - entries_.begin()), {});
  } catch (const std::exception&) {  // then the device is in error, and nobody looks there any more
  }
}

void MemoryTable::write(size_t index, const MemoryEntry& entry) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  driver.require(driver.cuMemcpyAsync(address_ + index * sizeof entry, address_of(&entry),
                     sizeof entry, device_->stream()),
      "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
  entries_[index] = entry;
}
}  // namespace symm::cuda
