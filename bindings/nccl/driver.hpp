// The few calls of the CUDA driver by which work of NCCL and work of symm are ordered, and those
// that stand in for NCCL's own where there is none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace symm::nccl {
// The driver as this process has it, with the primary context of a device.
class Driver {
 public:
  // Whether the calls were found, and the device has a context. Never loads another driver.
  bool open(int device) noexcept;
  // Whether the calls were found.
  static bool is_there() noexcept;

  // The device of the thread, as NCCL takes it: 0 if it has chosen none. False: there is no driver,
  // or no device.
  static bool current_device(int& device) noexcept;

  // The context of the thread, for another thread that calls in its place; null for none.
  static void* current_context() noexcept;
  static void enter_context(void* context) noexcept;

  // Memory of the thread's device that other processes can share, and that every device which can
  // reach it may use, as ncclMemAlloc() makes it; null if there is none to be had. The program has
  // at least `bytes` of it.
  static void* make_shared_memory(size_t bytes) noexcept;
  // False: it is not such memory.
  static bool end_shared_memory(void* memory) noexcept;

  // The capture that a stream is in: 0 for none. `is_known` is false if the driver does not tell,
  // as for the legacy stream while another one is being captured.
  uint64_t capture_of(void* stream, bool& is_known) const noexcept;
  // The same, and 0 if it is not known. The driver is not asked about the legacy stream, which is
  // never captured, and on which PyTorch makes most of its calls.
  uint64_t capture_of(void* stream) const noexcept;

  // An event of the device; null if there is none to be had.
  void* make_event() const noexcept;
  void end_event(void* event) const noexcept;
  bool record(void* event, void* stream) const noexcept;
  bool wait(void* stream, void* event) const noexcept;

  // Memory of the host that the device reads at the address `device`; also within a capture.
  bool make_host_memory(size_t bytes, void*& host, const void*& device) const noexcept;
  // A number that no other stream has. Not for streams that are being captured.
  bool number_of(void* stream, unsigned long long& number) const noexcept;
  // In the order of the stream: a copy between any memory, and a call on the host.
  bool copy(void* to, const void* from, size_t bytes, void* stream) const noexcept;
  bool call(void* stream, void (*body)(void*), void* argument) const noexcept;

  void* make_stream() const noexcept;
  void end_stream(void* stream) const noexcept;
  // Whether all work of a stream is over, without a failure.
  bool is_over(void* stream) const noexcept;
  // Waits until it is.
  void await(void* stream) const noexcept;

 private:
  template <class Body>
  int within(Body body) const noexcept;

  void* context_ = nullptr;
};
}  // namespace symm::nccl
