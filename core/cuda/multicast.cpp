// The steps by which all ranks make a multicast object with the driver, and drop it if one of
// them cannot.
#include "core/cuda/multicast.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/base/closed_streams.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
namespace {
CUmulticastObjectProp properties(int ranks, size_t bytes) {
  CUmulticastObjectProp prop{};
  prop.numDevices = static_cast<unsigned>(ranks);
  prop.size = bytes;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}
}  // namespace

size_t Multicast::granularity(const Device& device, int ranks) {
  const ContextGuard current(device, ContextGuard::Capture::relaxed);
  const CUmulticastObjectProp prop = properties(ranks, size_t{2} << 20);
  size_t unit = 0;
  device.driver().require(
      device.driver().cuMulticastGetGranularity(&unit, &prop, CU_MULTICAST_GRANULARITY_MINIMUM),
      "cuMulticastGetGranularity");
  if (unit == 0) throw Error(Status::cuda, "cuMulticastGetGranularity: says 0");
  return unit;
}

Multicast::Multicast(std::shared_ptr<Device> device, int ranks, size_t bytes)
    : device_(std::move(device)), ranks_(ranks), bytes_(bytes) {}

Fd Multicast::create() {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const CUmulticastObjectProp prop = properties(ranks_, bytes_);
  driver().require(driver().cuMulticastCreate(&created_, &prop), "cuMulticastCreate",
      [&] { return format("%zu bytes for %d devices", bytes_, ranks_); });
  has_created_ = true;
  const ClosedStreams held;
  int raw = -1;
  driver().require(driver().cuMemExportToShareableHandle(
                       &raw, created_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle", "a multicast object");
  Fd object(raw);
  if (!object) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)");

  return object;
}

// Rank 0 does not use what it created itself: the driver takes copies to such an address for local
// ones.
void Multicast::join(const Fd& object) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  driver().require(driver().cuMemImportFromShareableHandle(&object_,
                       reinterpret_cast<void*>(static_cast<intptr_t>(object.get())),
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle", "a multicast object");
  has_object_ = true;

  driver().require(driver().cuMulticastAddDevice(object_, device_->handle()),
      "cuMulticastAddDevice", [&] { return format("device %d", device_->ordinal()); });
}

void Multicast::bind(const Allocation& block) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  driver().require(
      driver().cuMemRetainAllocationHandle(&memory_, block.data()), "cuMemRetainAllocationHandle");
  has_memory_ = true;
  driver().require(driver().cuMulticastBindMem(object_, 0, memory_, 0, bytes_, 0),
      "cuMulticastBindMem", [&] { return format("%zu bytes", bytes_); });
  is_bound_ = true;
}

void Multicast::map() {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  driver().require(driver().cuMemAddressReserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve",
      "for multicast");
  is_reserved_ = true;

  driver().require(
      driver().cuMemMap(address_, bytes_, 0, object_, 0), "cuMemMap", "a multicast object");
  is_mapped_ = true;

  const CUmemAccessDesc access{
      {CU_MEM_LOCATION_TYPE_DEVICE, device_->handle()}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  driver().require(driver().cuMemSetAccess(address_, bytes_, &access, 1), "cuMemSetAccess",
      "a multicast object");
}

void Multicast::complete() {
  if (!has_created_) return;
  // All ranks have voted, so nothing may fail any more.
  const ContextGuard current(*device_, std::nothrow);
  driver().cuMemRelease(created_);
  has_created_ = false;
}

// Unmaps, unbinds and releases, in this order; the memory last, since some drivers refuse to unbind
// what is gone. Failures are not reported: the context may be in error, or the driver may be
// shutting down.
Multicast::~Multicast() {
  device_->defer(
      [&driver = device_->driver(), device = device_->handle(), bytes = bytes_,
          has_created = has_created_, has_object = has_object_, has_memory = has_memory_,
          is_bound = is_bound_, is_reserved = is_reserved_, is_mapped = is_mapped_,
          created = created_, object = object_, memory = memory_, address = address_] {
        if (is_mapped) driver.cuMemUnmap(address, bytes);
        if (is_reserved) driver.cuMemAddressFree(address, bytes);
        if (is_bound) driver.cuMulticastUnbind(object, device, 0, bytes);
        if (has_object) driver.cuMemRelease(object);
        if (has_created) driver.cuMemRelease(created);
        if (has_memory) driver.cuMemRelease(memory);
      },
      all_uses_recorded());
}

std::shared_ptr<Multicast> make_multicast(const std::shared_ptr<Device>& device, int rank,
    int ranks, const Allocation& block, size_t bytes, const std::string& trouble,
    OutOfBand& out_of_band, std::string* reason) {
  const auto made = std::make_shared<Multicast>(device, ranks, bytes);
  Fd object;

  // Does a step on this rank; false if it has failed on any rank.
  const auto all_do = [&](auto&& step) {
    std::string mine;
    try {
      step();
    } catch (...) {
      mine = current_failure().message;
    }
    *reason = out_of_band.commit_vote(mine);
    return reason->empty();
  };

  const auto require_no_trouble = [&] {
    if (!trouble.empty()) throw Error(Status::unavailable, trouble);
  };
  if (!all_do(require_no_trouble)) return nullptr;

  const auto create = [&] {
    if (rank == 0) object = made->create();
  };
  if (!all_do(create)) return nullptr;
  if (Fd received = out_of_band.hand_out(object.get()); rank != 0) object = std::move(received);
  if (!all_do([&] { made->join(object); })) return nullptr;

  object.reset();
  if (!all_do([&] { made->bind(block); })) return nullptr;
  if (!all_do([&] { made->map(); })) return nullptr;
  made->complete();
  return made;
}
}  // namespace symm::cuda
