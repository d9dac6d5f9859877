// The addresses of an import that is suspended, for the memory that is to be mapped there again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/fd.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/token.hpp"

namespace symm::ipc {
class KeptAddresses {
 public:
  // Those of an import of memory of another process, whose blocks nothing else uses.
  KeptAddresses(const Mapping& mapping, std::vector<std::shared_ptr<Block>> blocks);
  // Those of an import of memory of this process, which stays where it is.
  explicit KeptAddresses(const Mapping& mapping);

  const MappedAs& as() const noexcept { return as_; }
  bool on_host() const noexcept { return on_host_; }
  bool is_own() const noexcept { return blocks_.empty(); }
  const std::shared_ptr<const BundleTable>& table() const noexcept { return table_; }
  std::byte* start(size_t block) const noexcept { return starts_[block]; }
  uint64_t block_bytes() const noexcept { return block_bytes_; }  // of all of them

  // Throw Error(invalid_argument) if the token, or the table of its bundle, names other places than
  // those that were imported, whose token is `former`.
  void require_like(const Token& token, const Token& former) const;
  void require_like(const BundleTable& table) const;
  // The same for memory of this process, if it is not where it was.
  void require_there(const Mapping& mapping) const;

  // The memory of a block, once it is mapped at its address again.
  std::shared_ptr<Block> remap(size_t block, Fd fd, const BlockExtent& extent) const;
  // Gives up what is mapped, all of it even if a step fails. Throws what failed first.
  void unmap() const;

 private:
  MappedAs as_;
  bool on_host_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::byte*> starts_;
  uint64_t block_bytes_ = 0;
  std::shared_ptr<const BundleTable> table_;
};
}  // namespace symm::ipc
