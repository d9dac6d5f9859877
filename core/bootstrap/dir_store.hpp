// A store in a directory: one file for each key, which appears complete or not at all.
#pragma once

#include <string>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
class DirStore final : public Store {
 public:
  DirStore(DirectoryRendezvousConfig config, Deadline deadline)
      : rendezvous_(std::move(config), deadline) {}

  void set(const std::string& key, const Bytes& value, Deadline deadline) override;
  // Throws Error(peer_failed) if a rank dies meanwhile.
  Bytes get(const std::string& key, Deadline deadline) override;
  std::string directory() const override { return rendezvous_.path(); }
  void tell(const Failure& failure) const noexcept override { rendezvous_.tell(failure); }

 private:
  DirectoryRendezvous rendezvous_;
};

// A key as a file name: letters, digits, '.', '_' and '-' stand for themselves, any other byte
// becomes %XX.
std::string escape_key(const std::string& key);
}  // namespace symm
