#include "core/multinode/device_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"
#include "core/cuda/transport.hpp"
#include "core/engine/nccl.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/device_proxy.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::multinode {
namespace {
// Behind what the CUDA back end shares.
struct StreamEngineShare {
  char name[64] = "";
  engine::StreamEngine::Id id{};
};

// What goes on a stream between two events.
struct Flight {
  std::shared_ptr<cuda::Device> device;
  cuda::Event before, after;

  ~Flight() {
    const cuda::ContextGuard current(*device, std::nothrow);
    before.reset();
    after.reset();
  }

  engine::Progress progress() const {
    try {
      const cuda::ContextGuard current(*device, cuda::ContextGuard::Capture::relaxed);
      if (device->uses().is_over(after)) return engine::Progress::over;
      return device->uses().is_over(before) ? engine::Progress::runs : engine::Progress::waits;
    } catch (const Error&) {
      return engine::Progress::over;
    }  // no context, no work
  }
};
}  // namespace

DeviceMultinodeTransport::DeviceMultinodeTransport(
    TransportContext context, std::shared_ptr<cuda::Device> device, const PlanValues& values)
    : WithRemoteRanks(std::move(context), std::move(device), values),
      size_(static_cast<size_t>(this->context().size)),
      me_(static_cast<size_t>(this->context().rank)),
      in_line_(this->context().machines.in_line()),
      courier_(DeviceProxy::open(this->context(), gpu())),
      engine_({this->context().rank, this->context().size, this->context().pids,
          this->context().revocation, this->context().fail}) {
  if (me_ == 0) id_ = engine_.draw_id();
  const Machines& machines = this->context().machines;
  machine_ = static_cast<size_t>(machines.of[me_]);
  for (int rank = 0; rank < this->context().size; ++rank) {
    everybody_.push_back(rank);
    if (maps(rank)) local_.push_back(rank);
    if (machines.local_rank(rank) == machines.local_rank(this->context().rank)) {
      rail_.push_back(rank);
    }
  }
}

// ---- creation

OutgoingMessage DeviceMultinodeTransport::share() const {
  OutgoingMessage share = CudaTransport::share();
  StreamEngineShare mine{{}, id_};
  write_text(mine.name, engine_.name());
  append(share, mine);
  append(share, courier_->share());
  return share;
}

void DeviceMultinodeTransport::connect(int peer, Message message, const PeerIdentity& identity) {
  courier_->connect(peer, take_last<EngineShare>(message));
  const auto theirs = take_last<StreamEngineShare>(message);
  if (theirs.name != engine_.name()) {
    throw Error({Status::mismatch, peer, 0,
        format("engine: rank %d has %s, rank %d has %s", context().rank, engine_.name().c_str(),
            peer, theirs.name)});
  }
  if (peer == 0) id_ = theirs.id;
  CudaTransport::connect(peer, std::move(message), identity);
}

void DeviceMultinodeTransport::ready() {
  CudaTransport::ready();
  slot_bytes_ = stages().size() / (size_ + 2 * rail_.size()) / cuda::kPack * cuda::kPack;
  const cuda::ContextGuard current(*gpu(), cuda::ContextGuard::Capture::relaxed);
  engine_.connect(id_, context().until);
  courier_->begin();
}

// ---- in the order of streams

void DeviceMultinodeTransport::trade(uint64_t timeout_ms, void* stream,
    std::span<const int32_t> ranks, const std::function<std::span<const std::byte>(size_t)>& sent,
    const std::function<std::span<std::byte>(size_t)>& got) {
  engine_.together(timeout_ms, [&] {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == context().rank) continue;
      if (const auto goes = sent(i); !goes.empty()) {
        engine_.send(goes.data(), goes.size(), ranks[i], stream);
      }
      if (const auto comes = got(i); !comes.empty()) {
        engine_.recv(comes.data(), comes.size(), ranks[i], stream);
      }
    }
  });
}

void DeviceMultinodeTransport::in_order(const char* what, uint64_t timeout_ms, void* stream,
    std::vector<int32_t> whom, const std::function<void()>& issue) {
  const cuda::CUstream on = cuda::stream_of(stream);
  const cuda::ContextGuard current(*gpu());
  const TimedLock turn(order().turn(), timeout_ms, what);
  context().revocation->throw_if_revoked();
  for (const int32_t rank : whom) {
    if (!context().revocation->departed(rank)) continue;
    context().fail(context().blame_departed(rank, what));
    context().revocation->throw_if_revoked();
  }
  const cuda::Driver& driver = gpu()->driver();
  const cuda::StreamOrder::Place place = order().before(on);
  const auto mark = [&] {
    cuda::Event event = gpu()->uses().make_event();
    driver.require(driver.cuEventRecord(event.get(), on), "cuEventRecord");
    return event;
  };
  const bool captured = place.capture != 0;  // of its replays nobody knows
  const auto flight = std::make_shared<Flight>(Flight{gpu(), captured ? nullptr : mark(), nullptr});
  issue();
  order().after(place);
  if (captured) return;
  flight->after = mark();
  engine_.watch(what, timeout_ms, std::move(whom), [flight] { return flight->progress(); });
}

void DeviceMultinodeTransport::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  if (!ranks.empty() &&
      std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) { return maps(rank); })) {
    return CudaTransport::barrier(ranks, channel, timeout_ms, stream);
  }
  settle(stream);
  const std::vector<int32_t> all =
      ranks.empty() ? everybody_ : std::vector<int32_t>(ranks.begin(), ranks.end());
  const auto sent = [&](size_t) { return std::span(slot(size_), 1); };
  const auto got = [&](size_t i) { return std::span(slot(static_cast<size_t>(all[i])), 1); };
  in_order("barrier", timeout_ms, stream, all, [&] { trade(timeout_ms, stream, all, sent, got); });
  stats_.barriers[0].add_shared(1);
}

void DeviceMultinodeTransport::finish(int channel, uint64_t timeout_ms) {
  constexpr uint64_t kReasonMs = 2'000;  // for the engine to say why not
  void* const stream = gpu()->stream();
  barrier({}, channel, timeout_ms, stream);
  const bool endless = timeout_ms == Deadline::kInfinite;
  const Deadline deadline =
      endless ? Deadline::never() : Deadline::after_ms(timeout_ms + kReasonMs);
  const bool over =
      retry_until([&] { return context().revocation->revoked() || stream_done(stream); }, deadline);
  context().revocation->throw_if_revoked();
  if (!over) throw Error(Status::timeout, "finalize: not all ranks came before the deadline");
}
}  // namespace symm::multinode
