// The link over UCX: active messages on one worker. Called with the message engine's lock held,
// and calls its Sink; it knows lines and bytes, but no ranks.
#include <dlfcn.h>
#include <stdio.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/closed_streams.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/library.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/engine/ucx_api.hpp"

namespace symm::engine {
namespace {
using namespace ucx;

// The identifier of symm's active messages in UCX.
constexpr unsigned kActiveMessageId = 21;

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(Status::unavailable, what +
                                       "; groups across machines need UCX 1.13 or newer: install "
                                       "libucx0 (Debian), ucx (RPM, conda) "
                                       "or libucx-cu13 (pip), or name its libucp.so.0 in SYMM_UCX");
}

struct Library {
  SYMM_UCX_CALLS(SYMM_LIBRARY_CALL)
  std::string name;
  std::string where;
  unsigned minor = 0;

  Library() {
    std::string reason;
    void* const found = find_library("libucp.so.0", environment("SYMM_UCX"), "libucx/lib", reason);
    if (found == nullptr) unavailable("no engine: " + reason);

    unsigned major = 0;
    unsigned release = 0;
    Dl_info place{};
    ucp_get_version = reinterpret_cast<decltype(ucp_get_version)>(dlsym(found, "ucp_get_version"));
    if (ucp_get_version == nullptr ||
        dladdr(reinterpret_cast<void*>(ucp_get_version), &place) == 0) {
      unavailable("libucp.so.0 has no ucp_get_version");
    }

    ucp_get_version(&major, &minor, &release);
    name = format("ucx %u.%u.%u", major, minor, release);
    where = name + " (" + place.dli_fname + ")";
    if (major != 1 || minor < 13) unavailable(where + " is none that symm can use");
    SYMM_UCX_CALLS(SYMM_LIBRARY_FIND)
  }
};

class UcxLink final : public Link {
 public:
  UcxLink(Sink& sink, const std::vector<std::string>& interfaces)
      : sink_(sink), streams_(hold_closed_streams()), ucx_(only_library<Library>()) {
    const std::vector<std::string> rdma = rdma_devices();
    open_context(ucx_devices(interfaces, rdma), !rdma.empty());
    open_worker();
  }

  ~UcxLink() override {
    for (Line& line : lines_) {
      close(line.number);
    }
    worker_.reset();
    for (Landing* landing : landings_) {
      delete landing;
    }
  }

  const std::string& name() const override { return ucx_.name; }

  const std::string& where() const override { return ucx_.where; }

  const Bytes& address() const override { return address_; }

  int connect(std::span<const std::byte> address) override {
    Line& line = lines_.emplace_back(*this, static_cast<int>(lines_.size()));

    EndpointParams params;
    params.address = address.data();
    params.on_error = [](void* argument, UcpEndpoint, Code code) {
      const Line& broken = *static_cast<Line*>(argument);
      if (broken.endpoint != nullptr) {
        broken.link.sink_.lost(broken.number, broken.link.text_of(code));
      }
    };
    params.argument = &line;

    require(ucx_.ucp_ep_create(worker_.get(), &params, &line.endpoint), "ucp_ep_create");
    return line.number;
  }

  // Hands a message to UCX. While it is under way, the envelope, its head and its payload stay
  // where they are; the callback ends that. It is a C function that captures nothing, so the
  // envelope tells it the sink, and it looks the library up again.
  Transfer send(Envelope& envelope) noexcept override {
    const Line& line = lines_[static_cast<size_t>(envelope.line)];
    const OnSent sent = [](void* request, Code code, void* argument) {
      only_library<Library>().ucp_request_free(request);
      Envelope& ended = *static_cast<Envelope*>(argument);
      ended.sink->sent(ended, code == kOk ? Transfer::whole : Transfer::broken);
    };
    const RequestParams params{.callback = reinterpret_cast<void*>(sent), .argument = &envelope};
    const Request request =
        ucx_.ucp_am_send_nbx(line.endpoint, kActiveMessageId, envelope.bytes.data(),
            envelope.bytes.size(), envelope.payload.data(), envelope.payload.size(), &params);

    if (request == nullptr) return Transfer::whole;
    if (!is_error(request)) return Transfer::under_way;
    sink_.lost(line.number, text_of(code_of(request)));
    return Transfer::broken;
  }

  bool progress() noexcept override { return ucx_.ucp_worker_progress(worker_.get()) != 0; }

  int arm() noexcept override {
    return ucx_.ucp_worker_arm(worker_.get()) == kOk ? descriptor_ : -1;
  }

