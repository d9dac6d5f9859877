#include "core/bootstrap/launch.hpp"

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

Environment both(Environment left, const Environment& right) {
  for (const auto& [name, value] : right) {
    left[name] = value;
  }
  return left;
}

// Variables as the launchers set them, seen on Debian 12 for Open MPI and hydra; after
// the manuals for torchrun and Slurm.
Environment open_mpi(int rank, int size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
      {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(size)}, {"PMIX_NAMESPACE", "2071789569"},
      {"PMIX_RANK", std::to_string(rank)}};
}

Environment hydra(int rank, int size) {
  return {{"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", std::to_string(size)}, {"PMI_FD", "8"},
      {"MPI_LOCALNRANKS", std::to_string(size)}};
}

Environment torchrun(int rank, int size) {
  return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)},
      {"LOCAL_WORLD_SIZE", std::to_string(size)}, {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

Environment slurm(int rank, int size) {
  return {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "3"}, {"SLURM_PROCID", std::to_string(rank)},
      {"SLURM_NTASKS", std::to_string(size)}, {"SLURM_NNODES", "1"}};
}

Environment batch_script(int size) {
  return {{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", std::to_string(size)},
      {"SLURM_NNODES", "1"}};
}

Environment by_hand(int rank, int size) {
  return {{"SYMM_RANK", std::to_string(rank)}, {"SYMM_SIZE", std::to_string(size)}};
}

void expect_ranks(const Environment& environment, int rank, int size, const std::string& source) {
  const Launch launch = parse_environment(environment);
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.source, source);
}

void expect_refusal(
    const Environment& environment, Status status, const std::vector<std::string>& words) {
  expect_failure(status, words, [&] { parse_environment(environment); });
}

TEST(Environment, NoLauncherIsASingleProcess) {
  expect_ranks({}, 0, 1, "single process");
  EXPECT_TRUE(parse_environment({}).single());
  expect_ranks({{"RANK", "3"}}, 0, 1, "single process");
  expect_ranks(batch_script(8), 0, 1, "single process");
}

