// Files of memory (memfd), without a name, that can be sealed.
#pragma once

#include <sys/mman.h>

#include <cerrno>

#include "core/base/fd.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace symm {
// Makes such a file. Empty if that fails; errno says why.
inline Fd make_memfd(const char* name, unsigned int flags = 0) noexcept {
  flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd made = make_fd(memfd_create, name, flags | MFD_NOEXEC_SEAL);
  if (!made && errno == EINVAL) return make_fd(memfd_create, name, flags);  // Linux < 6.3
  return made;
}
}  // namespace symm
