// The drop-in's interface to libsymm, which it calls by its C header, and loads with
// the first communicator. A program that is started with the drop-in and has no
// communicator loads nothing more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include <symm/symm.h>

namespace symm::nccl {
struct SymmLibrary {
  decltype(&symm_group_create) group_create = nullptr;
  decltype(&symm_group_retain) group_retain = nullptr;
  decltype(&symm_group_release) group_release = nullptr;
  decltype(&symm_group_abort) group_abort = nullptr;
  decltype(&symm_group_info) group_info = nullptr;
  decltype(&symm_group_status) group_status = nullptr;
  decltype(&symm_group_failed_ranks) group_failed_ranks = nullptr;
  decltype(&symm_group_peer_info) group_peer_info = nullptr;
  decltype(&symm_last_error) last_error = nullptr;
  decltype(&symm_buffer_adopt) buffer_adopt = nullptr;
  decltype(&symm_buffer_release) buffer_release = nullptr;
  decltype(&symm_rendezvous) rendezvous = nullptr;
  decltype(&symm_memory_release) memory_release = nullptr;
  decltype(&symm_stream_wait) stream_wait = nullptr;
  decltype(&symm_allgather) allgather = nullptr;
  decltype(&symm_allreduce) allreduce = nullptr;
  decltype(&symm_alltoall) alltoall = nullptr;
  decltype(&symm_broadcast) broadcast = nullptr;
  decltype(&symm_gather) gather = nullptr;
  decltype(&symm_messages) messages = nullptr;
  decltype(&symm_reduce) reduce = nullptr;
  decltype(&symm_reduce_scatter) reduce_scatter = nullptr;
  decltype(&symm_scatter) scatter = nullptr;
  // Whether libsymm was found, with all of these; if not, the reason why.
  bool usable = false;
  std::string reason;
};
const SymmLibrary& symm_library();

struct GroupFailure {
  Result result;
  std::string sentence;
};
// Why a group has failed. `version` is the NCCL that the caller was compiled with. Never waits.
std::optional<GroupFailure> failure_of(symm_group_t* group, uint32_t version);

// The result for a status. kTimeout is for those that know it.
Result result_of(symm_status_t status, uint32_t version) noexcept;
}  // namespace symm::nccl
