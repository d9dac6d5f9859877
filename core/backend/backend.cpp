// SPDX-License-Identifier: Apache-2.0
#include "core/backend/backend.hpp"

namespace symm {

ShareableHandle Block::share() const { throw Error(Status::unsupported, "a block of this kind cannot be shared"); }

Fd Block::export_dmabuf(size_t, size_t) const {
  throw Error(Status::unavailable, "buffer: memory of the host back end cannot be exported as DMA-BUF");
}

}  // namespace symm
