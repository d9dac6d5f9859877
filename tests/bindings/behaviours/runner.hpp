// The objects of one rank that runs the table, and the verbs that a line may name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/bindings/behaviours/line.hpp"
#include "tests/support/group.hpp"

namespace behaviours {
template <class Seen>
void require(Seen seen, int64_t expected, const std::string& what) {
  if (static_cast<int64_t>(seen) == expected) return;
  throw std::runtime_error(
      what + " is " + std::to_string(seen) + ", not " + std::to_string(expected));
}

// A number of the table for one of the library that may have 64 bits.
inline int64_t as_number(uint64_t value) { return static_cast<int64_t>(value); }

// A field of a struct of the library, which a line may expect by its name.
struct Field {
  template <class Value>
  Field(const char* what, Value seen) : name(what), value(static_cast<int64_t>(seen)) {}

  const char* name;
  int64_t value;
};

inline void require_fields(const Line& line, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    require(field.value, line.integer(field.name, field.value), field.name);
  }
}

// A named thing of a scenario. Arrays and tokens are bytes alike. A released thing becomes an empty
// handle, which the table misuses; Refusal.WrongHandles has handles that are no longer valid.
using Thing = std::variant<symm::Group, symm::Buffer, symm::Memory, symm::Heap,
    std::vector<std::byte>, symm::Import, symm::NeighborExchange, symm::Request>;

class Runner {
 public:
  explicit Runner(int own_rank) : rank(own_rank) {}

  void begin(const std::string& scenario) {
    constexpr size_t bytes = 262'144;  // the size of the memory and of the array
    things.clear();
    waiting.clear();
    create("group", scenario, 60'000);

    const symm::Group& group = the<symm::Group>("group");
    const symm::Buffer buffer = group.allocate(bytes);
    things["b"] = buffer;
    things["m"] = group.rendezvous(buffer);
    things["p"] = std::vector<std::byte>(bytes);
  }

  void create(const std::string& as, const std::string& name, uint64_t create_timeout_ms,
      uint64_t timeout_ms = 60'000, uint64_t flags = 0) {
    support::Config config;
    config.name = name;
    config.create_timeout_ms = create_timeout_ms;
    config.timeout_ms = timeout_ms;
    config.flags = flags;
    things[as] = support::create(config, 0, 0);
  }

  template <class T>
  const T& the(const std::string& name) {
    return std::get<T>(things.at(name));
  }

  const symm::Group& group(const Line& line) {
    return the<symm::Group>(line.text("group", "group"));
  }

  const symm::Heap& heap(const Line& line) { return the<symm::Heap>(line.text("heap")); }

  symm::Memory memory(const Line& line) { return memory(line.text("memory")); }

  symm::Memory memory(const std::string& name) {
    const auto* heap = std::get_if<symm::Heap>(&things.at(name));
    return heap != nullptr ? heap->memory() : the<symm::Memory>(name);
  }

  // A block on another machine is not mapped here: the address is that of a copy, which the next
  // call replaces.
  std::byte* address(const Line& line, const std::string& key) {
    const auto [name, offset] = line.address(key);
    if (auto* array = std::get_if<std::vector<std::byte>>(&things.at(name))) {
      return array->data() + offset;
    }

    const symm::Memory block = memory(name);
    const int32_t own = block.info().rank;
    const int32_t of = key == "at" ? line.integer32("rank", own) : own;
    if (of == own || !is_far(of)) return block.span(of).data() + offset;

    copy_.resize(block.info().bytes);
    symm::check(
        symm_get(block.get(), of, 0, copy_.data(), copy_.size(), nullptr, nullptr), "symm_get");
    return copy_.data() + offset;
  }

  symm::Span<std::byte> bytes(const Line& line, const std::string& key) {
    return {address(line, key), line.size("bytes")};
  }

  // Whether a rank of the scenario's group is on another machine.
  bool is_far(int32_t of) { return the<symm::Group>("group").peer_info(of).mapped == 0; }

  bool is_far(const Line& line) { return line.has("rank") && is_far(line.integer32("rank")); }

  const int rank;
  std::map<std::string, Thing> things;
  // The lines that wait for the batch that they name.
  std::map<std::string, std::vector<Line>> waiting;

 private:
  std::vector<std::byte> copy_;
};

// Values that several verbs read alike.
inline int32_t rank(const Line& line) { return line.integer32("rank"); }

inline int32_t channel(const Line& line) { return line.integer32("channel", 0); }

inline size_t offset(const Line& line) { return line.size("offset"); }

// A time-out that is left out is 0, as it is in C.
inline uint64_t timeout(const Line& line, const std::string& key = "timeout_ms") {
  if (line.has(key) && line.text(key) == "now") return SYMM_TIMEOUT_NOW;
  if (line.has(key) && line.text(key) == "infinite") return SYMM_TIMEOUT_INFINITE;
  return line.size(key, 0);
}

// The flags of a group that a line asks for (1) or forbids (0).
inline uint64_t flags(const Line& line) {
  struct Key {
    const char* name;
    uint64_t asks;
    uint64_t forbids;
  } const keys[] = {{"check", SYMM_GROUP_CHECK, SYMM_GROUP_NO_CHECK},
      {"any_order", SYMM_GROUP_ANY_ORDER, SYMM_GROUP_RANK_ORDER},
      {"multicast", SYMM_GROUP_MULTICAST, SYMM_GROUP_NO_MULTICAST}};

  uint64_t found = 0;
  for (const Key& key : keys) {
    if (!line.has(key.name)) continue;
    found |= line.integer(key.name) != 0 ? key.asks : key.forbids;
  }
  return found;
}

// The functions of verbs, by the files that have them.
using Verbs = std::map<std::string, void (*)(Runner&, const Line&)>;
const Verbs& verbs_of_groups();
const Verbs& verbs_of_memories();
const Verbs& verbs_of_signals();
const Verbs& verbs_of_elements();
const Verbs& verbs_of_collectives();

// Elements that the formula `f` of the line gives, written to and expected at the address that
// `where` names.
void write_elements(Runner& runner, const Line& line, const std::string& where);
void expect_elements(Runner& runner, const Line& line, const std::string& where);
}  // namespace behaviours
