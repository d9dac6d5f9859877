#include <dlfcn.h>
#include <filesystem>
#include "tools/environment.hpp"
#include "tools/host/host.hpp"

namespace symm::tool {
Ucx find_ucx() {
  Ucx ucx;
  const std::string named = environment("SYMM_UCX");
  Dl_info place{};
  std::error_code ignored;
  std::string path = named.empty() ? "libucp.so.0" : named;
  if (void* const us = ::dlsym(RTLD_DEFAULT, "symm_version"); named.empty() && us != nullptr && ::dladdr(us, &place) != 0) {
    const auto packages = std::filesystem::absolute(place.dli_fname, ignored).parent_path().parent_path().parent_path();
    const auto wheel = packages / "libucx" / "lib" / path;
    if (std::filesystem::exists(wheel, ignored)) path = wheel.string();
  }
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const error = library == nullptr ? ::dlerror() : nullptr;
  if (error != nullptr) ucx.reason = error;
  if (library == nullptr) return ucx;
  const auto version = reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(::dlsym(library, "ucp_get_version"));
  if (version == nullptr) return ucx.reason = path + " has no ucp_get_version", ucx;
  version(&ucx.major, &ucx.minor, &ucx.release);
  if (::dladdr(reinterpret_cast<void*>(version), &place) != 0) path = place.dli_fname;
  ucx.path = path;
  return ucx;
}
}  // namespace symm::tool
