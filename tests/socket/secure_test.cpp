// Two ends of an encrypted stream, and an attacker between them.
#include "core/socket/secure.hpp"

#include <pwd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "core/bootstrap/store.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

using SecureEnds = WithSecret;

// The root of the file system is not a home, though many a container says so.
TEST(SecretFile, IsInNoDirectoryThatIsNoHome) {
  for (const char* const home : {"", "/", "//", "relative"}) {
    Process child([home] {
      unsetenv("SYMM_SECRET_FILE");
      setenv("HOME", home, 1);
      const passwd* const record = getpwuid(geteuid());
      return secret_file() == std::string(record->pw_dir) + "/.config/symm/secret" ? ""
                                                                                   : secret_file();
    });
    EXPECT_EQ(child.result(), "") << home;
  }
}

TEST(SecretFile, OfAUserWithoutHomeIsNamedInAnError) {
  constexpr uid_t kNobodyAtAll = 54'321;
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user without a record";
  Process child([] {
    unsetenv("SYMM_SECRET_FILE");
    unsetenv("HOME");
    if (setuid(kNobodyAtAll) != 0) return std::string("setuid");
    return failure_of([] { static_cast<void>(secret_file()); }).message;
  });
  EXPECT_NE(child.result().find("set HOME or SYMM_SECRET_FILE"), std::string::npos);
}

TEST_F(SecureEnds, ReadEachOtherAndNobodyElseChangesOrRepeatsAnything) {
  SecureStream dials(secret_);
  SecureStream accepts(secret_);
  const auto answer = accepts.answer(dials.greet());
  ASSERT_TRUE(answer && dials.finish(*answer));

  for (const auto& [from, to] : {std::pair(&dials, &accepts), std::pair(&accepts, &dials)}) {
    const Bytes first = from->seal(bytes_of("one"));
    ASSERT_TRUE(to->begin(std::span(first).first(SecureStream::kHeader)));
    const auto sealed = std::span(first).subspan(SecureStream::kHeader + SecureStream::kLength);
    EXPECT_EQ(text_of(to->open(sealed).value()), "one");
    EXPECT_FALSE(to->open(sealed));  // again
    Bytes second = from->seal(bytes_of("two"));
    const Bytes third = from->seal(Bytes(SecureStream::kLongestText));
    EXPECT_FALSE(to->open(std::span(third).subspan(SecureStream::kLength)));  // too early
    for (size_t at = SecureStream::kLength; at < second.size(); ++at) {
      second[at] ^= std::byte{1};
      EXPECT_FALSE(to->open(std::span(second).subspan(SecureStream::kLength))) << at;
      second[at] ^= std::byte{1};
    }
    // A frame is sent back to its sender.
    EXPECT_FALSE(from->open(std::span(second).subspan(SecureStream::kLength)));
    EXPECT_EQ(text_of(to->open(std::span(second).subspan(SecureStream::kLength)).value()), "two");
    EXPECT_EQ(to->open(std::span(third).subspan(SecureStream::kLength))->size(),
        SecureStream::kLongestText);
  }
}

TEST_F(SecureEnds, RefuseAChangedGreetingOrAnswerAndAnotherSecret) {
  SecureStream dials(secret_);
  Bytes greeting = dials.greet();
  Bytes answer = SecureStream(secret_).answer(greeting).value();

  for (std::byte& byte : greeting) {
    byte ^= std::byte{0x80};
    EXPECT_FALSE(SecureStream(secret_).answer(greeting));
    byte ^= std::byte{0x80};
  }

  for (std::byte& byte : answer) {
    byte ^= std::byte{0x80};
    EXPECT_FALSE(dials.finish(answer));
    byte ^= std::byte{0x80};
  }

  EXPECT_EQ(dials.refused(), "");
  EXPECT_NE(SecureStream(secret_).answer(greeting).value(), answer);  // keys of its own
  EXPECT_TRUE(dials.finish(answer));
  Secret other = secret_;
  other[0] ^= 1;
  EXPECT_FALSE(SecureStream(other).answer(greeting));
}
}  // namespace
