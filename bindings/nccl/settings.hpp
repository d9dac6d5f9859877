// The variables of the drop-in, and its log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <symm/symm.h>

namespace symm::nccl {
// A variable's value; null if it is unset or empty, or if the process runs for another user.
const char* variable(const char* name) noexcept;

// Whether communicators are watched: not with SYMM_NCCL_MODE=off.
bool watching() noexcept;

// The collectives of NCCL that symm has, as bits 1 << SYMM_COLLECTIVE_*.
inline constexpr uint32_t kAllCollectives =
    1U << SYMM_COLLECTIVE_ALLREDUCE | 1U << SYMM_COLLECTIVE_REDUCE_SCATTER |
    1U << SYMM_COLLECTIVE_ALLGATHER | 1U << SYMM_COLLECTIVE_BROADCAST |
    1U << SYMM_COLLECTIVE_REDUCE | 1U << SYMM_COLLECTIVE_ALLTOALL | 1U << SYMM_COLLECTIVE_GATHER |
    1U << SYMM_COLLECTIVE_SCATTER;

// The bit for sends and receives, which go to symm only if SYMM_NCCL_OPS names them: they were not
// measured.
inline constexpr uint32_t kSendRecv = 1U << 31;

struct Settings {
  // The collectives that may go to symm (SYMM_NCCL_OPS), and kSendRecv.
  uint32_t collectives = kAllCollectives;
  // SYMM_NCCL_MODE=deterministic: all sizes and numbers of ranks that symm can do go to symm.
  bool is_deterministic = false;
  // SYMM_NCCL_TIMEOUT_MS; 0: no deadline.
  uint64_t timeout_ms = 0;
  // The first variable that cannot be understood, with its value and what is wrong; "": none.
  std::string refusal{};
  // SYMM_NCCL_COMMS: the names of communicators that may go to symm.
  std::optional<std::string> communicators = std::nullopt;
};
// Read at the first call, which a thread of the program makes: beside the drop-in's own threads the
// program may call setenv(). What cannot be understood is said in the log, or to standard error if
// there is no log, and then no collective goes to symm.
const Settings& settings();

// The collectives in a list like "allreduce,broadcast", "all" or "none". None, with `reason`, if it
// is not such a list.
std::optional<uint32_t> collectives_in(const std::string& list, std::string& reason);

// A hash of what must be equal on all ranks.
uint64_t hash_of(const Settings& settings) noexcept;

// The text at an address of the caller's, at most `most` characters; none if it cannot be read.
std::optional<std::string> text_at(const char* text, size_t most);

// The text at `name`, if a choice depends on it, else "". A caller's struct may hold anything
// there: memory that cannot be read is "", too.
std::string name_at(const char* name);

// Whether symm may do collectives of a communicator with this name of ncclConfig_t, of which
// `taken` others of this process go by symm already (SYMM_NCCL_COMMS). Without the variable, `most`
// of them may: kernels of up to three groups may wait for other ranks on a device at a time
// (symm.h, streams), and NCCL's own kernels wait there, too.
inline constexpr int kTakenByDefault = 1;
bool may_take(const std::string& name, int taken, int most = kTakenByDefault);

// Writes a line to what SYMM_NCCL_LOG names: stderr, or a file, to which it is appended. Without
// that variable nothing is written by log(); warn() then writes to stderr. A file that cannot be
// opened is said on stderr, once.
__attribute__((format(printf, 1, 2))) void log(const char* format, ...) noexcept;
__attribute__((format(printf, 1, 2))) void warn(const char* format, ...) noexcept;
}  // namespace symm::nccl
