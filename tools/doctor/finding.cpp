// The verdicts of symm doctor on the facts that tools/host has read, each with what to do about
// it.
#include "tools/doctor/finding.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job.hpp"
#include "tools/text.hpp"
#include "tools/top/shares.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
std::string or_unlimited(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

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

// Marks, by verdict.
constexpr std::pair<const char*, Colour> styles[] = {
    {"OK", Colour::green}, {"note", Colour::cyan}, {"warn", Colour::yellow}, {"FAIL", Colour::red}};

// Words into lines of about `width` characters, each after `indent`.
std::string wrap(const std::string& text, const std::string& indent, size_t width) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column > 0 && column + 1 + end - at > width) {
      out += "\n";
      column = 0;
    }
    out += column == 0 ? indent : " ";
    out += text.substr(at, end - at);
    column += 1 + end - at;
    at = end + 1;
  }

  return out + "\n";
}

long count(const std::vector<Finding>& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(),
      [&](const Finding& finding) { return finding.verdict == verdict; });
}
}  // namespace

Finding judge_shared_memory_mount(const std::optional<Space>& mount) {
  const std::string check = "/dev/shm";
  constexpr uint64_t small = uint64_t{1} << 30;
  if (!mount) {
    return {check, Verdict::note, "not mounted",
        "symm does not need it (it uses memfd). MPI, NCCL and PyTorch do: mount a tmpfs there."};
  }

  const std::string detail = format_bytes(mount->free) + " free of " + format_bytes(mount->total);
  if (mount->total >= small) return {check, Verdict::ok, detail, ""};
  return {check, Verdict::note, detail,
      "symm does not need it (it uses memfd, which this limit does not bind). MPI, NCCL and "
      "PyTorch do: start the container with "
      "--shm-size=8g or --ipc=host."};
}

Finding judge_memory_control_group(const std::optional<Space>& group) {
  const std::string check = "memory limit";
  if (!group) return {check, Verdict::ok, "no limit by a control group", ""};
  const std::string detail = format_bytes(group->free) + " left of " + format_bytes(group->total) +
                             " in the control group";
  const std::string remedy =
      "Shared blocks count against this limit, and beyond it the kernel kills a rank. Raise it "
      "(docker --memory, Slurm --mem, "
      "systemd MemoryMax).";
  constexpr uint64_t hopeless = uint64_t{32} << 20;
  constexpr uint64_t scarce = uint64_t{512} << 20;
  if (group->free < hopeless) return {check, Verdict::failure, detail, remedy};
  if (group->free < scarce) return {check, Verdict::warning, detail, remedy};

  return {check, Verdict::ok, detail, ""};
}

Finding judge_open_files(const rlimit& limit) {
  const std::string detail =
      or_unlimited(limit.rlim_cur) + ", at most " + or_unlimited(limit.rlim_max);
  // A rank holds a socket, a pidfd and a segment for each peer.
  if (limit.rlim_cur < 64) {
    return {"open files", Verdict::failure, detail,
        "Too few for a group of more than a few ranks: ulimit -n 4096"};
  }
  if (limit.rlim_cur < 1024) {
    return {"open files", Verdict::warning, detail, "Large groups need more: ulimit -n 4096"};
  }
  return {"open files", Verdict::ok, detail, ""};
}

Finding judge_locked_memory(const rlimit& limit, bool cuda) {
  const std::string detail =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
  constexpr uint64_t usual = uint64_t{64} << 20;
  if (!cuda || limit.rlim_cur >= usual) {
    return {
        "locked memory", Verdict::ok, detail + (cuda ? "" : " (the host back end locks none)"), ""};
  }
  return {"locked memory", Verdict::warning, detail,
      "Drivers of networks and GPUs lock memory: ulimit -l unlimited, or docker --ulimit "
      "memlock=-1"};
}

