// A job: what its ranks find in their environment, the private directory in which they
// meet, and its parts on several machines.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/unique_fd.hpp"

namespace symm::tool {
// The facts that all launchers of a job share: the first launcher tells them to those that it
// starts on other machines.
struct JobPart {
  std::string id;       // random, for messages and names
  int first = 0;        // rank here
  int size = 0;         // ranks on all machines; 0: there is no other
  std::string place{};  // host and port where they meet, those of rank 0; "": in the directory
};
struct Job : JobPart {
  std::string directory{};  // private to the job
  int ranks = 0;            // here
  bool has_spares = false;  // whose numbers follow those of the ranks
  std::string trace{};      // where they note their calls; "": nowhere
  std::string master{};     // host and port of rank 0 for torch.distributed; "": as inherited
  std::string nccl{};       // the drop-in that they get in place of NCCL; "": none
  // Messages reach a terminal, so progress lines are welcome although the rank writes to a pipe.
  bool terminal = false;
};

std::string random_job_id();

// This process's environment, without what other launchers say about ranks (the job is ours,
// and sources that disagree are refused by the library), and with SYMM_RANK and its kin, also
// by the names that torch.distributed reads.
std::vector<std::string> rank_environment(const Job& job, int rank);

// A sentence for each variable by which the user has chosen another NCCL than the drop-in for one
// program: rank_environment() leaves it as it is.
std::vector<std::string> nccl_notes(const std::string& drop_in);

// $XDG_RUNTIME_DIR if it is a private directory of this user, else $TMPDIR, else /tmp.
std::string runtime_parent();
// The advice if nothing can be made in runtime_parent(): what to set, and why
// $XDG_RUNTIME_DIR is not taken.
std::string remedy_for_runtime_parent();

// A port of this machine that only rank 0 will get: it is bound, so that the kernel gives it to no
// other, but not listened at, so that a socket with SO_REUSEADDR can be.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }  // 0: none is to be had

 private:
  UniqueFd socket_;
  int number_ = 0;
};

// Whether MASTER_ADDR and MASTER_PORT say where rank 0 of this job is. If they come with a
// rank, they belong to another job, in which this launcher is a rank itself.
bool master_is_chosen();

// The path of this program, whether or not /proc is mounted.
std::string own_executable();

// The path of libsymm_nccl.so, which is where open_nccl_drop_in() finds it. Throws
// std::runtime_error if there is none, or one that variables of the loader cannot name.
std::string nccl_drop_in();

// A directory of mode 0700, which is removed with the object. A lock is held on it
// for as long as its owner lives, so that `symm doctor` can tell what a killed job
// left behind from what is in use.
class JobDirectory {
 public:
  // Removes stale directories, and makes one; `before` is called before it is made.
  // Throws std::system_error.
  explicit JobDirectory(const std::function<void(const std::string& path)>& before = {});
  ~JobDirectory();
  JobDirectory(JobDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_;
};

// The directories of this user's jobs below `parent` whose owner has been dead for `seconds`.
std::vector<std::string> stale_job_directories(const std::string& parent, time_t seconds = 0);

// Remove a directory and what is in it, following no link. True when it is gone.
bool remove_tree(const std::string& path) noexcept;

// A job on several machines: this launcher starts a part of itself on each, by ssh or
// its like, which starts the ranks there.
using Hosts = std::vector<std::pair<std::string, int>>;  // and how many ranks each has
Hosts parse_hosts(std::string_view text);                // "a:4,b:4". Throws std::invalid_argument

// The job as one argument, "first rank:ranks of all:job:host:port". The secret comes at the
// beginning of standard input, since every user can read arguments. The end of that input is the
// end of the launcher that started this one.
std::string write_part(const JobPart& part);
JobPart parse_part(const std::string& text);  // throws std::invalid_argument

std::string for_shell(const std::string& text);  // so that a shell takes it as one word
// `launcher` in words, "%h" being the host, and `line` for a shell there.
std::vector<std::string> command_on(
    const std::string& host, const std::string& launcher, const std::string& line);
// This program with these options, in the directory where it is now, for a shell.
std::string line_for_shell(const std::vector<std::string>& arguments);

// Reads the secret from standard input. Throws std::runtime_error.
void keep_secret(const std::string& path);
Pipe pipe_with(const std::string& text);  // which can be read from it
}  // namespace symm::tool
