#include "bindings/nccl/meeting.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/open_file.hpp"

namespace symm::nccl {
namespace {
// The last bytes of an id. NCCL uses 40 of its 128 bytes and sets the rest to zero.
struct Tail {
  uint8_t mark[8];
  uint64_t machine;
  Meeting meeting;
};
static_assert(sizeof(Tail) == 32);
constexpr size_t kTail = sizeof(UniqueId) - sizeof(Tail);
// How ids begin that no NCCL has made. NCCL's begin with a number that is drawn.
constexpr uint8_t kAloneMark[16] = {
    's', 'y', 'm', 'm', ' ', 'w', 'i', 't', 'h', 'o', 'u', 't', ' ', 'n', 'c', 'c'};
constexpr uint8_t kMark[8] = {'s', 'y', 'm', 'm', 'n', 'c', 'c', '1'};

// FNV-1a, begun with `hash`.
uint64_t hash_of(const void* data, size_t size, uint64_t hash = 0xcbf29ce484222325) {
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3;
  }
  return hash;
}

// Differs between machines, and between two boots of one. 0: not known.
uint64_t this_machine() noexcept {
  static const uint64_t hash = [] {
    char text[64];
    const int fd = open_file("/proc/sys/kernel/random/boot_id", O_RDONLY);
    if (fd < 0) return uint64_t{0};
    const ssize_t got = read(fd, text, sizeof text);
    close(fd);
    return got > 0 ? hash_of(text, static_cast<size_t>(got)) : uint64_t{0};
  }();
  return hash;
}
// What add_meeting() has written, if it has.
std::optional<Tail> tail_of(const UniqueId& id) noexcept {
  Tail tail;
  std::memcpy(&tail, id.bytes + kTail, sizeof tail);
  const bool has_mark = std::equal(std::begin(kMark), std::end(kMark), tail.mark);
  return has_mark ? std::optional(tail) : std::nullopt;
}
}  // namespace

void add_meeting(UniqueId& id) noexcept {
  Meeting meeting;
  const bool is_drawn =
      getrandom(meeting.data(), meeting.size(), 0) == static_cast<ssize_t>(meeting.size());
  if (is_drawn) add_meeting(id, meeting);
}

void add_meeting(UniqueId& id, const Meeting& meeting) noexcept {
  uint8_t* const end = id.bytes + kTail;
  const bool is_empty =
      std::all_of(end, id.bytes + sizeof id, [](uint8_t byte) { return byte == 0; });
  if (!is_empty) return;

  Tail tail{};
  std::copy(std::begin(kMark), std::end(kMark), tail.mark);
  tail.machine = this_machine();
  tail.meeting = meeting;
  std::memcpy(end, &tail, sizeof tail);
}

std::optional<Meeting> meeting_of(const UniqueId& id) noexcept {
  const std::optional<Tail> tail = tail_of(id);
  if (!tail || tail->machine != this_machine()) return std::nullopt;
  return tail->meeting;
}

bool is_of_another_machine(const UniqueId& id) noexcept {
  const std::optional<Tail> tail = tail_of(id);
  return tail && tail->machine != this_machine();
}

void make_alone_id(UniqueId& id) noexcept {
  id = {};
  std::copy(std::begin(kAloneMark), std::end(kAloneMark), id.bytes);
}

bool is_alone_id(const UniqueId& id) noexcept {
  return std::equal(std::begin(kAloneMark), std::end(kAloneMark), id.bytes);
}

Meeting child_of(const Meeting& parent, uint64_t number, int64_t color) noexcept {
  const uint64_t of_child[2] = {number, static_cast<uint64_t>(color)};
  uint64_t halves[2];
  for (uint64_t half = 0; half < 2; ++half) {
    uint64_t hash = hash_of(&half, sizeof half);
    hash = hash_of(parent.data(), parent.size(), hash);
    halves[half] = hash_of(of_child, sizeof of_child, hash);
  }

  Meeting child;
  std::memcpy(child.data(), halves, sizeof halves);
  return child;
}

std::string text_of(const Meeting& meeting) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : meeting) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
}  // namespace symm::nccl
