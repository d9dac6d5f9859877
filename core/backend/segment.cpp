// SPDX-License-Identifier: Apache-2.0
#include "core/backend/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "core/backend/hardware.hpp"
#include "core/backend/numa.hpp"
#include "core/base/per_process.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace symm::host {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kHugePage = size_t{2} << 20;

using Inode = Segment::Inode;

// Which inodes are mapped.
struct Registry {
  std::mutex mutex;  // not held while anything is mapped, which can take long
  std::map<Inode, std::weak_ptr<Segment>> segments;
  std::shared_ptr<Segment> find(const Inode& inode) {
    const auto found = segments.find(inode);
    return found == segments.end() ? nullptr : found->second.lock();
  }
};
using Segments = PerProcess<Registry>;

Inode inode_of(int fd, struct stat* out = nullptr) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw system_error(errno, "fstat", "shared segment");
  if (out != nullptr) *out = status;
  return {status.st_dev, status.st_ino};
}

size_t round_up(size_t bytes, size_t unit) {
  if (bytes > SIZE_MAX - unit)
    throw Error(Status::out_of_memory, format("%zu bytes are more than the address space holds", bytes));
  return (bytes + unit - 1) / unit * unit;
}

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Large segments start at a huge page boundary, so that the kernel can use huge pages where it is set up to.
std::byte* map_shared(int fd, size_t bytes) {
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* reserved = mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw system_error(errno, "mmap", format("reserving %zu bytes", bytes + slack));
  auto* start = static_cast<std::byte*>(reserved);
  std::byte* aligned = start;
  if (slack != 0) {
    aligned = start + (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
    if (aligned != start) munmap(start, static_cast<size_t>(aligned - start));
    const size_t tail = static_cast<size_t>(start + bytes + slack - (aligned + bytes));
    if (tail != 0) munmap(aligned + bytes, tail);
  }
  if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(aligned, bytes);
    throw system_error(error, "mmap", format("mapping %zu bytes of shared memory", bytes));
  }
  // Hints, each of which may be unknown to the kernel: huge pages; page tables filled now rather than in the first collective;
  // contents kept out of core dumps, which are also what delays the end of a crashed process.
  if (slack != 0) madvise(aligned, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  madvise(aligned, bytes, MADV_POPULATE_WRITE);
#endif
  madvise(aligned, bytes, MADV_DONTDUMP);
  return aligned;
}

// Beyond this limit the kernel would not only refuse but also end the process by SIGXFSZ.
void require_file_size(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    throw Error(Status::out_of_memory,
                format("%zu bytes of shared memory are more than the limit on file sizes (RLIMIT_FSIZE, %llu bytes)", bytes,
                       static_cast<unsigned long long>(limit.rlim_cur)));
  }
}

// The segment of the inode: this one, unless another thread was faster.
std::shared_ptr<Segment> map_segment(int fd, const Inode& inode, size_t bytes, size_t mapped) {
  std::byte* data = map_shared(fd, mapped);
  std::shared_ptr<Segment> segment;
  try {
    segment = std::make_shared<Segment>(inode, data, bytes, mapped);
  } catch (...) {
    munmap(data, mapped);
    throw;
  }
  Registry& known = Segments::current();
  std::shared_ptr<Segment> other;  // what is dropped, is so without the lock, which ~Segment takes
  const std::lock_guard lock(known.mutex);
  other = known.find(inode);
  if (!other) known.segments[inode] = segment;
  return other ? other : segment;
}

// In pieces: a kernel that is interrupted by a signal may undo the whole of a call, and with a fast timer would never end.
void allocate_pages(int fd, size_t bytes) {
  constexpr size_t kPiece = size_t{64} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kPiece);
    if (fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(piece)) == 0) {
      done += piece;
    } else if (errno != EINTR) {
      throw system_error(errno, "fallocate", format("%zu bytes of shared memory", bytes));
    }
  }
}

}  // namespace

std::shared_ptr<Segment> Segment::create(size_t bytes, const char* name, int node) {
  const size_t mapped = round_up(bytes, page_size());
  // A memfd has no limit of its own: asked for too much, fallocate() below would take page after page until the kernel kills
  // somebody.
  if (const size_t available = available_memory_bytes(); mapped > available) {
    throw Error(Status::out_of_memory, format("%zu bytes were asked for, %zu of shared memory are available", bytes, available));
  }
  int raw = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (raw < 0 && errno == EINVAL) raw = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);  // Linux < 6.3
  if (raw < 0) throw system_error(errno, "memfd_create", name);
  Fd fd(raw);
  require_file_size(mapped);
  if (ftruncate(raw, static_cast<off_t>(mapped)) != 0) throw system_error(errno, "ftruncate", format("%zu bytes", mapped));
  if (node != Placement::kNearest) bind_to_node(raw, mapped, node);
  allocate_pages(raw, mapped);
  if (fcntl(raw, F_ADD_SEALS, kSeals) != 0) throw system_error(errno, "fcntl(F_ADD_SEALS)", name);
  const auto segment = map_segment(raw, inode_of(raw), bytes, mapped);
  segment->keep(std::move(fd));
  return segment;
}

std::shared_ptr<Segment> Segment::import(Fd fd, size_t bytes, Descriptor descriptor) {
  struct stat status {};
  const Inode inode = inode_of(fd.get(), &status);
  const size_t mapped = round_up(bytes, page_size());
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != mapped) {
    throw Error(Status::peer_failed, format("a peer sent a descriptor that is no segment of %zu bytes", mapped));
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw Error(Status::peer_failed, "a peer sent a segment whose size is not sealed");
  }
  Registry& known = Segments::current();
  std::unique_lock lock(known.mutex);
  std::shared_ptr<Segment> segment = known.find(inode);
  lock.unlock();
  if (!segment) segment = map_segment(fd.get(), inode, bytes, mapped);
  if (descriptor == Descriptor::keep) segment->keep(std::move(fd));
  return segment;
}

void Segment::keep(Fd fd) noexcept {
  int none = -1;
  if (fd_.compare_exchange_strong(none, fd.get())) fd.release();  // NOLINT(bugprone-unused-return-value): the segment's now
}

Segment::~Segment() {
  if (Registry* known = Segments::existing()) {  // none yet in a forked child
    const std::lock_guard lock(known->mutex);
    const auto found = known->segments.find(inode_);
    // A new segment for the inode may have been registered after our last reference went.
    if (found != known->segments.end() && found->second.expired()) known->segments.erase(found);
  }
  will_not_be_shared();
  munmap(data_, mapped_);
}

}  // namespace symm::host
