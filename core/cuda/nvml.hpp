// The NVLink connections between GPUs, as NVML reports them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/topology.hpp"

namespace symm::cuda {
// A PCI bus id, "0000:1b:00.0", as a number, so that other ways to write it are the
// same. 0, which no GPU has, if the text is not a bus id.
uint64_t bus_number(std::string_view text);

// Links of a GPU.
inline constexpr size_t kMaxLinks = 18;

// The far ends of one GPU's active links. Ranks tell them to each other, so this is
// plain data, of which nothing is believed beyond its bounds.
struct LinkFacts {
  // 0: nothing is known of the links.
  uint64_t bus = 0;
  int32_t to_switches = 0;
  // The number of entries of `to_gpus`.
  int32_t direct = 0;
  std::array<uint64_t, kMaxLinks> to_gpus{};
};

// The links of GPUs that are given by PCI bus id, in the order of the devices. Throws
// Error(unavailable) without NVML, or if NVML does not see one of them.
std::vector<LinkFacts> links_of(const std::vector<std::string>& buses);

// The NVLink domain of a GPU, "<cluster UUID>/<clique>": GPUs of one clique of a
// cluster reach each other's memory by NVLink, whatever hosts they are in. Throws
// Error(unavailable) with the reason if there is none.
std::string domain_of(const std::string& bus);

// Why an atomic operation of one GPU on memory of another is not a single step; "" if it is one.
// The GPUs are given as text_of() writes their UUIDs. Throws nothing but bad_alloc: what NVML does
// not know is a reason.
std::string why_no_atomics(const std::string& from, const std::string& to);

// The matrix of links, a pure function. Between two GPUs are their direct links, and through
// switches as many as both have: all NVSwitches of a machine are taken to be connected.
Links links_between(std::span<const LinkFacts> devices);
}  // namespace symm::cuda
