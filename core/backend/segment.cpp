// Makes, seals, maps and adopts memfds, the shared memory of the host back end. What a peer
// sends is checked before it is mapped.
#include "core/backend/segment.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/hardware.hpp"
#include "core/backend/numa.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/memfd.hpp"
#include "core/base/per_process.hpp"

#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

namespace symm::host {
namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kHugePage = size_t{2} << 20;

using FilePiece = Segment::FilePiece;
using Pages = Segment::Pages;

// The pieces of files that this process has mapped, by inode.
struct Registry {
  std::mutex mutex;  // not held while anything is mapped, which can take long
  std::map<FilePiece, std::weak_ptr<Segment>> segments;

  std::shared_ptr<Segment> find(const FilePiece& piece) {
    const auto found = segments.find(piece);
    return found == segments.end() ? nullptr : found->second.lock();
  }
};

using Segments = PerProcess<Registry>;

struct stat status_of(int fd) {
  struct stat status{};
  if (fstat(fd, &status) != 0) throw system_error(errno, "fstat", "shared segment");
  return status;
}

size_t checked_round_up(size_t bytes, size_t unit) {
  if (bytes > SIZE_MAX - unit) {
    throw Error(
        Status::out_of_memory, format("%zu bytes are more than the address space holds", bytes));
  }
  return (bytes + unit - 1) / unit * unit;
}

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

Pages pages_of(int fd, const struct stat& status) {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0) throw system_error(errno, "fstatfs", "shared segment");
  const bool is_huge = system.f_type == HUGETLBFS_MAGIC;
  return {is_huge ? static_cast<size_t>(system.f_bsize) : page_size(),
      static_cast<size_t>(status.st_size)};
}

FilePiece piece_of(const struct stat& status, const Pages& pages, size_t offset, size_t bytes) {
  const size_t start = offset / pages.bytes * pages.bytes;
  return {status.st_dev, status.st_ino, offset, start,
      checked_round_up(offset - start + bytes, pages.bytes), bytes};
}

// Maps a piece of a file where address space is reserved for it.
void map_at(std::byte* at, int fd, const FilePiece& piece) {
  const size_t bytes = piece.mapped;
  const bool is_read_only = piece.access == Access::read_only;
  const int protection = is_read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(piece.start)) ==
      MAP_FAILED) {
    throw system_error(errno, "mmap", format("mapping %zu bytes of shared memory", bytes));
  }

  // These are hints, and the kernel may not know them: use huge pages; fill the page tables now
  // rather than in the first collective; keep the contents out of core dumps, whose writing delays
  // the end of a crashed process.
  if (bytes >= kHugePage) madvise(at, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  madvise(at, bytes, is_read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
#endif
  madvise(at, bytes, MADV_DONTDUMP);
}

// Large segments start at a huge page boundary, so that the kernel can use huge pages
// where it is set up to.
std::byte* map_shared(int fd, const FilePiece& piece, size_t page, size_t alignment) {
  const size_t bytes = piece.mapped;
  alignment = std::max({alignment, page, bytes >= kHugePage ? kHugePage : 1});
  const size_t slack = alignment > page_size() ? alignment : 0;
  if (bytes > SIZE_MAX - slack) {
    throw Error(Status::out_of_memory,
        format("options.alignment: there are no %zu bytes at a multiple of %zu", bytes, alignment));
  }

  void* reserved =
      mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    throw system_error(errno, "mmap",
        format("reserving %zu bytes, for a multiple of %zu", bytes + slack, alignment));
  }

  auto* start = static_cast<std::byte*>(reserved);
  std::byte* aligned = start;
  if (slack != 0) {
    aligned = start + (alignment - reinterpret_cast<uintptr_t>(start) % alignment) % alignment;
    if (aligned != start) munmap(start, static_cast<size_t>(aligned - start));
    const size_t tail = static_cast<size_t>(start + bytes + slack - (aligned + bytes));
    if (tail != 0) munmap(aligned + bytes, tail);
  }

  try {
    map_at(aligned, fd, piece);
  } catch (...) {
    munmap(aligned, bytes);
    throw;
  }
  return aligned;
}

