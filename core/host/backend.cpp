// SPDX-License-Identifier: Apache-2.0
#include "core/host/backend.hpp"

#include "core/backend/hardware.hpp"
#include "core/backend/segment.hpp"
#include "core/base/process.hpp"
#include "core/host/transport.hpp"

namespace symm::host {
namespace {

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

  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent) override {
    return Segment::import(std::move(fd), extent.bytes);
  }

  // The owner's waiter byte, on a line of its own behind the words.
  size_t pad_extra() const noexcept override { return 2 * kLine; }

  std::unique_ptr<Transport> make_transport(TransportContext context) override {
    const PlanValues values = table_.values(BackendKind::host, context.size, processor_name);
    return std::make_unique<HostTransport>(std::move(context), values);
  }

 private:
  PlanTable table_ = PlanTable::from_environment(BackendKind::host);
};

}  // namespace

std::shared_ptr<Backend> open() { return std::make_shared<HostBackend>(); }

}  // namespace symm::host
