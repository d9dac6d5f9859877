// A version stays until its maker withdraws it or newer ones take its place. A maker that releases
// its memory has not withdrawn it: so do programs that end by an exception, and that is when their
// version is needed.
#include "tools/hold/holder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/text.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
namespace {
constexpr uint64_t kAnswerMs = 1000;  // a maker that is stopped holds nobody up for longer

symm_ipc_lookup_options_t only_look() {
  symm_ipc_lookup_options_t options = SYMM_IPC_LOOKUP_OPTIONS_INIT;
  options.timeout_ms = SYMM_TIMEOUT_NOW;
  return options;
}

Import import_for_reading(const Token& token) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.flags = SYMM_IPC_READ_ONLY;
  options.timeout_ms = kAnswerMs;
  return Import(token, options);
}

bool is_bundle(const Import& import) {
  size_t pieces = 0;
  return symm_ipc_bundle_size(import.get(), &pieces) == SYMM_OK;
}

// A token of this process for what it has imported.
Token token_of(const Import& import) {
  if (!is_bundle(import)) return ipc_export(import.span<std::byte>());
  std::vector<symm_ipc_piece_t> pieces(import.bundle_size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = import.bundle_piece(i);
  }
  return ipc_export_bundle(pieces);
}
}  // namespace

Holder::Holder(std::string name, uint64_t keep, Say say)
    : name_(std::move(name)), keep_(keep), say_(std::move(say)) {}

std::string Holder::name_of(const Held& held) const {
  return "version " + std::to_string(held.version) + " of '" + name_ + "' (" +
         format_bytes(held.import.info().bytes) + ", process " +
         std::to_string(held.import.info().exporter_pid) + ")";
}

// Whether the maker, which lives, has withdrawn the version. Only the token itself tells: it is
// asked when the version is not to be found any more.
bool Holder::has_ended(const Held& held) const {
  if ((held.import.info().flags & SYMM_IPC_RELEASED) != 0) return false;
  try {
    const PublishedVersion found = ipc_lookup(name_, SYMM_COMPARE_EQ, held.version, only_look());
    if (found.token == held.token) return false;
  } catch (const Error& error) {
    if (error.status() != SYMM_ERR_TIMEOUT) throw;
  }

  try {
    import_for_reading(held.token);
    return false;
  } catch (const Error& error) {
    if (error.status() != SYMM_ERR_INVALID_HANDLE) return false;  // gone, or about to be
  }
  return (held.import.info().flags & SYMM_IPC_RELEASED) == 0;
}

void Holder::give(Held& held) const {
  held.token = token_of(held.import);
  ipc_publish(name_, held.version, held.token);
  held.is_given = true;
  say_("gives again " + name_of(held) + ", whose maker is gone");
}

// Readers keep what they have imported.
void Holder::let_go(Held& held, const char* why) const {
  say_("lets go " + name_of(held) + ": " + why);
  if (!held.is_given) return held.import.reset();
  symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
  options.timeout_ms = SYMM_TIMEOUT_NOW;
  (void)symm_ipc_withdraw_version(name_.c_str(), held.version, &options);
  held.import.reset();
}

void Holder::look_after_those_held() {
  for (auto at = held_.begin(); at != held_.end();) {
    if (!at->is_given && at->import.info().exporter_alive == 0) {
      give(*at);
    } else if (!at->is_given && has_ended(*at)) {
      let_go(*at, "its maker has withdrawn it");
      at = held_.erase(at);
      continue;
    }
    ++at;
  }
}

// From the newest down, since several may have come since the last look.
void Holder::take_newest() {
  symm_compare_t compare = SYMM_COMPARE_GE;
  uint64_t bound = 0;
  for (uint64_t looked = 0; looked < keep_; ++looked) {
    PublishedVersion found;
    try {
      found = ipc_lookup(name_, compare, bound, only_look());
    } catch (const Error& error) {
      if (error.status() == SYMM_ERR_TIMEOUT) return;
      throw;
    }
    compare = SYMM_COMPARE_LT;
    bound = found.version;

    const auto place = std::lower_bound(held_.begin(), held_.end(), found.version,
        [](const Held& other, uint64_t version) { return other.version < version; });
    if (place != held_.end() && place->version == found.version) continue;
    if (place == held_.begin() && held_.size() >= keep_) return;
    Held held{found.version, found.token, import_for_reading(found.token)};
    say_("holds " + name_of(held));
    held_.insert(place, std::move(held));
  }
}

void Holder::look() {
  try {
    look_after_those_held();
    take_newest();
    while (held_.size() > keep_) {
      let_go(held_.front(), "there are newer ones");
      held_.erase(held_.begin());
    }
    complaint_.clear();
  } catch (const Error& error) {
    // A version that is withdrawn, or whose maker dies, between look-up and import.
    const bool is_usual =
        error.status() == SYMM_ERR_INVALID_HANDLE || error.status() == SYMM_ERR_PEER_FAILED;
    if (is_usual || complaint_ == error.what()) return;
    complaint_ = error.what();
    say_("tries again: " + complaint_);
  }
}
}  // namespace symm::tool
