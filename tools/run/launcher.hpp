// symm run: starts the ranks of a job, passes their input and output on, and makes sure that all of
// them end.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/run/job.hpp"
#include "tools/run/processes.hpp"
#include "tools/run/streams.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
// How a job ended: which rank failed first, what became of the others, and the exit
// status that says so.
class Outcome {
 public:
  // A rank ended. `expected`: it was told to end, so how it did so is no news. Returns
  // true if this is the first failure.
  bool record(int rank, int wait_status, bool expected);

  // 0, or the first failure's; a rank that was told to end counts if no other failed
  int status() const;
  // "rank 1 exited with status 1", for failures after the first
  std::vector<std::string> later() const;

 private:
  std::optional<int> first_failure_;
  std::optional<int> first_ended_;  // non-zero end of a rank that was told to end
  std::map<std::string, std::vector<int>> later_;
};

struct RunOptions {
  int ranks = 0;
  int spares = 0;  // processes that wait for the place of a rank that fails
  std::optional<std::chrono::milliseconds> timeout;  // for the whole job
  std::chrono::milliseconds grace{2000};             // before each harder way of ending a rank
  bool prefix = true;
  bool verbatim = false;  // output is handed on byte for byte
  std::string tag;
  std::string bind = "none";  // or "core"
  bool nccl = false;          // the ranks get the drop-in in place of NCCL
  // The machines, each with its ranks, in the order of ranks.
  std::vector<std::pair<int, std::vector<std::string>>> programs;
  std::string log_directory;
  Hosts hosts;  // then `ranks` is their number, and the program for a shell on each
  std::string launcher = "ssh %h";
  int port = 0;
  std::optional<JobPart> part;  // the part of a job that another launcher has started
  bool terminal = false;        // which has one
  // File of the timeline; in a part of a job, the place where its ranks note their calls; "": none.
  std::string trace;
};

class Launcher {
 public:
  explicit Launcher(const RunOptions& options);
  int run();  // the exit status

  static constexpr int timed_out_status = 124;  // as timeout(1)
 private:
  using Clock = std::chrono::steady_clock;

  // Each stage is harder on the ranks than the one before.
  enum class Stage { running, waiting, terminating, killing, leaving };

  // The standard output or standard error of a rank.
  struct Stream {
    UniqueFd fd;
    LineAssembler lines;
    UniqueFd log;
    Output& to;
  };
  struct Rank {
    int rank = 0;
    pid_t pid = -1;
    bool alive = true;
    Stream streams[2];
  };

  void start_ranks();
  void start_rank(int rank, const std::vector<cpu_set_t>& cores);
  const std::vector<std::string>& command_of(int rank) const;
  std::string prefix(int rank, bool colour) const;
  std::string rank_name(int rank) const;  // or of the host
  UniqueFd log_of(int rank, const char* stream) const;

  bool turn();  // one round of the loop; false when nothing is left to wait for
  int poll_timeout() const;
  void read_stream(int rank, Stream& stream);
  void show_who_is_awaited();
  void drain();

  void on_signal(int signal);
  void on_time();
  void reap();
  bool may_be_replaced(int wait_status) const;
  bool waits(const Rank& rank) const;  // whether it is a spare that has no place
  void dismiss_spares();
  void look_for_orphans();
  void enter(Stage stage, int signal = SIGTERM);  // by which they are terminated
  void signal_all(int signal) const;

  bool any_alive() const;
  bool nobody_left() const { return !any_alive() && !processes_left_; }
  bool streams_open() const;
  void say(std::string_view text);
  void note_line_of(const Stream& stream);
  void write_timeline();
  void summarise();

  RunOptions options_;
  SignalQueue signals_;
  Output out_;
  Output err_;
  bool in_line_ = false;  // of a rank, on standard error, which the rank has not ended
  StandardInput input_;
  const std::string secret_ = random_job_id() + random_job_id();
  std::vector<UniqueFd> lifelines_;  // to the hosts
  std::set<int> awaited_;            // those whose part has not said that it is there, by a zero
  // The warden starts before the directory is made, and removes it if this process is killed.
  std::optional<Warden> warden_;
  JobDirectory directory_;
  ReservedPort master_port_;
  std::set<pid_t> not_ours_;  // the warden, and children that we were born with
  Job job_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Outcome outcome_;
  Stage stage_ = Stage::running;
  Clock::time_point stage_end_ = Clock::time_point::max();
  Clock::time_point job_end_ = Clock::time_point::max();
  std::optional<int>
      forced_status_;  // status after a time-out, or if a program could not be started
  bool told_to_end_ = false;
  bool signalled_ = false;  // to end
  bool orphans_reported_ = false;
  bool processes_left_ = true;
  int replaced_ = 0;        // ranks that have failed, and for which there was a spare
  bool dismissed_ = false;  // the spares that wait still are told to end
};
}  // namespace symm::tool