Finding judge_processors(int usable, const std::optional<double>& quota) {
  const std::string check = "processors";
  std::string detail = std::to_string(usable) + " usable";
  if (quota) {
    char text[64];
    std::snprintf(text, sizeof text, ", time of %.2f granted by the control group", *quota);
    detail += text;
  }

  if (quota && *quota + 0.01 < usable) {
    return {check, Verdict::warning, detail,
        "Ranks that spin use up the quota and are then stopped for the rest of each period. Use no "
        "more ranks than the quota "
        "grants, or raise it (docker --cpus), or allow fewer processors (docker --cpuset-cpus, "
        "taskset)."};
  }

  if (usable == 1) {
    return {check, Verdict::note, detail,
        "Several ranks take turns on it: right, but slow. Allow more (taskset, docker "
        "--cpuset-cpus)."};
  }

  return {check, Verdict::ok, detail, ""};
}

Finding judge_memfd(const Feature& memfd) {
  if (memfd.available) {
    return {"shared memory", Verdict::ok, "memfd_create, fallocate and seals work", ""};
  }
  return {"shared memory", Verdict::failure, memfd.reason,
      "Ranks share memory by memfd_create with seals (Linux 3.17). Allow it in the container's "
      "seccomp profile, raise the "
      "memory limit if the message says that memory is short, or `ulimit -f unlimited` if it says "
      "that files are limited."};
}

Finding judge_pidfd(const Feature& pidfd, const Feature& peer_pidfd) {
  if (peer_pidfd.available) {
    return {"death of a peer", Verdict::ok,
        "SO_PEERPIDFD: seen across pid namespaces, without a race", ""};
  }

  if (pidfd.available) {
    return {"death of a peer", Verdict::note,
        "pidfd_open works, SO_PEERPIDFD does not (" + peer_pidfd.reason + ")",
        "Ranks in one pid namespace lose nothing. Between namespaces the death of a rank is then "
        "seen by its closed socket, "
        "which a forked child can hold open. Linux 6.5 or newer has SO_PEERPIDFD."};
  }

  return {"death of a peer", Verdict::warning, pidfd.reason,
      "The death of a rank is seen by its closed socket only, which a forked child can hold open. "
      "Use Linux 5.3 or newer, and "
      "allow pidfd_open in the container's seccomp profile."};
}

Finding judge_futex_waitv(const Feature& futex_waitv) {
  if (futex_waitv.available) return {"futex_waitv", Verdict::ok, "available", ""};
  return {"futex_waitv", Verdict::note, futex_waitv.reason,
      "Some waits look once a millisecond; Linux 5.16 or newer has it."};
}

