// Words of shared pages by which streams of two processes order each other, written and awaited
// by the streams themselves.
#include "core/cuda/stream_words.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/cuda/backend.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
std::shared_ptr<Device> ipc_device(int ordinal) {
  return ByOrdinal<Device>::get(ordinal, [&] { return Device::open(ordinal); });
}

void ipc_reclaim() noexcept { Device::reclaim(); }

CudaStreamWords::CudaStreamWords(
    std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words)
    : page_(std::move(page)), words_(words) {
  last_.reserve(words.size());
}

CudaStreamWords::~CudaStreamWords() {
  if (devices_.empty()) return;
  // A stream may still be about to write a word.
  const std::shared_ptr<Device> device = devices_.begin()->second.first;
  device->defer([&driver = device->driver(), page = page_, start = words_.data()] {
    driver.cuMemHostUnregister(start);
  });
}

// The mutex is held and the device's context current.
CUdeviceptr CudaStreamWords::address_of(uint32_t word, const std::shared_ptr<Device>& device) {
  const size_t offset = word * sizeof(uint64_t);
  const auto found = devices_.find(device->ordinal());
  if (found != devices_.end()) return found->second.second + offset;

  // The entry is allocated first: if there is no memory for it, nothing has to be undone.
  decltype(devices_) made{{device->ordinal(), {device, 0}}};
  const Driver& driver = device->driver();
  if (devices_.empty()) {
    driver.require(driver.cuMemHostRegister(words_.data(), words_.size_bytes(),
                       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostRegister", "a page shared with another process");
  }
  CUdeviceptr address = 0;
  const CUresult result = driver.cuMemHostGetDevicePointer(&address, words_.data(), 0);
  if (result != CUDA_SUCCESS && devices_.empty()) driver.cuMemHostUnregister(words_.data());
  driver.require(result, "cuMemHostGetDevicePointer");

  made.begin()->second.second = address;
  devices_.merge(made);
  return address + offset;
}

uint32_t CudaStreamWords::word_of(const Key& key) {
  const auto known = streams_.find(key);
  if (known != streams_.end()) return known->second;

  if (last_.size() < words_.size()) {
    const auto word = static_cast<uint32_t>(last_.size());
    streams_.emplace(key, word);
    last_.push_back(0);
    return word;
  }

  // Takes the word of a stream that has written everything it was to write. The word goes on
  // counting for the new stream.
  for (auto at = streams_.begin(); at != streams_.end(); ++at) {
    const uint32_t word = at->second;
    if (words_[word].load(std::memory_order_acquire) < last_[word]) continue;

    auto node = streams_.extract(at);
    node.key() = key;
    streams_.insert(std::move(node));
    return word;
  }
  return ipc::kNoWord;
}

ipc::Position CudaStreamWords::mark(void* stream, int ordinal) {
  const std::shared_ptr<Device> device = ipc_device(ordinal);
  const Driver& driver = device->driver();
  auto* const on = static_cast<CUstream>(stream);
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  const StreamId id = device->uses().id_of(on);

  const std::lock_guard lock(mutex_);
  const uint32_t word = word_of({ordinal, id});
  if (word == ipc::kNoWord) {
    driver.require(driver.cuStreamSynchronize(on), "cuStreamSynchronize", "stream");
    return {};
  }

  const CUdeviceptr address = address_of(word, device);
  const uint64_t value = last_[word] + 1;
  driver.require(
      driver.cuStreamWriteValue64(on, address, value, 0), "cuStreamWriteValue64", "stream");
  last_[word] = value;
  device->uses().record(on);
  return {word, value};
}

void CudaStreamWords::wait(void* stream, int ordinal, ipc::Position position) {
  const std::shared_ptr<Device> device = ipc_device(ordinal);
  const Driver& driver = device->driver();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  CUdeviceptr address = 0;
  {
    const std::lock_guard lock(mutex_);
    address = address_of(position.word, device);
  }

  driver.require(driver.cuStreamWaitValue64(static_cast<CUstream>(stream), address, position.value,
                     CU_STREAM_WAIT_VALUE_GEQ),
      "cuStreamWaitValue64", "stream");
  device->uses().record(static_cast<CUstream>(stream));
}
}  // namespace symm::cuda