  void close(int number) noexcept override {
    Line& line = lines_[static_cast<size_t>(number)];
    if (line.endpoint == nullptr) return;

    const OnSent closed = [](void* request, Code, void*) {
      only_library<Library>().ucp_request_free(request);
    };
    const RequestParams params{.flags = kForce, .callback = reinterpret_cast<void*>(closed)};
    ucx_.ucp_ep_close_nbx(std::exchange(line.endpoint, nullptr), &params);
  }

 private:
  // Lines are kept as long as the link, because UCX may call an error handler late.
  struct Line {
    Line(UcxLink& its_link, int its_number) : link(its_link), number(its_number) {}

    UcxLink& link;
    int number;
    UcpEndpoint endpoint = nullptr;
  };

  // A message whose payload is on its way.
  struct Landing {
    UcxLink& link;
    Head head;
  };

  // `devices`: the devices to listen on, if the user chose none; "": UCX's own choice.
  void open_context(const std::string& devices, bool has_rdma) {
    Config config = nullptr;
    require(ucx_.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const std::unique_ptr<ucp_config, void (*)(Config)> held(config, ucx_.ucp_config_release);

    // Otherwise UCX writes to stderr. A version that does not know the key works all the same.
    ucx_.ucp_config_modify(config, "LOG_LEVEL", "fatal");
    // Before 1.16, with UCX's own threshold, TCP asks for the memory of messages in
    // less time than it takes to send them at once.
    if (ucx_.minor < 16 && *environment("UCX_RNDV_THRESH") == '\0') {
      ucx_.ucp_config_modify(config, "RNDV_THRESH", "256k");
    }
    // TCP sends as much at a time: UCX's own choice, 64k, makes a large packet and a
    // tiny one. The second key is that of UCX 1.13.
    for (const char* key : {"TCP_RX_SEG_SIZE", "RX_SEG_SIZE"}) {
      ucx_.ucp_config_modify(config, key, environment("UCX_TCP_RX_SEG_SIZE"));
    }
    if (!has_rdma) send_copies(config);
    require(ucx_.ucp_config_modify(config, "TLS", environment("SYMM_UCX_TLS")), "SYMM_UCX_TLS");
    if (!devices.empty() && !chose_devices(config)) {
      require(ucx_.ucp_config_modify(config, "NET_DEVICES", devices.c_str()), "UCX_NET_DEVICES");
    }

    const Params params;
    Context context = nullptr;
    require(ucx_.ucp_init_version(1, 13, &params, config, &context),
        "ucp_init, with what SYMM_UCX_TLS says");
    context_ = {context, ucx_.ucp_cleanup};
  }

  // TCP sends copies of messages, and not from where they lie. A peer that dies in the middle of
  // the latter ends the request twice, in UCX up to 1.22 at least (uct_tcp_ep_sendv() behind
  // uct_tcp_ep_purge()): a UCX that checks itself, such as Debian's 1.13, aborts the process then,
  // and any other writes to a request that may be in use again. The rendezvous protocol, which
  // does not copy, is not affected.
  void send_copies(Config config) {
    if (*environment("UCX_ZCOPY_THRESH") == '\0') {
      ucx_.ucp_config_modify(config, "ZCOPY_THRESH", "inf");
    }
    // UCX's own choice, 8k, is slower. One larger than what the user has chosen for the receiver
    // would be refused.
    constexpr Variable kReceived("UCX_TCP_RX_SEG_SIZE");
    const bool is_chosen = *environment("UCX_TCP_TX_SEG_SIZE") != '\0' ||
                           environment(kReceived) != std::string_view(kReceived.fallback());
    if (is_chosen) return;
    for (const char* key : {"TCP_TX_SEG_SIZE", "TX_SEG_SIZE"}) {
      ucx_.ucp_config_modify(config, key, "64k");
    }
  }

  // Whether the user has named devices, by UCX's variable or in a configuration file of UCX.
  bool chose_devices(Config config) const {
    if (*environment("UCX_NET_DEVICES") != '\0') return true;

    char* text = nullptr;
    size_t bytes = 0;
    FILE* const stream = open_memstream(&text, &bytes);
    if (stream == nullptr) throw system_error(errno, "open_memstream");
    ucx_.ucp_config_print(config, stream, nullptr, kPrintConfig);
    fclose(stream);

    const std::unique_ptr<char, void (*)(void*)> held(text, std::free);
    return std::strstr(text, "UCX_NET_DEVICES=all\n") == nullptr;
  }

  void open_worker() {
    const WorkerParams params;
    Worker worker = nullptr;
    require(ucx_.ucp_worker_create(context_.get(), &params, &worker), "ucp_worker_create");
    worker_ = {worker, ucx_.ucp_worker_destroy};

    const HandlerParams handler{
        .id = kActiveMessageId, .flags = 0, .handler = on_message, .argument = this};
    require(
        ucx_.ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
    require(ucx_.ucp_worker_get_efd(worker, &descriptor_), "ucp_worker_get_efd");

    void* address = nullptr;
    size_t bytes = 0;
    require(ucx_.ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
    address_.assign(static_cast<std::byte*>(address), static_cast<std::byte*>(address) + bytes);
    ucx_.ucp_worker_release_address(worker, address);
  }

  static Code on_message(void* argument, const void* header, size_t header_bytes, void* data,
      size_t bytes, const ReceiveParams* how) {
    UcxLink& link = *static_cast<UcxLink*>(argument);
    const auto head = decode({static_cast<const std::byte*>(header), header_bytes});
    if (!head || head->bytes != bytes) return kOk;
    std::byte* const at = bytes != 0 ? link.sink_.place(*head) : nullptr;
    if (bytes != 0 && at == nullptr) return kOk;

    if (bytes == 0 || (how->attributes & kRendezvous) == 0) {
      if (bytes != 0) std::memcpy(at, data, bytes);
      link.sink_.arrived(*head, Transfer::whole);
      return kOk;
    }

    auto* const landing = new Landing{link, *head};
    link.landings_.insert(landing);
    const OnReceived received = [](void* request, Code code, size_t, void* argument_of_request) {
      only_library<Library>().ucp_request_free(request);
      landed(static_cast<Landing*>(argument_of_request), code);
    };
    const RequestParams params{.callback = reinterpret_cast<void*>(received), .argument = landing};
    const Request request =
        link.ucx_.ucp_am_recv_data_nbx(link.worker_.get(), data, at, bytes, &params);
    if (request == nullptr || is_error(request)) landed(landing, code_of(request));
    return kInProgress;
  }

  static void landed(Landing* ended, Code code) noexcept {
    const std::unique_ptr<Landing> landing(ended);
    landing->link.landings_.erase(ended);
    landing->link.sink_.arrived(landing->head, code == kOk ? Transfer::whole : Transfer::broken);
  }

  void require(Code code, const char* call) const {
    if (code != kOk) {
      throw Error(Status::unavailable, ucx_.name + ": " + call + ": " + text_of(code));
    }
  }

  // UCX's text for a code, with the remedy where there is one.
  std::string text_of(Code code) const {
    const std::string text = ucx_.ucs_status_string(code);
    if (code != kUnreachable) return text;
    return text +
           ": set UCX_NET_DEVICES to the network interfaces by which these machines reach each "
           "other (such as UCX_NET_DEVICES=eth0), on all ranks";
  }

  Sink& sink_;
  const std::shared_ptr<const ClosedStreams> streams_;
  const Library& ucx_;
  std::unique_ptr<ucp_context, void (*)(Context)> context_{nullptr, nullptr};
  std::unique_ptr<ucp_worker, void (*)(Worker)> worker_{nullptr, nullptr};
  int descriptor_ = -1;
  Bytes address_;
  std::deque<Line> lines_;
  std::unordered_set<Landing*> landings_;
};
}  // namespace

bool ucx_is_installed() {
  const process::SignalsKept kept;
  const std::shared_ptr<const ClosedStreams> streams = hold_closed_streams();
  std::string reason;
  return find_library("libucp.so.0", environment("SYMM_UCX"), "libucx/lib", reason) != nullptr;
}

std::vector<std::string> rdma_devices(const std::string& directory) {
  namespace fs = std::filesystem;
  const ClosedStreams held;
  std::vector<std::string> devices;
  std::error_code none;
  for (const fs::directory_entry& device : fs::directory_iterator(directory, none)) {
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", none)) {
      devices.push_back(device.path().filename().string() + ":" + port.path().filename().string());
    }
  }
  return devices;
}

std::string ucx_devices(
    const std::vector<std::string>& interfaces, const std::vector<std::string>& rdma) {
  if (interfaces.empty()) return "";

  std::string devices;
  for (const auto* kind : {&interfaces, &rdma}) {
    for (const std::string& device : *kind) {
      devices += (devices.empty() ? "" : ",") + device;
    }
  }
  return devices;
}

std::unique_ptr<Link> open_ucx(Sink& sink, const std::vector<std::string>& interfaces) {
  // Before 1.20, UCX handles some signals as soon as it is loaded.
  const process::SignalsKept kept;
  return std::make_unique<UcxLink>(sink, interfaces);
}
}  // namespace symm::engine
