// For tests that are linked with the rooms of core/.
#pragma once

#include "core/bootstrap/store.hpp"
#include "core/socket/secure.hpp"
#include "tests/support/footprint.hpp"

namespace support {
inline symm::Deadline soon() { return symm::Deadline::after_ms(20'000); }

inline symm::Bytes bytes_of(const std::string& text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
inline std::string text_of(const symm::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The failure that `body` throws; status ok if it throws none.
inline symm::Failure failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const symm::Error& error) {
    return error.failure();
  }
  return {};
}

// "", or why a build without libsodium has no secret. Whatever else fails, fails the test.
inline std::string why_no_secret() {
  const symm::Failure failure = failure_of([] { static_cast<void>(symm::read_secret()); });
  const bool none = failure.message.find("built without libsodium") != std::string::npos;
  EXPECT_TRUE(none || failure.status == symm::Status::ok) << failure.message;
  return none ? failure.message : "";
}

// A fixture for tests whose ranks know each other by a secret, which is made for the test.
struct WithSecret : testing::Test {
  void SetUp() override {
    setenv("SYMM_SECRET_FILE", (top_ / "secret").c_str(), 1);
    if (const std::string why = why_no_secret(); !why.empty()) GTEST_SKIP() << why;
    secret_ = symm::read_secret();
    EXPECT_EQ(symm::read_secret(), secret_);  // made once
  }
  TemporaryDirectory top_;
  symm::Secret secret_{};
};

// `body` fails with `status`, and its message has all of `words`; the failure.
inline symm::Failure expect_failure(
    symm::Status status, const std::vector<std::string>& words, const std::function<void()>& body) {
  const symm::Failure failure = failure_of(body);
  EXPECT_EQ(failure.status, status) << failure.message;
  for (const std::string& word : words) {
    EXPECT_NE(failure.message.find(word), std::string::npos)
        << "'" << word << "' in: " << failure.message;
  }
  return failure;
}

// What `body` returns, or "<status name>: <message>" of the failure that it throws.
inline std::string outcome_of(const std::function<std::string()>& body) {
  std::string result;
  const symm::Failure failure = failure_of([&] { result = body(); });
  return failure.status == symm::Status::ok
             ? result
             : std::string(symm::status_text(failure.status)) + ": " + failure.message;
}
}  // namespace support
