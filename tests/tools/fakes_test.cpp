// The program on a fake driver and a fake NVML: what it says of machines that are not here.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/fake_cuda/machines.hpp"
#include "tests/support/footprint.hpp"
#include "tests/tools/captured.hpp"
#include "tools/run/processes.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;

Captured on_fakes(const Words& variables, const Words& command, bool nvml = true) {
  const std::string libraries =
      std::string("LD_LIBRARY_PATH=" SYMM_ON_FAKES ":" FAKE_DRIVER) + (nvml ? ":" FAKE_NVML : "");
  return capture(Words{"env", "-u", "CUDA_VISIBLE_DEVICES", "-u", "SYMM_CUDA_TUNE", libraries} +
                 variables + command);
}

// The links between GPUs as `symm info --json` prints them.
json links(const Words& variables, bool nvml = true) {
  const json cuda = json::parse(out_of(on_fakes(variables, {SYMM_TOOL, "info", "--json"}, nvml)))
                        .at("back_ends")
                        .at(1);
  EXPECT_TRUE(cuda.at("available")) << cuda;
  return cuda.value("links", json());
}

TEST(RunOnFakes, ARankForEachGpu) {
  const Words command{SYMM_TOOL, "run", "-n", "gpu", "--no-prefix", "sh", "-c", "echo $SYMM_SIZE"};
  EXPECT_EQ(on_fakes({"FAKE_CUDA_DEVICES=3"}, command).out, "3\n3\n3\n");
  expect_end(
      capture(Words{"env", "LD_LIBRARY_PATH=" SYMM_ON_FAKES, "CUDA_VISIBLE_DEVICES=-1"} + command),
      2, {"gpu: "});
}

TEST(InfoOnFakes, LinksOfMachines) {
  const struct {
    const char* machine;
    std::vector<size_t> visible;  // in this order; none: all
    const char* kind;
  } rows[] = {{"dgx1v", {}, "hybrid cube mesh"},
      {"dgx1v", {7, 0, 5, 2, 4, 1, 6, 3}, "hybrid cube mesh"},
      {"dgx1v", {3, 1, 0, 2}, "fully connected"}, {"dgx1v", {6, 4, 7, 5}, "fully connected"},
      {"dgx1v", {0, 1, 4, 5}, "unknown"}, {"dgx2", {}, "fully connected"},
      {"hgx_h100", {}, "fully connected"}, {"hgx_h100_vm", {}, "fully connected"},
      {"pcie", {}, "unknown"}, {"pcie_bridges", {}, "unknown"}};

  for (auto [name, visible, kind] : rows) {
    const fake_machine::Machine& machine = *fake_machine::find(name);
    if (visible.empty()) {
      visible.resize(static_cast<size_t>(machine.gpus));
      std::iota(visible.begin(), visible.end(), size_t{0});
    }
    Words numbers;
    for (const size_t device : visible) {
      numbers.push_back(std::to_string(device));
    }
    const json found = links({"FAKE_CUDA_DEVICES=" + std::to_string(machine.gpus),
        std::string("FAKE_NVML_MACHINE=") + name, "CUDA_VISIBLE_DEVICES=" + join(numbers, ",")});
    EXPECT_EQ(found["class"], kind) << found;
    for (size_t a = 0; a < visible.size(); ++a) {
      for (size_t b = 0; b < visible.size(); ++b) {
        const bool has_switch = machine.links.empty();
        int wanted = has_switch ? machine.switch_links : machine.links[visible[a]][visible[b]];
        if (a == b) wanted = 0;
        EXPECT_EQ(found["matrix"][a][b], wanted) << name << ' ' << a << ' ' << b << ' ' << found;
      }
    }
  }
  const json cut = links({"FAKE_CUDA_DEVICES=8", "FAKE_NVML_MACHINE=dgx1v", "FAKE_NVML_CUT=2,6"});
  EXPECT_EQ(cut["matrix"][2], (std::vector<int>{1, 2, 0, 2, 0, 0, 0, 0})) << cut;
  EXPECT_EQ(cut["class"], "unknown") << cut;
  const auto drawn = [](bool nvml) {
    return on_fakes(
        {"FAKE_CUDA_DEVICES=2", "FAKE_NVML_MACHINE=dgx1v"}, {SYMM_TOOL, "info", "--svg"}, nvml);
  };
  expect_said(drawn(true).out,
      {R"(<path d="M540.0 250.0L100.0 250.0" stroke="#1f4e79" stroke-width="1.2"/>)",
          ">NUMA node 0</text>"});
  expect_end(drawn(false), 1, {"the links between GPUs are known to NVML only"});
}