void require_file_size(size_t bytes) {
  if (const uint64_t limit = file_size_limit(); bytes > limit) {
    throw Error(Status::out_of_memory, format("%zu bytes of shared memory are more than the limit "
                                              "on file sizes (RLIMIT_FSIZE, %lu bytes)",
                                           bytes, limit));
  }
}

// A memfd has no limit of its own: asked for too much, the kernel would take page after
// page until it kills a process.
void require_available(size_t bytes) {
  if (const size_t available = available_memory_bytes(); bytes > available) {
    throw Error(Status::out_of_memory,
        format("%zu bytes were asked for, %zu of shared memory are available", bytes, available));
  }
}

Fd make_file_of_huge_pages(const char* name, size_t page) {
  Fd fd = make_memfd(
      name, MFD_HUGETLB | static_cast<unsigned int>(std::countr_zero(page)) << MFD_HUGE_SHIFT);
  if (!fd) {
    const std::string why = system_error(errno, "memfd_create(MFD_HUGETLB)").what();
    throw Error(Status::unavailable,
        format("options.page_bytes: there are no pages of %zu bytes here: %s", page, why.c_str()));
  }
  return fd;
}

std::shared_ptr<Segment> map_anew(
    int fd, const FilePiece& piece, const Pages& pages, size_t alignment = 0) {
  std::byte* start = map_shared(fd, piece, pages.bytes, alignment);
  try {
    return std::make_shared<Segment>(piece, pages, start);
  } catch (...) {
    munmap(start, piece.mapped);
    throw;
  }
}

// Registers the segment of the piece. Returns it, or the one that another thread has
// registered first.
std::shared_ptr<Segment> known_as(const std::shared_ptr<Segment>& segment, const FilePiece& piece) {
  Registry& known = Segments::current();
  std::shared_ptr<Segment> other;  // outlives the lock, which ~Segment takes
  const std::lock_guard lock(known.mutex);
  other = known.find(piece);
  if (!other) known.segments[piece] = segment;
  return other ? other : segment;
}

// Allocates pages in pieces. A kernel that is interrupted by a signal may undo the whole of a
// call, so in a process with a timer a piece must take less time than the timer's period.
void allocate_pages(int fd, size_t start, size_t bytes, int mode) {
  size_t most = size_t{64} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, most);
    if (fallocate(fd, mode, static_cast<off_t>(start + done), static_cast<off_t>(piece)) == 0) {
      done += piece;
    } else if (errno == EINTR) {
      most = std::max(piece / 2, page_size());
    } else {
      throw system_error(errno, "fallocate", format("%zu bytes of shared memory", bytes));
    }
  }
}

// Returns the segment of the piece, which is mapped unless this process has mapped it already.
std::shared_ptr<Segment> find_or_map(int fd, const FilePiece& piece, const Pages& pages) {
  Registry& known = Segments::current();
  std::unique_lock lock(known.mutex);
  std::shared_ptr<Segment> segment = known.find(piece);
  lock.unlock();
  return segment ? segment : known_as(map_anew(fd, piece, pages), piece);
}

// The piece of a descriptor that a peer sent, after checking that the descriptor is what it says,
// and can no longer shrink.
std::pair<FilePiece, Pages> piece_of_peer(int fd, const BlockExtent& extent, Access access) {
  const struct stat status = status_of(fd);
  const Pages pages = pages_of(fd, status);
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool is_exact = pages.all_bytes == extent.mapped ||
                        (pages.all_bytes > extent.mapped && (seals & F_SEAL_GROW) == 0);

  if (!S_ISREG(status.st_mode) || !is_exact || !extent.is_possible()) {
    throw Error(Status::peer_failed,
        format("a peer sent a descriptor that is not a segment of %lu bytes", extent.mapped));
  }

  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw Error(Status::peer_failed, "a peer sent a segment that could still shrink");
  }

  FilePiece piece = piece_of(status, pages, extent.offset, extent.bytes);
  piece.access = access;
  return {piece, pages};
}

