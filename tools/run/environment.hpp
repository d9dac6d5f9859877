// What a rank finds in its environment.
#pragma once

#include <string>
#include <vector>

namespace symm::tool {
struct Job {
  std::string id;         // random, for messages and names
  std::string directory;  // private to the job
  int ranks = 0;          // here
  bool terminal = false;  // messages reach a terminal: progress lines are welcome although the rank writes to a pipe
  int first = 0;          // rank here
  int size = 0;           // ranks on all machines; 0: there is no other
  std::string place{};    // host and port where they meet; "": in the directory
};

std::string random_job_id();

// This process's environment, without what other launchers say about ranks (the job is ours, and sources that disagree are
// refused by the library), and with SYMM_RANK and its kin.
std::vector<std::string> rank_environment(const Job& job, int rank);
}  // namespace symm::tool
