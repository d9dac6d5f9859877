// Blocks of memory that symm cannot keep, such as that of cudaMalloc: it goes when the program that
// allocated it frees it, or ends, whoever has it mapped.
#pragma once

#include "core/backend/backend.hpp"

namespace symm {
class Borrowed {
 public:
  virtual ~Borrowed() = default;
};

inline bool is_borrowed(const Block* block) noexcept {
  return dynamic_cast<const Borrowed*>(block) != nullptr;
}
}  // namespace symm