Finding judge_huge_pages(const std::string& setting) {
  const std::string check = "huge pages";
  if (setting.empty()) {
    return {check, Verdict::note,
        "the kernel does not say whether shared memory may use huge pages", ""};
  }
  if (setting != "never" && setting != "deny") {
    return {check, Verdict::ok, "shared memory: " + setting, ""};
  }
  return {check, Verdict::note, "shared memory: " + setting,
      "Large transfers gain from huge pages. As root: echo advise > "
      "/sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

Finding judge_cuda_driver(
    const CudaDriver& driver, bool library_can, const std::string& library_reason) {
  const std::string check = "CUDA driver";
  const std::string devices =
      std::to_string(driver.devices) + (driver.devices == 1 ? " device" : " devices");

  if (!driver.present) {
    return {check, Verdict::ok, "none: the host back end is used (" + driver.reason + ")", ""};
  }

  if (!driver.usable) {
    return {check, Verdict::warning, driver.reason,
        "The driver is installed but does not work, so only the host back end can be used. See "
        "nvidia-smi; in a container start "
        "with --gpus all, and check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*."};
  }

  const std::string version =
      std::to_string(driver.version / 1000) + "." + std::to_string(driver.version % 1000 / 10);
  const std::string detail = devices + ", CUDA " + version;
  if (library_can) return {check, Verdict::ok, detail, ""};

  return {check, Verdict::note, detail + ", which is not used: " + library_reason,
      "Ranks work on host memory. Use a libsymm.so.0 with kernels, and the symm that was built "
      "with it."};
}

Finding judge_ucx(const Ucx& ucx) {
  const std::string install =
      "install libucx0 (Debian), ucx (RPM, conda) or libucx-cu13 (pip), or name its libucp.so.0 in "
      "SYMM_UCX.";

  if (ucx.path.empty()) {
    return {
        "UCX", Verdict::note, "none: " + ucx.reason, "Groups across machines need it: " + install};
  }

  const std::string detail = std::to_string(ucx.major) + "." + std::to_string(ucx.minor) + "." +
                             std::to_string(ucx.release) + " (" + ucx.path + ")";
  if (ucx.major != 1 || ucx.minor < 13) {
    return {
        "UCX", Verdict::warning, detail, "Groups across machines need 1.13 or newer: " + install};
  }

  if (ucx.minor >= 20) return {"UCX", Verdict::ok, detail, ""};
  return {"UCX", Verdict::note, detail,
      "Before 1.20, whoever reaches the port of a rank can end it: trusted networks only."};
}

namespace {
std::string version_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// Apart from SYMM_NCCL_MODE.
Finding judge_found_nccl(const Nccl& nccl) {
  if (!nccl.refusal.empty()) {
    return {"NCCL", Verdict::failure, "symm's drop-in makes no communicator: " + nccl.refusal,
        "Have SYMM_NCCL name the libnccl.so.2 of a NCCL, or unset it and SYMM_NCCL_MODE."};
  }

  if (nccl.path.empty()) {
    const std::string alone = nccl.drop_in.empty() ? "; symm run --nccl would serve alone, as NCCL "
                                                   : ", which serves alone, as NCCL ";
    const std::string detail =
        "none: " + nccl.reason + (nccl.is_alone ? alone + version_text(nccl.version) : "");
    if (nccl.reason == "SYMM_NCCL=none") {
      return {"NCCL", Verdict::note, detail,
          "Groups of GPUs on several machines need it: unset SYMM_NCCL, or have it name a "
          "libnccl.so.2."};
    }
    return {"NCCL", Verdict::note, detail,
        "Groups of GPUs on several machines need it: install libnccl2 (Debian, RPM) or "
        "nvidia-nccl-cu13 (pip), or name its libnccl.so.2 in SYMM_NCCL. Programs that bring their "
        "own, as PyTorch does, have it all the same."};
  }

  const std::string text = version_text(nccl.version) + " (" + nccl.path + ")";
  const std::string detail =
      nccl.drop_in.empty() ? text : text + " behind symm's drop-in (" + nccl.drop_in + ")";
  constexpr int least = 21'800;
  if (nccl.version < least) {
    return {
        "NCCL", Verdict::note, detail, "Groups of GPUs on several machines need 2.18 or newer."};
  }
  return {"NCCL", Verdict::ok, detail, ""};
}
}  // namespace

Finding judge_nccl(const Nccl& nccl) {
  Finding finding = judge_found_nccl(nccl);
  const std::string setting = "; SYMM_NCCL_MODE=" + nccl.mode;
  if (nccl.mode == "off") {
    finding.detail += setting + ": symm's drop-in hands all calls to NCCL";
  } else if (nccl.mode == "deterministic") {
    finding.detail += setting;
  } else if (!nccl.mode.empty() && nccl.mode != "fast") {
    finding.detail += setting + " is none of fast, deterministic and off";
    if (finding.verdict != Verdict::failure) {
      finding.verdict = Verdict::warning;
      finding.remedy = "Mend SYMM_NCCL_MODE: until then no collective goes by symm.";
    }
  }
  return finding;
}

Finding judge_shares(const nlohmann::json& shares) {
  const std::vector<std::string> lines = shares_lines(shares);
  const std::string check = "memory by tokens";
  if (lines.empty()) return {check, Verdict::ok, "no version is published", ""};

  // Memory of the dead is lost to readers unless one of those that hold it gives it again.
  const bool is_lost = std::any_of(
      shares["orphans"].begin(), shares["orphans"].end(), [&](const nlohmann::json& orphan) {
        const auto gives = [&](const nlohmann::json& version) {
          return std::any_of(orphan["holders"].begin(), orphan["holders"].end(),
              [&](const nlohmann::json& holder) { return holder["pid"] == version["pid"]; });
        };
        return orphan["state"] == "dead" &&
               std::none_of(shares["versions"].begin(), shares["versions"].end(), gives);
      });
  if (!is_lost) return {check, Verdict::ok, join(lines, "; "), ""};
  return {check, Verdict::note, join(lines, "; "),
      "Memory of a process that is gone is free once those that hold it let go. symm hold NAME "
      "keeps what is published under a name, and gives it again."};
}

std::string library_parent() {
  const std::string parent = runtime_parent();
  if (parent == environment("XDG_RUNTIME_DIR")) return parent + "/symm";
  return "/tmp/symm-" + std::to_string(::geteuid());
}

Finding check_proc(const std::string& mount) {
  const std::string check = "process files";
  if (::access((mount + "/self/exe").c_str(), F_OK) == 0) return {check, Verdict::ok, mount, ""};
  return {check, Verdict::failure, mount + " shows no processes",
      "symm run looks there for the processes of a job. Mount it: mount -t proc proc " + mount};
}

Finding check_job_directory(const std::string& parent) {
  const std::string check = "directory of a job";
  if (::access(parent.c_str(), W_OK | X_OK) == 0) return {check, Verdict::ok, parent, ""};
  return {check, Verdict::failure,
      "symm run cannot make its directory in " + parent + ": " + std::strerror(errno),
      "To mend it, " + remedy_for_runtime_parent() + "."};
}

Finding check_runtime_directory(const std::string& path) {
  const std::string check = "runtime directory";
  const auto fails = [&](const std::string& how, const std::string& remedy) {
    return Finding{check, Verdict::failure, path + how,
        remedy + ", or set SYMM_DIR to a directory of mode 0700 of your own."};
  };

  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) {
      return fails(std::string(": ") + std::strerror(errno), "Make it accessible");
    }
    const std::string parent = fs::path(path).parent_path().string();
    if (::access(parent.c_str(), W_OK | X_OK) == 0) {
      return {check, Verdict::ok, path + " (not there yet; can be made)", ""};
    }
    return fails(
        " cannot be made: " + parent + ": " + std::strerror(errno), "Make " + parent + " writable");
  }

  if (!S_ISDIR(info.st_mode)) {
    return fails(
        S_ISLNK(info.st_mode) ? " is a symbolic link" : " is not a directory", "Remove it");
  }

  if (info.st_uid != ::geteuid()) {
    return fails(" belongs to user " + std::to_string(info.st_uid) + ", you are " +
                     std::to_string(::geteuid()),
        "Somebody may be trying to listen in. Have it removed");
  }

  if ((info.st_mode & 077) != 0) {
    return fails(
        " has mode " + octal(info.st_mode) + " and so is open to others", "chmod 0700 " + path);
  }

  // On a file system that is mounted to be read only, the mode says nothing.
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    return fails(std::string(" cannot be written: ") + std::strerror(errno), "Make it writable");
  }

  return {check, Verdict::ok, path, ""};
}

