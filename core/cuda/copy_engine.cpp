// Issues a collective as copies, on the caller's stream and on side streams. No kernel moves
// data here.
#include "core/cuda/copy_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/collective_args.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
std::string CopyEngine::why_not(const CollectiveCall& call) const {
  size_t offset = 0;
  if (!memory_of_recv(group_, call, &offset)) {
    return "recv is not in this rank's block of a memory of the group";
  }
  return recv_holds_send(call) ? "not in place: recv holds what is still to be sent" : "";
}

// Between two kernels of a warp each rank copies to the others, in turns that differ, so that at a
// time each rank gets from one; what the rank keeps is copied beside that.
void CopyEngine::issue(const CollectiveCall& call) {
  size_t offset = 0;
  const auto memory = memory_of_recv(group_, call, &offset);
  if (!memory) throw Error(Status::invalid_argument, "recv: its memory has been released");

  const auto stream = static_cast<CUstream>(call.stream);
  const TransportContext& context = group_.context;
  const bool is_broadcast = call.collective == Collective::broadcast;
  const bool sends = !is_broadcast || call.root == context.rank;
  const uint64_t unit = call.unit();
  const uint64_t part = is_broadcast ? 0 : static_cast<uint64_t>(context.rank) * unit;

  launch_check(group_, call, memory->id, offset);
  for (int d = 0; sends && d < context.size; ++d) {
    const int peer = (context.rank + d) % context.size;
    const auto* from = static_cast<const std::byte*>(call.send);
    if (call.collective == Collective::alltoall) from += static_cast<uint64_t>(peer) * unit;
    std::byte* const to = memory->blocks[static_cast<size_t>(peer)] + offset + part;
    if (to != from) copy_block(call, from, to, d != 0);
  }
  sides_.join(stream);
  launch_barrier(group_, {}, kBarrierChannels - 1, call.timeout_ms, call.stream,
      static_cast<uint32_t>(call.collective));
}

// Between two barriers each rank copies from the others, the one after itself first, so that at a
// time it gets from one, and nobody else gets from that one. Its own part lies in its recv before
// the first barrier, and stays there until the second.
void CopyEngine::issue_in_chunks(const CollectiveCall& call) {
  size_t offset = 0;
  const auto memory = memory_of_recv(group_, call, &offset);
  if (!memory) throw Error(Status::invalid_argument, "recv: its memory has been released");

  const Driver& driver = group_.device->driver();
  const TransportContext& context = group_.context;
  const size_t unit = call.unit();
  const size_t chunks = call.words.chunks_of(unit);
  auto* const recv = static_cast<std::byte*>(call.recv);
  const auto take_part = [&](int rank, const std::byte* part) {
    const size_t place = static_cast<size_t>(rank) * unit;
    for (size_t c = 0; c < chunks; ++c) {
      const size_t at = c * call.words.chunk_bytes;
      const size_t bytes = std::min(call.words.chunk_bytes, unit - at);
      if (part != recv + place) {
        driver.require(driver.cuMemcpyAsync(address_of(recv + place + at), address_of(part + at),
                           bytes, static_cast<CUstream>(call.stream)),
            "cuMemcpyAsync");
      }
      launch_tell_chunk(group_, call, static_cast<size_t>(rank) * chunks + c);
    }
  };
  const auto meet = [&] {
    launch_barrier(group_, {}, kBarrierChannels - 1, call.timeout_ms, call.stream,
        static_cast<uint32_t>(call.collective));
  };

  launch_check(group_, call, memory->id, offset);
  take_part(context.rank, static_cast<const std::byte*>(call.send));
  meet();
  for (int step = 1; step < context.size; ++step) {
    const int peer = (context.rank + step) % context.size;
    const auto p = static_cast<size_t>(peer);
    take_part(peer, memory->blocks[p] + offset + p * unit);
  }
  meet();
}

// The block that this rank keeps is copied by few blocks of a kernel, twice as fast as a link:
// a copy engine for it would take time from the engines of the links.
void CopyEngine::copy_block(
    const CollectiveCall& call, const std::byte* from, std::byte* to, bool to_peer) {
  const auto stream = static_cast<CUstream>(call.stream);
  if (to_peer) {
    const Driver& driver = group_.device->driver();
    driver.require(driver.cuMemcpyAsync(address_of(to), address_of(from), call.unit(), stream),
        "cuMemcpyAsync");
    return;
  }

  ConvertArgs args{};
  args.from = address_of(from);
  args.to = address_of(to);
  args.count = call.unit();
  args.blocks = 1;
  args.factor = 1;
  args.from_dtype = static_cast<int32_t>(DType::u8);
  args.to_dtype = static_cast<int32_t>(DType::u8);
  constexpr unsigned kFew = 32;
  const unsigned blocks = call.block_limit != 0 ? std::min<unsigned>(kFew, call.block_limit) : kFew;
  group_.kernels.launch(
      group_.kernels.find("symm_convert"), {blocks, 256, sides_.fork(stream)}, args);
}
}  // namespace symm::cuda
