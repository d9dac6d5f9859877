// Shared memory of the host back end: a sealed memfd of exact size, or a piece of another
// owner's memfd that cannot shrink. The kernel owns its lifetime; there is no name to leave
// behind and no counter to get wrong. One process maps an inode, or a piece of it, once for
// each access, however many groups share it, and once more for each time that it is adopted, or
// comes back to the address of a suspended import.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/backend/backend.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/fd.hpp"

namespace symm::host {
class Segment final : public Block,
                      public Suspendable,
                      public std::enable_shared_from_this<Segment> {
 public:
  // Makes a segment of zeros. Its pages are allocated now, so that full memory is an
  // error here and not a SIGBUS later: on this thread's NUMA node, or on the node that
  // is named. Throws Error(unavailable) if memory cannot be bound to nodes, or if
  // there are no pages of the size.
  static std::shared_ptr<Segment> create(
      size_t bytes, const char* name, const Placement& placement = {});
  // Maps a piece of another owner's memfd after checking that the memfd can be written and
  // cannot shrink. Its pages are allocated now.
  static std::shared_ptr<Segment> adopt(int fd, uint64_t offset, size_t bytes);
  // Maps a peer's segment after checking that it is a memfd of exactly the announced
  // size, which can no longer shrink. The mapping alone keeps the memory; the descriptor
  // is needed only to hand it on.
  static std::shared_ptr<Segment> import(Fd fd, const BlockExtent& extent,
      Descriptor descriptor = Descriptor::close, Access access = Access::read_write);
  // Maps the first `bytes` bytes of a segment, in pages of the system's size.
  static std::shared_ptr<Segment> import(Fd fd, size_t bytes);

  struct FilePiece {
    uint64_t device;
    uint64_t inode;
    size_t offset;  // in the file
    size_t start;   // start of the page that the piece begins in
    size_t mapped;  // bytes from there to the end of its last page
    size_t bytes;
    Access access = Access::read_write;  // of the mapping
    auto operator<=>(const FilePiece&) const =
        default;  // NOLINT(modernize-use-nullptr): false alarm of clang-tidy 14
  };
  struct Pages {
    size_t bytes;      // bytes of one page
    size_t all_bytes;  // bytes of all pages of the file
  };

  Segment(const FilePiece& piece, const Pages& pages, std::byte* start) noexcept
      : piece_(piece), pages_(pages), start_(start) {}
  ~Segment() override;

  std::byte* data() const noexcept override { return start_ + (piece_.offset - piece_.start); }
  std::byte* start() const noexcept override { return start_; }
  size_t size() const noexcept override { return piece_.bytes; }
  size_t mapped() const noexcept override { return piece_.mapped; }
  size_t page_bytes() const noexcept override { return pages_.bytes; }
  ShareableHandle share() const override {
    return {{piece_.bytes, pages_.all_bytes, piece_.offset}, fd()};
  }
  void show(const Block& other) override;
  void will_not_be_shared() noexcept override {
    const Fd closed(fd_.exchange(-1), {piece_.device, piece_.inode, false, 0});
  }
  int fd() const noexcept { return fd_.load(); }  // -1 if it was closed
  // For a segment that was created here, and that nothing else refers to.
  void suspend(bool keep, void* stream) override;
  void resume(void* stream) override;
  bool set_apart() override;
  void unmap() override;
  void remap(Fd fd, const BlockExtent& extent) override;

 private:
  void keep(Fd fd) noexcept;  // unless the segment has one
  void keep_address();

  std::atomic<int> fd_{-1};  // set later, while other threads may share the segment
  FilePiece piece_;
  Pages pages_;
  std::byte* start_;
  Placement placement_;  // of one that was created here
};
}  // namespace symm::host
