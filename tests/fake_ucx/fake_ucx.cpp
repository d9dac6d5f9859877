// A libucp.so.0 whose one worker sends to itself. It puts the value of each option that
// it is given into $FAKE_<OPTION>. Words in the file $FAKE_UCX direct it:
//
//   old      an old version
//   refuses  options are refused
//   silent   sends do not end, not even when their endpoint is closed
//   breaks   an endpoint breaks after its first message
//   twice    the error of an endpoint is told twice
//   far      no endpoint can be made
//   late     the error of an endpoint is told when the endpoint is closed
#include <stdlib.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/ucx_api.hpp"

using namespace symm::engine::ucx;

struct symm::engine::ucx::ucp_ep {
  EndpointParams params;
  bool broken = false;
};

namespace {
bool told(const char* word) {
  static const std::string script = [] {
    std::stringstream text;
    text << std::ifstream(std::getenv("FAKE_UCX")).rdbuf();
    return text.str();
  }();
  return script.find(word) != std::string::npos;
}

HandlerParams handler;
// The head and the payload of each message.
std::deque<std::vector<std::byte>> queue;
// Endpoints stay for good, since errors are told late.
std::deque<ucp_ep> endpoints;
std::vector<UcpEndpoint> errors;
int event = -1;
char nothing;
constexpr size_t kHead = 80;

void tell(UcpEndpoint endpoint) {
  endpoint->params.on_error(endpoint->params.argument, endpoint, -25);
}
}  // namespace

extern "C" {
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = told("old") ? 12 : 13;
  *release = 9;
}

Code ucp_config_read(const char*, const char*, Config* config) {
  *config = reinterpret_cast<Config>(&nothing);
  return kOk;
}

Code ucp_config_modify(Config, const char* name, const char* value) {
  setenv((std::string("FAKE_") + name).c_str(), value, 1);
  return told("refuses") ? -5 : kOk;
}

// The user's configuration file is in $FAKE_FILE.
void ucp_config_print(Config, FILE* stream, const char*, unsigned) {
  const char* const file = std::getenv("FAKE_FILE");
  std::fprintf(stream, "UCX_LOG_LEVEL=warn\nUCX_NET_DEVICES=%s\n", file != nullptr ? file : "all");
}

void ucp_config_release(Config) {}

Code ucp_init_version(unsigned, unsigned, const Params*, Config, Context* context) {
  *context = reinterpret_cast<Context>(&nothing);
  return kOk;
}

void ucp_cleanup(Context) {}

Code ucp_worker_create(Context, const WorkerParams*, Worker* worker) {
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  *worker = reinterpret_cast<Worker>(&nothing);
  return kOk;
}

void ucp_worker_destroy(Worker) {}

Code ucp_worker_get_address(Worker, void** address, size_t* bytes) {
  *address = &nothing;
  *bytes = 1;
  return kOk;
}

void ucp_worker_release_address(Worker, void*) {}

Code ucp_worker_get_efd(Worker, int* descriptor) {
  *descriptor = event;
  return kOk;
}
#ifndef FAKE_UCX_WITHOUT_ARM
Code ucp_worker_arm(Worker) { return queue.empty() && errors.empty() ? kOk : -15; }
#endif
Code ucp_worker_set_am_recv_handler(Worker, const HandlerParams* params) {
  handler = *params;
  return kOk;
}

unsigned ucp_worker_progress(Worker) {
  for (; !errors.empty(); errors.pop_back()) {
    tell(errors.back());
    if (told("twice")) tell(errors.back());
  }
  if (queue.empty()) return 0;
  std::vector<std::byte> message = std::move(queue.front());
  queue.pop_front();
  const ReceiveParams params{};
  handler.handler(handler.argument, message.data(), kHead, message.data() + kHead,
      message.size() - kHead, &params);
  return 1;
}

Code ucp_ep_create(Worker, const EndpointParams* params, UcpEndpoint* endpoint) {
  if (told("far")) return kUnreachable;
  *endpoint = &endpoints.emplace_back(ucp_ep{*params});
  return kOk;
}

Request ucp_ep_close_nbx(UcpEndpoint endpoint, const RequestParams*) {
  if (told("late")) tell(endpoint);
  return nullptr;
}

Request ucp_am_send_nbx(UcpEndpoint endpoint, unsigned, const void* header, size_t,
    const void* data, size_t bytes, const RequestParams*) {
  if (endpoint->broken) return reinterpret_cast<Request>(-25L);
  if (told("silent")) return &nothing;
  std::vector<std::byte>& message = queue.emplace_back(kHead + bytes);
  std::memcpy(message.data(), header, kHead);
  if (bytes != 0) std::memcpy(message.data() + kHead, data, bytes);
  if (told("breaks")) endpoint->broken = true;
  if (told("breaks")) errors.push_back(endpoint);
  eventfd_write(event, 1);
  return nullptr;
}

Request ucp_am_recv_data_nbx(Worker, void*, void*, size_t, const RequestParams*) { return nullptr; }

void ucp_request_free(void*) {}

const char* ucs_status_string(Code code) {
  if (code == kUnreachable) return "Destination is unreachable";
  return code == -25 ? "Connection reset by remote peer" : "fake";
}
}
