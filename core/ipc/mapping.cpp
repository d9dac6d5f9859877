// The blocks of one exporter that are mapped here, by block and device, with the pieces that
// are imported. Used with the connection's lock held.
#include "core/ipc/mapping.hpp"

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/borrowed.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/error.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/token.hpp"
#include "symm/symm.h"

namespace symm::ipc {
std::shared_ptr<Mapping> Mappings::find(const Token& token, MappedAs as) const {
  const auto found = all_.find({token.block, as});
  return found == all_.end() ? nullptr : found->second;
}

std::shared_ptr<Mapping> Mappings::place(const Token& token, MappedAs as) {
  std::shared_ptr<Mapping> mapping = find(token, as);
  if (!mapping || mapping->retired) {  // the users of a retired one keep it
    mapping = std::make_shared<Mapping>();
    mapping->origin = token;
    mapping->as = as;
    all_.insert_or_assign({token.block, as}, mapping);
  }
  ++mapping->users;
  return mapping;
}

void Mappings::add_piece(Mapping& mapping, const Token& token) {
  mapping.pieces.emplace(token.offset, Mapping::Piece{token.bytes, token.number});
  ++imports_;
}

void Mappings::remove_piece(Mapping& mapping, const Token& token) noexcept {
  remove_range(mapping, token.offset, token.number);
  --imports_;
}

void Mappings::remove_range(Mapping& mapping, uint64_t offset, uint64_t number) noexcept {
  auto [piece, end] = mapping.pieces.equal_range(offset);
  while (piece != end && piece->second.number != number) {
    ++piece;
  }
  if (piece != end) mapping.pieces.erase(piece);
}

namespace {
// The token of a block of a bundle, or of the range that the bundle's pieces have of it.
Token token_of_block(const Token& bundle, const TableBlock& block) {
  Token token = bundle;
  token.is_bundle = false;
  token.block = block.id;
  token.secret = block.secret;
  token.slot = block.slot < kSlots ? static_cast<uint32_t>(block.slot) : kNoSlot;
  token.offset = block.first;
  token.bytes = block.end - block.first;
  return token;
}
}  // namespace

void Mappings::complete(Mapping& bundle, std::shared_ptr<BundleTable> table,
    std::vector<std::shared_ptr<Block>> blocks, Garbage& garbage) {
  std::vector<std::shared_ptr<Mapping>> mapped;
  mapped.reserve(blocks.size());
  bundle.table = table;
  try {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Token token = token_of_block(bundle.origin, table->blocks()[i]);
      mapped.push_back(place(token, bundle.as));
      Mapping& one = *mapped.back();
      if (!one.block) {
        one.block = std::move(blocks[i]);
        one.on_host = table->blocks()[i].on_host != 0;
        one.is_borrowed = is_borrowed(one.block.get());
      }
      bundle.is_borrowed = bundle.is_borrowed || one.is_borrowed;
      one.pieces.emplace(token.offset, Mapping::Piece{token.bytes, token.number});
    }
  } catch (...) {
    bundle.blocks = std::move(mapped);
    let_blocks_go(bundle, garbage);
    throw;
  }

  bundle.blocks = std::move(mapped);
  bundle.block = std::move(table);
  garbage.insert(garbage.end(), blocks.begin(), blocks.end());
}

void Mappings::let_blocks_go(Mapping& bundle, Garbage& garbage) {
  garbage.reserve(garbage.size() + bundle.blocks.size() + 1);  // nothing fails below
  const std::vector<std::shared_ptr<Mapping>> blocks = std::move(bundle.blocks);
  bundle.blocks.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    remove_range(*blocks[i], bundle.table->blocks()[i].first, bundle.origin.number);
    --blocks[i]->users;
    forget(*blocks[i], garbage);
  }
  bundle.table.reset();
}

