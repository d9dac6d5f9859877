// The C ABI of requests. It converts handles; core/group/request.hpp does the work.
#include "core/group/request.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/options.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

namespace {
const std::shared_ptr<Request>& request_of(symm_request_t* handle) {
  return slot_of<Request>(handle, "request").object;
}

constexpr size_t kMostRequests = size_t{1} << 20;

std::vector<std::shared_ptr<Request>> requests_of(symm_request_t* const* requests, size_t count) {
  if (count > kMostRequests) {
    throw Error(Status::invalid_argument,
        format(
            "count: %zu is more than the %zu requests that a call can have", count, kMostRequests));
  }
  std::vector<std::shared_ptr<Request>> all;
  bool is_any = false;
  if (count != 0) require(requests, "requests");
  for (size_t i = 0; i < count; ++i) {
    is_any = is_any || requests[i] != nullptr;
    all.push_back(requests[i] == nullptr
                      ? nullptr
                      : slot_of<Request>(requests[i], format("requests[%zu]", i).c_str()).object);
  }
  if (!is_any) {
    throw Error(Status::invalid_argument, format("requests: none of the %zu is given", count));
  }
  return all;
}
}  // namespace

symm_status_t symm_request_test(
    symm_request_t* request, const symm_call_options_t* options, int32_t* out_done) {
  return produce(options, out_done, "out_done", [&] {
    check_options(options);
    const std::shared_ptr<Request> self = request_of(request);
    self->throw_if_failed();
    return self->is_done() ? 1 : 0;
  });
}

symm_status_t symm_request_wait(symm_request_t* request, const symm_call_options_t* options) {
  return guard(options, [&] {
    // A copy, so that another thread may release the handle meanwhile.
    const std::shared_ptr<Request> self = request_of(request);
    self->wait(timeout_of(options));
  });
}

symm_status_t symm_request_wait_any(symm_request_t* const* requests, size_t count,
    const symm_call_options_t* options, size_t* out_index) {
  return produce(options, out_index, "out_index", [&] {
    const uint64_t timeout_ms = timeout_of(options);
    return Request::wait_any(requests_of(requests, count), timeout_ms);
  });
}

symm_status_t symm_request_info(symm_request_t* request, symm_request_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_request_info_t, call), [&] {
    const Request& self = *request_of(request);
    symm_request_info_t filled{};
    filled.done = self.is_done() ? 1 : 0;
    filled.status = static_cast<symm_status_t>(self.status());
    filled.value = self.value();
    write_text(filled.call, self.call());
    return filled;
  });
}

symm_status_t symm_request_fd(symm_request_t* request, int32_t* out_fd) {
  return produce(out_fd, "out_fd", [&] { return request_of(request)->fd(); });
}

symm_status_t symm_request_retain(symm_request_t* request) {
  return quick([&] { retain<Request>(request, "request"); });
}

void symm_request_release(symm_request_t* request) { release<Request>(request); }
