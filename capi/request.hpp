// The choice of a call between its blocking form and its request: options.request makes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "capi/handle.hpp"
#include "capi/options.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/neighbor_exchange.hpp"
#include "core/group/request.hpp"
#include "core/group/requests.hpp"
#include "symm/symm.h"

namespace symm::capi {
template <class Options>
bool wants_request(const Options* options) {
  return options != nullptr && read_options(options).request != nullptr;
}

// Writes the handle of the request that `start` makes to *out.
template <class Start>
void begin(symm_request_t** out, const Start& start) {
  *out = make_handle<symm_request_t>(start);
}

// The requests of a group, for a call that is ordered on no stream.
inline Requests& requests_of(const Group& group, const void* stream) {
  Requests& requests = group.requests();
  if (stream == nullptr) return requests;
  throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
}

inline Group& group_behind(Group& group) noexcept { return group; }
inline Group& group_behind(const Memory& memory) noexcept { return memory.group(); }
inline Group& group_behind(const NeighborExchange& exchange) noexcept { return *exchange.group(); }

// Makes `call(object, timeout_ms)`, which may return a number for the request: now, behind the
// requests of its order, or as a request. What `call` has captured must then outlive this call, so
// it captures values, and nothing of the options.
template <class Object, class Call>
void act(const symm_call_options_t* options, const std::shared_ptr<Object>& object,
    RequestOrder order, const char* name, void* stream, const Call& call) {
  Group& group = group_behind(*object);
  const auto block = [&](uint64_t timeout_ms) {
    if (order != RequestOrder::waiting) group.settle_requests(order, name, timeout_ms);
    call(*object, timeout_ms);
  };
  // Small calls, of which most have none, do not read options.
  if (options == nullptr) return block(0);
  const symm_call_options_t given = read_options(options);
  if (given.request == nullptr) return block(given.timeout_ms);

  begin(given.request, [&] {
    const auto work = [object, call, timeout_ms = given.timeout_ms]() -> uint64_t {
      if constexpr (std::is_void_v<decltype(call(*object, timeout_ms))>) {
        call(*object, timeout_ms);
        return 0;
      } else {
        return call(*object, timeout_ms);
      }
    };
    return requests_of(group, stream).start(order, name, work);
  });
}
}  // namespace symm::capi
