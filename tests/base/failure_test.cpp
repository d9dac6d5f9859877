#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
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