TEST(Environment, EachLauncherIsUnderstood) {
  expect_ranks(by_hand(2, 4), 2, 4, "SYMM_*");
  expect_ranks(open_mpi(2, 4), 2, 4, "Open MPI");
  expect_ranks(hydra(2, 4), 2, 4, "PMI");
  expect_ranks(torchrun(2, 4), 2, 4, "torchrun");
  expect_ranks(slurm(2, 4), 2, 4, "Slurm");

  // A Slurm step may have fewer tasks than its job.
  expect_ranks(both(slurm(1, 8), {{"SLURM_STEP_NUM_TASKS", "2"}}), 1, 2, "Slurm");

  // The PMIx server knows the size, and is asked only for that.
  const Environment pmix{{"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "2"}};
  expect_ranks(pmix, 2, 0, "PMIx");
  expect_ranks(both(pmix, slurm(2, 4)), 2, 4, "Slurm");
  expect_refusal(both(pmix, {{"PMIX_RANK", "x"}}), Status::invalid_argument, {"PMIX_RANK", "'x'"});
  EXPECT_EQ(parse_environment(hydra(2, 4)).pmi_fd, 8);
}

TEST(Environment, TheJobIsThatOfThisLaunch) {
  const auto job = [](const Environment& environment) {
    return parse_environment(environment).job;
  };

  const auto differs = [&](const Environment& environment, const char* name) {
    return job(environment) != job(both(environment, {{name, "5"}}));
  };

  EXPECT_EQ(job(open_mpi(0, 2)), job(open_mpi(1, 2)));
  EXPECT_EQ(job(torchrun(0, 2)), job(torchrun(1, 2)));
  EXPECT_EQ(job(slurm(0, 2)), job(slurm(1, 2)));
  EXPECT_TRUE(differs(open_mpi(0, 2), "PMIX_NAMESPACE"));
  EXPECT_TRUE(differs(torchrun(0, 2), "MASTER_PORT"));
  EXPECT_TRUE(differs(torchrun(0, 2), "TORCHELASTIC_RUN_ID"));
  EXPECT_TRUE(differs(torchrun(0, 2), "TORCHELASTIC_RESTART_COUNT"));
  EXPECT_TRUE(differs(slurm(0, 2), "SLURM_JOB_ID"));
  EXPECT_TRUE(differs(slurm(0, 2), "SLURM_STEP_ID"));
  EXPECT_TRUE(differs(by_hand(0, 2), "SYMM_JOB"));
  EXPECT_TRUE(differs(open_mpi(0, 2), "SYMM_JOB"));
  EXPECT_EQ(job(hydra(0, 2)), "");
  EXPECT_EQ(job(both(hydra(0, 2), slurm(0, 2))), job(slurm(0, 2)));
  EXPECT_EQ(parse_environment(both(by_hand(0, 2), {{"SYMM_DIR", "/d"}})).directory, "/d");
}

TEST(Environment, SourcesThatAgreeMayStandTogether) {
  expect_ranks(both(both(by_hand(1, 2), open_mpi(1, 2)), torchrun(1, 2)), 1, 2, "SYMM_*");
  expect_ranks(both(hydra(1, 2), slurm(1, 2)), 1, 2, "PMI");
}

TEST(Environment, SourcesThatDisagreeAreNamedWithTheirValues) {
  expect_refusal(both(by_hand(0, 4), open_mpi(1, 4)), Status::mismatch,
      {"SYMM_RANK is 0", "OMPI_COMM_WORLD_RANK is 1"});
  expect_refusal(both(open_mpi(1, 4), torchrun(1, 2)), Status::mismatch,
      {"OMPI_COMM_WORLD_SIZE is 4", "WORLD_SIZE is 2"});
  expect_refusal(
      both(hydra(2, 4), slurm(3, 4)), Status::mismatch, {"PMI_RANK is 2", "SLURM_PROCID is 3"});
  expect_refusal(
      both(by_hand(0, 1), hydra(2, 4)), Status::mismatch, {"SYMM_RANK is 0", "PMI_RANK is 2"});
  expect_refusal(
      both(torchrun(2, 4), slurm(0, 2)), Status::mismatch, {"RANK is 2", "SLURM_PROCID is 0"});
}

TEST(Environment, ALauncherInsideAnotherJobIsTheOneThatCounts) {
  expect_ranks(both(batch_script(8), open_mpi(2, 4)), 2, 4, "Open MPI");
  expect_ranks(
      both(both(batch_script(8), {{"SLURM_STEP_ID", "4294967291"}}), hydra(2, 4)), 2, 4, "PMI");
  expect_ranks(
      both(both(batch_script(8), {{"SLURM_STEPID", "4294967294"}}), hydra(2, 4)), 2, 4, "PMI");
  expect_ranks(both(slurm(0, 1), open_mpi(3, 4)), 3, 4, "Open MPI");
  expect_ranks(both(open_mpi(0, 1), torchrun(3, 4)), 3, 4, "torchrun");
  expect_ranks(both(open_mpi(0, 1), by_hand(3, 4)), 3, 4, "SYMM_*");
  expect_ranks(both(torchrun(0, 1), open_mpi(3, 4)), 3, 4, "Open MPI");
}

// A worker of torchrun, of which each of `agents` agents was started by another launcher.
Environment in_agent(int rank, int size, int agents) {
  return both(torchrun(rank, size), {{"LOCAL_WORLD_SIZE", std::to_string(size / agents)},
                                        {"GROUP_WORLD_SIZE", std::to_string(agents)},
                                        {"GROUP_RANK", std::to_string(rank * agents / size)}});
}

TEST(Environment, TorchrunInsideOfALauncherOfItsAgentsIsTheOneThatCounts) {
  const Environment srun_pmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  const Environment pmix{{"PMIX_NAMESPACE", "slurm.pmix.1"}, {"PMIX_RANK", "1"}};
  const Environment master{{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  const Environment two_nodes{{"SLURM_NNODES", "2"}, {"SLURM_STEP_NODELIST", "a,b"}};

  for (const Environment& outer : {slurm(1, 2), both(slurm(1, 2), srun_pmi), open_mpi(1, 2),
           hydra(1, 2), both(slurm(1, 2), pmix), both(both(slurm(1, 2), two_nodes), pmix),
           both(batch_script(2), open_mpi(1, 2))}) {
    const Environment inner = both(outer, both(in_agent(3, 4, 2), master));
    expect_ranks(inner, 3, 4, "torchrun");
    // The agents' rendezvous may number the agents in another order than their launcher.
    expect_ranks(both(inner, {{"RANK", "0"}, {"GROUP_RANK", "0"}}), 0, 4, "torchrun");

    const Launch launch = parse_environment(inner);
    EXPECT_EQ(launch.place, "node7:29501");
    EXPECT_EQ(launch.job, parse_environment(both(in_agent(0, 4, 2), master)).job);
    EXPECT_EQ(launch.local_size, 2);
    EXPECT_EQ(launch.pmi_fd, -1);
    EXPECT_FALSE(launch.pmix);
  }

  // One worker for each agent, in another order.
  expect_ranks(both(slurm(1, 2), in_agent(0, 2, 2)), 0, 2, "torchrun");
  // An agent on one machine.
  expect_ranks(both(slurm(0, 1), in_agent(3, 4, 1)), 3, 4, "torchrun");
  // SYMM_* is never around another launcher.
  expect_refusal(both(by_hand(1, 2), in_agent(3, 4, 2)), Status::mismatch, {"SYMM_RANK is 1"});
  // Neither the agents' number nor that of the workers; or the variables of nobody's agent.
  expect_refusal(both(slurm(1, 3), in_agent(3, 4, 2)), Status::mismatch, {"RANK is 3"});
  expect_refusal(both(slurm(1, 2), both(in_agent(3, 4, 2), {{"TORCHELASTIC_RUN_ID", ""}})),
      Status::mismatch, {"RANK is 3"});
  expect_refusal(both(in_agent(3, 4, 2), {{"GROUP_WORLD_SIZE", "5"}}), Status::invalid_argument,
      {"GROUP_WORLD_SIZE", "'5'"});
}

TEST(Environment, ARankOfALauncherThatIsNotReadIsNoSingleProcess) {
  const std::pair<const char*, const char*> launchers[] = {
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}, {"MPIRUN_RANK", "MPIRUN_NPROCS"},
      {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"}, {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
      {"HOROVOD_RANK", "HOROVOD_SIZE"}, {"MPI_RANKID", "MPI_NRANKS"}, {"MP_CHILD", "MP_PROCS"},
      {"ALPS_APP_PE", nullptr}, {"PALS_RANKID", nullptr}, {"PMI_ID", nullptr},
      {"PMIX_RANK", nullptr}, {"PMI_RANK", nullptr}, {"OMPI_COMM_WORLD_RANK", nullptr}};

  for (const auto& [rank, size] : launchers) {
    const Environment one{{rank, "0"}};
    const std::string refusal = parse_environment(one).refusal;
    for (const std::string& word :
        {rank + std::string(" is '0'"), std::string("symm run"), std::string("SYMM_RANK")}) {
      EXPECT_NE(refusal.find(word), std::string::npos) << refusal;
    }

    // Rank and size from elsewhere.
    expect_ranks(both(one, by_hand(2, 4)), 2, 4, "SYMM_*");
    expect_ranks(both(one, torchrun(2, 4)), 2, 4, "torchrun");
    EXPECT_EQ(parse_environment(both(one, torchrun(2, 4))).refusal, "");

    if (size != nullptr) {
      EXPECT_NE(parse_environment(both(one, {{size, "2"}})).refusal, "") << size;
      EXPECT_NE(parse_environment(both(slurm(0, 1), both(one, {{size, "2"}}))).refusal, "") << size;
      EXPECT_EQ(parse_environment(both(slurm(0, 1), one)).refusal, "") << size;
      EXPECT_EQ(parse_environment(both(one, {{size, "1"}})).refusal, "") << size;
    }
  }

  for (const Environment& single : {Environment{}, batch_script(8), Environment{{"RANK", "3"}}}) {
    EXPECT_EQ(parse_environment(single).refusal, "");
  }
}

// Half of what a launcher sets says that there are other ranks, unless a process by itself may have
// it, too.
TEST(Environment, HalfOfALauncherIsNoSingleProcess) {
  const Environment master{{"MASTER_ADDR", "node7"}};
  const Environment task{{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "1"}};
  const Environment size{{"SLURM_NTASKS", "4"}};
  const Environment step{{"SLURM_STEP_ID", "3"}};

  const struct {
    Environment half;
    const char* is;
    const char* missing;
  } rows[] = {{{{"WORLD_SIZE", "4"}}, "WORLD_SIZE is '4'", "RANK is missing"},
      {both({{"WORLD_SIZE", "4"}}, master), "WORLD_SIZE is '4'", "RANK is missing"},
      {both({{"RANK", "0"}}, master), "RANK is '0'", "WORLD_SIZE is missing"},
      {both(task, size), "SLURM_PROCID is '1'", "SLURM_STEP_ID is missing"},
      {both(task, step), "SLURM_PROCID is '1'", "SLURM_STEP_NUM_TASKS is missing"}};
  for (const auto& row : rows) {
    const Launch launch = parse_environment(row.half);
    EXPECT_TRUE(launch.single());
    for (const std::string word : {row.is, row.missing, "SYMM_RANK"}) {
      EXPECT_NE(launch.refusal.find(word), std::string::npos) << word << ": " << launch.refusal;
    }
    // Another launcher says the rest.
    EXPECT_EQ(parse_environment(both(row.half, by_hand(0, 1))).refusal, "");
    EXPECT_EQ(parse_environment(both(row.half, hydra(2, 4))).refusal, "");
  }

  for (const Environment& single : {Environment{{"RANK", "1"}}, Environment{{"WORLD_SIZE", "1"}},
           batch_script(4), both(batch_script(4), {{"SLURM_STEP_ID", "4294967291"}}), size,
           both(torchrun(0, 1), master), slurm(0, 1)}) {
    EXPECT_EQ(parse_environment(single).refusal, "");
  }
}

TEST(Environment, MalformedNumbersAreNamed) {
  for (const char* bad : {"x", "-1", "1x", " 1", "1.5", "99999999999999999999", "0x1"}) {
    expect_refusal(
        {{"SYMM_RANK", bad}, {"SYMM_SIZE", "2"}}, Status::invalid_argument, {"SYMM_RANK", bad});
    expect_refusal(both(hydra(0, 2), {{"PMI_FD", bad}}), Status::invalid_argument, {"PMI_FD", bad});
    expect_refusal(both(slurm(0, 2), {{"SLURM_STEP_ID", bad}}), Status::invalid_argument,
        {"SLURM_STEP_ID", bad});
    expect_refusal(both(torchrun(0, 2), {{"LOCAL_WORLD_SIZE", bad}}), Status::invalid_argument,
        {"LOCAL_WORLD_SIZE", bad});
  }

  expect_refusal(
      {{"RANK", "0"}, {"WORLD_SIZE", "0"}}, Status::invalid_argument, {"WORLD_SIZE", "'0'"});

  // A wrong value is refused in a source that would not be used, too.
  expect_refusal(both(by_hand(0, 2), {{"RANK", "zero"}, {"WORLD_SIZE", "2"}}),
      Status::invalid_argument, {"RANK", "zero"});
}

TEST(Environment, WhatDoesNotGoTogetherIsNamed) {
  expect_refusal(open_mpi(4, 4), Status::invalid_argument,
      {"OMPI_COMM_WORLD_RANK is 4", "OMPI_COMM_WORLD_SIZE = 4"});
  expect_refusal({{"SYMM_RANK", "0"}}, Status::invalid_argument, {"SYMM_SIZE is missing"});
  expect_refusal({{"SYMM_SIZE", "2"}}, Status::invalid_argument, {"SYMM_RANK is missing"});
}

TEST(Environment, RanksOnSeveralMachinesMeetAtRankZero) {
  const Environment master{{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  for (const Environment& some : {both(open_mpi(1, 4), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
           both(hydra(1, 4), {{"MPI_LOCALNRANKS", "3"}}),
           both(torchrun(1, 4), {{"LOCAL_WORLD_SIZE", "2"}}),
           both(slurm(1, 4), {{"SLURM_NNODES", "2"}})}) {
    EXPECT_TRUE(parse_environment(some).several);
    EXPECT_EQ(parse_environment(both(some, master)).place, "node7:29501");
    EXPECT_EQ(parse_environment(both(both(some, {{"SYMM_PORT", "7"}}), master)).place, "node7:7");
  }

  EXPECT_FALSE(
      parse_environment(both(both(torchrun(1, 4), {{"LOCAL_WORLD_SIZE", "4"}}), master)).several);
  expect_refusal(both(both(torchrun(1, 4), {{"LOCAL_WORLD_SIZE", "2"}, {"SYMM_PORT", "x"}}),
                     {{"MASTER_ADDR", "a"}}),
      Status::invalid_argument, {"SYMM_PORT", "'x'"});
}

TEST(Environment, ASlurmStepMeetsAtItsFirstMachine) {
  const auto on = [](const std::string& nodes) {
    return both(slurm(1, 4), {{"SLURM_NNODES", "2"}, {"SLURM_STEP_NODELIST", nodes}});
  };

  const std::pair<const char*, const char*> lists[] = {{"a", "a"}, {"node7,b", "node7"},
      {"node[003-005,7],gpu1", "node003"}, {"n[7,1-2]", "n7"}, {"n[9]", "n9"},
      {"r[0-1]n[12-13]-ib.x_y,z", "r0n12-ib.x_y"}};

  for (const auto& [list, host] : lists) {
    EXPECT_EQ(parse_environment(on(list)).place, host + std::string(":20080")) << list;
  }

  for (const char* bad :
      {",a", "n[", "n[]", "n[1", "n[a-b]", "n[-1]", "n]1", "a b", "n[[1]]", "a:1"}) {
    expect_refusal(on(bad), Status::invalid_argument,
        {"SLURM_STEP_NODELIST is '" + std::string(bad) + "'", "list of hosts"});
  }

  EXPECT_EQ(parse_environment(both(on("a,b"), {{"SYMM_PORT", "7"}})).place, "a:7");
  EXPECT_EQ(parse_environment(both(on("a,b"), {{"MASTER_ADDR", "c"}, {"MASTER_PORT", "7"}})).place,
      "c:8");

  // A MASTER_ADDR without a port is not used.
  EXPECT_EQ(parse_environment(both(on("a,b"), {{"MASTER_ADDR", "c"}})).place, "a:20080");

  // srun --mpi=pmi2
  EXPECT_EQ(
      parse_environment(both(on("a,b"), {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})).place, "a:20080");
  EXPECT_EQ(parse_environment(both(on("a"), {{"SLURM_NNODES", "1"}})).place, "");
  expect_refusal(
      both(on("a,b"), {{"SLURM_JOB_ID", "x"}}), Status::invalid_argument, {"SLURM_JOB_ID", "'x'"});
  expect_refusal(both(on("a,b"), {{"SYMM_PORT", "70000"}}), Status::invalid_argument,
      {"SYMM_PORT", "'70000'"});
}
}  // namespace
