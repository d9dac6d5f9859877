// SPDX-License-Identifier: Apache-2.0
#include "core/host/backend.hpp"

#include <cstring>

#include "core/backend/hardware.hpp"
#include "core/backend/segment.hpp"
#include "core/base/process.hpp"
#include "core/host/transport.hpp"

namespace symm::host {
namespace {

struct BlockShare {
  uint64_t bytes;
};

class HostBackend final : public Backend {
 public:
  BackendKind kind() const noexcept override { return BackendKind::host; }
  int device() const noexcept override { return 0; }
  std::string domain() const override { return process::boot_id(); }

  std::shared_ptr<Block> allocate(size_t bytes, const Placement& placement) override {
    return Segment::create(bytes, "symm-block", placement.node);
  }
  std::shared_ptr<Block> adopt(const void* pointer, size_t) override {
    throw Error(Status::unsupported,
                format("pointer: the host back end cannot adopt %p: Linux gives no descriptor for memory that is mapped already, "
                       "so no other process could map it",
                       pointer));
  }

  ShareableHandle share(const Block& block) const override {
    const auto& segment = static_cast<const Segment&>(block);
    const BlockShare body{segment.size()};
    ShareableHandle share;
    share.body.resize(sizeof body);
    std::memcpy(share.body.data(), &body, sizeof body);
    share.fds = {segment.fd()};
    return share;
  }
  size_t share_body_size() const noexcept override { return sizeof(BlockShare); }
  size_t share_fd_count() const noexcept override { return 1; }

  std::shared_ptr<Block> import(Message message, size_t bytes, const PeerIdentity&) override {
    BlockShare body{};
    std::memcpy(&body, message.body.data(), sizeof body);
    if (body.bytes != bytes) throw Error(Status::peer_failed, "a peer sent a block of another size than it announced");
    return Segment::import(std::move(message.fds.at(0)), bytes);
  }

  // The owner's waiter byte, on a line of its own behind the words.
  size_t pad_extra() const noexcept override { return 2 * kLine; }

  std::unique_ptr<Transport> make_transport(TransportContext context) override {
    const PlanValues values = table_.values(BackendKind::host, context.size, processor_name);
    return std::make_unique<HostTransport>(std::move(context), values);
  }
  size_t transport_share_body_size() const noexcept override { return HostTransport::share_body_size(); }
  size_t transport_share_fd_count() const noexcept override { return 1; }

 private:
  PlanTable table_ = PlanTable::from_environment(BackendKind::host);
};

}  // namespace

std::shared_ptr<Backend> open() { return std::make_shared<HostBackend>(); }

}  // namespace symm::host
