// How streams of different processes wait for each other: each writes a growing number
// to a word of a shared page when it comes to a point, and waits until the word of
// another has reached its number. Words are written and awaited by stream memory
// operations, which are work like any other and so have no limit. (Events between
// processes have one, of about 22,000; and each would have to be carried by the token
// and opened by every importer.) The word of a process that has died is written by
// those who wait for it, from the host, which cannot be done for an event.
#pragma once

#include "core/backend/provider.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {
// The device as all sharing by tokens sees it, so that memory is not given back under a
// stream that was named in a release.
std::shared_ptr<Device> ipc_device(int ordinal);

class CudaStreamWords final : public ipc::StreamWords {
 public:
  CudaStreamWords(std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words);
  ~CudaStreamWords() override;
  ipc::Position mark(void* stream, int device) override;
  void wait(void* stream, int device, ipc::Position position) override;

 private:
  using Key = std::pair<int, StreamId>;  // device, stream

  CUdeviceptr address_of(uint32_t word, const std::shared_ptr<Device>& device);
  uint32_t word_of(const Key& key);  // kNoWord if all are in use

  std::shared_ptr<host::Segment> page_;
  std::span<std::atomic<uint64_t>> words_;
  std::mutex mutex_;
  // where each sees the page
  std::map<int, std::pair<std::shared_ptr<Device>, CUdeviceptr>> devices_;
  std::map<Key, uint32_t> streams_;
  std::vector<uint64_t> last_;  // by word: number that was written last, or will be
};
}  // namespace symm::cuda
