// SPDX-License-Identifier: Apache-2.0
//
// Open questions about GPUs, answered on the machine: what happens to memory, streams and graphs when a process is killed or a
// group is aborted, and what an abort word costs. What symm relies on is checked; figures are printed as "answer: ..." and never
// checked. docs/gpu-failures.md has the questions.
//   gpu_experiments [GPUs [trials of the fence [question]]]
#include <unistd.h>

#include <cstring>
#include <iterator>

#include "bench/experiments/process.hpp"
#include "bench/experiments/questions.hpp"
#include "tests/gpu/world.hpp"

namespace {

struct Setup {
  int gpus;
  int trials;
};
constexpr int kManyTrials = 100'000;  // above what anybody asks for; GPUs and trials travel as one number

struct Question {
  const char* name;
  void (*ask)(const Setup&);
};
constexpr Question kQuestions[] = {
    {"fence", [](const Setup& setup) { experiments::fence(setup.gpus, setup.trials); }},
    {"exporter", [](const Setup&) { experiments::exporter_killed(); }},
    {"unread", [](const Setup&) { experiments::unread_descriptor(); }},
    {"abort", [](const Setup&) { experiments::abort_latency(); }},
    {"polling", [](const Setup& setup) { experiments::abort_polling(setup.gpus); }},
    {"graph", [](const Setup&) { experiments::aborted_group(); }},
    {"kills", [](const Setup& setup) { experiments::killed_imports(setup.gpus); }},
    {"turns", [](const Setup& setup) { experiments::barriers_on_streams(setup.gpus); }},
    {"override", [](const Setup&) { experiments::override_of_wait(); }},
};

struct Role {
  const char* name;
  void (*play)(long argument);
};
constexpr Role kRoles[] = {
    {"counter", [](long device) { experiments::counter_role(static_cast<int>(device)); }},
    {"exporter", [](long value) { experiments::exporter_role(value); }},
    {"importer", [](long device) { experiments::importer_role(static_cast<int>(device)); }},
    {"consumer", [](long) { experiments::consumer_role(); }},
};

int ask(const char* name, long argument) {
  for (const Question& question : kQuestions) {
    if (std::strcmp(question.name, name) != 0) continue;
    question.ask({static_cast<int>(argument / kManyTrials), static_cast<int>(argument % kManyTrials)});
    const experiments::Totals totals{gpu::counts().passed.load(), gpu::counts().failed.load()};
    experiments::report_totals(totals);
    return totals.failed == 0 ? 0 : 1;
  }
  return 2;
}

int play(const char* name, long argument) {
  for (const Role& role : kRoles) {
    if (std::strcmp(role.name, name) != 0) continue;
    role.play(argument);
    return 0;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // of several processes
  if (argc == 4 && std::strcmp(argv[1], "question") == 0) return ask(argv[2], std::atol(argv[3]));
  if (argc == 4 && std::strcmp(argv[1], "role") == 0) return play(argv[2], std::atol(argv[3]));

  if (access("/dev/nvidia0", F_OK) != 0) {
    std::printf("SKIPPED: no GPU here\n");
    return 77;
  }
  const bool several = argc > 1 ? std::atoi(argv[1]) > 1 : access("/dev/nvidia1", F_OK) == 0;
  const int gpus = several ? 2 : 1;
  const int trials = argc > 2 ? std::atoi(argv[2]) : 8;
  setenv("CUDA_VISIBLE_DEVICES", gpus > 1 ? "0,1" : "0", 0);
  int passed = 0;
  int failed = 0;
  for (const Question& question : kQuestions) {
    if (argc > 3 && std::strcmp(argv[3], question.name) != 0) continue;
    const auto start = experiments::Clock::now();
    const std::chrono::seconds limit(90 + 2 * trials);
    const experiments::Totals totals = experiments::run_question(question.name, long{gpus} * kManyTrials + trials, limit);
    std::printf("%s: %d passed, %d failed in %.1f s\n", question.name, totals.passed, totals.failed,
                experiments::microseconds(start, experiments::Clock::now()) * 1e-6);
    passed += totals.passed;
    failed += totals.failed;
  }
  std::printf("experiments, %d GPUs: %d passed, %d failed\n", gpus, passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
