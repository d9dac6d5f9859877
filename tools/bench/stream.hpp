#pragma once

#include <cstdint>

namespace symm::tool {
// A CUDA stream on which a group's collectives are issued, made by the driver directly: the tool is linked with no CUDA library.
// One that was made for the host back end is none, and synchronizing it does nothing.
class Stream {
 public:
  Stream() = default;
  explicit Stream(int32_t device);  // throws std::runtime_error
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  void* get() const { return stream_; }
  void synchronize() const;
 private:
  void* stream_ = nullptr;
};
}  // namespace symm::tool
