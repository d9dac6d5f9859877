// The words by which streams of different processes wait for each other: each stream writes a
// growing number to a word of a shared page when it comes to a point, and waits until the word
// of another stream has reached the number of a point.
//
// Words are written and waited for by stream memory operations, which are work like any other
// and so have no limit. (Events between processes have one, of about 22,000; and each would
// have to be carried by the token and opened by every importer.) The word of a process that has
// died is written from the host by those that wait for it, which is not possible for an event.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
// The device object that all sharing by tokens uses, so that memory is not freed under
// a stream that was named in a release.
std::shared_ptr<Device> ipc_device(int ordinal);

class CudaStreamWords final : public ipc::StreamWords {
 public:
  CudaStreamWords(std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words);
  ~CudaStreamWords() override;
  ipc::Position mark(void* stream, int device) override;
  void wait(void* stream, int device, ipc::Position position) override;

 private:
  // The ordinal of a device, and a stream of it.
  using Key = std::pair<int, StreamId>;

  CUdeviceptr address_of(uint32_t word, const std::shared_ptr<Device>& device);
  // Returns kNoWord if all words are in use.
  uint32_t word_of(const Key& key);

  std::shared_ptr<host::Segment> page_;
  std::span<std::atomic<uint64_t>> words_;
  std::mutex mutex_;
  // By ordinal: where each device sees the page.
  std::map<int, std::pair<std::shared_ptr<Device>, CUdeviceptr>> devices_;
  std::map<Key, uint32_t> streams_;
  // By word: the number that was written last, or that is still to be written.
  std::vector<uint64_t> last_;
};
}  // namespace symm::cuda
