// Finds the real NCCL, and tells it from this library by the marker.
#include "bindings/nccl/loading.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

struct Extent {
  // An address within the library that is looked for.
  uintptr_t within;
  uintptr_t begin;
  uintptr_t end;
};

// For dl_iterate_phdr(): the extent of the executable segments of the library that has
// `within`. Returns 1 when it is found.
int find_code(dl_phdr_info* file, size_t, void* found) {
  Extent& code = *static_cast<Extent*>(found);
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  for (size_t i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t at = file->dlpi_addr + segment.p_vaddr;
    begin = std::min(begin, at);
    end = std::max(end, at + segment.p_memsz);
  }

  if (code.within < begin || code.within >= end) return 0;
  code.begin = begin;
  code.end = end;
  return 1;
}

// Opens a file if it is a NCCL, and says in `reason` why it is none. `is_drop_in`: whether it is
// this library.
bool open_real(const std::string& file, int flags, Library& library, bool* is_drop_in = nullptr) {
  void* const handle = load(file, flags);
  if (handle == nullptr) {
    const char* const why = dlerror();
    library.reason = why != nullptr ? why : file + " cannot be loaded";
    return false;
  }
  if (dlsym(handle, "symm_nccl_marker") != nullptr) {
    library.reason = file + " is symm's drop-in, not the NCCL behind it";
    if (is_drop_in != nullptr) *is_drop_in = true;
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
  Extent extent{reinterpret_cast<uintptr_t>(get_version), 0, 0};
  dl_iterate_phdr(find_code, &extent);
  library.code_begin = extent.begin;
  library.code_end = extent.end;
  return true;
}

// The last version without windows, so that clients do not look for what came later.
constexpr int kAloneVersion = 22605;

void serve_alone(Library& library, const std::string& reason) {
  library.reason = reason;
  if (!watching()) {
    library.reason += "; with SYMM_NCCL_MODE=off, symm serves nothing by itself";
    return;
  }
  library.is_alone = true;
  library.version_code = kAloneVersion;
  library.version = version_text(kAloneVersion);
}

Library find() {
  Library library;
  const char* const named = variable("SYMM_NCCL");
  if (named != nullptr && std::strcmp(named, "none") == 0) {
    serve_alone(library, "SYMM_NCCL=none");
    return library;
  }
  if (named != nullptr) {
    if (!open_real(named, 0, library)) library.reason = "SYMM_NCCL: " + library.reason;
    return library;
  }

  for (const std::string& file : mapped_files()) {
    if (open_real(file, RTLD_NOLOAD, library)) return library;
  }
  std::string unusable;
  for (const std::string& file : candidates(kSoname)) {
    bool is_drop_in = false;
    if (open_real(file, 0, library, &is_drop_in)) return library;
    if (!is_drop_in && unusable.empty()) unusable = library.reason;
  }

  if (unusable.empty()) {
    serve_alone(library, "no libnccl.so.2 was found behind symm's drop-in");
  } else {
    library.reason = "the NCCL behind symm's drop-in cannot be used: " + unusable +
                     "; name another one in SYMM_NCCL, or none to have symm serve by itself";
  }
  return library;
}
}  // namespace

void* handle_being_loaded() noexcept {
  if (loading_now == nullptr) return nullptr;
  // The loader has the file in its list before it runs constructors. The reference stays.
  return dlopen(loading_now->c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

bool is_of_real(const void* code) noexcept {
  if (is_loading()) return false;
  const Library& library = real_library();
  const auto at = reinterpret_cast<uintptr_t>(code);
  return at >= library.code_begin && at < library.code_end;
}

bool is_alone() noexcept { return !is_loading() && real_library().is_alone; }

bool is_loading() noexcept { return loading_now != nullptr; }

const Library& real_library() {
  static const auto* const library = [] {
    auto* const found = new Library(find());
    if (found->handle != nullptr) {
      log("NCCL %s (%s)", found->version.c_str(), found->file.c_str());
    } else if (found->is_alone) {
      log("symm serves by itself, as NCCL %s: %s", found->version.c_str(), found->reason.c_str());
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
