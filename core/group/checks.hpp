// The arguments of a group's calls are checked here, before anything is done with them. A refusal
// names the argument as symm.h does, and has changed nothing anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/error.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/wire.hpp"

namespace symm {
class Group;

// Throws unless the arguments of the collective are valid on this group. Checks that depend on
// the algorithm, or on the memory in which operands lie, are left to the transport and its
// plan. If the call has pieces, they are laid out by its counts.
void check_call(const Group& group, const CollectiveCall& call);

// Throws unless every rank had room for the bytes of a broadcast of bytes that was made.
void require_room(const Group& group, const CollectiveCall& call);

// Throws unless the calls of a batch, each of which was checked, are independent: what one of them
// writes overlaps no operand of another. The refusal names both.
void require_independent(const Group& group, std::span<const CollectiveCall> calls);

// Calls `check`, and names the message of a call with several in the refusal that it throws.
template <class Check>
void naming_message(size_t index, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.status(), format("messages[%zu].%s", index, error.what()));
  }
}

// The refusal of a data type: INVALID_ARGUMENT if no version can have the value, else
// UNSUPPORTED.
// Throws unless there is such a wire. A `group` of 0 is the default.
WireFormat wire_format(int dtype, int group);
Error unknown_dtype(int value);

// Throws unless a call can be in chunks, with these words.
void check_words(const CollectiveCall& call);

// Throws unless a constant is known: a newer library may know it, but no library will know a
// negative one.
void require_known(bool is_known, int value, const char* argument);

// Throws unless the number of channels is valid. Returns it.
int require_channels(int channels, const char* argument);

// Throws if a call that needs the other ranks to act is asked to look once.
void require_waiting(uint64_t timeout_ms, const char* argument);
// Throws for a default deadline that would not let calls wait.
void require_lasting(uint64_t timeout_ms, const char* argument);
}  // namespace symm
