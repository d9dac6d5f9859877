#include "core/cuda/multicast.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/types.hpp"

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
  int raw = -1;
  driver().require(driver().cuMemExportToShareableHandle(
                       &raw, created_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle", "a multicast object");
  return Fd(raw);
}

// Rank 0 does not use what it created itself: copies
// to such an address are taken for local ones.
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
  const ContextGuard current(*device_, std::nothrow);  // all have voted: nothing may fail any more
  driver().cuMemRelease(created_);
  has_created_ = false;
}

// The way back, in order: unmap, unbind, release; the memory last, since some drivers
// refuse to unbind what is gone. Failures are not reported, as with allocations.
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

namespace {
bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_a_positive_number(std::string_view text) {
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value > 0;
}

// Each says no to multicast with some value; what it says that is neither yes nor no is
// taken for a no, which costs nothing but multicast itself.
struct Objection {
  Variable variable;
  const char* no;
  bool (*allows)(std::string_view value);
};

bool is_one(std::string_view value) { return value == "1"; }

bool is_off(std::string_view value) {
  return is_one_of(value, {"0", "n", "N", "no", "NO", "f", "false", "FALSE", "off", "OFF"});
}

constexpr Objection kObjections[] = {
    {"SYMM_MULTICAST", "0", is_one},
    {"NCCL_NVLS_ENABLE", "0", is_a_positive_number},
    {"NVSHMEM_DISABLE_NVLS", "1", is_off},
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", is_off},
};
constexpr int kObjectionCount = static_cast<int>(std::size(kObjections));

std::string on(size_t rank, const std::string& reason) {
  return format("rank %zu: %s", rank, reason.c_str());
}

std::string forbidden_by(const MulticastFacts& facts) {
  if (facts.forbidden < 1 || facts.forbidden > kObjectionCount) return "";
  const Objection& objection = kObjections[facts.forbidden - 1];
  return format("%s=%s is set", objection.variable.name(), objection.no);
}
}  // namespace

MulticastFacts read_wish(bool config, const ReadVariable& read) {
  MulticastFacts facts;
  facts.asked = config ? 1 : 0;
  for (int i = 0; i < kObjectionCount; ++i) {
    const char* value = read(kObjections[i].variable);
    if (value == nullptr || *value == '\0') continue;
    if (!kObjections[i].allows(value)) {
      facts.forbidden = i + 1;
      return facts;
    }
    if (i == 0) facts.asked = 1;
  }
  return facts;
}

MulticastFacts multicast_facts(const Device& device, bool config, const ReadVariable& read) {
  MulticastFacts facts = read_wish(config, read);
  const Driver& driver = device.driver();
  facts.device = device.uuid();
  facts.has_calls = driver.cuMulticastCreate != nullptr && driver.cuMulticastAddDevice != nullptr &&
                            driver.cuMulticastBindMem != nullptr &&
                            driver.cuMulticastUnbind != nullptr &&
                            driver.cuMulticastGetGranularity != nullptr
                        ? 1
                        : 0;
  facts.supported = device.attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) != 0 ? 1 : 0;
  return facts;
}

std::string why_no_multicast(const MulticastFacts& facts) {
  if (std::string reason = forbidden_by(facts); !reason.empty()) return reason;
  if (facts.has_calls == 0) return "the CUDA driver has no multicast; that came with CUDA 12.1";
  if (facts.supported == 0) return "the device has none (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)";
  return "";
}

std::string why_no_multicast(std::span<const MulticastFacts> ranks) {
  const auto asks = [](const MulticastFacts& facts) { return facts.asked != 0; };
  if (std::none_of(ranks.begin(), ranks.end(), asks)) {
    return "nobody asked for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1)";
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (const std::string reason = forbidden_by(ranks[rank]); !reason.empty()) {
      return on(rank, reason);
    }
  }
  if (ranks.size() == 1) return "the group has one rank";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!asks(ranks[rank])) {
      return on(rank, "did not ask for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1)");
    }
    if (const std::string reason = why_no_multicast(ranks[rank]); !reason.empty()) {
      return on(rank, reason);
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t other = rank + 1; other < ranks.size(); ++other) {
      if (ranks[rank].device == ranks[other].device) {
        return format(
            "ranks %zu and %zu share device %s", rank, other, text_of(ranks[rank].device).c_str());
      }
    }
  }
  return "";
}

// All ranks' facts are here. What fails on this rank
// alone must wait for a vote, and a rendezvous has one.
void MulticastMemories::choose(Kernels& kernels) {
  why_ =
      context_.machines.count > 1 ? "the group is on several machines" : why_no_multicast(facts_);
  if (!why_.empty()) return;
  try {
    unit_ = Multicast::granularity(*device_, context_.size);
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    for (const std::string& name : kernel_names(context_.size, true)) {
      kernels.load(name);
    }
    kernels.make_ready();
  } catch (const Error& error) {
    trouble_ = error.what();
  }
}

void MulticastMemories::add(
    MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks, OutOfBand& out_of_band) {
  memory.why_no_multicast = why_;
  if (!why_.empty()) return;
  const auto allocation = [&](size_t rank) -> const Allocation& {
    return static_cast<const Allocation&>(*blocks[rank]);
  };
  const Allocation& mine = allocation(static_cast<size_t>(context_.rank));
  size_t bytes = mine.mapped();
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    bytes = std::min(bytes, allocation(rank).mapped());
  }
  std::string trouble = trouble_;
  const BlockExtent extent = mine.extent();
  if (trouble.empty() && extent.on_host != 0) trouble = "its block is memory of the host";
  if (trouble.empty() && extent.offset != 0) {
    trouble = "its block begins inside an adopted allocation";
  }
  if (trouble.empty() && mine.mapped() % unit_ != 0) {
    trouble = format(
        "its block of %zu bytes is not a multiple of %zu; allocate it on a group with multicast",
        mine.mapped(), unit_);
  }
  const auto made = make_multicast(device_, context_.rank, context_.size, mine, bytes, trouble,
      out_of_band, &memory.why_no_multicast);
  if (!made) return;
  memory.multicast = made->data();
  memory.owned.insert(memory.owned.begin(), made);
}

MulticastMemories::Place MulticastMemories::place(
    const char* operand, const void* pointer, size_t bytes) const {
  Place place;
  size_t offset = 0;
  const auto memory = context_.directory->containing(pointer, bytes, &offset);
  if (!memory) {
    place.reason = format("%s is not in this rank's block of a memory of the group", operand);
  } else if (memory->multicast == nullptr) {
    place.reason =
        format("%s has no multicast address: %s", operand, memory->why_no_multicast.c_str());
  } else if (offset % kPack != 0) {
    place.reason = format(
        "%s lies at byte %zu of its memory, which is not a multiple of %u", operand, offset, kPack);
  } else {
    place.address = reinterpret_cast<uintptr_t>(memory->multicast) + offset;
    place.memory = memory->id;
    place.offset = offset;
  }
  return place;
}

std::string MulticastMemories::why_no_multimem(const CollectiveCall& call) const {
  const size_t bytes = call.unit();
  if (context_.size == 1 || bytes == 0) return "";
  if (std::string reason = place("send", call.send, bytes).reason; !reason.empty()) return reason;
  if (call.algorithm == Algorithm::multimem_two_shot) return place("recv", call.recv, bytes).reason;
  return call.recv == call.send ? "not in place: other ranks may still be loading from send" : "";
}
}  // namespace symm::cuda
