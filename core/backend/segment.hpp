// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of the host back end: a sealed memfd of exact size. The kernel owns its lifetime; there is no name to leave
// behind and no counter to get wrong. One process maps an inode once, however many groups share it.
#pragma once

#include <atomic>
#include <memory>

#include "core/backend/backend.hpp"
#include "core/base/fd.hpp"

namespace symm::host {

class Segment final : public Block {
 public:
  // Zeroed. The pages are allocated now, so that a full memory is an error here and no SIGBUS later: on this thread's NUMA node,
  // or on the one that is named. Throws Error(unavailable) if memory cannot be bound to nodes here.
  static std::shared_ptr<Segment> create(size_t bytes, const char* name, int node = Placement::kNearest);
  // Map a peer's segment after checking that it is a memfd of exactly `bytes`, rounded up to pages, that can no longer change
  // size.
  // The mapping alone keeps the memory; the descriptor is needed only to hand it on.
  enum class Descriptor {
    close,
    keep
  };
  static std::shared_ptr<Segment> import(Fd fd, size_t bytes, Descriptor descriptor = Descriptor::close);

  using Inode = std::pair<uint64_t, uint64_t>;  // device, number

  Segment(Inode inode, std::byte* data, size_t bytes, size_t mapped) noexcept
      : inode_(inode), data_(data), bytes_(bytes), mapped_(mapped) {}
  ~Segment() override;

  std::byte* data() const noexcept override { return data_; }
  size_t size() const noexcept override { return bytes_; }
  ShareableHandle share() const override { return {{bytes_, bytes_}, fd()}; }
  void will_not_be_shared() noexcept override { const Fd closed(fd_.exchange(-1)); }
  int fd() const noexcept { return fd_.load(); }  // -1 if it was closed

 private:
  void keep(Fd fd) noexcept;  // unless it has one

  std::atomic<int> fd_{-1};  // others may share it when it comes
  Inode inode_;
  std::byte* data_;
  size_t bytes_;
  size_t mapped_;
};

}  // namespace symm::host
