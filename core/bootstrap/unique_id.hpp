// A unique id: the bytes that one process makes and sends by any means, and by which the ranks of
// one group meet.
//
// Where libsodium and the secret can be had, and this machine has an address, the process that
// makes an id listens for the ranks (tcp_store.hpp), which may be on several machines. It must then
// live until they have formed their group. Else the ranks meet in a directory of this machine
// (dir_store.hpp). A note beside the directory says that the id is good; it stays for a day, and
// rank 0 takes it when all ranks have come. The process that made such an id may end at once.
//
// In both cases the ranks that come first wait for the others, and an id whose group was formed is
// refused.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/deadline.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
inline constexpr size_t kUniqueIdBytes = 128;

// Throws Error: invalid_argument naming SYMM_ID_ADDRESS; unavailable if there is neither an address
// nor a private directory; system.
Bytes make_unique_id();

// The name of the id in messages: "id:" and 16 hexadecimal digits. Throws Error:
// invalid_argument if the bytes are no id; unsupported if another version of symm has made it.
std::string name_of_id(std::span<const std::byte> id);

// Waits until all ranks have come by the id. Throws Error: invalid_argument if the id is no good
// any more; unavailable if it is for another machine or user, or if this process lacks what a
// meeting by TCP needs; and what the store throws while ranks meet.
std::unique_ptr<Store> open_by_id(
    std::span<const std::byte> id, int rank, int size, Deadline deadline);
}  // namespace symm
