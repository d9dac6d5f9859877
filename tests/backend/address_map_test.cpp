#include "core/backend/address_map.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/group/memory.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
std::byte* address(uintptr_t value) { return reinterpret_cast<std::byte*>(value); }

std::shared_ptr<MemoryView> view(uint64_t id, size_t bytes, std::vector<uintptr_t> blocks) {
  auto made = std::make_shared<MemoryView>();
  made->id = id;
  made->bytes = bytes;
  for (const uintptr_t block : blocks) {
    made->blocks.push_back(address(block));
  }
  return made;
}

struct Map : testing::Test {
  int rank = 1;
  AddressMap map{rank};
  size_t offset = 99;
};

TEST_F(Map, FindsOwnRangesOnly) {
  map.insert(view(7, 100, {0x1000, 0x9000}), {});

  EXPECT_EQ(map.containing(address(0x9000), 100, &offset)->id, 7U);
  EXPECT_EQ(offset, 0U);
  EXPECT_EQ(map.containing(address(0x9010), 84, &offset)->id, 7U);
  EXPECT_EQ(offset, 16U);

  EXPECT_EQ(map.containing(address(0x9010), 85, &offset), nullptr) << "one byte too far";
  EXPECT_EQ(map.containing(address(0x1000), 1, &offset), nullptr) << "another rank's block";
  EXPECT_EQ(map.containing(address(0x8FFF), 1, &offset), nullptr);
  EXPECT_EQ(map.containing(address(0x9064), 0, &offset), nullptr) << "one past the end";

  EXPECT_EQ(map.find(address(0x1063)).rank, 0);
  EXPECT_EQ(map.find(address(0x1063)).offset, 0x63U);
  EXPECT_EQ(map.find(address(0x9063)).rank, 1);
  EXPECT_EQ(map.find(address(0x9064)).rank, 0) << "nothing is there";
}

TEST_F(Map, TheNewestMemoryOfABufferIsFoundUntilItGoes) {
  const auto older = view(7, 100, {0x1000, 0x9000});
  const auto newer = view(8, 100, {0x1000, 0x9000});

  map.insert(older, {});
  map.insert(newer, {});
  EXPECT_EQ(map.containing(address(0x9000), 1, &offset)->id, 8U);
  EXPECT_EQ(map.numbered(7), older);

  map.erase(*newer);
  EXPECT_EQ(map.containing(address(0x9000), 1, &offset)->id, 7U);
  map.erase(*older);
  EXPECT_EQ(map.containing(address(0x9000), 1, &offset), nullptr);
  EXPECT_EQ(map.numbered(7), nullptr);
  map.erase(*older);  // that of the unknown is harmless
}

// This rank's block, which its owner knows by another address.
struct AdoptedBlock final : Block {
  std::byte* data() const noexcept override { return address(0x9000); }

  size_t size() const noexcept override { return 100; }

  const std::byte* owners_address() const noexcept override { return owner; }

  bool still_at_owner() const noexcept override { return is_there; }

  const std::byte* owner = address(0x5000);
  bool is_there = true;
};

TEST_F(Map, AnAdoptedBlockIsFoundAtItsOwnersAddressWhileItIsThere) {
  const auto block = std::make_shared<AdoptedBlock>();
  const auto adopted = view(7, 100, {0x1000, 0x9000});
  adopted->adopted = block;
  map.insert(adopted, {});
  EXPECT_EQ(map.containing(address(0x5010), 84, &offset)->id, 7U);
  EXPECT_EQ(offset, 16U);
  EXPECT_EQ(map.containing(address(0x5010), 85, &offset), nullptr) << "one byte too far";
  EXPECT_EQ(map.containing(address(0x5064), 0, &offset), nullptr) << "one past the end";
  EXPECT_EQ(map.containing(address(0x4FFF), 1, &offset), nullptr);
  EXPECT_EQ(map.find(address(0x5063)).rank, 1);
  EXPECT_EQ(map.find(address(0x5063)).offset, 0x63U);
  EXPECT_EQ(map.containing(address(0x9000), 100, &offset)->id, 7U) << "and at symm's own";

  // Another piece of the same memory, which overlaps: the newest is found where both are.
  const auto piece = std::make_shared<AdoptedBlock>();
  piece->owner = address(0x5020);
  const auto newer = view(8, 8, {0x2000, 0xA000});
  newer->adopted = piece;
  map.insert(newer, {});
  EXPECT_EQ(map.containing(address(0x5024), 4, &offset)->id, 8U);
  EXPECT_EQ(map.containing(address(0x5028), 4, &offset)->id, 7U);

  block->is_there = false;  // unmapped, or replaced
  EXPECT_EQ(map.containing(address(0x5010), 1, &offset), nullptr);
  EXPECT_EQ(map.find(address(0x5010)).offset, 0U);
  EXPECT_EQ(map.containing(address(0x9010), 1, &offset)->id, 7U);
  block->is_there = true;
  map.erase(*adopted);
  EXPECT_EQ(map.containing(address(0x5010), 1, &offset), nullptr);
}
}  // namespace
}  // namespace symm
