// Addresses and sockets of TCP: how this machine is reached, and how others are dialled.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/peer_fd.hpp"

namespace symm {
// This machine's name.
std::string host_name();
// Whether `host` is a name of this machine, with a domain or without one. Such a name may lead to
// the loopback interface: many an /etc/hosts says so.
bool is_own_name(const std::string& host);
// The address by which the machine at the other end of the socket reaches this one; "" if the
// socket is not connected.
std::string own_address(int socket, const std::string& dialled);
// The address of this end of a connected socket, in numbers; "" if the socket has none.
std::string local_address(int socket);
// The names of the network interfaces that have these addresses, each once. None if an address is
// on no interface. An address that other machines reach may be on the loopback interface, whose
// name does not do: then there are none, too.
std::vector<std::string> interfaces_with(std::span<const std::string> addresses);
// This machine's address of loopback, in numbers.
std::string loopback_address();
// The address by which other machines reach this one, in numbers: that of its name, else that of an
// interface. Throws Error(unavailable) if there is none.
std::string outside_address();

// A port that the kernel gives to no other process as long as this process lives.
// Throws Error(system).
uint16_t hold_free_port();
// Begins to connect. `attempt` counts through the addresses that the host has. Throws
// Error(unavailable) if there is no such host.
PeerFd dial_tcp(const std::string& host, uint16_t port, unsigned attempt = 0);

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
// The addresses of a host; with an empty name, the wildcard addresses of this machine. Throws
// Error(unavailable) if there is no such host.
AddressList look_up(const std::string& host, uint16_t port);
bool is_loopback(const sockaddr* address);
bool is_loopback(const std::string& numbers);
std::string in_numbers(const sockaddr* address);

PeerFd tcp_socket(int family);  // empty if there is none; errno says why
void set_option(int socket, int level, int name, int value);
}  // namespace symm
