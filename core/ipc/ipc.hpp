// Sharing memory by tokens: what symm_ipc_* and the buffers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/importer.hpp"
#include "core/ipc/publication.hpp"
#include "kernels/compare.hpp"
#include "symm/symm.h"

namespace symm::ipc {
// A deadline in milliseconds as a call gives it, 0 for that of the environment.
uint64_t timeout_or_default(uint64_t timeout_ms);

// A buffer of this process; its pointers can be exported until it is gone.
void buffer_made(const std::shared_ptr<Block>& block, size_t bytes, BackendKind kind, int device);
void buffer_gone(Block& block) noexcept;
// It is there, and nobody can export it any more: its tokens have ended as by withdraw(), which
// nobody waits for. buffer_made() makes it known again. Throws what check_stream() does.
void buffer_suspended(Block& block, BackendKind kind, int device, void* stream);

std::vector<std::byte> export_memory(
    const void* pointer, uint64_t bytes, ExportOptions options, void* stream);
// The pieces as symm_ipc_export_bundle() gets them; their texts are borrowed.
std::vector<std::byte> export_bundle(
    std::span<const symm_ipc_piece_t> pieces, ExportOptions options, void* stream);
std::shared_ptr<HeldLease> import_memory(
    std::span<const std::byte> bytes, ImportOptions options, void* stream);
// Maps memory at the addresses of a suspended import: what the token names, or, if there are no
// bytes, what it was before.
void resume_import(
    HeldLease& held, std::span<const std::byte> token, ImportOptions options, void* stream);
void withdraw(const void* pointer, uint64_t bytes, uint64_t timeout_ms);
// Waits for a word of a token of this process, and returns it.
uint64_t wait_value(std::span<const std::byte> token, int channel, Compare compare, uint64_t value,
    uint64_t timeout_ms, void* stream);
// Keeps puts of lower epochs than this off a piece of memory of this process, from now on.
void fence(const void* pointer, uint64_t bytes, uint64_t epoch, uint64_t timeout_ms, void* stream);
void publish(
    const std::string& name, uint64_t version, std::span<const std::byte> token, uint64_t keep);
Found look_up(const std::string& name, Compare compare, uint64_t version,
    const std::string& directory, uint64_t timeout_ms);
void withdraw_version(const std::string& name, uint64_t version, uint64_t timeout_ms);
symm_ipc_holders_t holders(const void* pointer, uint64_t bytes);
symm_ipc_collect_stats_t report();
symm_ipc_collect_stats_t collect();  // and report()
symm_ipc_stats_t stats();
}  // namespace symm::ipc
