#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;

std::vector<std::byte> encoded(const Failure& failure) {
  Writer out;
  encode(out, failure);
  return std::move(out.bytes_);
}

template <class Exception>
Status status_of(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return current_failure().status;
  }
}

TEST(FailureCodec, RoundTrip) {
  Failure found;
  ASSERT_EQ(decode(Reader(encoded({Status::aborted, 2, 99, "enough", 24, 719})), found), nullptr);
  EXPECT_EQ(found.os_error, 24);
  EXPECT_EQ(found.cuda_result, 719);
  EXPECT_EQ(found.status, Status::aborted);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.pid, 99);
  EXPECT_EQ(found.message, "enough");
  ASSERT_EQ(decode(Reader(encoded({})), found), nullptr);
  EXPECT_EQ(found.status, Status::ok);
  EXPECT_EQ(found.rank, -1);
}

TEST(FailureCodec, TextIsCutBetweenCharactersAndCleaned) {
  Failure found;
  ASSERT_EQ(
      decode(Reader(encoded({Status::system, -1, 0, std::string(511, 'a') + "\xC3\xA4" + "tail"})),
          found),
      nullptr);
  EXPECT_EQ(found.message, std::string(511, 'a'));
  ASSERT_EQ(decode(Reader(encoded({Status::system, -1, 0, "two\nlines"})), found), nullptr);
  EXPECT_EQ(found.message, "two lines");
}

TEST(Text, IsMadeOneLineOfUtf8) {
  const struct {
    const char* given;
    const char* printable;
  } rows[] = {
      {"plain \u00e4\u20ac\U0001f680", "plain \u00e4\u20ac\U0001f680"},
      {"\xe0\xa0\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf", "\xe0\xa0\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf"},
      {"a\nb\tc\x01\x7f", "a b c  "},
      {"C1: \xc2\x85|\xc2\x9b|\xc2\xa0", "C1:   |  |\xc2\xa0"},
      {"lines: \u2027|\u2028|\u2029|\u202a", "lines: \u2027|   |   |\u202a"},
      {"\xff\xfe\x80 Latin-1: \xe4.", "??? Latin-1: ?."},
      {"cut: \xc3", "cut: ?"},
      {"cut: \xe2\x82", "cut: ??"},
      {"cut: \xf0\x9f\x9a", "cut: ???"},
      {"long forms: \xc0\xaf \xe0\x9f\xbf \xf0\x8f\xbf\xbf", "long forms: ?? ??? ????"},
      {"half a pair: \xed\xa0\x80", "half a pair: ???"},
      {"beyond: \xf4\x90\x80\x80 \xf5\x80\x80\x80", "beyond: ???? ????"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(printable(row.given), row.printable);
    EXPECT_EQ(printable(row.printable), row.printable);
  }

  char field[4];
  write_text(field, std::string(9, '\x80'));
  EXPECT_STREQ(field, "???") << "what is not UTF-8 is not cut to nothing";
}

TEST(FailureCodec, WhatIsImpossibleIsRefused) {
  const auto good = encoded({Status::aborted, 2, 99, "enough"});
  Failure found;
  for (size_t size = 0; size < kFailureHeader; ++size) {
    EXPECT_NE(decode(Reader({good.data(), size}), found), nullptr);
  }

  // One byte each of status, rank, pid, os_error, cuda_result and text.
  for (const size_t at : {3U, 7U, 15U, 19U, 23U, 24U}) {
    auto bad = good;
    bad[at] = at == 24 ? std::byte{'\n'} : bad[at] ^ std::byte{0x80};
    EXPECT_NE(decode(Reader(bad), found), nullptr) << at;
  }

  EXPECT_NE(decode(Reader(good), found, 5), nullptr);
}

TEST(CurrentFailure, SaysWhichExceptionItWas) {
  EXPECT_EQ(status_of(Error(Status::timeout, "late")), Status::timeout);
  EXPECT_EQ(status_of(std::bad_alloc()), Status::out_of_memory);
  EXPECT_EQ(status_of(std::length_error("too long")), Status::internal);
  EXPECT_EQ(status_of(4711), Status::internal);
}
}  // namespace
