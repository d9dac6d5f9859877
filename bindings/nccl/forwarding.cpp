// Fills the table of slots, and answers for functions that the real NCCL does not have.
#include "bindings/nccl/forwarding.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/alone.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/loading.hpp"

namespace symm::nccl {
namespace {
struct Known {
  const char* name;
  const char* since;
};
#define SYMM_NCCL_FUNCTION(name, since, returns, by_hand) {"p" #name, since},
constexpr Known kFunctions[] = {
#include "functions.inc"
};
#undef SYMM_NCCL_FUNCTION
constexpr size_t kSlots = 2 * std::size(kFunctions);

// Slots with an even number have names that begin with nccl, the others pnccl.
const char* name_of(size_t slot) { return kFunctions[slot / 2].name + (slot % 2 == 0 ? 1 : 0); }

// ncclTeam_t.
struct Team {
  int ranks;
  int rank;
  int stride;
};

std::atomic<bool> filled{false};
std::mutex filling;
}  // namespace

extern "C" {
extern void* symm_nccl_slots[];
extern void* const symm_nccl_missing[];
}

namespace {
std::atomic_ref<void*> slot_at(size_t slot) {
  return std::atomic_ref<void*>(symm_nccl_slots[slot]);
}

void fill() {
  const std::lock_guard lock(filling);
  if (filled) return;

  void* const handle = real_library().handle;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    void* found = handle != nullptr ? dlsym(handle, name_of(slot)) : nullptr;
    if (is_alone()) found = alone_function(static_cast<Function>(slot / 2));
    slot_at(slot).store(found != nullptr ? found : symm_nccl_missing[slot]);
  }
  filled = true;
}

// For a constructor of the real NCCL, or of what it is loaded with, that calls the API: the table
// is not filled, and the thread that fills it waits for the constructor.
void* while_loading(size_t slot) noexcept {
  void* const handle = handle_being_loaded();
  void* const found = handle != nullptr ? dlsym(handle, name_of(slot)) : nullptr;
  return found != nullptr ? found : symm_nccl_missing[slot];
}

// The function for a slot, by the table.
void* look_up(size_t slot) noexcept {
  if (is_loading()) return while_loading(slot);
  try {
    if (!filled) fill();
  } catch (...) {
    return symm_nccl_missing[slot];
  }
  return slot_at(slot).load(std::memory_order_relaxed);
}

// Programs may poll a call that is missing: the log has one line for each function.
void say_missing(size_t slot, const std::string& why, Result result) noexcept {
  static std::array<std::atomic<bool>, kSlots> said;
  if (said[slot].exchange(true)) {
    say_again(why, result);
  } else {
    say(why, result);
  }
}

// Says what is missing, and returns the result for it.
Result report_missing(size_t slot) noexcept {
  if (is_loading()) return kInvalidUsage;

  try {
    const Library& library = real_library();
    if (library.is_alone) {
      say_missing(slot, std::string(name_of(slot)) + needs_nccl(), kInvalidUsage);
      return kInvalidUsage;
    }
    if (library.handle == nullptr) {
      say_missing(slot, std::string(name_of(slot)) + ": " + library.reason, kSystemError);
      return kSystemError;
    }

    say_missing(slot,
        std::string(name_of(slot)) + " came with NCCL " + kFunctions[slot / 2].since +
            ", and this process has NCCL " + library.version + " (" + library.file + ")",
        kInvalidUsage);
  } catch (...) {
    // The sentence is lost for want of memory.
  }
  return kInvalidUsage;
}
}  // namespace

void* real_function(Function function) noexcept {
  return look_up(2 * static_cast<size_t>(function));
}

bool has_real(Function function) noexcept {
  return real_function(function) != symm_nccl_missing[2 * static_cast<size_t>(function)];
}

// The function that forwarders.S calls.
extern "C" {
void* symm_nccl_fill(unsigned slot) noexcept { return look_up(slot); }

Result symm_nccl_missing_result(unsigned slot) noexcept { return report_missing(slot); }

const char* symm_nccl_missing_string(unsigned slot) noexcept {
  report_missing(slot);
  return last_sentence();
}

int symm_nccl_missing_rank(unsigned slot) noexcept {
  report_missing(slot);
  return -1;
}

Team symm_nccl_missing_team(unsigned slot) noexcept {
  report_missing(slot);
  return {0, 0, 0};
}

void symm_nccl_missing_nothing(unsigned slot) noexcept { report_missing(slot); }
}
}  // namespace symm::nccl