TEST(InfoOnFakes, ALibraryOfAnotherBuild) {
  const support::TemporaryDirectory folder;
  std::filesystem::create_symlink(FAKE_NVML "/libnvidia-ml.so.1", folder.path() + "/libsymm.so.0");
  expect_said(out_of(capture(Words{"env", "LD_LIBRARY_PATH=" + folder.path(), SYMM_TOOL, "info"})),
      {folder.path() + "/libsymm.so.0 has no kernels for this program: it is of another build"});
}

TEST(InfoOnFakes, APlanOfTheUsersOwn) {
  const Words variables{
      "FAKE_CUDA_DEVICES=1", "SYMM_HOST_TUNE=ll=16", "SYMM_CUDA_TUNE=one_shot=1K"};
  expect_said(out_of(on_fakes(variables, {SYMM_TOOL, "info", "--plan"})),
      {R"(<rect x="60" y="60" width="183" height="19" fill="#c0392b"/>)",
          R"(<rect x="60" y="380" width="45" )"});
}

// docs/tool.md shows these two pictures. If one differs, write the output of its command into
// docs/. A device of 1056 multiprocessors has as much room for eight ranks as eight GPUs.
TEST(InfoOnFakes, PicturesOfTheDocuments) {
  const auto said_in = [](const char* picture) {
    std::ifstream file(SYMM_DOCS + std::string(picture));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };

  const Captured links =
      on_fakes({"FAKE_CUDA_DEVICES=8", "FAKE_NVML_MACHINE=dgx1v"}, {SYMM_TOOL, "info", "--svg"});
  EXPECT_EQ(links.out, said_in("/links.svg"));

  const Captured plan = on_fakes(
      {"FAKE_CUDA_DEVICES=1", "FAKE_CUDA_MULTIPROCESSORS=1056"}, {SYMM_TOOL, "info", "--plan"});
  EXPECT_EQ(plan.out, said_in("/plan.svg"));
}

TEST(InfoOnFakes, LinksThatNvmlDoesNotTell) {
  const Words blind{"FAKE_CUDA_DEVICES=8", "FAKE_NVML_MACHINE=dgx1v", "FAKE_NVML_BLIND=3"};

  const struct {
    Words variables;
    bool nvml;
    const char* why;  // null: fully connected
  } rows[] = {{{"FAKE_CUDA_DEVICES=4"}, false, "NVML"},
      {{"FAKE_CUDA_DEVICES=1"}, false, nullptr},  // which has nobody to be linked with
      {blind + Words{"CUDA_VISIBLE_DEVICES=1,3"}, true,
          "NVML does not see device 1 (0000:2d:00.0): Not Found"},
      {blind + Words{"CUDA_VISIBLE_DEVICES=1,2"}, true, nullptr},
      {{"FAKE_CUDA_DEVICES=2", "FAKE_NVML_MACHINE=pcie", "FAKE_NVML_INIT=9"}, true,
          "nvmlInit: Driver Not Loaded"}};

  for (const auto& row : rows) {
    const json found = links(row.variables, row.nvml);
    EXPECT_EQ(found["class"], row.why != nullptr ? "unknown" : "fully connected") << found;
    EXPECT_NE(found.contains("matrix"), row.why != nullptr) << found;
    if (row.why != nullptr) expect_said(found["reason"], {row.why});
  }
}

TEST(InfoOnFakes, TextHasTheMatrixOrTheReason) {
  const Words machine{
      "FAKE_CUDA_DEVICES=8", "FAKE_NVML_MACHINE=dgx1v", "CUDA_VISIBLE_DEVICES=0,1,4"};
  expect_said(out_of(on_fakes(machine, {SYMM_TOOL, "info"})),
      {"Links between cuda devices: unknown\n     0  1  2\n  0  -  1  2\n  1  1  -  .\n  2  2  .  "
       "-\n"});
  expect_said(out_of(on_fakes({"FAKE_CUDA_DEVICES=2"}, {SYMM_TOOL, "info"}, false)),
      {"Links between cuda devices: unknown\n  ", "NVML"});
}

