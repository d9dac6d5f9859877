// A program with privileges that its caller lacks must not load libraries, write files or do
// anything else at the word of its caller's variables.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/group.hpp"

namespace support {
namespace {
constexpr uid_t kNobody = 65534;

const char* const kVariables[] = {
#define SYMM_SECTION(title)
#define SYMM_VARIABLE(name, fallback, meaning) name,
#include "environment.inc"
};

// A copy of the program that its owner, root, runs as root whoever starts it.
std::string set_user_id_copy(const TemporaryDirectory& directory) {
  std::string copy = directory / "privileged";
  std::filesystem::copy_file(SYMM_PRIVILEGED, copy);
  EXPECT_EQ(chmod(directory.path().c_str(), 0755), 0);
  EXPECT_EQ(chmod(copy.c_str(), 04755), 0);
  return copy;
}

// Runs the program as nobody; returns its status.
int run_as_nobody(const std::string& program, const std::vector<std::string>& variables) {
  Process child([&]() -> std::string {
    std::vector<char*> environment;
    for (const std::string& variable : variables) {
      environment.push_back(const_cast<char*>(variable.c_str()));
    }
    environment.push_back(nullptr);
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(3);

    char* const arguments[] = {const_cast<char*>(program.c_str()), nullptr};
    execve(arguments[0], arguments, environment.data());
    _exit(126);
  });
  return WEXITSTATUS(child.wait());
}

TEST(Privileged, AProgramTakesNothingFromItsCallersVariables) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program that runs as root for nobody";
  const TemporaryDirectory there;
  const std::string program = set_user_id_copy(there);
  const std::string chosen = there / "chosen";
  std::vector<std::string> variables;
  for (const char* const name : kVariables) {
    variables.push_back(std::string(name) + "=" + chosen);
  }

  const int status = run_as_nobody(program, variables);
  if (status == 3) GTEST_SKIP() << "the kernel does not heed the bit here (nosuid)";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries(there.path()), std::vector<std::string>{"privileged"});
}

// Others read the file line by line, symm run among them. The library takes the name of the file as
// it was at load, so the program of this test is started again.
TEST(FirstFailure, IsOneLine) {
  if (getenv("SYMM_TEST_ABORT") != nullptr) {
    create({"thread://first-failure", ""}, 0, 1).abort("chosen text\nroot::0:0");
    return;
  }

  const TemporaryDirectory there;
  Process child([&]() -> std::string {
    setenv("SYMM_FIRST_FAILURE", (there / "first").c_str(), 1);
    setenv("SYMM_TEST_ABORT", "1", 1);
    run_again({"--gtest_filter=FirstFailure.IsOneLine"});
  });
  EXPECT_EQ(child.wait(), 0);
  std::ifstream file(there / "first");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("chosen text root::0:0"), std::string::npos) << text;
}
}  // namespace
}  // namespace support
