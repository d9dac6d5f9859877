// Stores in a directory: one file for each key, which appears complete or not at all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/directory.hpp"

namespace symm {
// The store of ranks that rendezvous in a directory.
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

// The store of ranks that know each other already, and need a place only. It is a shared directory
// that one of them makes, and that the others enter.
class PlaceStore final : public Store {
 public:
  // `look` throws if a rank is gone; it is called again and again while a key is awaited.
  PlaceStore(std::unique_ptr<SharedDirectory> place, std::function<void()> look)
      : place_(std::move(place)), look_(std::move(look)) {}

  void set(const std::string& key, const Bytes& value, Deadline deadline) override;
  // Throws the failure that a rank has told, and what `look` throws.
  Bytes get(const std::string& key, Deadline deadline) override;
  std::string directory() const override { return place_->path(); }
  // The first failure that is told counts.
  void tell(const Failure& failure) const noexcept override;

 private:
  const std::unique_ptr<SharedDirectory> place_;
  const std::function<void()> look_;
};

// A key as a file name: letters, digits, '.', '_' and '-' stand for themselves, any other byte
// becomes %XX.
std::string escape_key(const std::string& key);
}  // namespace symm