// On two devices. Kernels are only written down here, so that
// the times mean nothing; but everything around them runs.
Captured bench_on_fakes(const Words& arguments) {
  return on_fakes(
      {"FAKE_CUDA_DEVICES=2"}, Words{SYMM_TOOL, "run", "-n", "2", "--no-prefix", "--timeout", "90",
                                   "--", SYMM_TOOL, "bench", "--backend", "cuda"} +
                                   arguments);
}

TEST(TuneOnFakes, OfTheCudaBackEnd) {
  expect_said(
      out_of(bench_on_fakes({"--tune", "-b", "4K", "-e", "16M", "-f", "16", "-n", "2", "-w", "1"})),
      {"\n[cuda 2]\n", "\nll = ", "\none_shot = ", "\ntwo_shot = ", "allgather of bf16",
          "allreduce of bf16", " 2097152 ", " 16777216 "});
}

// A table with a column of NCCL, which moves data here, unlike symm's kernels.
class TuneBesideNccl : public testing::Test {
 protected:
  static Captured tune(const Words& variables, const Words& options) {
    return on_fakes(Words{"FAKE_CUDA_DEVICES=2"} + variables,
        Words{SYMM_TOOL, "run", "-n", "2", "--no-prefix", "--timeout", "90", "--", SYMM_TOOL,
            "bench", "--tune", "--nccl", "-b", "4K", "-e", "64K", "-f", "16", "-n", "1", "-w",
            "0"} +
            options);
  }

  // What a plan says of an all-reduce of so many bytes of f32, by the table in `file`.
  static Captured advice(const std::string& file, const std::string& bytes) {
    return on_fakes({"FAKE_CUDA_DEVICES=2", "SYMM_PLAN_FILE=" + file},
        {SYMM_TOOL, "run", "-n", "2", "--no-prefix", "--timeout", "90", "--", SYMM_TOOL, "bench",
            "allreduce", "--backend", "cuda", "-c", "0", "-n", "1", "-b", bytes, "-e", bytes,
            "--json"});
  }

  support::TemporaryDirectory folder_;
};

TEST_F(TuneBesideNccl, WritesAColumnByWhichPlansAdvise) {
  const std::string file = folder_ / "plan.txt";
  const Captured done =
      tune({"SYMM_NCCL=" FAKE_NCCL, "FAKE_NCCL=late"}, {"--backend", "cuda", "--out", file});
  ASSERT_EQ(done.status, 0) << done.err;
  std::ifstream in(file);
  const std::string table(std::istreambuf_iterator<char>(in), {});
  expect_said(table, {"\n[cuda 2]\n", "# NCCL 2.27.3 beside symm", "\nnccl allreduce f32 = 4096:",
                         "\nnccl allreduce bf16 = 4096:", "\nnccl reduce_scatter f32 = 4096:",
                         "\nnccl allgather any = 4096:", "\nnccl broadcast any = 4096:",
                         "\nnccl reduce bf16 = 4096:", "\nnccl alltoall any = 4096:", " 65536:"});

  // NCCL was late by 3 ms a call, so that symm was ahead.
  const json said = json::parse(out_of(advice(file, "64K")));
  EXPECT_EQ(said["results"][0]["advice"], "symm") << said;
  EXPECT_GE(said["results"][0]["advice_nccl_us"], 3000) << said;

  // The same table with the times of NCCL made short, as a user might see them on other GPUs.
  const std::string other = folder_ / "other.txt";
  std::ofstream(other) << "[cuda 2]\nnccl allreduce f32 = 4K:20/10 64K:40/10\n";
  const json ahead = json::parse(out_of(advice(other, "64K")));
  EXPECT_EQ(ahead["results"][0]["advice"], "nccl") << ahead;
  EXPECT_EQ(ahead["results"][0]["advice_symm_us"], 40) << ahead;
  EXPECT_EQ(json::parse(out_of(advice(other, "128K")))["results"][0]["advice"], "unknown");
}