void Mappings::forget(Mapping& mapping, Garbage& garbage) {
  const bool is_for_all = mapping.as.place == 0;
  if (mapping.users != 0) return;
  const bool may_be_kept = !mapping.retired && !mapping.is_borrowed && !orphaned_ && is_for_all;
  if (mapping.block && may_be_kept) return;
  let_blocks_go(mapping, garbage);
  garbage.push_back(std::move(mapping.block));
  const auto found = all_.find({mapping.origin.block, mapping.as});
  if (found != all_.end() && found->second.get() == &mapping) all_.erase(found);
}

void Mappings::retire(uint64_t block, bool is_withdrawn, Garbage& garbage) {
  std::vector<std::shared_ptr<Mapping>> found;  // to forget a bundle changes the map
  for (auto at = all_.lower_bound({block, {INT_MIN, Access::read_write}});
      at != all_.end() && at->first.first == block; ++at) {
    found.push_back(at->second);
  }
  for (const auto& mapping : found) {
    mapping->retired = true;
    mapping->is_released = !is_withdrawn;
    forget(*mapping, garbage);
  }
}

void Mappings::orphan(Garbage& garbage) {
  orphaned_ = true;
  std::vector<std::shared_ptr<Mapping>> found;
  for (const auto& [key, mapping] : all_) {
    found.push_back(mapping);
  }
  for (const auto& mapping : found) {
    forget(*mapping, garbage);
  }
}

void Mappings::drop_unused(Garbage& garbage) {
  std::vector<std::shared_ptr<Mapping>> bundles;
  for (const auto& [key, mapping] : all_) {
    if (mapping->users == 0 && mapping->table) bundles.push_back(mapping);
  }
  for (const auto& bundle : bundles) {
    let_blocks_go(*bundle, garbage);
  }
  std::erase_if(all_, [&](const auto& entry) {
    if (entry.second->users != 0) return false;
    garbage.push_back(std::move(entry.second->block));
    return true;
  });
}

std::vector<std::shared_ptr<Block>> Mappings::set_apart(Mapping& mapping, Garbage& garbage) {
  if (mapping.is_borrowed) {
    throw Error(Status::unsupported,
        "ipc: the memory is of cudaMalloc, which the driver maps at no address that was kept");
  }
  drop_unused(garbage);
  std::vector<Mapping*> parts;
  for (const auto& block : mapping.blocks) {
    parts.push_back(block.get());
  }
  if (!mapping.table) parts.push_back(&mapping);

  // A table is shared by all imports of its bundle.
  bool is_alone = mapping.users == 1;
  for (Mapping* part : parts) {
    is_alone = is_alone && part->users == 1 && part->block.use_count() == 1 &&
               dynamic_cast<Suspendable&>(*part->block).set_apart();
  }
  if (!is_alone) {
    throw Error(Status::invalid_argument,
        "ipc: another import, a token or a group of this process uses the memory");
  }

  std::vector<std::shared_ptr<Block>> blocks;
  for (Mapping* part : parts) {
    blocks.push_back(part->block);
    part->retired = true;  // so that it goes with its last user
  }
  mapping.retired = true;
  return blocks;
}

std::shared_ptr<Mapping> Mappings::containing(
    const void* pointer, uint64_t bytes, Token& token) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const auto& [key, mapping] : all_) {
    if (!mapping->block || mapping->table) continue;
    const auto start = reinterpret_cast<uintptr_t>(mapping->block->data());
    if (address < start || address - start >= mapping->block->size()) continue;
    const uint64_t offset = address - start;
    for (auto piece = mapping->pieces.upper_bound(offset); piece != mapping->pieces.begin();) {
      --piece;
      if (bytes > piece->second.bytes || offset + bytes > piece->first + piece->second.bytes) {
        continue;
      }
      token = mapping->origin;
      token.number = piece->second.number;
      token.offset = offset;
      token.bytes = bytes;
      token.position = {};
      return mapping;
    }
  }

  return nullptr;
}

void Mappings::add_to(symm_ipc_stats_t& stats) const noexcept {
  stats.imports += imports_;
  for (const auto& [key, mapping] : all_) {
    if (!mapping->block || mapping->table) continue;
    ++stats.imported_blocks;
    stats.imported_bytes += mapping->block->size();
  }
}
}  // namespace symm::ipc
