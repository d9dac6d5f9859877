// The C ABI of messages: each function makes MessageSides of its arguments, which
// Group::pass_messages() checks and passes on.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "capi/guard.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/request.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

namespace {
constexpr size_t kMostMessages = size_t{1} << 20;

MessageSide sending(int32_t rank, int32_t channel, const void* source, size_t bytes) {
  // A side that sends is only read.
  auto* const data = static_cast<std::byte*>(const_cast<void*>(source));
  return {true, rank, channel, data, bytes, 0};
}

MessageSide receiving(int32_t rank, int32_t channel, void* destination, size_t bytes) {
  return {false, rank, channel, static_cast<std::byte*>(destination), bytes, 0};
}

MessageSide side_of(const symm_message_t& message) {
  const bool sends = message.kind == SYMM_MESSAGE_SEND;
  require_known(sends || message.kind == SYMM_MESSAGE_RECV, message.kind, "kind");
  if (sends && message.destination != nullptr) {
    throw Error(Status::invalid_argument, "destination: is not NULL, and the message is sent");
  }
  if (!sends && message.source != nullptr) {
    throw Error(Status::invalid_argument, "source: is not NULL, and the message is received");
  }
  return sends ? sending(message.rank, message.channel, message.source, message.bytes)
               : receiving(message.rank, message.channel, message.destination, message.bytes);
}

// Reads an array of structs, in which the sizes of the caller's struct count.
std::vector<MessageSide> sides_of(const symm_message_t* messages, size_t count) {
  if (count > kMostMessages) {
    throw Error(Status::invalid_argument,
        format(
            "count: %zu is more than the %zu messages that a call can have", count, kMostMessages));
  }
  std::vector<MessageSide> sides;
  sides.reserve(count);
  read_structs<symm_message_t>(messages, count, SYMM_MESSAGE_INIT,
      SYMM_FIRST_SIZE(symm_message_t, bytes), "messages",
      [&](size_t i, const symm_message_t& message) {
        naming_message(i, [&] { sides.push_back(side_of(message)); });
      });
  return sides;
}
}  // namespace

namespace {
// What a call with one message has instead of a list.
uint64_t pass(
    symm_group_t* group, MessageSide side, const symm_call_options_t* options, void* stream) {
  const std::shared_ptr<Group>& self = group_of(group);
  const symm_call_options_t given = read_options(options);
  if (given.request == nullptr) {
    self->pass_message(side, given.timeout_ms, stream);
    return side.received;
  }

  requests_of(*self, stream);
  begin(given.request, [&] {
    return self->start_messages({side}, given.timeout_ms, side.is_send ? "send" : "recv");
  });
  return 0;
}
}  // namespace

symm_status_t symm_send(symm_group_t* group, int32_t rank, int32_t channel, const void* source,
    size_t bytes, const symm_call_options_t* options, void* stream) {
  return quick(
      options, [&] { pass(group, sending(rank, channel, source, bytes), options, stream); });
}

symm_status_t symm_recv(symm_group_t* group, int32_t rank, int32_t channel, void* destination,
    size_t bytes, const symm_call_options_t* options, size_t* out_bytes, void* stream) {
  return quick(options, [&] {
    const uint64_t received =
        pass(group, receiving(rank, channel, destination, bytes), options, stream);
    if (out_bytes != nullptr && !wants_request(options)) *out_bytes = received;
  });
}

symm_status_t symm_messages(symm_group_t* group, const symm_message_t* messages, size_t count,
    const symm_call_options_t* options, size_t* out_lengths, void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Group>& self = group_of(group);
    const symm_call_options_t given = read_options(options);
    std::vector<MessageSide> sides = sides_of(messages, count);
    if (given.request != nullptr) {
      requests_of(*self, stream);
      return begin(given.request,
          [&] { return self->start_messages(std::move(sides), given.timeout_ms, "messages"); });
    }

    self->pass_messages(sides, given.timeout_ms, stream);
    for (size_t i = 0; out_lengths != nullptr && i < count; ++i) {
      out_lengths[i] = sides[i].is_send ? sides[i].bytes : sides[i].received;
    }
  });
}
