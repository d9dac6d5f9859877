// Open questions about GPUs, answered on the machine: what happens to memory, streams and graphs when a process is killed or a
// group is aborted. What symm relies on is checked; figures are printed as "answer: ..." and never checked. docs/gpu-failures.md
// has the questions.
//   gpu_experiments [GPUs [question]]
#include "bench/experiments/experiment.hpp"

namespace {
using namespace experiments;

constexpr struct {
  const char* name;
  void (*ask)(int gpus);
} kQuestions[] = {
    {"exporter", exporter_killed}, {"unread", unread_descriptor}, {"graph", aborted_group}, {"kills", killed_imports}};

constexpr struct {
  const char* name;
  void (*play)(long argument);
} kRoles[] = {{"exporter", exporter_role}, {"importer", importer_role}};

// In a process of its own.
int ask(const std::string& name, int gpus) {
  const auto start = Clock::now();
  for (const auto& question : kQuestions)
    if (name == question.name) question.ask(gpus);
  std::printf("%s, in %.1f s: ", name.c_str(), microseconds(start, Clock::now()) * 1e-6);
  return gpu::role_result();
}
}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);   // of several processes
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // loading a kernel later may wait for another that runs
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](size_t i, int otherwise) { return words.size() > i ? std::stoi(words[i]) : otherwise; };
  if (words.size() == 3 && words[0] == "question") return ask(words[1], number(2, 0));
  if (words.size() == 3 && words[0] == "role") {
    for (const auto& role : kRoles)
      if (words[1] == role.name) role.play(std::stol(words[2]));
    return 0;
  }
  if (access("/dev/nvidia0", F_OK) != 0) {
    std::printf("SKIPPED: no GPU here\n");
    return 77;
  }
  const int gpus = number(0, access("/dev/nvidia1", F_OK) == 0 ? 2 : 1) > 1 ? 2 : 1;
  setenv("CUDA_VISIBLE_DEVICES", gpus > 1 ? "0,1" : "0", 0);
  int right = 0;
  int wrong = 0;
  for (const auto& question : kQuestions) {
    if (words.size() > 1 && words[1] != question.name) continue;
    support::Process process([&] { support::run_again({"question", question.name, std::to_string(gpus)}); });
    const bool in_time = process.reap(106'000);
    const int status = process.wait();
    if (status != 0) std::printf("FAILED: %s: %s, status %d\n", question.name, in_time ? "ended" : "did not end", status);
    ++(status == 0 ? right : wrong);
  }
  std::printf("experiments, %d GPUs: %d questions passed, %d failed\n", gpus, right, wrong);
  return wrong == 0 && right > 0 ? 0 : 1;
}
