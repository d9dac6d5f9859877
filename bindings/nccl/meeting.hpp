// The name under which the ranks of a communicator meet. It lies in the end of NCCL's unique id,
// which NCCL leaves empty, so that it reaches all ranks by whatever way the program has for the id.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"

namespace symm::nccl {
using Meeting = std::array<uint8_t, 16>;

// Draws a name and writes it into the end of an id that NCCL has made. An id whose end is not
// empty stays as it is, and its communicators are not watched.
void add_meeting(UniqueId& id) noexcept;
// The same with a name that the ranks of a communicator know, for those that join it.
void add_meeting(UniqueId& id, const Meeting& meeting) noexcept;

// The name in an id. None if the id carries none, as one that was made without the drop-in, or if
// it was made on another machine, whose ranks cannot be watched from here.
std::optional<Meeting> meeting_of(const UniqueId& id) noexcept;

// A process without NCCL makes ids of its own, which tell it.
void make_alone_id(UniqueId& id) noexcept;
bool is_alone_id(const UniqueId& id) noexcept;

// Whether an id carries a name of another machine.
bool is_of_another_machine(const UniqueId& id) noexcept;

// The name for the child number `number` of a communicator, for those ranks that pass `color`.
Meeting child_of(const Meeting& parent, uint64_t number, int64_t color) noexcept;

std::string text_of(const Meeting& meeting);
}  // namespace symm::nccl
