// Two pretended machines of two ranks each, m0 and m1, and m2, where a test has 6
// ranks; all are started as by torchrun.
#pragma once

#include <sys/mount.h>

#include "tests/support/process.hpp"

namespace support {
class TwoMachines : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why =
        run("exec 2>&1; at=" + shared_ +
            "; mkdir $at; cd $at; mkdir m0 m1 m2; echo 127.0.1.1 m0.rack m0 >m0/hosts; "
            "printf '%s m0.rack\\n' 10.77.0.11 10.77.0.10 | tee m1/hosts >m2/hosts; echo fe80::5 "
            "m1 >>m1/hosts; " MACHINES " up @ 3");
    if (!why.empty() && std::string(getenv("CI") != nullptr ? getenv("CI") : "").empty()) {
      GTEST_SKIP() << "no network namespaces: " << why;
    }
    ASSERT_EQ(why, "");
    setenv("SYMM_SECRET_FILE", (shared_ + "/secret").c_str(), 1);
    setenv("SYMM_PEER_TIMEOUT_MS", "1000", 1);
  }
  ~TwoMachines() override { run(MACHINES " down @; rm -rf " + shared_); }
  // Runs a command in a shell; returns what the shell says if it fails, "" if not.
  std::string run(std::string script) const {
    size_t at = script.find('@');
    while (at != std::string::npos) {
      script.replace(at, 1, name_);
      at = script.find('@', at);
    }

    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
        popen(script.c_str(), "r"), [](FILE*) { return 0; });
    std::string said;
    char buffer[256];
    while (fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
      said += buffer;
    }
    return pclose(pipe.get()) == 0 ? "" : said + ".";
  }
  // This process becomes rank 0 or 1, on m0, or 2 or 3, on m1, and so on; those of a
  // machine share its /tmp, for their sockets.
  void enter(int rank, int size = 4) const {
    const std::string machine = "m" + std::to_string(rank / 2);
    const int network = open(("/run/netns/" + name_ + machine).c_str(), O_RDONLY | O_CLOEXEC);
    if (setns(network, CLONE_NEWNET) != 0 ||
        unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount((shared_ + "/" + machine).c_str(), "/tmp", nullptr, MS_BIND, nullptr) != 0 ||
        mount("/tmp/hosts", "/etc/hosts", nullptr, MS_BIND, nullptr) != 0 ||
        mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0 ||  // where UCX looks for interfaces
        mount("proc", "/proc", "proc", 0, nullptr) != 0 ||
        sethostname(machine.c_str(), machine.size()) != 0) {
      throw std::system_error(errno, std::generic_category(), "unshare");
    }

    close(network);
    const std::map<const char*, std::string> variables{{"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(size)}, {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "10.77.0.10"}, {"MASTER_PORT", "29500"}};

    for (const auto& [name, value] : variables) {
      setenv(name, value.c_str(), 1);
    }
    unsetenv("XDG_RUNTIME_DIR");
  }

 private:
  const std::string name_ = "symm" + std::to_string(getpid());
  // A directory for all machines: the secret, and the /tmp of each.
  const std::string shared_ = "/dev/shm/" + name_;
};
}  // namespace support
