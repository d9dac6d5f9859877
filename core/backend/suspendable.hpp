// Blocks that can give their memory back and get some again at the same address.
#pragma once

#include <cstddef>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"

namespace symm {
// Why memory cannot be mapped at an address that was kept.
inline Failure other_size(size_t bytes, size_t kept) {
  return {Status::invalid_argument, -1, 0,
      format("token: the block has %zu bytes or lies otherwise in its pages, and the address is "
             "that of one of %zu bytes",
          bytes, kept)};
}

class Suspendable {
 public:
  virtual ~Suspendable() = default;
  // Gives the memory back when what was issued on `stream` is over. With `keep` the contents come
  // back by resume(); otherwise the memory is zeroed then. If one of the two throws, nothing has
  // changed.
  virtual void suspend(bool keep, void* stream) = 0;
  virtual void resume(void* stream) = 0;

  // The functions below are for memory that another process has shared.

  // Keeps other parts of this process from finding the mapping when they import the same memory.
  // False if one of them has found it already.
  virtual bool set_apart() { return true; }
  // Gives the mapping up, and keeps the address. Nothing is using the memory.
  virtual void unmap() = 0;
  // Maps memory that another process shared at the address. Throws Error(invalid_argument) if it
  // is of another size. If it throws, nothing is mapped there.
  virtual void remap(Fd fd, const BlockExtent& extent) = 0;
};
}  // namespace symm
