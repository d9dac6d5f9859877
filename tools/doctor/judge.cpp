#include <cstdio>
#include "tools/doctor/finding.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
std::string or_unlimited(uint64_t value) { return value == unlimited ? "unlimited" : std::to_string(value); }
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
      "symm does not need it (it uses memfd, which this limit does not bind). MPI, NCCL and PyTorch do: start the container with "
      "--shm-size=8g or --ipc=host."};
}

Finding judge_memory_control_group(const std::optional<Space>& group) {
  const std::string check = "memory limit";
  if (!group) return {check, Verdict::ok, "no limit by a control group", ""};
  const std::string detail = format_bytes(group->free) + " left of " + format_bytes(group->total) + " in the control group";
  const std::string remedy =
      "Shared blocks count against this limit, and beyond it the kernel kills a rank. Raise it (docker --memory, Slurm --mem, "
      "systemd MemoryMax).";
  constexpr uint64_t hopeless = uint64_t{32} << 20;
  constexpr uint64_t scarce = uint64_t{512} << 20;
  if (group->free < hopeless) return {check, Verdict::failure, detail, remedy};
  if (group->free < scarce) return {check, Verdict::warning, detail, remedy};
  return {check, Verdict::ok, detail, ""};
}

Finding judge_open_files(const Limit& limit) {
  const std::string detail = or_unlimited(limit.soft) + ", at most " + or_unlimited(limit.hard);
  // A rank holds a socket, a pidfd and a segment for each peer.
  if (limit.soft < 64)
    return {"open files", Verdict::failure, detail, "Too few for a group of more than a few ranks: ulimit -n 4096"};
  if (limit.soft < 1024) return {"open files", Verdict::warning, detail, "Large groups need more: ulimit -n 4096"};
  return {"open files", Verdict::ok, detail, ""};
}

Finding judge_locked_memory(const Limit& limit, bool cuda) {
  const std::string detail = limit.soft == unlimited ? "unlimited" : format_bytes(limit.soft);
  constexpr uint64_t usual = uint64_t{64} << 20;
  if (!cuda || limit.soft >= usual)
    return {"locked memory", Verdict::ok, detail + (cuda ? "" : " (the host back end locks none)"), ""};
  return {"locked memory", Verdict::warning, detail,
      "Drivers of networks and GPUs lock memory: ulimit -l unlimited, or docker --ulimit memlock=-1"};
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
        "Ranks that spin use up the quota and are then stopped for the rest of each period. Use no more ranks than the quota "
        "grants, or raise it (docker --cpus), or allow fewer processors (docker --cpuset-cpus, taskset)."};
  }
  if (usable == 1) {
    return {check, Verdict::note, detail,
        "Several ranks take turns on it: right, but slow. Allow more (taskset, docker --cpuset-cpus)."};
  }
  return {check, Verdict::ok, detail, ""};
}

Finding judge_memfd(const Feature& memfd) {
  if (memfd.available) return {"shared memory", Verdict::ok, "memfd_create, fallocate and seals work", ""};
  return {"shared memory", Verdict::failure, memfd.reason,
      "Ranks share memory by memfd_create with seals (Linux 3.17). Allow it in the container's seccomp profile, or raise the "
      "memory limit if the message says that memory is short."};
}

Finding judge_pidfd(const Feature& pidfd, const Feature& peer_pidfd) {
  if (peer_pidfd.available)
    return {"death of a peer", Verdict::ok, "SO_PEERPIDFD: seen across pid namespaces, without a race", ""};
  if (pidfd.available) {
    return {"death of a peer", Verdict::note, "pidfd_open works, SO_PEERPIDFD does not (" + peer_pidfd.reason + ")",
        "Ranks in one pid namespace lose nothing. Between namespaces the death of a rank is then seen by its closed socket, "
        "which a forked child can hold open. Linux 6.5 or newer has SO_PEERPIDFD."};
  }
  return {"death of a peer", Verdict::warning, pidfd.reason,
      "The death of a rank is seen by its closed socket only, which a forked child can hold open. Use Linux 5.3 or newer, and "
      "allow pidfd_open in the container's seccomp profile."};
}

Finding judge_futex_waitv(const Feature& futex_waitv) {
  if (futex_waitv.available) return {"futex_waitv", Verdict::ok, "available", ""};
  return {"futex_waitv", Verdict::note, futex_waitv.reason, "Nothing depends on it; Linux 5.16 or newer has it."};
}

Finding judge_huge_pages(const std::string& setting) {
  const std::string check = "huge pages";
  if (setting.empty()) return {check, Verdict::note, "the kernel does not say whether shared memory may use huge pages", ""};
  if (setting != "never" && setting != "deny") return {check, Verdict::ok, "shared memory: " + setting, ""};
  return {check, Verdict::note, "shared memory: " + setting,
      "Large transfers gain from huge pages. As root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

Finding judge_cuda_driver(const CudaDriver& driver, bool library_can, const std::string& library_reason) {
  const std::string check = "CUDA driver";
  const std::string devices = std::to_string(driver.devices) + (driver.devices == 1 ? " device" : " devices");
  if (!driver.present) return {check, Verdict::ok, "none: the host back end is used (" + driver.reason + ")", ""};
  if (!driver.usable) {
    return {check, Verdict::warning, driver.reason,
        "The driver is installed but does not work, so only the host back end can be used. See nvidia-smi; in a container start "
        "with --gpus all, and check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*."};
  }
  const std::string version = std::to_string(driver.version / 1000) + "." + std::to_string(driver.version % 1000 / 10);
  const std::string detail = devices + ", CUDA " + version;
  if (library_can) return {check, Verdict::ok, detail, ""};
  return {check, Verdict::note, detail + ", which this library does not use: " + library_reason,
      "Ranks work on host memory. Use a build of libsymm with the CUDA back end (symm info shows what this one has)."};
}

Finding judge_peer_access(int devices) {
  if (devices < 2) return {"peer access", Verdict::ok, "not applicable: fewer than two devices that libsymm can use", ""};
  return {"peer access", Verdict::note, "not examined", "symm info shows the links between the devices."};
}

Finding judge_ucx(const Ucx& ucx) {
  const std::string install =
      "install libucx0 (Debian), ucx (RPM, conda) or libucx-cu13 (pip), or name its libucp.so.0 in SYMM_UCX.";
  if (ucx.path.empty()) return {"UCX", Verdict::note, "none: " + ucx.reason, "Groups across machines need it: " + install};
  const std::string detail =
      std::to_string(ucx.major) + "." + std::to_string(ucx.minor) + "." + std::to_string(ucx.release) + " (" + ucx.path + ")";
  if (ucx.major != 1 || ucx.minor < 13)
    return {"UCX", Verdict::warning, detail, "Groups across machines need 1.13 or newer: " + install};
  if (ucx.minor >= 20) return {"UCX", Verdict::ok, detail, ""};
  return {"UCX", Verdict::note, detail, "Before 1.20, whoever reaches the port of a rank can end it: trusted networks only."};
}
}  // namespace symm::tool
