// SPDX-License-Identifier: Apache-2.0
//
// Open questions about GPUs, answered on the machine: what happens to memory, streams and graphs when a process is killed or a
// group is aborted, and what an abort word costs. What symm relies on is checked; figures are printed as "answer: ..." and never
// checked. docs/gpu-failures.md has the questions.
//   answers [GPUs [trials of the fence [question]]]
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
    {"fence", [](const Setup& setup) { answers::fence(setup.gpus, setup.trials); }},
    {"exporter", [](const Setup&) { answers::exporter_killed(); }},
    {"unread", [](const Setup&) { answers::unread_descriptor(); }},
    {"abort", [](const Setup&) { answers::abort_latency(); }},
    {"polling", [](const Setup& setup) { answers::abort_polling(setup.gpus); }},
    {"graph", [](const Setup&) { answers::aborted_group(); }},
    {"kills", [](const Setup& setup) { answers::killed_imports(setup.gpus); }},
    {"override", [](const Setup&) { answers::override_of_wait(); }},
};

struct Role {
  const char* name;
  void (*play)(long argument);
};
constexpr Role kRoles[] = {
    {"counter", [](long device) { answers::counter_role(static_cast<int>(device)); }},
    {"exporter", [](long value) { answers::exporter_role(value); }},
    {"importer", [](long device) { answers::importer_role(static_cast<int>(device)); }},
    {"consumer", [](long) { answers::consumer_role(); }},
};

int ask(const char* name, long argument) {
  for (const Question& question : kQuestions) {
    if (std::strcmp(question.name, name) != 0) continue;
    question.ask({static_cast<int>(argument / kManyTrials), static_cast<int>(argument % kManyTrials)});
    const answers::Totals totals{gpu::counts().passed.load(), gpu::counts().failed.load()};
    answers::report_totals(totals);
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

  const int gpus = argc > 1 && std::atoi(argv[1]) > 1 ? 2 : 1;
  const int trials = argc > 2 ? std::atoi(argv[2]) : 8;
  setenv("CUDA_VISIBLE_DEVICES", gpus > 1 ? "0,1" : "0", 0);
  int passed = 0;
  int failed = 0;
  for (const Question& question : kQuestions) {
    if (argc > 3 && std::strcmp(argv[3], question.name) != 0) continue;
    const auto start = answers::Clock::now();
    const std::chrono::seconds limit(90 + 2 * trials);
    const answers::Totals totals = answers::run_question(argv[0], question.name, long{gpus} * kManyTrials + trials, limit);
    std::printf("%s: %d passed, %d failed in %.1f s\n", question.name, totals.passed, totals.failed,
                answers::microseconds(start, answers::Clock::now()) * 1e-6);
    passed += totals.passed;
    failed += totals.failed;
  }
  std::printf("answers, %d GPUs: %d passed, %d failed\n", gpus, passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
