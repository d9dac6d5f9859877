// Resolves names, finds the addresses of this machine, and makes TCP sockets.
#include "core/socket/tcp.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/closed_streams.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"

namespace symm {
namespace {
using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

// The addresses of all interfaces of this machine.
Interfaces read_interfaces() {
  const ClosedStreams held;  // a socket to the kernel
  ifaddrs* found = nullptr;
  getifaddrs(&found);
  return {found, freeifaddrs};
}

bool has_address(const ifaddrs& entry) {
  const int family = entry.ifa_addr != nullptr ? entry.ifa_addr->sa_family : AF_UNSPEC;
  return family == AF_INET || family == AF_INET6;
}

// An address of IPv4 may have a label of its own behind the name of the interface: "eth0:1".
std::string name_of(const ifaddrs& entry) {
  const std::string label = entry.ifa_name;
  return label.substr(0, label.find(':'));
}
}  // namespace

AddressList look_up(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;

  const ClosedStreams held;  // a socket to a name server, and files
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(Status::unavailable,
        format("no address of '%s' is known: %s", host.c_str(), gai_strerror(error)));
  }
  return {found, freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 ==
           IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_loopback(const std::string& numbers) {
  return numbers.starts_with("127.") || numbers == "::1";
}

std::string in_numbers(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

PeerFd tcp_socket(int family) {
  return PeerFd(make_fd(::socket, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

std::string host_name() {
  char text[HOST_NAME_MAX + 1] = "";
  gethostname(text, sizeof text - 1);
  return text;
}

bool is_own_name(const std::string& host) {
  const auto without_domain = [](const std::string& name) {
    return name.substr(0, name.find('.'));
  };
  return without_domain(host) == without_domain(host_name()) && without_domain(host) != "localhost";
}

std::string own_address(int socket, const std::string& dialled) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  const auto* const address = reinterpret_cast<const sockaddr*>(&storage);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return is_loopback(address) && is_own_name(dialled) ? dialled : in_numbers(address);
}

std::string local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  const auto* const address = reinterpret_cast<const sockaddr*>(&storage);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};

  // A listener of IPv6 sees a peer of IPv4 by a mapped address, which no interface has.
  constexpr std::string_view kMapped = "::ffff:";
  std::string text = in_numbers(address);
  const bool is_mapped = text.starts_with(kMapped) && text.find('.') != std::string::npos;
  return is_mapped ? text.substr(kMapped.size()) : text;
}

std::vector<std::string> interfaces_with(std::span<const std::string> addresses) {
  const Interfaces interfaces = read_interfaces();
  std::vector<std::string> names;
  for (const std::string& address : addresses) {
    const ifaddrs* at = interfaces.get();
    while (at != nullptr && (!has_address(*at) || in_numbers(at->ifa_addr) != address)) {
      at = at->ifa_next;
    }
    if (at == nullptr) return {};
    if ((at->ifa_flags & IFF_LOOPBACK) != 0 && !is_loopback(at->ifa_addr)) return {};

    const std::string name = name_of(*at);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string loopback_address() {
  const std::string address = "127.0.0.1";
  return interfaces_with({&address, 1}).empty() ? "::1" : address;
}

// The address of the machine's name, which an administrator chose, comes before that of an
// interface; among the interfaces that are up, IPv4 comes first.
std::string outside_address() {
  // A link-local address does not serve: to dial it, a machine needs its own name of the link.
  const auto is_routable = [](const sockaddr* address) {
    return !is_loopback(address) && !in_numbers(address).starts_with("fe80:");
  };

  try {
    const AddressList named = look_up(host_name(), 0);
    for (const addrinfo* at = named.get(); at != nullptr; at = at->ai_next) {
      if (is_routable(at->ai_addr)) return in_numbers(at->ai_addr);
    }
  } catch (const Error&) {
    // This machine's name has no known address, but its interfaces have some.
  }

  const Interfaces interfaces = read_interfaces();
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = interfaces.get(); at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family ||
          (at->ifa_flags & IFF_UP) == 0) {
        continue;
      }
      if (is_routable(at->ifa_addr)) return in_numbers(at->ifa_addr);
    }
  }
  throw Error(Status::unavailable,
      host_name() + " has no address but that of its loopback: set MASTER_ADDR and SYMM_PORT");
}

uint16_t hold_free_port() {
  for (const int family : {AF_INET6, AF_INET}) {
    PeerFd socket = tcp_socket(family);
    // With SO_REUSEADDR, the listener can bind to the port while this socket holds it.
    set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);

    // Both families have the port at the same offset.
    sockaddr_in6 address{};
    address.sin6_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof address;
    if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) continue;
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);

    static PeerFd& held = *new PeerFd;
    held = std::move(socket);
    return ntohs(address.sin6_port);
  }
  throw system_error(errno, "bind", "a free port");
}

PeerFd dial_tcp(const std::string& host, uint16_t port, unsigned attempt) {
  const AddressList all = look_up(host, port);
  const addrinfo* chosen = all.get();
  for (; attempt > 0; --attempt) {
    chosen = chosen->ai_next != nullptr ? chosen->ai_next : all.get();
  }

  PeerFd socket = tcp_socket(chosen->ai_family);
  if (!socket) throw system_error(errno, "socket", host);
  if (connect(socket.get(), chosen->ai_addr, chosen->ai_addrlen) != 0 && errno != EINPROGRESS) {
    throw Error(Status::unavailable,
        format("%s cannot be reached at port %u: %s", host.c_str(), port, strerror(errno)));
  }
  return socket;
}
}  // namespace symm
