#include "core/cuda/multicast_choice.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/support/test.hpp"

namespace symm::cuda {
namespace {
using Variables = std::map<std::string, std::string>;

MulticastFacts read(MulticastWish config, const Variables& variables) {
  return read_wish(config, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// The facts of ranks that all ask for multicast and could have it.
std::vector<MulticastFacts> able(
    size_t count, MulticastWish config = MulticastWish::yes, const Variables& variables = {}) {
  std::vector<MulticastFacts> ranks;
  for (size_t rank = 0; rank < count; ++rank) {
    MulticastFacts facts = read(config, variables);
    facts.device.fill(static_cast<std::byte>(rank));
    facts.has_calls = 1;
    facts.supported = 1;
    ranks.push_back(facts);
  }
  return ranks;
}

void expect_reason(const std::vector<MulticastFacts>& ranks, const std::string& part) {
  const std::string reason = why_no_multicast(ranks);
  EXPECT_NE(reason.find(part), std::string::npos) << reason << " has no " << part;
  EXPECT_LT(reason.size(), 192U) << "fits into the structs of symm.h";
}

TEST(MulticastChoice, OffUnlessAskedFor) {
  expect_reason(able(4, MulticastWish::none), "nobody asked");
  EXPECT_EQ(why_no_multicast(able(4)), "");
  EXPECT_EQ(why_no_multicast(able(4, MulticastWish::yes, {{"SYMM_MULTICAST", "1"}})), "");
  EXPECT_EQ(why_no_multicast(
                able(2, MulticastWish::yes, {{"SYMM_MULTICAST", ""}, {"NCCL_NVLS_ENABLE", ""}})),
      "")
      << "empty is not set";
}

TEST(MulticastChoice, TheConfigurationForbidsItToo) {
  auto ranks = able(3);
  ranks[1] = able(3, MulticastWish::no, {{"SYMM_MULTICAST", "1"}})[1];
  expect_reason(ranks, "rank 1: SYMM_GROUP_NO_MULTICAST is set");
}

TEST(MulticastChoice, AllMustAsk) {
  auto ranks = able(4);
  ranks[2].asked = 0;
  expect_reason(ranks, "rank 2: did not ask");
}

TEST(MulticastChoice, AnyVariableOfAnyRankForbidsIt) {
  const Variables forbidding = {{"SYMM_MULTICAST", "0"}, {"NCCL_NVLS_ENABLE", "0"},
      {"NVSHMEM_DISABLE_NVLS", "1"}, {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"}};
  for (const auto& [name, value] : forbidding) {
    for (const char* also_asked : {"", "1"}) {
      Variables variables{{"SYMM_MULTICAST", also_asked}};
      variables[name] = value;

      for (size_t rank = 0; rank < 4; ++rank) {
        auto ranks = able(4);
        ranks[rank] = able(4, MulticastWish::yes, variables)[rank];
        expect_reason(
            ranks, "rank " + std::to_string(rank) + ": " + name + "=" + value + " is set");
      }

      EXPECT_EQ(why_no_multicast(able(1, MulticastWish::none, variables)[0]),
          name + "=" + value + " is set")
          << "one device by itself";
    }
  }
}

TEST(MulticastChoice, ValuesOfTheVariables) {
  const auto forbids = [](const char* name, const char* value) {
    return read(MulticastWish::yes, {{name, value}}).forbidden != 0;
  };

  for (const char* no : {"0", "2", "yes", "off", "x"}) {
    EXPECT_TRUE(forbids("SYMM_MULTICAST", no)) << no;
  }
  EXPECT_FALSE(forbids("SYMM_MULTICAST", "1"));

  for (const char* no : {"0", "00", "-1", "no", "1x", " "}) {
    EXPECT_TRUE(forbids("NCCL_NVLS_ENABLE", no)) << no;
  }

  for (const char* yes : {"1", "2"}) {
    EXPECT_FALSE(forbids("NCCL_NVLS_ENABLE", yes)) << yes;
  }

  for (const char* name : {"NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"}) {
    for (const char* no : {"1", "true", "on", "yes", "2", "?"}) {
      EXPECT_TRUE(forbids(name, no)) << name << no;
    }
    for (const char* yes : {"0", "false", "off", "no"}) {
      EXPECT_FALSE(forbids(name, yes)) << name << yes;
    }
  }
}

TEST(MulticastChoice, NonsenseFromAPeerIsNoVariable) {
  auto ranks = able(2);
  ranks[1].forbidden = 99;
  EXPECT_EQ(why_no_multicast(ranks), "");
}
}  // namespace
}  // namespace symm::cuda
