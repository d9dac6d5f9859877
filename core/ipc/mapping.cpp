// The blocks of one exporter that are mapped here, by block and device, with the pieces that
// are imported. Used with the connection's lock held.
#include "core/ipc/mapping.hpp"

#include <climits>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/ipc/token.hpp"
#include "symm/symm.h"

namespace symm::ipc {
std::shared_ptr<Mapping> Mappings::find(const Token& token, int device) const {
  const auto found = all_.find({token.block, device});
  return found == all_.end() ? nullptr : found->second;
}

std::shared_ptr<Mapping> Mappings::place(const Token& token, int device) {
  std::shared_ptr<Mapping> mapping = find(token, device);
  if (!mapping || mapping->retired) {  // the users of a retired one keep it
    mapping = std::make_shared<Mapping>();
    mapping->origin = token;
    mapping->device = device;
    all_.insert_or_assign({token.block, device}, mapping);
  }
  ++mapping->users;
  return mapping;
}

void Mappings::add_piece(Mapping& mapping, const Token& token) {
  mapping.pieces.emplace(token.offset, Mapping::Piece{token.bytes, token.number});
  ++imports_;
}

void Mappings::remove_piece(Mapping& mapping, const Token& token) noexcept {
  auto [piece, end] = mapping.pieces.equal_range(token.offset);
  while (piece != end && piece->second.number != token.number) {
    ++piece;
  }
  if (piece != end) mapping.pieces.erase(piece);
  --imports_;
}

void Mappings::forget(Mapping& mapping, Garbage& garbage) {
  if (mapping.users != 0 || (mapping.block && !mapping.retired && !orphaned_)) return;
  garbage.push_back(std::move(mapping.block));
  const auto found = all_.find({mapping.origin.block, mapping.device});
  if (found != all_.end() && found->second.get() == &mapping) all_.erase(found);
}

void Mappings::retire(uint64_t block, Garbage& garbage) {
  for (auto at = all_.lower_bound({block, INT_MIN});
      at != all_.end() && at->first.first == block;) {
    const std::shared_ptr<Mapping> mapping = (at++)->second;
    mapping->retired = true;
    forget(*mapping, garbage);
  }
}

void Mappings::orphan(Garbage& garbage) {
  orphaned_ = true;
  for (auto at = all_.begin(); at != all_.end();) {
    const std::shared_ptr<Mapping> mapping = (at++)->second;
    forget(*mapping, garbage);
  }
}

void Mappings::drop_unused(Garbage& garbage) {
  std::erase_if(all_, [&](const auto& entry) {
    if (entry.second->users != 0) return false;
    garbage.push_back(std::move(entry.second->block));
    return true;
  });
}

std::shared_ptr<Mapping> Mappings::containing(
    const void* pointer, uint64_t bytes, Token& token) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const auto& [key, mapping] : all_) {
    if (!mapping->block) continue;
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
    if (!mapping->block) continue;
    ++stats.imported_blocks;
    stats.imported_bytes += mapping->block->size();
  }
}
}  // namespace symm::ipc
