// The numbers of everything that two libraries share: messages, memory, files. Libraries of
// different versions may meet in a group, at the two ends of a token, or in a monitor; each layout
// carries its number and the version of the library that wrote it, so that a reader of another
// number can refuse it and name both versions.
//
// A change of a layout, or of what its fields mean, gives it the next number.
// tests/base/layouts_test.cpp holds the sizes of the layouts against their numbers.
// docs/versioning.md tells users about mixed versions.
#pragma once

#include <cstdint>
#include <string>

namespace symm {
struct Layout {
  const char* what;  // as messages name it
  uint16_t number;
};

// X(name, number, as messages name it)
#define SYMM_LAYOUTS(X)                                                                          \
  /* Packets and records of the mesh, and the bodies of all messages: core/mesh/wire.hpp. */     \
  X(messages, 4, "messages between ranks")                                                       \
  /* The files of an attempt to meet: core/bootstrap/directory_rendezvous.hpp. */                \
  X(directory, 1, "files by which ranks meet")                                                   \
  /* The frames of the store by TCP: core/bootstrap/tcp_store.cpp. */                            \
  X(store, 2, "requests to the store by TCP")                                                    \
  /* The handshake and frames of a secure stream: core/socket/secure.hpp. */                     \
  X(greeting, 2, "greetings by TCP")                                                             \
  X(unique_id, 2, "unique ids")                                                                  \
  /* The control segment of a rank on the host: core/host/control.hpp. */                        \
  X(control, 12, "control segments")                                                             \
  /* Control block, pads, memory table and scratch of a rank on a GPU, and what the kernels */   \
  /* of two ranks write there: kernels/cuda/args.hpp. */                                         \
  X(cuda_control, 4, "control blocks of CUDA groups")                                            \
  /* The algorithm, grid and pieces that follow from a call: all ranks must choose alike. */     \
  X(plans, 2, "choices of algorithms")                                                           \
  /* What a message engine carries: core/multinode/messages.hpp. */                              \
  X(remote, 6, "messages between machines")                                                      \
  X(token, 3, "tokens")                                                                          \
  /* What the pieces of a bundle are: core/ipc/bundle.hpp. */                                    \
  X(bundle, 1, "tables of bundles")                                                              \
  /* What a process has published under a name: core/ipc/publication.hpp. */                     \
  X(publication, 1, "published versions")                                                        \
  /* Tickets, and what members and newcomers say before they have met: core/group/ticket.hpp. */ \
  X(ticket, 3, "tickets")                                                                        \
  /* Packets, lease ring and board of an exporter: core/ipc/protocol.hpp. */                     \
  X(leases, 7, "leases of memory")                                                               \
  /* The layouts of symm/page.h, whose numbers are in its magics. */                             \
  X(page, 2, "pages of ranks")                                                                   \
  X(shares, 1, "shares of processes")                                                            \
  X(trace, 2, "traces")

namespace layouts {
// SYMM_VERSION of this library.
extern const uint32_t library;
#define SYMM_DECLARED(name, number, what) extern const Layout name;
SYMM_LAYOUTS(SYMM_DECLARED)
#undef SYMM_DECLARED
}  // namespace layouts

// The stamp by which the writer of a layout identifies itself.
struct Stamp {
  uint32_t library = 0;
  uint32_t number = 0;
};

// This library's stamp.
inline Stamp stamp_of(const Layout& layout) noexcept { return {layouts::library, layout.number}; }

// "0.2.0"
std::string version_text(uint32_t library);
// Which versions `they`, whose stamp is `theirs`, and `we`, who have this library, have of a
// layout: "rank 1 has symm 0.3.1 (number 3), ...".
std::string both_stamps(const Layout& layout, const Stamp& theirs, const std::string& they,
    const std::string& we = "this process");
// Why they cannot read each other's layout: its name, and both_stamps(). "" if they can.
std::string stamp_difference(const Layout& layout, const Stamp& theirs, const std::string& they,
    const std::string& we = "this process");
}  // namespace symm
