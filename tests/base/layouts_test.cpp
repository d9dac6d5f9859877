// What libraries share is numbered. A layout whose size changes must have another number: libraries
// of two versions that agree on a number read each other's memory.
#include "core/base/layouts.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "core/backend/plan_table.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "core/engine/link.hpp"
#include "core/group/exchange.hpp"
#include "core/group/ticket.hpp"
#include "core/host/control.hpp"
#include "core/host/mailbox.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/publication.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include "core/mesh/wire.hpp"
#include "core/multinode/messages.hpp"
#include "core/multinode/packed_pieces.hpp"
#include "core/socket/secure.hpp"
#include "kernels/cuda/args.hpp"
#include "symm/page.h"
#include "symm/symm.h"
#include "tests/support/core.hpp"

namespace symm {
namespace {
struct LayoutSizes {
  const Layout* layout;
  std::vector<size_t> sizes;
};

struct KnownLayout {
  const Layout* layout;
  uint16_t number;
  std::vector<size_t> sizes;
};

wire::Header header_of(wire::Type type) { return {.type = type}; }

// The sizes of each layout of fixed size, now.
std::vector<LayoutSizes> found() {
  using wire::encode;
  using wire::Type;
  return {{&layouts::messages,
              {wire::kHeaderSize, encode(header_of(Type::hello), wire::Hello{0, 0, 0, 0, 1}).size(),
                  encode(header_of(Type::identity),
                      [] {
                        wire::Identity one;
                        one.size = 1;
                        return one;
                      }())
                      .size(),
                  encode(header_of(Type::address), wire::Address{}).size(), sizeof(Vote::value),
                  kFailureHeader, kMaxFailureText, sizeof(PlanValues)}},
      {&layouts::greeting, {SecureStream::kGreeting, SecureStream::kAnswer}},
      {&layouts::control,
          {sizeof(host::ControlHeader), sizeof(host::EntryLine), sizeof(host::SignatureLine),
              sizeof(host::WaitLine), sizeof(host::CallLine), sizeof(host::RefusalLine),
              sizeof(host::MailboxHead), sizeof(host::ChannelWords), sizeof(host::MessageSlot),
              host::Control::bytes(2, 1, 4096, host::MailboxShape::of(2, 1)),
              host::Control::bytes(64, 16, 65536, host::MailboxShape::of(64, 16))}},
      {&layouts::cuda_control,
          {sizeof(cuda::ControlWords), sizeof(cuda::MemoryEntry), sizeof(cuda::ErrorRecord),
              sizeof(cuda::ScratchPlaces), sizeof(cuda::MessageWords), sizeof(cuda::MessageFlow)}},
      {&layouts::remote,
          {sizeof(engine::Head), sizeof(multinode::EngineShare), sizeof(multinode::RemoteRows)}},
      {&layouts::unique_id, {kUniqueIdBytes}}, {&layouts::token, {ipc::kTokenFixed}},
      {&layouts::bundle,
          {sizeof(ipc::TableHeader), sizeof(ipc::TableBlock), sizeof(ipc::TablePiece)}},
      {&layouts::publication, {ipc::kPublicationFixed}},
      {&layouts::ticket, {kTicketBytes, kOfferFixed}},
      {&layouts::leases, {ipc::kPacketHeader, sizeof(ipc::LeaseRing), sizeof(ipc::ValidityBoard),
                             sizeof(ipc::TokenPad::Header)}},
      {&layouts::page, {sizeof(symm_page_t)}},
      {&layouts::shares, {sizeof(symm_shares_t), sizeof(symm_share_t)}},
      {&layouts::trace, {sizeof(symm_trace_t), sizeof(symm_trace_call_t)}}};
}

TEST(Layouts, OfAnotherSizeHaveAnotherNumber) {
  const std::vector<KnownLayout> known = {
      {&layouts::messages, 4, {44, 76, 130, 50, 128, 24, 512, 232}},
      {&layouts::greeting, 2, {92, 80}},
      {&layouts::control, 12, {40, 64, 64, 64, 128, 256, 64, 32, 64, 155904, 782336}},
      {&layouts::cuda_control, 4, {257088, 144, 64, 72, 53256, 256}},
      {&layouts::remote, 6, {80, 2124, 32}},
      {&layouts::unique_id, 2, {128}},
      {&layouts::token, 3, {140}},
      {&layouts::bundle, 1, {64, 72, 48}},
      {&layouts::publication, 1, {28}},
      {&layouts::ticket, 3, {512, 76}},
      {&layouts::leases, 7, {28, 24576, 139264, 4224}},
      {&layouts::page, 2, {3256}},
      {&layouts::shares, 1, {49176, 192}},
      {&layouts::trace, 2, {192, 192}},
  };
  const std::vector<LayoutSizes> rows = found();
  ASSERT_EQ(rows.size(), known.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].layout, known[i].layout);
    EXPECT_EQ(rows[i].sizes, known[i].sizes)
        << rows[i].layout->what << ": give the layout its next number (core/base/layouts.hpp), "
        << "then write number and sizes here";
    EXPECT_EQ(rows[i].layout->number, known[i].number) << rows[i].layout->what;
  }
}

TEST(Layouts, MagicsOfPagesHaveTheNumbers) {
  constexpr int kLast = 56;
  EXPECT_EQ(SYMM_PAGE_MAGIC >> kLast, uint64_t{'0'} + layouts::page.number);
  EXPECT_EQ(SYMM_SHARES_MAGIC >> kLast, uint64_t{'0'} + layouts::shares.number);
  EXPECT_EQ(SYMM_TRACE_MAGIC >> kLast, uint64_t{'0'} + layouts::trace.number);
}

TEST(Layouts, AreOfTheVersionOfTheHeader) {
  EXPECT_EQ(layouts::library, uint32_t{SYMM_VERSION});
  EXPECT_EQ(version_text(0x01002003), "1.2.3");
}

TEST(Layouts, ADifferenceNamesBothVersions) {
  const Layout& layout = layouts::token;
  Stamp theirs = stamp_of(layout);
  EXPECT_EQ(stamp_difference(layout, theirs, "rank 1"), "");
  theirs.library = 0x003001;
  EXPECT_EQ(stamp_difference(layout, theirs, "rank 1"), "") << "of another version alone";

  theirs.number += 1;
  EXPECT_EQ(stamp_difference(layout, theirs, "rank 1", "rank 0"),
      format("tokens: rank 1 has symm 0.3.1 (number %u), rank 0 has symm %s (number %u); load one "
             "version of symm on both sides",
          theirs.number, version_text(layouts::library).c_str(), layout.number));
}
}  // namespace
}  // namespace symm
