// Finds the real NCCL, and tells it from this library by the marker.
#include "bindings/nccl/loading.hpp"

#include <dlfcn.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/search.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
constexpr const char* kSoname = "libnccl.so.2";

// Before 2.9 the number of the minor version had one digit: 2708 is 2.7.8.
std::string version_text(int code) {
  const int major = code < 10'000 ? code / 1'000 : code / 10'000;
  const int minor = code < 10'000 ? code / 100 % 10 : code / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

// The file that this thread is loading. Its constructors run on this thread, and may call NCCL's
// API, which a preloaded drop-in gets.
thread_local const std::string* loading_now = nullptr;

// dlopen(), with `loading_now` set meanwhile.
void* load(const std::string& file, int flags) {
  const std::string* const before = std::exchange(loading_now, &file);
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  loading_now = before;
  return handle;
}

// Opens a file if it is a NCCL, and says in `reason` why it is none.
bool open_real(const std::string& file, int flags, Library& library) {
  void* const handle = load(file, flags);
  if (handle == nullptr) {
    const char* const why = dlerror();
    library.reason = why != nullptr ? why : file + " cannot be loaded";
    return false;
  }
  if (dlsym(handle, "symm_nccl_marker") != nullptr) {
    library.reason = file + " is symm's drop-in, not the NCCL behind it";
    dlclose(handle);
    return false;
  }

  using GetVersion = Result (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(handle, "ncclGetVersion"));
  int code = 0;
  if (get_version == nullptr || get_version(&code) != kSuccess) {
    library.reason = file + " does not tell its version";
    dlclose(handle);
    return false;
  }

  library.handle = handle;
  library.file = file;
  library.version_code = code;
  library.version = version_text(code);
  library.reason.clear();
  return true;
}

Library find() {
  Library library;
  if (const char* const named = variable("SYMM_NCCL"); named != nullptr) {
    if (!open_real(named, 0, library)) library.reason = "SYMM_NCCL: " + library.reason;
    return library;
  }
  for (const std::string& file : mapped_files()) {
    if (open_real(file, RTLD_NOLOAD, library)) return library;
  }
  for (const std::string& file : candidates(kSoname)) {
    if (open_real(file, 0, library)) return library;
  }
  library.reason = "no libnccl.so.2 was found behind symm's drop-in" +
                   (library.reason.empty() ? std::string() : " (" + library.reason + ")") +
                   "; name it in SYMM_NCCL";
  return library;
}
}  // namespace

void* handle_being_loaded() noexcept {
  if (loading_now == nullptr) return nullptr;
  // The loader has the file in its list before it runs constructors. The reference stays.
  return dlopen(loading_now->c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

bool is_loading() noexcept { return loading_now != nullptr; }

const Library& real_library() {
  static const auto* const library = [] {
    auto* const found = new Library(find());
    if (found->handle != nullptr) {
      log("NCCL %s (%s)", found->version.c_str(), found->file.c_str());
    } else {
      log("%s", found->reason.c_str());
    }
    return found;
  }();
  return *library;
}
}  // namespace symm::nccl

void* symm_nccl_marker() noexcept {
  try {
    if (symm::nccl::is_loading()) return symm::nccl::handle_being_loaded();
    return symm::nccl::real_library().handle;
  } catch (...) {
    return nullptr;
  }
}
