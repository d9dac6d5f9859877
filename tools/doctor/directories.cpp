#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include "tools/doctor/finding.hpp"
#include "tools/environment.hpp"
#include "tools/run/job_directory.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
namespace fs = std::filesystem;

// The directory of a group holds a file "lock", locked by every rank that lives.
bool abandoned(const fs::path& directory) {
  const UniqueFd lock(::open((directory / "lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

std::vector<std::string> abandoned_below(const fs::path& parent, int depth) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored)) continue;
    if (abandoned(entry.path())) out.push_back(entry.path().string());
    if (depth == 0) continue;
    const auto below = abandoned_below(entry.path(), depth - 1);
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

std::string octal(unsigned mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode & 07777U);
  return text;
}
}  // namespace

std::string library_parent() {
  const std::string parent = runtime_parent();
  if (parent == environment("XDG_RUNTIME_DIR")) return parent + "/symm";
  return "/tmp/symm-" + std::to_string(::geteuid());
}

Finding check_runtime_directory(const std::string& path) {
  const std::string check = "runtime directory";
  const std::string elsewhere = ", or set SYMM_DIR to a directory of mode 0700 of your own.";
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return {check, Verdict::failure, path + ": " + std::strerror(errno), "Make it accessible" + elsewhere};
    const std::string parent = fs::path(path).parent_path().string();
    if (::access(parent.c_str(), W_OK | X_OK) == 0) return {check, Verdict::ok, path + " (not there yet; can be made)", ""};
    return {check, Verdict::failure, path + " cannot be made: " + parent + ": " + std::strerror(errno),
        "Make " + parent + " writable" + elsewhere};
  }
  if (!S_ISDIR(info.st_mode)) {
    return {check, Verdict::failure, path + " is " + (S_ISLNK(info.st_mode) ? "a symbolic link" : "not a directory"),
        "Remove it" + elsewhere};
  }
  if (info.st_uid != ::geteuid()) {
    return {check, Verdict::failure,
        path + " belongs to user " + std::to_string(info.st_uid) + ", you are " + std::to_string(::geteuid()),
        "Somebody may be trying to listen in. Have it removed" + elsewhere};
  }
  if ((info.st_mode & 077) != 0) {
    return {check, Verdict::failure, path + " has mode " + octal(info.st_mode) + " and so is open to others",
        "chmod 0700 " + path + elsewhere};
  }
  return {check, Verdict::ok, path, ""};
}

Finding judge_socket_path(const std::string& directory, bool proc_mounted) {
  const std::string check = "socket paths";
  // Below the directory: "/j-<job>/g-<name>-<time>-<random>/<socket>".
  constexpr size_t longest_below = 90;
  const bool fits = directory.size() + longest_below < sizeof(sockaddr_un::sun_path);
  if (fits) return {check, Verdict::ok, directory + " is short enough", ""};
  if (proc_mounted) return {check, Verdict::ok, "those that exceed the limit of 107 bytes are reached through /proc/self/fd", ""};
  return {check, Verdict::failure, "below " + directory + " they may exceed the limit of 107 bytes, and /proc is not mounted",
      "Mount /proc, or set XDG_RUNTIME_DIR to a shorter path."};
}

Finding check_leftovers(const std::string& run_parent, const std::string& library) {
  std::vector<std::string> left = stale_job_directories(run_parent);
  const std::vector<std::string> groups = abandoned_below(library, 1);
  left.insert(left.end(), groups.begin(), groups.end());
  if (left.empty()) return {"leftovers", Verdict::ok, "no directories of killed jobs", ""};
  return {"leftovers", Verdict::note,
      std::to_string(left.size()) + (left.size() == 1 ? " directory" : " directories") + " of killed jobs",
      "Harmless; to remove: rm -r " + join(left, " ")};
}

Namespaces own_namespaces() {
  // The numbers of a machine's first namespaces are fixed (include/linux/proc_ns.h), but for the network.
  const auto inode = [](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? static_cast<unsigned long long>(info.st_ino) : 0ULL;
  };
  const auto differs = [&](const std::string& name, unsigned long long first) {
    const unsigned long long own = inode("/proc/self/ns/" + name);
    return own != 0 && first != 0 && own != first;
  };
  Namespaces out;
  out.pid = differs("pid", 0xEFFFFFFCULL);
  out.ipc = differs("ipc", 0xEFFFFFFFULL);
  out.user = differs("user", 0xEFFFFFFDULL);
  out.network = differs("net", inode("/proc/1/ns/net"));
  return out;
}

Finding judge_namespaces(const Namespaces& namespaces, bool peer_pidfd) {
  std::vector<std::string> own;
  if (namespaces.pid) own.emplace_back("pid");
  if (namespaces.network) own.emplace_back("network");
  if (namespaces.ipc) own.emplace_back("ipc");
  if (namespaces.user) own.emplace_back("user");
  if (own.empty())
    return {"namespaces", Verdict::ok, "those of the machine; Yama's ptrace_scope does not matter (nothing is traced)", ""};
  const std::string detail = "own " + join(own, ", ") + (own.size() == 1 ? " namespace" : " namespaces") + " (a container)";
  if (namespaces.pid && !peer_pidfd) {
    return {"namespaces", Verdict::note, detail,
        "Ranks in different containers need a shared directory (docker -v) and, on a kernel before 6.5, --pid=host to see each "
        "other die at once. Within one container nothing is needed."};
  }
  return {"namespaces", Verdict::ok, detail + "; ranks in several need a shared directory, but no --ipc=host and no ptrace", ""};
}
}  // namespace symm::tool