TEST_F(TuneBesideNccl, WhatCannotBeMeasuredIsRefused) {
  const std::string real = "SYMM_NCCL=" FAKE_NCCL;
  expect_end(tune({real}, {"--backend", "host"}), 1, {"--nccl", "--backend cuda"});
  expect_end(tune({"SYMM_NCCL=/nowhere/libnccl.so.2"}, {"--backend", "cuda"}), 1,
      {"--nccl: there is no NCCL to measure", "/nowhere/libnccl.so.2"});
  expect_end(tune({real}, {"--backend", "cuda", "--overlapping-devices"}), 1,
      {"--nccl: NCCL wants a GPU for each rank"});
  expect_end(tune({real, "FAKE_NCCL=wrong"}, {"--backend", "cuda"}), 1,
      {"--nccl: an all-reduce by NCCL 2.27.3 gave wrong sums"});
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "--nccl"}).status, 2);
}

TEST_F(TuneBesideNccl, OneRankWithoutNcclEndsAll) {
  const std::string differ =
      "if [ $SYMM_RANK = 1 ]; then export SYMM_NCCL=/nowhere/nccl; fi; exec " SYMM_TOOL
      " bench --tune --nccl --backend cuda -e 4K";
  const Captured result = on_fakes({"FAKE_CUDA_DEVICES=2", "SYMM_NCCL=" FAKE_NCCL},
      {SYMM_TOOL, "run", "-n", "2", "--timeout", "90", "--", "sh", "-c", differ});
  EXPECT_EQ(result.status, 1);
  expect_said(result.err, {"--nccl: ", "/nowhere/nccl"});
}

TEST(TuneOnFakes, RanksThatDifferAreTold) {
  const std::string differ =
      "if [ $SYMM_RANK = 1 ]; then export SYMM_CUDA_TUNE=tile=32K; fi; exec " SYMM_TOOL
      " bench --tune --backend cuda";
  const Captured result = on_fakes({"FAKE_CUDA_DEVICES=2", "SYMM_CUDA_TUNE=work_groups=8"},
      {SYMM_TOOL, "run", "-n", "2", "--timeout", "90", "--", "sh", "-c", differ});

  EXPECT_EQ(result.status, 1);
  expect_said(result.err,
      {"rank 0 has work_groups = 8 (SYMM_CUDA_TUNE)", "rank 1 has work_groups = ", " (built in)"});
}

TEST(DoctorOnFakes, TestsGpusToo) {
  expect_said(out_of(on_fakes({"FAKE_CUDA_DEVICES=3"}, {SYMM_TOOL, "doctor"})),
      {"OK  self test", "warn  test of GPUs", "symm run -n 3 -- symm bench allreduce"});
}

TEST(BenchOnFakes, PutsFromEachToEach) {
  expect_end(bench_on_fakes({"p2p", "-e", "1M", "-n", "2"}), 0, {});
}

// The refusal names the option that allows what was refused.
TEST(BenchOnFakes, RanksShareADeviceIfTheyMay) {
  const auto bench_on_one = [](const Words& options) {
    return on_fakes(
        {"FAKE_CUDA_DEVICES=1"}, Words{SYMM_TOOL, "run", "-n", "2", "--no-prefix", "--timeout",
                                     "90", "--", SYMM_TOOL, "bench", "allreduce", "--backend",
                                     "cuda", "-b", "64", "-e", "64", "-n", "3", "-c", "0"} +
                                     options);
  };
  const Captured refused = bench_on_one({});
  EXPECT_EQ(refused.status, 1);
  expect_said(refused.err, {"2 ranks", "that needs --overlapping-devices"});
  expect_said(out_of(bench_on_one({"--overlapping-devices"})), {" 64 ", "not checked"});
}

TEST(BenchOnFakes, RowsAndGraphs) {
  const auto bench = [](const Words& options) {
    return bench_on_fakes(Words{"allreduce", "-b", "64", "-e", "64", "-n", "3"} + options);
  };

  // A row of 20 takes a millisecond.
  expect_said(out_of(bench({"-c", "0"})),
      {"symmetric memory, CUDA, times", " 64 ", "50.00", "not checked"});
  const json said =
      json::parse(out_of(bench({"-c", "0", "-G", "100", "--private", "--json", "-d", "bf16"})));
  EXPECT_EQ(said["backend"], "cuda");
  EXPECT_EQ(said["results"][0]["time_us"]["p50"], 10);
  expect_end(bench({}), 1, {});
  expect_said(bench({}).out, {"FAILED"});
  expect_end(
      capture({SYMM_TOOL, "bench", "allreduce", "-G", "10"}), 1, {"--graph", "--backend cuda"});
}
}  // namespace
}  // namespace symm::tool
