// Parts of the drop-in that need no NCCL: the names in unique ids, and the loader's cache.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/factors.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/place.hpp"
#include "bindings/nccl/search.hpp"

namespace symm::nccl {
namespace {
void append(std::string& image, const void* data, size_t size) {
  image.append(static_cast<const char*>(data), size);
}

// An image of the cache as glibc 2.32 and later write it: `files` by name, for flags.
std::string cache_of(const std::vector<std::pair<std::string, std::string>>& files, int32_t flags) {
  const auto count = static_cast<uint32_t>(files.size());
  std::string strings;
  std::string entries;
  for (const auto& [name, file] : files) {
    const uint32_t begin = 48 + 24 * count + static_cast<uint32_t>(strings.size());
    const uint32_t words[6] = {static_cast<uint32_t>(flags), begin,
        begin + static_cast<uint32_t>(name.size()) + 1, 0, 0, 0};
    append(entries, words, sizeof words);
    strings += name + '\0' + file + '\0';
  }

  std::string image = "glibc-ld.so.cache1.1";
  const uint32_t rest[7] = {count, static_cast<uint32_t>(strings.size()), 0, 0, 0, 0, 0};
  append(image, rest, sizeof rest);
  return image + entries + strings;
}

#if defined(__x86_64__)
constexpr int32_t kHere = 0x0303;
constexpr int32_t kElsewhere = 0x0003;
#else
constexpr int32_t kHere = 0x0a03;
constexpr int32_t kElsewhere = 0x0303;
#endif

using Files = std::vector<std::string>;

TEST(Cache, NamesTheFilesOfThisProcessor) {
  const std::string image =
      cache_of({{"libnccl.so.2", "/a/libnccl.so.2"}, {"libz.so.1", "/b/libz.so.1"},
                   {"libnccl.so.2", "/c/libnccl.so.2"}},
          kHere);
  EXPECT_EQ(in_cache(image, "libnccl.so.2"), (Files{"/a/libnccl.so.2", "/c/libnccl.so.2"}));
  EXPECT_EQ(in_cache(image, "libnccl.so"), Files{});
  EXPECT_EQ(in_cache(cache_of({{"libnccl.so.2", "/a"}}, kElsewhere), "libnccl.so.2"), Files{});
  // The older form has another table in front.
  EXPECT_EQ(
      in_cache("ld.so-1.7.0" + std::string(37, '\1') + image, "libz.so.1"), Files{"/b/libz.so.1"});
}

TEST(Cache, OfAnyBytesIsNoHarm) {
  const std::string image = cache_of({{"libnccl.so.2", "/a/libnccl.so.2"}}, kHere);
  for (size_t size = 0; size < image.size(); ++size) {
    for (const std::string& file : in_cache(image.substr(0, size), "libnccl.so.2")) {
      EXPECT_TRUE(std::string("/a/libnccl.so.2").starts_with(file)) << file;
    }
  }
  std::string wild = image;
  for (size_t i = 20; i < wild.size(); ++i) {
    wild[i] = '\xff';
    in_cache(wild, "libnccl.so.2");
  }
  EXPECT_EQ(in_cache(wild, "libnccl.so.2"), Files{});
}

TEST(MeetingName, IsInTheEndOfTheId) {
  UniqueId id{};
  id.bytes[0] = 7;
  id.bytes[39] = 9;
  EXPECT_FALSE(meeting_of(id).has_value());

  add_meeting(id);
  EXPECT_EQ(id.bytes[0], 7);
  EXPECT_EQ(id.bytes[39], 9);
  EXPECT_TRUE(std::all_of(id.bytes + 40, id.bytes + 96, [](uint8_t byte) { return byte == 0; }));
  const auto meeting = meeting_of(id);
  ASSERT_TRUE(meeting.has_value());
  EXPECT_EQ(text_of(*meeting).size(), 32U);

  UniqueId other{};
  add_meeting(other);
  EXPECT_NE(*meeting_of(other), *meeting);
}

TEST(MeetingName, IsNotWrittenOverWhatNcclHasThere) {
  for (size_t at = 96; at < 128; ++at) {
    UniqueId id{};
    id.bytes[at] = 1;
    add_meeting(id);
    EXPECT_EQ(std::count(std::begin(id.bytes), std::end(id.bytes), 0), 127) << at;
    EXPECT_FALSE(meeting_of(id).has_value());
  }
}

TEST(MeetingName, OfAnotherMachineIsNone) {
  UniqueId id{};
  add_meeting(id);
  ASSERT_TRUE(meeting_of(id).has_value());
  id.bytes[104] ^= 1;
  EXPECT_FALSE(meeting_of(id).has_value());
}

TEST(MeetingName, OfAnotherMachineIsToldFromNone) {
  UniqueId id{};
  EXPECT_FALSE(is_of_another_machine(id)) << "it has no name";
  add_meeting(id);
  EXPECT_FALSE(is_of_another_machine(id));
  id.bytes[sizeof id - 24] ^= 1;
  EXPECT_TRUE(is_of_another_machine(id));
}

TEST(MeetingName, MayBeGivenToAnId) {
  const Meeting known{7, 8, 9};
  UniqueId id{};
  add_meeting(id, known);
  EXPECT_EQ(meeting_of(id), known);
}

TEST(IdWithoutNccl, TellsSo) {
  UniqueId id{};
  EXPECT_FALSE(is_alone_id(id));
  id.bytes[100] = 1;
  make_alone_id(id);
  EXPECT_TRUE(is_alone_id(id));
  add_meeting(id);
  EXPECT_TRUE(is_alone_id(id));
  EXPECT_TRUE(meeting_of(id).has_value());
}

TEST(MeetingName, OfAChildDependsOnParentNumberAndColor) {
  const Meeting parent{1, 2, 3};
  const Meeting other{1, 2, 4};
  std::set<std::string> names;
  for (const Meeting& one : {parent, other}) {
    for (const uint64_t number : {0U, 1U, 2U}) {
      for (const int color : {-1, 0, 1}) {
        names.insert(text_of(child_of(one, number, color)));
        EXPECT_EQ(child_of(one, number, color), child_of(one, number, color));
      }
    }
  }
  EXPECT_EQ(names.size(), 18U);
}
TEST(Factor, HasTheValueOfEachType) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::tuple<int, uint32_t, float> values[] = {{kFloat32, 0x3e800000, 0.25F},
      {kFloat16, 0x3c00, 1}, {kFloat16, 0x0001, 0x1p-24F}, {kFloat16, 0x7bff, 65504},
      {kFloat16, 0xfc00, -infinity}, {kFloat16, 0x0400, 0x1p-14F}, {kBfloat16, 0x3f80, 1},
      {kBfloat16, 0x0001, 0x1p-133F}, {kBfloat16, 0xff7f, -0x1.fep127F},
      {kBfloat16, 0x7f80, infinity}, {kFloat8e4m3, 0x38, 1}, {kFloat8e4m3, 0x01, 0x1p-9F},
      {kFloat8e4m3, 0x7e, 448}, {kFloat8e4m3, 0xfe, -448}, {kFloat8e5m2, 0x3c, 1},
      {kFloat8e5m2, 0x01, 0x1p-16F}, {kFloat8e5m2, 0x7b, 57344}, {kFloat8e5m2, 0xfc, -infinity}};
  for (const auto& [type, bits, expected] : values) {
    EXPECT_EQ(value_of(&bits, type), expected) << type << " " << bits;
  }
  for (const auto& [type, bits] : {std::pair<int, uint32_t>{kFloat32, 0x7fc00000},
           {kFloat16, 0x7e00}, {kBfloat16, 0x7fc0}, {kFloat8e4m3, 0x7f}, {kFloat8e5m2, 0x7d}}) {
    EXPECT_TRUE(std::isnan(value_of(&bits, type))) << type;
  }
}

// Without SYMM_NCCL_COMMS a process has one.
TEST(PlaceOfACommunicator, IsGivenBackByAnyWay) {
  const Meeting one{1};
  const Meeting other{2};
  {
    const std::optional<Place> first = Place::take("", one);
    EXPECT_TRUE(first.has_value());
    EXPECT_FALSE(Place::take("", other).has_value());
  }
  try {
    const std::optional<Place> taken = Place::take("", one);
    ASSERT_TRUE(taken.has_value());
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
  std::optional<Place> kept;
  std::optional<Place> made = Place::take("", other);
  ASSERT_TRUE(made.has_value());
  kept.swap(made);
  EXPECT_FALSE(Place::take("", one).has_value());
  kept.reset();
  EXPECT_TRUE(Place::take("", one).has_value());
}

TEST(PlaceOfACommunicator, IsThereForAsManyAsMay) {
  const std::optional<Place> first = Place::take("", Meeting{1}, 2);
  const std::optional<Place> second = Place::take("", Meeting{2}, 2);
  EXPECT_TRUE(first.has_value());
  EXPECT_TRUE(second.has_value());
  EXPECT_FALSE(Place::take("", Meeting{3}, 2).has_value());
}

TEST(PlaceOfACommunicator, IsSharedByItsRanks) {
  const Meeting one{1};
  std::optional<Place> first = Place::take("", one);
  const std::optional<Place> second = Place::take("", one);
  EXPECT_TRUE(second.has_value());
  first.reset();
  EXPECT_FALSE(Place::take("", Meeting{2}).has_value());
}
}  // namespace
}  // namespace symm::nccl
