// The objects that the host back end gives the rest of core: memory, transports, and the
// provider of memory for tokens.
#include "core/host/backend.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/hardware.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/host/control.hpp"
#include "core/host/transport.hpp"
#include "kernels/host/copy_pieces.hpp"

namespace symm::host {
namespace {
// The descriptor of a block is the memfd of its segment.
class HostMemory final : public ShareableMemory {
 public:
  explicit HostMemory(Descriptor of_imports) : of_imports_(of_imports) {}

  std::shared_ptr<Block> allocate(size_t bytes, const Placement& placement) override {
    return Segment::create(bytes, "symm-block", placement);
  }

  std::shared_ptr<Block> adopt(const void* pointer, size_t) override {
    throw Error(
        Status::unsupported, format("pointer: the host back end cannot adopt %p: Linux gives no "
                                    "descriptor for memory that is mapped already, "
                                    "so no other process could map it; options.fd names a memfd",
                                 pointer));
  }

  std::shared_ptr<Block> adopt(int fd, uint64_t offset, size_t bytes) override {
    return Segment::adopt(fd, offset, bytes);
  }

  using ShareableMemory::import;
  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent, Access access) override {
    return Segment::import(std::move(fd), extent, of_imports_, access);
  }

 private:
  const Descriptor of_imports_;
};

class HostBackend final : public Backend {
 public:
  BackendKind kind() const noexcept override { return BackendKind::host; }

  int device() const noexcept override { return 0; }

  ShareableMemory& memory() noexcept override { return memory_; }

  size_t pad_bytes(int size, int channels) const noexcept override {
    return Pad::bytes(size, channels);
  }

  std::unique_ptr<Transport> make_transport(TransportContext context) override {
    const PlanValues values = table_.values(BackendKind::host, context.size, processor_name);
    return std::make_unique<HostTransport>(std::move(context), values);
  }

 private:
  HostMemory memory_{Descriptor::close};
  PlanTable table_ = PlanTable::from_environment(BackendKind::host);
};

// Tokens for memory of the host, which has no streams.
class HostProvider final : public ipc::Provider {
 public:
  BackendKind kind() const noexcept override { return BackendKind::host; }

  ipc::Id gpu(int) const override { return {}; }

  std::optional<int> device_of(const void*) const override { return std::nullopt; }

  int device_for(const ipc::Id&, int) const override { return 0; }

  std::shared_ptr<ShareableMemory> memory(int) const override { return memory_; }

  void check_stream(void* stream, int) const override {
    if (stream != nullptr) {
      throw Error(Status::invalid_argument, "stream: must be NULL for memory of the host");
    }
  }

  void finish(void*, int) const override {}

  bool record_use(void* stream, int device) const override {
    check_stream(stream, device);
    return true;
  }

  void* stream_after(void*, int) const override { return nullptr; }

  void keep_until_done(std::shared_ptr<void>, int) const override {}

  std::unique_ptr<ipc::StreamWords> stream_words(
      std::shared_ptr<Segment>, std::span<std::atomic<uint64_t>>) const override {
    return nullptr;
  }

  void copy_pieces(
      void* to, const void* from, const PieceCopy& pieces, int, void* stream) const override {
    check_stream(stream, 0);
    host::copy_pieces(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), pieces.list,
        pieces.bytes > llc_bytes_ / 2);
  }

  bool outlives_its_writer() const noexcept override { return false; }

 private:
  const std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>(Descriptor::keep);
  const size_t llc_bytes_ = last_level_cache_bytes();
};
}  // namespace

std::shared_ptr<Backend> open() { return std::make_shared<HostBackend>(); }

const ipc::Provider& ipc_provider() {
  static const auto* provider = new HostProvider;
  return *provider;
}
}  // namespace symm::host
