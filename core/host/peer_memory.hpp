// Memory of another process of this machine, which that process has not shared, where the kernel
// lets this one read it: by process_vm_readv(), as MPI libraries do.
//
// A number of a process may come to mean another process. So each read takes the seal, too, bytes
// that the right process alone has at the place that it has told: the kernel reads both from the
// memory of one process, and what it reads counts only if the seal is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace symm::host {
class PeerMemory {
 public:
  // `pid`: in this process's namespace; 0 if there is none. `seal`: what it must have, which stays.
  PeerMemory(int64_t pid, std::span<const std::byte> seal) noexcept : pid_(pid), seal_(seal) {}

  // False once a read was refused that no later read can do better.
  bool may_be_read() const noexcept { return may_be_read_; }

  // Fills `to` from the address `from` of the process, which has the seal at `seal_at`. False: the
  // contents of `to` are undefined.
  bool read(std::span<std::byte> to, uint64_t from, uint64_t seal_at) noexcept;

  // Why the process cannot be read, the first time that it is asked after that was found; else "".
  std::string take_refusal();

 private:
  static constexpr size_t kMostSeal = 64;

  bool refuse(int error) noexcept;

  const int64_t pid_;
  const std::span<const std::byte> seal_;
  bool may_be_read_ = pid_ > 0 && seal_.size() <= kMostSeal;
  bool is_refusal_new_ = false;
  int error_ = 0;
};
}  // namespace symm::host
