// Compares what is to be mapped at the addresses of a suspended import with what was there, and
// maps it there.
#include "core/ipc/kept_addresses.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/token.hpp"

namespace symm::ipc {
namespace {
uint64_t next_place() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// The blocks that an import has mapped: its own, or those of its bundle.
std::vector<Block*> blocks_of(const Mapping& mapping) {
  std::vector<Block*> found;
  if (!mapping.table) {
    if (mapping.block) found.push_back(mapping.block.get());
    return found;
  }
  for (const auto& block : mapping.blocks) {
    found.push_back(block->block.get());
  }
  return found;
}

std::string_view name_in(const BundlePiece& piece) {
  return piece.name == nullptr ? std::string_view() : std::string_view(piece.name);
}
}  // namespace

KeptAddresses::KeptAddresses(const Mapping& mapping, std::vector<std::shared_ptr<Block>> blocks)
    : KeptAddresses(mapping) {
  blocks_ = std::move(blocks);
  as_.place = next_place();
}

KeptAddresses::KeptAddresses(const Mapping& mapping)
    : as_(mapping.as), on_host_(mapping.on_host), table_(mapping.table) {
  for (const Block* block : blocks_of(mapping)) {
    starts_.push_back(block->data());
    block_bytes_ += block->size();
  }
}

void KeptAddresses::require_like(const Token& token, const Token& former) const {
  const auto refuse = [](const std::string& why) {
    throw Error(Status::invalid_argument, "token: " + why);
  };

  if (token.backend != former.backend) refuse("names memory of another back end");
  if (token.is_bundle != former.is_bundle) {
    refuse(token.is_bundle ? "is that of a bundle, and the import was none"
                           : "is that of one piece, and the import was a bundle");
  }
  if (token.is_bundle) return;  // its table is compared when it has come
  if (token.bytes != former.bytes || token.offset != former.offset) {
    refuse(format("names %lu bytes at %lu of a block, and the import was of %lu at %lu",
        token.bytes, token.offset, former.bytes, former.offset));
  }
}

void KeptAddresses::require_like(const BundleTable& table) const {
  const auto refuse = [](const std::string& why) {
    throw Error(Status::invalid_argument, "token: " + why);
  };

  if (table.pieces() != table_->pieces() || table.blocks().size() != table_->blocks().size()) {
    refuse(format("the bundle has %zu pieces in %zu blocks, and the import was of %zu in %zu",
        table.pieces(), table.blocks().size(), table_->pieces(), table_->blocks().size()));
  }

  for (size_t i = 0; i < table.pieces(); ++i) {
    const BundlePiece piece = table.piece(i);
    const BundlePiece former = table_->piece(i);
    if (name_in(piece) != name_in(former)) {
      refuse(format("piece %zu of the bundle is '%s', and was '%s'", i,
          std::string(name_in(piece)).c_str(), std::string(name_in(former)).c_str()));
    }
    if (piece.block != former.block || piece.offset != former.offset ||
        piece.bytes != former.bytes) {
      refuse(format(
          "piece %zu of the bundle has %lu bytes at %lu of block %u, and had %lu at %lu "
          "of block %u",
          i, piece.bytes, piece.offset, piece.block, former.bytes, former.offset, former.block));
    }
  }
}

void KeptAddresses::require_there(const Mapping& mapping) const {
  if (mapping.table) require_like(*mapping.table);
  const std::vector<Block*> blocks = blocks_of(mapping);
  const bool are_there = std::equal(blocks.begin(), blocks.end(), starts_.begin(), starts_.end(),
      [](const Block* block, const std::byte* start) { return block->data() == start; });
  if (are_there) return;
  throw Error(Status::invalid_argument,
      "token: names other memory of this process, which stays at its own address");
}

std::shared_ptr<Block> KeptAddresses::remap(size_t block, Fd fd, const BlockExtent& extent) const {
  dynamic_cast<Suspendable&>(*blocks_[block]).remap(std::move(fd), extent);
  return blocks_[block];
}

void KeptAddresses::unmap() const {
  std::exception_ptr first;
  for (const auto& block : blocks_) {
    try {
      dynamic_cast<Suspendable&>(*block).unmap();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}
}  // namespace symm::ipc
