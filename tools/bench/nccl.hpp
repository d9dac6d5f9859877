// NCCL as its users call it, for symm bench --tune --nccl: one communicator that blocks, made by an
// id of rank 0. The tool is linked with no NCCL: it loads the one of this machine.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "tools/bench/pattern.hpp"
#include "tools/environment.hpp"
#include <symm/symm.h>

namespace symm::tool {
class NcclLibrary {
  // A function of the library, which has it.
  template <class... Arguments>
  auto function(const char* name) const {
    return reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
  }

 public:
  struct Id {
    unsigned char bytes[128];
  };

  // Loads the library that SYMM_NCCL names, or the loader's. What is missing() says why there is
  // none.
  NcclLibrary() {
    const std::string asked = environment("SYMM_NCCL");
    const std::string name = asked.empty() ? "libnccl.so.2" : asked;
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      const char* const why = ::dlerror();
      missing_ = why != nullptr ? why : name + " cannot be loaded";
      return;
    }

    // symm's drop-in would be measured against symm: NCCL is the library behind it.
    if (void* const marker = ::dlsym(library_, "symm_nccl_marker"); marker != nullptr) {
      library_ = reinterpret_cast<void* (*)()>(marker)();
    }
    if (library_ == nullptr) {
      missing_ = name + " is symm's drop-in, and no NCCL is behind it";
      return;
    }
    for (const char* const call :
        {"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy",
            "ncclGetErrorString", "ncclGroupStart", "ncclGroupEnd", "ncclSend", "ncclRecv",
            "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce"}) {
      if (::dlsym(library_, call) == nullptr) missing_ = name + " has no " + call;
    }
    if (missing_.empty()) call("ncclGetVersion", &version_);
  }
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;
  ~NcclLibrary() {
    if (comm_ != nullptr) function<void*>("ncclCommDestroy")(comm_);
  }

  const std::string& missing() const { return missing_; }
  int version() const { return version_; }
  std::string version_text() const {
    return std::to_string(version_ / 10'000) + "." + std::to_string(version_ / 100 % 100) + "." +
           std::to_string(version_ % 100);
  }

  Id unique_id() const {
    Id id{};
    call("ncclGetUniqueId", &id);
    return id;
  }
  // All ranks call it, each with its device as the thread's.
  void connect(const Id& id, int rank, int ranks) {
    rank_ = rank;
    ranks_ = ranks;
    call("ncclCommInitRank", &comm_, int{ranks}, Id{id}, int{rank});
  }

  // Issues the call on its stream.
  void run(const symm_collective_call_t& c, void* stream) const {
    const int type = type_of(c.dtype);
    constexpr int kSum = 0;

    switch (c.collective) {
      case SYMM_COLLECTIVE_ALLREDUCE:
        return call("ncclAllReduce", c.send, c.recv, c.count, int{type}, int{kSum}, comm_, stream);
      case SYMM_COLLECTIVE_REDUCE_SCATTER:
        return call(
            "ncclReduceScatter", c.send, c.recv, c.count, int{type}, int{kSum}, comm_, stream);
      case SYMM_COLLECTIVE_ALLGATHER:
        return call("ncclAllGather", c.send, c.recv, c.count, int{type}, comm_, stream);
      case SYMM_COLLECTIVE_BROADCAST:
        return call(
            "ncclBroadcast", c.send, c.recv, c.count, int{type}, int{c.root}, comm_, stream);
      case SYMM_COLLECTIVE_REDUCE:
        return call("ncclReduce", c.send, c.recv, c.count, int{type}, int{kSum}, int{c.root}, comm_,
            stream);
      default: return alltoall(c, type, stream);
    }
  }

 private:
  // All-to-all by sends and receives, as in programs that also run with a NCCL before
  // 2.28, which has no call for it.
  void alltoall(const symm_collective_call_t& c, int type, void* stream) const {
    const size_t bytes = c.count * size_of(c.dtype);
    call("ncclGroupStart");
    for (int rank = 0; rank < ranks_; ++rank) {
      const size_t at = static_cast<size_t>(rank) * bytes;
      const void* const from = static_cast<const std::byte*>(c.send) + at;
      void* const to = static_cast<std::byte*>(c.recv) + at;
      call("ncclSend", from, c.count, int{type}, int{rank}, comm_, stream);
      call("ncclRecv", to, c.count, int{type}, int{rank}, comm_, stream);
    }
    call("ncclGroupEnd");
  }

  static int type_of(symm_dtype_t dtype) {
    constexpr std::pair<symm_dtype_t, int> kTypes[] = {{SYMM_DTYPE_U8, 1}, {SYMM_DTYPE_I32, 2},
        {SYMM_DTYPE_F16, 6}, {SYMM_DTYPE_F32, 7}, {SYMM_DTYPE_BF16, 9}};
    for (const auto& [ours, theirs] : kTypes) {
      if (ours == dtype) return theirs;
    }
    throw std::runtime_error("no type of NCCL is known for this data type");
  }

  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const int result = function<Arguments...>(name)(arguments...);
    if (result == 0) return;
    const auto text =
        reinterpret_cast<const char* (*)(int)>(::dlsym(library_, "ncclGetErrorString"));
    throw std::runtime_error(std::string(name) + ": " + text(result));
  }

  void* library_ = nullptr;
  std::string missing_;
  int version_ = 0;
  void* comm_ = nullptr;
  int rank_ = 0;
  int ranks_ = 0;
};
}  // namespace symm::tool
