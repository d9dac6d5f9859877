#include <symm/symm.h>
#include "tools/doctor/finding.hpp"
#include "tools/run/job_directory.hpp"

namespace symm::tool {
std::vector<Finding> examine() {
  const Feature peer = peer_pidfd();
  const CudaDriver driver = find_cuda_driver();
  int32_t devices = 0;
  const bool library_can = symm_device_count(SYMM_BACKEND_CUDA, &devices) == SYMM_OK;
  const std::string library_reason = library_can ? "" : symm_last_error();
  const std::string parent = library_parent();
  return {
      judge_memfd(memfd_with_seals()),
      judge_memory_control_group(memory_control_group()),
      judge_shared_memory_mount(shared_memory_mount()),
      judge_open_files(open_files()),
      judge_locked_memory(locked_memory(), driver.usable),
      judge_processors(usable_processors(), processor_quota()),
      judge_huge_pages(shmem_huge_pages()),
      check_runtime_directory(parent),
      judge_socket_path(parent, ::access("/proc/self/fd", X_OK) == 0),
      check_leftovers(runtime_parent(), parent),
      judge_pidfd(pidfd(), peer),
      judge_futex_waitv(futex_waitv()),
      judge_namespaces(own_namespaces(), peer.available),
      judge_cuda_driver(driver, library_can, library_reason),
      judge_peer_access(library_can ? devices : 0),
      judge_ucx(find_ucx()),
      self_test(),
  };
}
}  // namespace symm::tool
