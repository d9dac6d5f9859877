// How a job ends: a rank fails, a signal or a deadline comes, and nothing may stay behind.
#include <poll.h>
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include "tools/run/descendants.hpp"
#include "tools/run/launcher.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
// After SIGKILL only a process inside an uninterruptible system call is still there; it cannot be helped and must not hold us.
constexpr std::chrono::seconds patience_after_kill{5};

std::string seconds(std::chrono::milliseconds duration) {
  std::string text = std::to_string(static_cast<double>(duration.count()) / 1000.0);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}
}  // namespace

bool Launcher::any_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->alive; });
}

void Launcher::signal_all(int signal) const {
  for (const auto& rank : ranks_)
    if (rank->alive) ::kill(-rank->process.pid, signal);
  if (any_alive()) return;
  for (const Descendant& orphan : living_descendants(not_ours_)) ::kill(orphan.pid, signal);
}

void Launcher::enter(Stage stage) {
  stage_ = stage;
  stage_end_ = Clock::now() + (stage == Stage::killing ? Clock::duration(patience_after_kill) : Clock::duration(options_.grace));
  if (stage == Stage::terminating || stage == Stage::killing) {
    told_to_end_ = true;
    signal_all(stage == Stage::terminating ? SIGTERM : SIGKILL);
    signal_all(SIGCONT);  // a stopped process would not see SIGTERM
  }
}

void Launcher::on_signal(int signal) {
  if (signal == SIGCHLD) return;  // reap() looks every time
  if (signal == SIGTSTP) {
    signal_all(SIGSTOP);
    ::kill(::getpid(), SIGSTOP);
    return;
  }
  if (!asks_to_end(signal)) {
    signal_all(signal);
    return;
  }
  if (nobody_left()) {  // only our reader keeps us
    stage_ = Stage::leaving;
    return;
  }
  if (stage_ == Stage::terminating || stage_ == Stage::killing) {
    say("second signal: killing the ranks");
    enter(Stage::killing);
    return;
  }
  say("passing " + signal_name(signal) + " to the ranks; they have " + seconds(options_.grace) + " to end");
  signal_all(signal);
  signal_all(SIGCONT);
  told_to_end_ = signalled_ = true;
  stage_ = Stage::terminating;
  stage_end_ = Clock::now() + options_.grace;
}

void Launcher::on_time() {
  const auto now = Clock::now();
  if (now >= job_end_ && stage_ == Stage::running && any_alive()) {
    say("time-out: the job has run for " + seconds(*options_.timeout) + "; ending its ranks");
    forced_status_ = timed_out_status;
    enter(Stage::terminating);
  }
  if (now < stage_end_) return;
  if (nobody_left()) {
    if (forced_status_ || signalled_) stage_ = Stage::leaving;  // what nobody has read in this time nobody will
    return;
  }
  if (stage_ == Stage::waiting && any_alive()) {
    say("the other ranks have not ended within " + seconds(options_.grace) + "; terminating them");
    enter(Stage::terminating);
  } else if (stage_ == Stage::terminating) {
    say("still there after " + seconds(options_.grace) + ": killing what is left");
    enter(Stage::killing);
  } else if (stage_ == Stage::killing) {
    say("some processes do not die (they are inside the kernel); leaving them");
    stage_ = Stage::leaving;
  }
}

void Launcher::reap() {
  // All that have ended, first looked at together: of two ranks that ended at almost the same time, the one that was killed is
  // the likelier cause.
  std::vector<std::pair<Rank*, int>> ended;
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const pid_t pid = info.si_pid;
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank->process.pid == pid; });
    if (found != ranks_.end()) warden_->forget(pid);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (found != ranks_.end()) ended.emplace_back(found->get(), status);
    info = {};
  }
  std::stable_partition(ended.begin(), ended.end(), [](const auto& end) { return WIFSIGNALED(end.second); });
  for (const auto& end : ended) end.first->alive = false;
  for (const auto& [rank, status] : ended) {
    if (rank->rank == 0) input_.close();
    if (!outcome_.record(job_.first + rank->rank, status, told_to_end_)) continue;
    say(name_of(rank->rank) + " (pid " + std::to_string(rank->process.pid) + ") " + describe_end(status) +
        (any_alive() ? "; the others have " + seconds(options_.grace) + " to end" : ""));
    enter(Stage::waiting);
  }
}

void Launcher::look_for_orphans() {
  if (!processes_left_) return;
  const std::vector<Descendant> orphans = living_descendants(not_ours_);
  processes_left_ = !orphans.empty();
  if (orphans.empty() || orphans_reported_) return;
  orphans_reported_ = true;
  std::vector<std::string> names;
  for (const Descendant& orphan : orphans) names.push_back(orphan.name + " (pid " + std::to_string(orphan.pid) + ")");
  say("the ranks left processes behind: " + join(names, ", ") + "; ending them");
  if (stage_ == Stage::killing) {
    signal_all(SIGKILL);
  } else {
    enter(Stage::terminating);
  }
}

void Launcher::summarise() {
  for (const std::string& line : options_.hosts.empty() ? outcome_.later() : std::vector<std::string>()) say("then " + line);
  const auto end = Clock::now() + options_.grace;
  while (err_.pending() && Clock::now() < end) {
    pollfd writable{err_.fd(), POLLOUT, 0};
    if (::poll(&writable, 1, 100) > 0) err_.write_some();
  }
}
}  // namespace symm::tool
