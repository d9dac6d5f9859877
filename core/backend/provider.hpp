// The interfaces that a back end implements for its memory to be shared by tokens: memory of any
// device, and streams that wait for each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/backend/backend.hpp"
#include "core/backend/segment.hpp"

namespace symm::ipc {
using Id = std::array<std::byte, 16>;

inline constexpr uint32_t kStreamWords = 256;  // words of a validity board and of a lease ring
inline constexpr uint32_t kNoWord = UINT32_MAX;
inline constexpr uint64_t kPassed = uint64_t{1} << 62;  // more than any position

// A point in the work of a stream: it is passed when the word has reached the value.
// Without a word it is passed already.
struct Position {
  uint32_t word = kNoWord;
  uint64_t value = 0;
};

// Words in shared memory that streams write and wait for. Each word is written by one
// stream at a time and only grows.
class StreamWords {
 public:
  virtual ~StreamWords() = default;
  // Has `stream` say when it has passed this point.
  virtual Position mark(void* stream, int device) = 0;
  // Has `stream` wait until another process's stream has passed `position`.
  virtual void wait(void* stream, int device, Position position) = 0;
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual BackendKind kind() const noexcept = 0;

  virtual Id gpu(int device) const = 0;  // zero for host memory
  // The device of memory that symm has not allocated but the back end can adopt; nothing if
  // there is no such memory at `pointer`.
  virtual std::optional<int> device_of(const void* pointer) const = 0;
  // Returns the device for which to map memory of `gpu`. Throws Error(unavailable).
  virtual int device_for(const Id& gpu, int asked) const = 0;
  // The memory of a device. Blocks that it imports can be exported again.
  virtual std::shared_ptr<ShareableMemory> memory(int device) const = 0;
  // Throws Error(invalid_argument) for a stream that the back end does not know, or
  // that cannot be used now.
  virtual void check_stream(void* stream, int device) const = 0;
  // Waits for the stream; for kAllStreams, for all current work of the device.
  virtual void finish(void* stream, int device) const = 0;
  // Block::record_use() for the blocks of a device.
  virtual bool record_use(void* stream, int device) const = 0;
  // Returns a stream that runs after the recorded uses and after `stream`. For
  // kAllStreams it runs after all current work of the device, or is null where that
  // cannot be said. For mark() only.
  virtual void* stream_after(void* stream, int device) const = 0;
  // Lets go of `held` when all current work of the device is over.
  virtual void keep_until_done(std::shared_ptr<void> held, int device) const = 0;
  // `page` stays mapped for as long as the object lives. Null where there are no streams.
  virtual std::unique_ptr<StreamWords> stream_words(
      std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words) const = 0;
  // Copies pieces that lie within their sides, of which one is memory of the device. Throws
  // Error(unsupported) if the back end has no copies outside of groups.
  virtual void copy_pieces(
      void* to, const void* from, const PieceCopy& pieces, int device, void* stream) const = 0;
  // Whether work of a process can go on in this memory when the process is dead.
  virtual bool outlives_its_writer() const noexcept = 0;
};
}  // namespace symm::ipc