Finding judge_socket_path(const std::string& directory, bool proc_mounted) {
  const std::string check = "socket paths";
  // Below the directory: "/j-<job>/g-<name>-<time>-<random>/<socket>".
  constexpr size_t longest_below = 90;
  const bool fits = directory.size() + longest_below < sizeof(sockaddr_un::sun_path);
  if (fits) return {check, Verdict::ok, directory + " is short enough", ""};

  if (proc_mounted) {
    return {check, Verdict::ok,
        "those that exceed the limit of 107 bytes are reached through /proc/self/fd", ""};
  }

  return {check, Verdict::failure,
      "below " + directory + " they may exceed the limit of 107 bytes, and /proc is not mounted",
      "Mount /proc, or set XDG_RUNTIME_DIR to a shorter path."};
}

Finding check_leftovers(const std::string& run_parent, const std::string& library) {
  std::vector<std::string> left = stale_job_directories(run_parent);
  for (const std::string& path : abandoned_below(library, 1)) {
    left.push_back(path);
  }

  for (std::string& path : left) {
    path = for_shell(path);
  }

  if (left.empty()) return {"leftovers", Verdict::ok, "no directories of killed jobs", ""};
  return {"leftovers", Verdict::note,
      std::to_string(left.size()) + (left.size() == 1 ? " directory" : " directories") +
          " of killed jobs",
      "Harmless; to remove: rm -r " + join(left, " ")};
}

