// The calls that each rank of a group has issued so far, in memory that the ranks of its host
// share. Calls on streams wait on the device, where a kernel knows for which rank it waits, but
// not what that rank does instead. So the hosts compare the issued calls: ranks whose calls
// differ would wait for each other for ever, and get an error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "kernels/collective_call.hpp"

namespace symm::cuda {
struct IssuedWords;

class IssuedCalls {
 public:
  explicit IssuedCalls(const TransportContext& context);
  ~IssuedCalls();
  IssuedCalls(IssuedCalls&&) = delete;

  // The memory of this rank's words, for connect() on the other ranks only.
  int fd() const noexcept;
  void connect(int peer, Fd fd);
  void will_not_be_shared() noexcept;

  // Notes that this rank is about to issue a call of all ranks. A captured call runs when
  // its graph is replayed, which the library does not see, so from then on nothing is
  // concluded from the issued calls.
  void note(const CallSignature& call, bool is_captured) noexcept;
  void note_barrier(int channel, bool is_captured) noexcept;

  // Shows, while the object lives, that the host waits for what was issued, or for a message. Its
  // look() fails the group if ranks wait for each other in different calls for a second. Null in a
  // group of one.
  std::unique_ptr<MessageWait> await_stream();
  std::unique_ptr<MessageWait> await_message(MessageCall call, int peer);

  // A wait on the device has passed its deadline. The mismatch of the calls that ranks have issued,
  // if there is one, is the reason; otherwise this is `failure`, with what its rank has not issued.
  Failure explained(Failure failure) const;

 private:
  class Wait;
  // A difference between the calls that two ranks have issued, and whether the ranks must wait
  // for each other because of it.
  struct Difference {
    std::string mine;
    std::string theirs;
    bool is_certain = false;
    bool by_waits = false;  // certain only as long as both go on to look in vain
    uint64_t calls = 0;     // of the two
    uint64_t looks = 0;     // of the other one
  };
  // The values that tell whether something has changed since a mismatch was found: the calls
  // that were issued, and how often each waiting rank has looked.
  struct Seen {
    uint64_t calls = 0;
    std::vector<uint64_t> looks;
  };
  std::optional<Difference> difference(int peer) const;
  // A mismatch that names the call of two ranks. All ranks find the same one.
  std::optional<Failure> mismatch(bool at_deadline, Seen& seen) const;
  std::string ahead(const IssuedWords& one, const IssuedWords& other) const;
  void note_thread() noexcept;

  const TransportContext& context_;
  std::shared_ptr<Block> segment_of_mine_;
  std::vector<std::shared_ptr<Block>> segments_;  // by rank; null on another host
  IssuedWords* mine_ = nullptr;
  std::atomic<const void*> first_thread_{nullptr};
};
}  // namespace symm::cuda
