// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/finding.hpp"

namespace symm::tool {

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
  return {
      "death of a peer", Verdict::warning, pidfd.reason,
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

}  // namespace symm::tool