// A file of zeros for so many bytes of pages, with all of its memory, and sealed.
Fd make_file(const Pages& pages, const char* name, const Placement& placement) {
  const size_t mapped = pages.all_bytes;
  const bool is_huge = pages.bytes > page_size();
  if (!is_huge) require_available(mapped);  // huge pages come from a pool of their own
  Fd fd = is_huge ? make_file_of_huge_pages(name, pages.bytes) : make_memfd(name);
  if (!fd) throw system_error(errno, "memfd_create", name);
  SYMM_POINT("segment.create");
  require_file_size(mapped);

  if (ftruncate(fd.get(), static_cast<off_t>(mapped)) != 0) {
    throw system_error(errno, "ftruncate", format("%zu bytes", mapped));
  }

  if (placement.node != Placement::kNearest) bind_to_node(fd.get(), mapped, placement.node);
  try {
    allocate_pages(fd.get(), 0, mapped, 0);
  } catch (const Error& error) {
    if (!is_huge) throw;
    throw Error(
        Status::out_of_memory, format("options.page_bytes: %zu pages of %zu bytes are not free: %s",
                                   mapped / pages.bytes, pages.bytes, error.what()));
  }

  SYMM_POINT("segment.seal");
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw system_error(errno, "fcntl(F_ADD_SEALS)", name);
  }
  return fd;
}
}  // namespace

std::shared_ptr<Segment> Segment::create(
    size_t bytes, const char* name, const Placement& placement) {
  const size_t page = std::max(placement.page_bytes, page_size());
  const Pages pages{page, checked_round_up(bytes, page)};
  Fd fd = make_file(pages, name, placement);
  const FilePiece piece = piece_of(status_of(fd.get()), pages, 0, bytes);
  auto segment = known_as(map_anew(fd.get(), piece, pages, placement.alignment), piece);
  segment->placement_ = placement;
  segment->keep(std::move(fd));
  return segment;
}

// The address stays this process's: nothing else can be mapped there.
void Segment::keep_address() {
  if (mmap(start_, piece_.mapped, PROT_NONE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    throw system_error(errno, "mmap", format("keeping the address of %zu bytes", piece_.mapped));
  }
}

void Segment::suspend(bool keep, void* stream) {
  record_use(stream);  // refuses a stream
  keep_address();
  if (keep) return;
  {
    Registry& known = Segments::current();
    const std::lock_guard lock(known.mutex);
    known.segments.erase(piece_);
  }
  will_not_be_shared();
}

void Segment::resume(void* stream) {
  record_use(stream);
  if (fd() >= 0) return map_at(start_, fd(), piece_);

  Fd file = make_file(pages_, "symm-block", placement_);
  const FilePiece piece = piece_of(status_of(file.get()), pages_, 0, piece_.bytes);
  map_at(start_, file.get(), piece);
  piece_ = piece;
  keep(std::move(file));
  Registry& known = Segments::current();
  const std::lock_guard lock(known.mutex);
  known.segments[piece_] = weak_from_this();
}

// A thread that imports the same memory takes its reference with the lock held.
bool Segment::set_apart() {
  Registry& known = Segments::current();
  const std::lock_guard lock(known.mutex);
  if (weak_from_this().use_count() > 1) return false;
  const auto found = known.segments.find(piece_);
  if (found != known.segments.end() && found->second.lock().get() == this) {
    known.segments.erase(found);
  }
  return true;
}

void Segment::unmap() {
  keep_address();
  will_not_be_shared();
}

void Segment::remap(Fd fd, const BlockExtent& extent) {
  const auto [piece, pages] = piece_of_peer(fd.get(), extent, piece_.access);
  const bool is_alike = piece.mapped == piece_.mapped && piece.bytes == piece_.bytes &&
                        piece.offset - piece.start == piece_.offset - piece_.start;
  if (!is_alike) throw Error(other_size(piece.bytes, piece_.bytes));

  SYMM_POINT("segment.remap");
  map_at(start_, fd.get(), piece);
  piece_ = piece;
  pages_ = pages;
  keep(std::move(fd));
}

std::shared_ptr<Segment> Segment::adopt(int fd, uint64_t offset, size_t bytes) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Status::invalid_argument, format("options.fd: %d %s", fd, why.c_str()));
  };

  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) refuse("is not an open descriptor");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    refuse("is not a memfd, and what cannot be sealed against shrinking cannot be shared");
  }

  if ((seals & F_SEAL_SHRINK) == 0) refuse("is not sealed against shrinking (F_SEAL_SHRINK)");
  if ((flags & O_ACCMODE) != O_RDWR || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) {
    refuse("cannot be written");
  }

  const struct stat status = status_of(fd);
  const Pages pages = pages_of(fd, status);
  if (offset % ShareableMemory::kAdoptedAlignment != 0) {
    throw Error(Status::invalid_argument, format("options.offset: %lu is not a multiple of %zu",
                                              offset, ShareableMemory::kAdoptedAlignment));
  }

  if (offset > pages.all_bytes || bytes > pages.all_bytes - offset) {
    throw Error(Status::invalid_argument,
        format("options.offset, bytes: %zu bytes at %lu go beyond the %zu of the descriptor", bytes,
            offset, pages.all_bytes));
  }

  const FilePiece piece = piece_of(status, pages, offset, bytes);
  const size_t within = std::min(piece.mapped, pages.all_bytes - piece.start);
  const auto there = static_cast<size_t>(status.st_blocks) * 512;
  if (pages.bytes == page_size()) require_available(within - std::min(within, there));
  allocate_pages(fd, piece.start, within, FALLOC_FL_KEEP_SIZE);
  Fd own(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!own) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)", "options.fd");
  auto segment = map_anew(fd, piece, pages);  // buffers at one address could not be told apart
  segment->keep(std::move(own));

  return segment;
}

