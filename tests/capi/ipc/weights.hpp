// Versions of some weights for tests, in which each number is that of the version.
#pragma once

#include "tests/capi/ipc/sharing.hpp"

namespace support {
inline constexpr size_t kInts = 1024;

// The weights of a version, in two blocks.
struct Weights {
  explicit Weights(int version) : first(kInts * 4), second(kInts * 4) {
    for (size_t i = 0; i < kInts; ++i) {
      first.at<int>()[i] = version;
      second.at<int>()[i] = version;
    }
  }
  symm::Token token() const {
    symm_ipc_piece_t pieces[2] = {SYMM_IPC_PIECE_INIT, SYMM_IPC_PIECE_INIT};
    pieces[0].pointer = first.data;
    pieces[1].pointer = second.data;
    pieces[0].name = "first";
    pieces[1].name = "second";
    pieces[0].bytes = kInts * 4;
    pieces[1].bytes = kInts * 4;
    return symm::ipc_export_bundle(pieces);
  }
  Owned first;
  Owned second;
};

inline symm_ipc_lookup_options_t only_look() {
  symm_ipc_lookup_options_t options = SYMM_IPC_LOOKUP_OPTIONS_INIT;
  options.timeout_ms = SYMM_TIMEOUT_NOW;
  return options;
}

inline Import import_for_reading(const symm::Token& token) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.flags = SYMM_IPC_READ_ONLY;
  return Import(token, options);
}

// The version that all numbers of an import have; -1 if they are mixed.
inline int version_of(const Import& bundle) {
  const int version = *static_cast<const int*>(bundle.bundle_piece("first").pointer);
  for (size_t p = 0; p < 2; ++p) {
    const auto* const ints = static_cast<const int*>(bundle.bundle_piece(p).pointer);
    for (size_t i = 0; i < kInts; ++i) {
      if (ints[i] != version) return -1;
    }
  }
  return version;
}

}  // namespace support
