// Every verdict of the doctor, on machines that this one is not.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/test.hpp"
#include "tools/doctor/finding.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job.hpp"

namespace symm::tool {
namespace {
constexpr uint64_t mib = uint64_t{1} << 20;
const Feature there{"x", true, ""};
const Feature absent{"x", false, "x: Function not implemented"};

void expect(const Finding& finding, Verdict verdict, const std::string& in_remedy = "") {
  EXPECT_EQ(finding.verdict, verdict) << finding.check << ": " << finding.detail;
  EXPECT_NE(finding.remedy.find(in_remedy), std::string::npos) << finding.remedy;
  EXPECT_FALSE(finding.check.empty());
  EXPECT_FALSE(finding.detail.empty());
  const bool trouble = verdict == Verdict::warning || verdict == Verdict::failure;
  if (trouble || verdict == Verdict::ok) {
    EXPECT_EQ(finding.remedy.empty(), !trouble) << finding.check;
  }
}

TEST(Doctor, Kernel) {
  expect(judge_memfd(there), Verdict::ok);
  expect(judge_memfd(absent), Verdict::failure, "seccomp");
  expect(judge_pidfd(there, there), Verdict::ok);
  expect(judge_pidfd(there, absent), Verdict::note, "6.5");
  expect(judge_pidfd(absent, absent), Verdict::warning, "5.3");
  expect(judge_futex_waitv(there), Verdict::ok);
  expect(judge_futex_waitv(absent), Verdict::note);
  expect(judge_huge_pages("advise"), Verdict::ok);
  expect(judge_huge_pages("never"), Verdict::note, "shmem_enabled");
}

TEST(Doctor, Memory) {
  expect(judge_shared_memory_mount(Space{24 << 10, 0}), Verdict::note, "--shm-size");
  expect(judge_shared_memory_mount(Space{4096 * mib, 4096 * mib}), Verdict::ok);
  expect(judge_shared_memory_mount(std::nullopt), Verdict::note);
  expect(judge_memory_control_group(std::nullopt), Verdict::ok);
  expect(judge_memory_control_group(Space{4096 * mib, 2048 * mib}), Verdict::ok);
  expect(judge_memory_control_group(Space{512 * mib, 100 * mib}), Verdict::warning, "--memory");
  expect(judge_memory_control_group(Space{512 * mib, 10 * mib}), Verdict::failure, "--memory");
}

TEST(Doctor, Limits) {
  expect(judge_open_files({RLIM_INFINITY, RLIM_INFINITY}), Verdict::ok);
  expect(judge_open_files({256, 4096}), Verdict::warning, "ulimit -n");
  expect(judge_open_files({16, 16}), Verdict::failure, "ulimit -n");
  expect(judge_locked_memory({64 << 10, 64 << 10}, false), Verdict::ok);
  expect(judge_locked_memory({64 << 10, 64 << 10}, true), Verdict::warning, "memlock");
  expect(judge_processors(8, std::nullopt), Verdict::ok);
  expect(judge_processors(8, 8.0), Verdict::ok);
  expect(judge_processors(8, 2.0), Verdict::warning, "--cpus");
  expect(judge_processors(1, std::nullopt), Verdict::note);
}

TEST(Doctor, RuntimeDirectory) {
  const JobDirectory base;
  const std::string path = base.path() + "/symm";

  expect(check_runtime_directory(path), Verdict::ok);
  ::mkdir(path.c_str(), 0700);
  expect(check_runtime_directory(path), Verdict::ok);

  ::chmod(path.c_str(), 0755);
  expect(check_runtime_directory(path), Verdict::failure, "chmod 0700");

  std::filesystem::remove(path);
  std::filesystem::create_symlink("/tmp", path);
  expect(check_runtime_directory(path), Verdict::failure, "Remove it");

  std::filesystem::remove(path);
  std::ofstream(path) << "a file";
  expect(check_runtime_directory(path), Verdict::failure, "Remove it");

  expect(check_runtime_directory("/nonexistent/symm"), Verdict::failure, "SYMM_DIR");
  if (::geteuid() != 0) expect(check_runtime_directory("/etc"), Verdict::failure);
}

TEST(Doctor, ProcessFilesAndTheDirectoryOfAJob) {
  expect(check_proc("/proc"), Verdict::ok);
  expect(check_proc("/nonexistent"), Verdict::failure, "mount -t proc");
  const JobDirectory base;
  expect(check_job_directory(base.path()), Verdict::ok);
  expect(check_job_directory("/nonexistent"), Verdict::failure, "XDG_RUNTIME_DIR");
  expect(check_job_directory("/nonexistent"), Verdict::failure, "TMPDIR");
}

TEST(Doctor, SocketPaths) {
  expect(judge_socket_path("/tmp/x", false), Verdict::ok);
  expect(judge_socket_path(std::string(100, 'x'), true), Verdict::ok);
  expect(judge_socket_path(std::string(100, 'x'), false), Verdict::failure, "/proc");
}

TEST(Doctor, LeftoversAreWhatNobodyHolds) {
  const JobDirectory base;
  const std::string library = base.path() + "/it's a symm";
  std::filesystem::create_directories(library + "/j-1/g-1");
  const std::string lock_path = library + "/j-1/g-1/lock";
  std::ofstream(lock_path) << "";
  const int lock = ::open(lock_path.c_str(), O_RDWR);
  ASSERT_EQ(::flock(lock, LOCK_SH), 0);
  expect(check_leftovers(base.path(), library), Verdict::ok);
  ::close(lock);
  expect(check_leftovers(base.path(), library), Verdict::note, "/it'\\''s a symm/j-1/g-1'");
}

TEST(Doctor, Namespaces) {
  expect(judge_namespaces({}, true), Verdict::ok);
  expect(judge_namespaces({"pid", "net", "ipc"}, true), Verdict::ok);
  expect(judge_namespaces({"pid", "net", "ipc"}, false), Verdict::note, "--pid=host");
}

TEST(Doctor, Cuda) {
  expect(
      judge_cuda_driver({false, false, 0, 0, "no libcuda.so.1"}, false, "not built"), Verdict::ok);
  expect(judge_cuda_driver({false, true, 0, 0, "cuInit: CUDA_ERROR_NO_DEVICE"}, false, "not built"),
      Verdict::warning, "nvidia-smi");
  expect(judge_cuda_driver({true, true, 2, 12040, ""}, true, ""), Verdict::ok);
  expect(judge_cuda_driver({true, true, 2, 12040, ""}, false, "not built"), Verdict::note,
      "built with it");
  EXPECT_NE(judge_cuda_driver({true, true, 2, 12040, ""}, true, "").detail.find("12.4"),
      std::string::npos);
}

TEST(Doctor, Ucx) {
  expect(judge_ucx({0, 0, 0, "", "no libucp.so.0"}), Verdict::note, "libucx0");
  expect(judge_ucx({1, 12, 1, "/x", ""}), Verdict::warning, "1.13");
  expect(judge_ucx({1, 13, 1, "/x", ""}), Verdict::note, "trusted");
  expect(judge_ucx({1, 22, 0, "/x", ""}), Verdict::ok);
}

TEST(Doctor, Nccl) {
  expect(judge_nccl({0, "", "", "no libnccl.so.2"}), Verdict::note, "libnccl2");
  EXPECT_EQ(judge_nccl({22'605, "", "/y", "no NCCL is behind /y", "", "", true}).detail,
      "none: no NCCL is behind /y, which serves alone, as NCCL 2.26.5");
  EXPECT_EQ(judge_nccl({22'605, "", "", "no libnccl.so.2", "", "", true}).detail,
      "none: no libnccl.so.2; symm run --nccl would serve alone, as NCCL 2.26.5");
  EXPECT_EQ(judge_nccl({0, "", "/y", "no NCCL is behind /y"}).detail, "none: no NCCL is behind /y");
  expect(judge_nccl({0, "", "", "SYMM_NCCL=none"}), Verdict::note, "unset SYMM_NCCL");
  expect(judge_nccl({21'703, "/x", ""}), Verdict::note, "2.18");
  expect(judge_nccl({23'007, "/x", ""}), Verdict::ok);
  EXPECT_EQ(judge_nccl({23'007, "/x", ""}).detail, "2.30.7 (/x)");
  EXPECT_EQ(judge_nccl({23'007, "/x", "/y"}).detail, "2.30.7 (/x) behind symm's drop-in (/y)");
}

TEST(Doctor, NcclModes) {
  const auto with_mode = [](const std::string& mode) {
    return judge_nccl({23'007, "/x", "", "", mode});
  };
  EXPECT_EQ(with_mode("fast").detail, "2.30.7 (/x)");
  EXPECT_EQ(with_mode("deterministic").detail, "2.30.7 (/x); SYMM_NCCL_MODE=deterministic");
  expect(with_mode("off"), Verdict::ok);
  EXPECT_NE(with_mode("off").detail.find("SYMM_NCCL_MODE=off: "), std::string::npos);
  expect(with_mode("of"), Verdict::warning, "SYMM_NCCL_MODE");
  EXPECT_NE(with_mode("of").detail.find("SYMM_NCCL_MODE=of is none of "), std::string::npos);

  const Finding refused = judge_nccl({0, "", "/y", "no NCCL", "of", "SYMM_NCCL: /z: no file"});
  expect(refused, Verdict::failure, "SYMM_NCCL");
  EXPECT_NE(refused.detail.find("SYMM_NCCL: /z: no file"), std::string::npos);
}

// What look_at_shares() says of a version by pid 7 that pids 8 and 9 hold.
nlohmann::json some_shares() {
  using nlohmann::json;
  const json holders{
      {{"pid", 8}, {"leases", 1}, {"seconds", 1.0}}, {{"pid", 9}, {"leases", 2}, {"seconds", 1.0}}};
  const json version{{"name", "model"}, {"version", 3}, {"bytes", 2048}, {"pid", 7},
      {"seconds", 1.0}, {"holders", holders}};
  return {{"versions", {version}}, {"orphans", json::array()}, {"left_out", 0}};
}

TEST(Doctor, MemoryByTokens) {
  nlohmann::json shares = some_shares();
  EXPECT_EQ(judge_shares(shares).detail, "model 3: 2 KiB by pid 7, held by 8, 9 (2 leases)");
  expect(judge_shares(shares), Verdict::ok);

  const nlohmann::json held_by_giver{{{"pid", 7}, {"leases", 1}, {"seconds", 1.0}}};
  shares["orphans"].push_back(
      {{"pid", 5}, {"state", "dead"}, {"bytes", 2048}, {"holders", held_by_giver}});
  expect(judge_shares(shares), Verdict::ok);
  shares["versions"].clear();
  expect(judge_shares(shares), Verdict::note, "symm hold");
  EXPECT_EQ(judge_shares(shares).detail, "2 KiB of pid 5, which is gone, held by 7");
  shares["orphans"][0]["state"] = "running";
  EXPECT_EQ(judge_shares(shares).detail, "no version is published");
}

TEST(Doctor, ReportSaysWhetherItFails) {
  const std::vector<Finding> fine{
      {"a", Verdict::ok, "d", ""}, {"b", Verdict::warning, "d", "do this"}};
  EXPECT_FALSE(any_failure(fine));
  EXPECT_TRUE(doctor_json(fine)["healthy"]);
  EXPECT_NE(
      doctor_text(fine, false).find("with warnings: 0 failures, 1 warnings"), std::string::npos);
  const std::vector<Finding> broken{{"a", Verdict::failure, "d", "do that"}};
  EXPECT_TRUE(any_failure(broken));
  EXPECT_FALSE(doctor_json(broken)["healthy"]);
  EXPECT_EQ(doctor_json(broken)["checks"][0]["remedy"], "do that");
  EXPECT_NE(doctor_text(broken, false).find("FAIL  a  d\n"), std::string::npos);
}
}  // namespace
}  // namespace symm::tool