std::shared_ptr<Segment> Segment::import(Fd fd, size_t bytes) {
  return import(std::move(fd), {bytes, checked_round_up(bytes, page_size())});
}

std::shared_ptr<Segment> Segment::import(
    Fd fd, const BlockExtent& extent, Descriptor descriptor, Access access) {
  const auto [piece, pages] = piece_of_peer(fd.get(), extent, access);
  SYMM_POINT("segment.import");
  auto segment = find_or_map(fd.get(), piece, pages);
  if (descriptor == Descriptor::keep) segment->keep(std::move(fd));

  return segment;
}

void Segment::keep(Fd fd) noexcept {
  int none = -1;
  if (fd_.compare_exchange_strong(none, fd.get())) {
    fd.release();  // NOLINT(bugprone-unused-return-value): the segment's now
  }
}

void Segment::show(const Block& other) {
  // An import of another file, whose inode this one had once, must not find this segment.
  Registry& known = Segments::current();
  std::shared_ptr<Segment> registered;  // outlives the lock, which ~Segment takes
  {
    const std::lock_guard lock(known.mutex);
    registered = known.find(piece_);
    if (registered.get() == this) known.segments.erase(piece_);
  }

  // Without an old size the kernel makes a second mapping of shared memory, in one step with the
  // end of what was mapped there: threads that are about to read or write find one or the other.
  void* const shown =
      mremap(other.start(), 0, piece_.mapped, MREMAP_MAYMOVE | MREMAP_FIXED, start_);
  if (shown == MAP_FAILED) {
    throw system_error(errno, "mremap", format("%zu bytes of shared memory", piece_.mapped));
  }
}

Segment::~Segment() {
  if (Registry* known = Segments::existing()) {  // none yet in a forked child
    const std::lock_guard lock(known->mutex);
    const auto found = known->segments.find(piece_);
    // A new segment for the piece may have been registered after our last reference went.
    if (found != known->segments.end() && found->second.expired()) known->segments.erase(found);
  }
  will_not_be_shared();
  munmap(start_, piece_.mapped);
}
}  // namespace symm::host