std::vector<std::string> own_namespaces() {
  // The numbers of a machine's first namespaces are fixed
  // (include/linux/proc_ns.h), but for the network.
  const auto inode = [](const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  };

  std::vector<std::string> out;
  for (const auto& [name, first] :
      {std::pair("pid", 0xEFFFFFFCUL), std::pair("net", inode("/proc/1/ns/net")),
          std::pair("ipc", 0xEFFFFFFFUL), std::pair("user", 0xEFFFFFFDUL)}) {
    const uint64_t own = inode(std::string("/proc/self/ns/") + name);
    if (own != 0 && first != 0 && own != first) out.emplace_back(name);
  }

  return out;
}

Finding judge_namespaces(const std::vector<std::string>& own, bool peer_pidfd) {
  if (own.empty()) {
    return {"namespaces", Verdict::ok,
        "those of the machine; Yama's ptrace_scope does not matter (nothing is traced)", ""};
  }

  const std::string detail = "own " + join(own, ", ") +
                             (own.size() == 1 ? " namespace" : " namespaces") + " (a container)";
  if (own.front() == "pid" && !peer_pidfd) {
    return {"namespaces", Verdict::note, detail,
        "Ranks in different containers need a shared directory (docker -v) and, on a kernel before "
        "6.5, --pid=host to see each "
        "other die at once. Within one container nothing is needed."};
  }

  return {"namespaces", Verdict::ok,
      detail + "; ranks in several need a shared directory, but no --ipc=host and no ptrace", ""};
}

bool any_failure(const std::vector<Finding>& findings) {
  return count(findings, Verdict::failure) > 0;
}

nlohmann::json doctor_json(const std::vector<Finding>& findings) {
  nlohmann::json out{{"healthy", !any_failure(findings)}, {"checks", nlohmann::json::array()}};
  for (const Finding& finding : findings) {
    nlohmann::json check{{"check", finding.check},
        {"verdict", styles[static_cast<size_t>(finding.verdict)].first},
        {"detail", finding.detail}};
    if (!finding.remedy.empty()) check["remedy"] = finding.remedy;
    out["checks"].push_back(check);
  }
  return out;
}

std::string doctor_text(const std::vector<Finding>& findings, bool colour) {
  size_t widest = 0;
  for (const Finding& finding : findings) {
    widest = std::max(widest, finding.check.size());
  }

  std::string out;
  for (const Finding& finding : findings) {
    const auto& [name, its_colour] = styles[static_cast<size_t>(finding.verdict)];
    const std::string word = std::string(4 - std::string(name).size(), ' ') + name;
    out += paint(word, its_colour, colour) + "  " + finding.check +
           std::string(widest - finding.check.size() + 2, ' ') + finding.detail + "\n";
    if (!finding.remedy.empty()) out += wrap(finding.remedy, std::string(widest + 8, ' '), 92);
  }

  const long failures = count(findings, Verdict::failure);
  const long warnings = count(findings, Verdict::warning);
  std::string verdict = paint("symm works here", Colour::green, colour);
  if (warnings > 0) verdict = paint("symm works here, with warnings", Colour::yellow, colour);
  if (failures > 0) verdict = paint("symm does not work here", Colour::red, colour);

  return out + "\n" + verdict + ": " + std::to_string(failures) + " failures, " +
         std::to_string(warnings) + " warnings.\n";
}
}  // namespace symm::tool
