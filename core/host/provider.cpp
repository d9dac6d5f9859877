// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host: the descriptor is the segment's memfd, and there are no streams.
#include "core/host/provider.hpp"

#include "core/backend/segment.hpp"

namespace symm::host {
namespace {

using ipc::Id;
using ipc::Provider;
using ipc::StreamWords;

class HostProvider final : public Provider {
 public:
  BackendKind kind() const noexcept override { return BackendKind::host; }
  Id gpu(int) const override { return {}; }
  Adopted adopt(const void*) const override { return {}; }
  int device_for(const Id&, int) const override { return 0; }
  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent, int) const override {
    return Segment::import(std::move(fd), extent.bytes, Segment::Descriptor::keep);
  }
  void check_stream(void* stream, int) const override {
    if (stream != nullptr) throw Error(Status::invalid_argument, "stream: must be NULL for memory of the host");
  }
  void finish(void*, int) const override {}
  std::unique_ptr<StreamWords> stream_words(std::shared_ptr<Segment>, std::span<std::atomic<uint64_t>>) const override {
    return nullptr;
  }
  bool outlives_its_writer() const noexcept override { return false; }
};

}  // namespace

const Provider& ipc_provider() {
  static const auto* provider = new HostProvider;
  return *provider;
}

}  // namespace symm::host
