// Launches of the kernel that copies the pieces of a list (kernels/cuda/copy_pieces.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/piece_list.hpp"

namespace symm::cuda {
// Pinned memory of the host, from which kernels read lists that do not travel with their arguments.
// It grows with the lists that are on their way at a time.
class ListBuffers {
 public:
  explicit ListBuffers(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~ListBuffers();
  ListBuffers(ListBuffers&&) = delete;

  struct Buffer {
    std::byte* host = nullptr;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    // Behind the kernel that read it last.
    Event used;
    bool is_taken = false;
  };

  struct GiveBack {
    ListBuffers* buffers = nullptr;
    void operator()(Buffer* buffer) const noexcept { buffers->give_back(*buffer); }
  };
  using Taken = std::unique_ptr<Buffer, GiveBack>;

  // A buffer that nobody reads any more. The context is current.
  Taken take(size_t bytes);
  // Nobody takes the buffer again before what is on `stream` by now is over.
  void mark_use(Buffer& buffer, CUstream stream);

 private:
  Buffer make(size_t bytes) const;
  void give_back(Buffer& buffer) noexcept;

  const std::shared_ptr<Device> device_;
  std::mutex mutex_;
  // Pointers, since a buffer that is taken must not move.
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Throws Error(invalid_argument), and names the argument, if kernels do not reach memory: one that
// touched pageable memory would spoil the context for everything else.
void require_reachable(const Device& device, CUdeviceptr at, const char* argument);

class PieceCopies {
 public:
  explicit PieceCopies(DeviceGroup& group) : group_(group), lists_(group.device) {}

  struct Copy {
    // The number that a failure names, and the rank whose block is a side.
    Operation operation;
    int peer;
    CUdeviceptr to;
    CUdeviceptr from;
    uint64_t to_bytes;
    uint64_t from_bytes;
    const PieceCopy& pieces;
    // The name of the side that is in this process, which is not the block.
    const char* local_name;
    // The word of the signal, if the pieces have one.
    CUdeviceptr signal;
    // The word of this rank's control block that says that a kernel has given up.
    CUdeviceptr unless;
  };
  // Throws Error(unsupported) for a long list on the host, in a capture, and
  // Error(invalid_argument) for memory that no kernel reaches.
  void issue(const Copy& copy, void* stream);

 private:
  void require_all_reachable(const Copy& copy) const;
  struct Work;
  void plan(Work& work, const PieceCopy& pieces) const;
  void place(Work& work, const PieceList& list, CUstream stream);
  template <int kRanks>
  void launch(const Copy& copy, const Work& work, bool signals, CUstream stream) const;

  DeviceGroup& group_;
  ListBuffers lists_;
};
}  // namespace symm::cuda
