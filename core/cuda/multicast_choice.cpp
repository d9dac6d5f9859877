// Decides from all ranks' answers whether a group has multicast. It touches no driver, and
// comes to the same on all ranks.
#include "core/cuda/multicast_choice.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
namespace {
bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_a_positive_number(std::string_view text) {
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value > 0;
}

// A variable that says no to multicast with some value. A value that means neither yes nor no is
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
constexpr int kByConfig = kObjectionCount + 1;

std::string on(size_t rank, const std::string& reason) {
  return format("rank %zu: %s", rank, reason.c_str());
}

std::string forbidden_by(const MulticastFacts& facts) {
  if (facts.forbidden == kByConfig) return "SYMM_GROUP_NO_MULTICAST is set";
  if (facts.forbidden < 1 || facts.forbidden > kObjectionCount) return "";
  const Objection& objection = kObjections[facts.forbidden - 1];
  return format("%s=%s is set", objection.variable.name(), objection.no);
}
}  // namespace

MulticastFacts read_wish(MulticastWish config, const ReadVariable& read) {
  MulticastFacts facts;
  facts.asked = config == MulticastWish::yes ? 1 : 0;
  if (config == MulticastWish::no) facts.forbidden = kByConfig;
  for (int i = 0; i < kObjectionCount; ++i) {
    const char* value = read(kObjections[i].variable);
    if (value == nullptr || *value == '\0') continue;

    if (!kObjections[i].allows(value)) {
      facts.forbidden = i + 1;
      return facts;
    }
  }
  return facts;
}

MulticastFacts multicast_facts(
    const Device& device, MulticastWish config, const ReadVariable& read) {
  MulticastFacts facts = read_wish(config, read);
  facts.device = device.uuid();

  const Driver& driver = device.driver();
  const bool has_calls =
      driver.cuMulticastCreate != nullptr && driver.cuMulticastAddDevice != nullptr &&
      driver.cuMulticastBindMem != nullptr && driver.cuMulticastUnbind != nullptr &&
      driver.cuMulticastGetGranularity != nullptr;
  facts.has_calls = has_calls ? 1 : 0;
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
}  // namespace symm::cuda
