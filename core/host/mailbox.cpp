// Computes how large mailboxes are, and what goes through them.
#include "core/host/mailbox.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/host/slices.hpp"

namespace symm::host {
MailboxShape MailboxShape::of(int ranks, int channels) {
  constexpr uint32_t kAllSlots = 1024;
  constexpr size_t kAllData = size_t{512} << 10;
  const auto count = static_cast<uint32_t>(ranks);
  return {count, std::bit_floor(std::clamp(kAllSlots / count, 8U, 64U)),
      static_cast<uint32_t>(channels),
      round_down(std::clamp(kAllData / count, size_t{2} << 10, size_t{64} << 10), 4 * kLine)};
}

size_t MailboxShape::bytes() const noexcept {
  return kLine + round_up(channels * sizeof(ChannelWords), kLine) + slots * sizeof(MessageSlot) +
         data;
}

size_t MailboxShape::most_left() const noexcept {
  constexpr size_t kMost = size_t{8} << 10;
  return std::min(most_piece(), kMost);
}
}  // namespace symm::host
