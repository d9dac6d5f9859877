#include "tools/top/pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace fs = std::filesystem;

uint64_t load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

ShownMemory::ShownMemory(const std::string& path, size_t least) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
  const auto bytes = static_cast<size_t>(status.st_size);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (bytes < least || seals < 0 || (seals & F_SEAL_SHRINK) == 0) return;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return;

  words_ = static_cast<const uint64_t*>(mapped);
  bytes_ = bytes;
}

ShownMemory::~ShownMemory() {
  if (words_ != nullptr) ::munmap(const_cast<uint64_t*>(words_), bytes_);
}

void for_each_descriptor(
    std::string_view link, const std::function<void(const std::string& path, pid_t pid)>& use) {
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    for (fs::directory_iterator at(process.path() / "fd", ignored), end; !ignored && at != end;
        at.increment(ignored)) {
      std::error_code closed;
      if (fs::read_symlink(at->path(), closed) != link || closed) continue;
      use(at->path(), pid);
    }
  }
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return text;
}
}  // namespace symm::tool
