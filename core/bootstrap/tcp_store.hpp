// A store at rank 0, which each rank reaches by one authenticated, encrypted TCP connection. It
// listens while rank 0 is in a creation. The store of a unique id is at the process that made
// the id, which listens from then on as long as it lives, and takes each id for one group. A
// rank that comes too early waits there, and dials again if rank 0 has gone. After a failure
// rank 0 stays for half a second, for ranks that are on their way; those that come later, or
// whose rank 0 died before they met it, have nobody to ask.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/deadline.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
struct TcpPlace {
  std::string host;
  uint16_t port = 0;
};
// Parses "host:port" or "[address]:port". Throws Error(invalid_argument), which names `source`.
TcpPlace parse_tcp_place(const std::string& text, const char* source = "bootstrap");

// Where the store of a creation is.
enum class ServedBy { rank_0, maker_of_id };

// Listens for the ranks of a creation that meets by a unique id. `place.port` 0: any
// free port. Returns the port, which later creations at the place share. Throws
// Error: system; unavailable.
uint16_t listen_for_creation(const TcpPlace& place, uint64_t creation);

// Waits until all ranks have come for `creation`. Throws Error: timeout naming the
// missing ranks; mismatch if a rank came twice or the sizes differ; peer_failed if a
// rank dies; unavailable if the secrets differ, or without libsodium. If the maker of
// an id serves: peer_failed if it has ended; invalid_argument if its group was formed.
std::unique_ptr<Store> open_tcp_store(const TcpPlace& place, uint64_t creation, int rank, int size,
    const std::string& description, Deadline deadline, ServedBy served_by = ServedBy::rank_0);
}  // namespace symm
