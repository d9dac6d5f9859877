// The calls by which programs ask what went wrong: ncclCommGetAsyncError(), ncclGetLastError() and
// ncclGetErrorString(). They give what symm knows beside what NCCL says.
#include "bindings/nccl/failures.hpp"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/communicators.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
struct Sentences {
  std::mutex mutex;
  std::string ours;
  // The newest one of a kRemoteError.
  std::string remote;
  // The text of NCCL when `ours` was new: if NCCL has another text now, that text is newer.
  std::string theirs_then;
};

Sentences& sentences() {
  static auto* const all = new Sentences;
  return *all;
}

const char* theirs(Comm comm) noexcept {
  if (!has_real(Function::ncclGetLastError)) return "";
  const char* const said = real<const char*, Comm>(Function::ncclGetLastError)(comm);
  return said != nullptr ? said : "";
}

// What a call gives to its thread, until the thread makes that call again. NCCL's own memory for
// its sentence has 1024 bytes, too.
using Kept = char[1024];

const char* keep(Kept& kept, const std::string& text) noexcept {
  std::snprintf(kept, sizeof kept, "%s", text.c_str());
  return kept;
}

thread_local Kept kept_sentence;
thread_local Kept kept_name;

// The newest of both, and the other one, if there is one. A communicator that has failed has a
// sentence of its own, whatever another one has failed of since.
std::string both(Comm comm) {
  const std::string said = theirs(comm);
  if (const std::string own = failure_of_communicator(comm); !own.empty()) {
    return said.empty() ? own : own + "; NCCL: " + said;
  }
  const std::lock_guard lock(sentences().mutex);
  const std::string& ours = sentences().ours;
  if (ours.empty() || said.empty()) return ours + said;
  return said == sentences().theirs_then ? ours + "; NCCL: " + said : said + "; symm: " + ours;
}

// The texts of NCCL's results if NCCL itself is too old, or not there.
const char* name_of(Result result) noexcept {
  switch (result) {
    case kSuccess: return "no error";
    case kCudaError: return "unhandled cuda error";
    case kSystemError: return "unhandled system error";
    case kInternalError: return "internal error";
    case kInvalidArgument: return "invalid argument";
    case kInvalidUsage: return "invalid usage";
    case kRemoteError: return "remote process exited or there was a network error";
    case kInProgress: return "NCCL operation in progress";
    case kTimeout: return "a rank did not come before the deadline";
    default: return "unknown result code";
  }
}
}  // namespace

void say(std::string_view sentence, Result result) noexcept {
  log("%.*s", static_cast<int>(sentence.size()), sentence.data());
  say_again(sentence, result);
}

void say_again(std::string_view sentence, Result result) noexcept {
  try {
    const std::string said = theirs(nullptr);
    const std::lock_guard lock(sentences().mutex);
    sentences().ours = sentence;
    if (result == kRemoteError) sentences().remote = sentence;
    sentences().theirs_then = said;
  } catch (...) {
    // The sentence is lost for want of memory.
  }
}

const char* last_sentence() noexcept {
  try {
    const std::lock_guard lock(sentences().mutex);
    return keep(kept_sentence, sentences().ours);
  } catch (...) {
    return "";
  }
}

// ---- calls

extern "C" {
Result symm_ncclCommGetAsyncError(Comm comm, Result* error) noexcept {
  const Result result = real<Result, Comm, Result*>(Function::ncclCommGetAsyncError)(comm, error);
  if (result != kSuccess || error == nullptr) return result;
  // NCCL asks for its own state at the beginning of its calls, and refuses those of a communicator
  // that is in progress or has failed. What symm knows is for the program: a communicator whose
  // group symm is making can be ended, and one that symm has seen fail can be shrunk.
  if (is_of_real(__builtin_return_address(0))) return result;

  // NCCL's own error stands; symm's sentence is kept for ncclGetLastError() all the same.
  const Result ours = ask_communicator(comm, *error);
  if (*error == kSuccess || (*error == kInProgress && ours != kSuccess)) *error = ours;
  return result;
}

const char* symm_ncclGetLastError(Comm comm) noexcept {
  ask_all_communicators();
  try {
    return keep(kept_sentence, both(comm));
  } catch (...) {
    return "";
  }
}

const char* symm_ncclGetErrorString(Result result) noexcept {
  const bool known = result != kTimeout || (!is_loading() && real_library().version_code >=
                                                                 static_cast<int>(kTimeoutSince));
  const bool has_text = known && has_real(Function::ncclGetErrorString);
  const char* const text =
      has_text ? real<const char*, Result>(Function::ncclGetErrorString)(result) : name_of(result);
  if (result != kRemoteError || is_loading()) return text;

  // CuPy and SGLang ask for this text and never for ncclGetLastError(). NCCL asks, too, for lines
  // of its own log.
  if (is_of_real(__builtin_return_address(0))) return text;
  ask_all_communicators();
  try {
    const std::lock_guard lock(sentences().mutex);
    if (sentences().remote.empty()) return text;
    return keep(kept_name, std::string(text) + ": " + sentences().remote);
  } catch (...) {
    return text;
  }
}
}
}  // namespace symm::nccl
