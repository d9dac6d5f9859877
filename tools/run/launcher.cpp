// Starts the ranks, carries their output, and ends all when one fails.
#include "tools/run/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job.hpp"
#include "tools/run/processes.hpp"
#include "tools/run/streams.hpp"
#include "tools/text.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
// Descriptors 0, 1 and 2 must be open before a pipe is made, or a rank's pipe might become
// the launcher's standard output.
void open_missing_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_PATH) == 0) continue;  // O_PATH: held by hold_closed_streams()
    const int opened = ::open("/dev/null", O_RDWR);
    if (opened == fd || opened < 0) continue;
    ::dup2(opened, fd);
    ::close(opened);
  }
}

// After SIGKILL only a process inside an uninterruptible system call is still there; it
// cannot be helped and must not hold us.
constexpr std::chrono::seconds patience_after_kill{5};

std::string seconds(std::chrono::milliseconds duration) {
  std::string text = std::to_string(static_cast<double>(duration.count()) / 1000.0);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}
// The port beside the one at which ranks of several machines meet.
std::string above(const std::string& place) {
  const size_t colon = place.rfind(':');
  const int port = std::stoi(place.substr(colon + 1));
  return place.substr(0, colon + 1) + std::to_string(port < 65'535 ? port + 1 : port - 1);
}
}  // namespace

Launcher::Launcher(const RunOptions& options)
    : options_((open_missing_standard_streams(), options)),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      directory_([this](const std::string& path) { warden_.emplace(path); }),
      not_ours_(inherited_children()) {
  static_cast<JobPart&>(job_) = options_.part.value_or(JobPart{.id = random_job_id()});
  job_.directory = directory_.path();
  job_.ranks = options_.ranks;
  job_.has_spares = options_.spares > 0;
  job_.terminal = ::isatty(STDERR_FILENO) != 0 || options_.terminal ||
                  *environment("SYMM_RUN_TERMINAL") != '\0';
  job_.trace = options_.trace;
  // Each machine has its own.
  if (options_.nccl && options_.hosts.empty()) job_.nccl = nccl_drop_in();

  if (!options_.trace.empty() && !options_.part) {
    job_.trace = options_.hosts.empty()
                     ? job_.directory + "/trace"
                     : std::filesystem::absolute(options_.trace).string() + ".notes";
    std::filesystem::create_directory(job_.trace);
    if (!std::ofstream(options_.trace)) {
      throw std::system_error(errno, std::generic_category(), options_.trace);
    }
  }

  if (options_.part) {
    job_.master = above(job_.place);
  } else if (options_.hosts.empty() && !master_is_chosen() && master_port_.number() != 0) {
    job_.master = "127.0.0.1:" + std::to_string(master_port_.number());
  }

  if (options_.part) keep_secret(job_.directory + "/secret");
  // The default port is below those that the kernel gives to connections by itself.
  if (!options_.hosts.empty() && options_.port == 0) {
    options_.port = 20'000 + static_cast<int>(std::stoul(job_.id.substr(8), nullptr, 16) % 10'000);
  }

  // From here on no process below this one escapes by losing its parent.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int Launcher::run() {
  if (options_.timeout) job_end_ = Clock::now() + *options_.timeout;
  if (options_.part) err_.queue() += '\0';
  if (!job_.nccl.empty()) {
    for (const std::string& note : nccl_notes(job_.nccl)) {
      say("warning: " + note);
    }
  }

  start_ranks();
  while (turn()) {
  }

  if (!options_.trace.empty() && !options_.part) write_timeline();
  summarise();
  return forced_status_ ? *forced_status_ : outcome_.status();
}

std::string Launcher::rank_name(int rank) const {
  if (!options_.hosts.empty()) return "host " + options_.hosts[static_cast<size_t>(rank)].first;
  if (rank >= options_.ranks) return "spare " + std::to_string(rank - options_.ranks);
  return "rank " + std::to_string(job_.first + rank);
}

std::string Launcher::prefix(int rank, bool colour) const {
  if (!options_.prefix) return {};
  static constexpr Colour colours[] = {
      Colour::cyan, Colour::green, Colour::yellow, Colour::magenta, Colour::blue, Colour::red};
  const std::string tag = options_.tag.empty() ? "" : options_.tag + " ";
  const std::string who =
      rank >= options_.ranks ? rank_name(rank) : std::to_string(job_.first + rank);
  return paint("[" + tag + who + "]", colours[static_cast<size_t>(rank) % std::size(colours)],
             colour) +
         " ";
}

const std::vector<std::string>& Launcher::command_of(int rank) const {
  auto program = options_.programs.begin();
  if (rank >= options_.ranks) return program->second;  // a spare of the only program
  for (; rank >= program->first; ++program) {
    rank -= program->first;
  }
  return program->second;
}

void Launcher::start_ranks() {
  std::vector<cpu_set_t> cores;
  if (options_.bind == "core") {
    cores = usable_cores();
    if (cores.size() < static_cast<size_t>(options_.ranks)) {
      say("warning: " + std::to_string(options_.ranks) + " ranks bound to " +
          std::to_string(cores.size()) + " cores: some share one and will wait for each other");
    }
  }

  try {
    for (int rank = 0; rank < options_.ranks + options_.spares; ++rank) {
      start_rank(rank, cores);
    }
  } catch (const ExecError& error) {
    say(error.what());
    forced_status_ = error.status;
  } catch (const std::system_error& error) {
    say("cannot start " + rank_name(static_cast<int>(ranks_.size())) + ": " + error.what());
    forced_status_ = 1;
  }

  input_.rank_0_started();
  show_who_is_awaited();
  if (forced_status_) enter(Stage::terminating);
}

void Launcher::start_rank(int rank, const std::vector<cpu_set_t>& cores) {
  SpawnRequest request;
  request.command = command_of(rank);
  request.environment = rank_environment(job_, rank);
  if (!cores.empty()) request.processors = cores[static_cast<size_t>(rank) % cores.size()];
  Pipe secret;

  if (!options_.hosts.empty()) {
    const auto& [host, ranks] = options_.hosts[static_cast<size_t>(rank)];
    JobPart part{job_.id, 0, 0,
        options_.hosts[0].first.substr(options_.hosts[0].first.find('@') + 1) + ":" +
            std::to_string(options_.port)};
    for (int i = 0; i < options_.ranks; ++i) {
      const int here = options_.hosts[static_cast<size_t>(i)].second;
      part.size += here;
      if (i < rank) part.first += here;
    }
    std::vector<std::string> arguments{
        "run", "--part", write_part(part), "-n", std::to_string(ranks)};
    if (!job_.trace.empty()) arguments.insert(arguments.end(), {"--trace", job_.trace});
    if (job_.terminal) arguments.emplace_back("--terminal");
    awaited_.insert(rank);
    arguments.insert(arguments.end(), request.command.begin(), request.command.end());
    request.command = command_on(host, options_.launcher, line_for_shell(arguments));
    request.environment.clear();
    secret = pipe_with(secret_);
    request.standard_input = secret.read_end.get();
    lifelines_.push_back(std::move(secret.write_end));
  } else if (rank == 0 && !options_.part) {
    request.standard_input = input_.for_rank_0();
  }

  // The rank registers itself: if this process were killed first, the processes that the
  // rank starts would be unknown.
  request.announce = [this](pid_t self, bool runs) {
    runs ? warden_->watch(self) : warden_->forget(self);
  };

  Spawned process = spawn(request);
  const auto stream = [&](UniqueFd& fd, const char* name, Output& to) {
    const bool terminal = &to == &err_ ? job_.terminal : ::isatty(to.fd()) != 0;
    LineAssembler lines(
        prefix(rank, wants_colour(to.fd())), terminal && !options_.verbatim, options_.verbatim);
    return Stream{std::move(fd), std::move(lines), log_of(rank, name), to};
  };

  ranks_.push_back(std::make_unique<Rank>(Rank{rank, process.pid, true,
      {stream(process.out, "out", out_), stream(process.err, "err", err_)}}));
}

UniqueFd Launcher::log_of(int rank, const char* stream) const {
  if (options_.log_directory.empty()) return {};
  const bool is_spare = rank >= options_.ranks;
  const int number = is_spare ? rank - options_.ranks : job_.first + rank;
  const std::string path = options_.log_directory + (is_spare ? "/spare." : "/rank.") +
                           std::to_string(number) + "." + stream;
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw std::system_error(errno, std::generic_category(), path);
  return file;
}

int Launcher::poll_timeout() const {
  Clock::time_point end = nobody_left() ? Clock::time_point::max() : stage_end_;
  if (stage_ == Stage::running) end = std::min(end, job_end_);
  // Grandchildren end without a signal to the launcher; and a launcher in the background of a
  // terminal checks whether it is in the foreground again.
  const bool look_again = !any_alive() && processes_left_;
  const int longest = look_again ? 20 : 500;
  const auto left = std::chrono::floor<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left + 1, 0, longest));
}

// Waits for the next event and handles what came. Long, since the descriptors that are polled and
// what is done for each go together.
bool Launcher::turn() {
  std::vector<pollfd> polled;
  std::vector<std::pair<int, Stream*>> streams;  // and whose they are
  const auto want = [&](int fd, short events) { polled.push_back({fd, events, 0}); };
  want(signals_.fd(), POLLIN);
  want(out_.pending() ? out_.fd() : -1, POLLOUT);
  want(err_.pending() ? err_.fd() : -1, POLLOUT);

  int input = -1;
  if (options_.part) {
    // For a part of a job, only the end of its input matters.
    if (stage_ == Stage::running) input = STDIN_FILENO;
  } else if (options_.hosts.empty()) {
    input = input_.readable_fd();
  }
  want(input, POLLIN);
  want(input_.writable_fd(), POLLOUT);
  const size_t first_stream = polled.size();

  for (const auto& rank : ranks_) {
    for (Stream& stream : rank->streams) {
      want(stream.to.full() ? -1 : stream.fd.get(), POLLIN);
      streams.emplace_back(rank->rank, &stream);
    }
  }

  if (::poll(polled.data(), polled.size(), poll_timeout()) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }

  if (polled[1].revents != 0) out_.write_some();
  if (polled[2].revents != 0) err_.write_some();
  if (polled[3].revents != 0 && options_.part) {
    say("the launcher of the job is gone; ending the ranks here");
    signalled_ = true;
    enter(Stage::terminating);
  } else if (polled[3].revents != 0) {
    input_.read_some();
  }

  if (polled[4].revents != 0) input_.write_some();
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto& [rank, stream] = streams[i];
    if (polled[first_stream + i].revents != 0) read_stream(rank, *stream);
    // Nobody reads our output any more (`symm run ... | head`). Let the ranks feel it
    // as they would without us: by SIGPIPE.
    if (stream->to.broken()) stream->fd.reset();
  }

  for (const int signal : signals_.take()) {
    on_signal(signal);
  }

  reap();
  if (!any_alive()) look_for_orphans();
  if (nobody_left()) drain();
  on_time();

  return stage_ != Stage::leaving &&
         (!nobody_left() || streams_open() || out_.pending() || err_.pending());
}

void Launcher::read_stream(int rank, Stream& stream) {
  char buffer[65536];
  const ssize_t size = ::read(stream.fd.get(), buffer, sizeof buffer);
  if (size > 0) {
    if (stream.log && ::write(stream.log.get(), buffer, static_cast<size_t>(size)) != size) {
      say("the log of rank " + std::to_string(job_.first + rank) +
          " ends here: " + std::generic_category().message(errno));
      stream.log.reset();
    }
    const std::string_view all(buffer, static_cast<size_t>(size));
    const size_t zero =
        &stream.to == &err_ && awaited_.contains(rank) ? all.find('\0') : std::string_view::npos;
    stream.lines.feed(all.substr(0, zero), stream.to.queue());
    note_line_of(stream);
    if (awaited_.empty()) return;
    if (zero != std::string_view::npos) {
      awaited_.erase(rank);
      stream.lines.feed(all.substr(zero + 1), stream.to.queue());
    }
    show_who_is_awaited();
    return;
  }

  // A descriptor handed to a process elsewhere may keep the pipe open when all of the
  // job has gone; then what is there is all.
  if (size < 0 && (errno == EINTR || (errno == EAGAIN && !nobody_left()))) return;
  stream.lines.finish(stream.to.queue());
  note_line_of(stream);
  stream.fd.reset();
}

void Launcher::note_line_of(const Stream& stream) {
  const std::string& queue = stream.to.queue();
  if (!options_.verbatim || &stream.to != &err_ || queue.empty()) return;
  // The zero says to the launcher of all machines that this part is there.
  in_line_ = queue.back() != '\n' && queue.back() != '\0';
}

void Launcher::show_who_is_awaited() {
  if (options_.hosts.empty() || !job_.terminal || stage_ != Stage::running) return;
  std::vector<std::string> names;
  for (const int host : awaited_) {
    names.push_back(options_.hosts[static_cast<size_t>(host)].first);
  }
  err_.queue() += "\033[2K" + (names.empty() ? "" : "waiting for " + join(names, ", ")) + "\r";
}

void Launcher::drain() {
  for (const auto& rank : ranks_) {
    for (Stream& stream : rank->streams) {
      while (stream.fd && !stream.to.full()) {
        read_stream(rank->rank, stream);
      }
    }
  }
}

bool Launcher::streams_open() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
      [](const auto& rank) { return rank->streams[0].fd || rank->streams[1].fd; });
}

void Launcher::say(std::string_view text) {
  if (err_.broken()) return;
  if (std::exchange(in_line_, false)) err_.queue() += "\n";
  err_.queue() += job_.terminal ? "\033[2K" : "";
  err_.queue() += paint("symm run:", Colour::bold, wants_colour(STDERR_FILENO));
  err_.queue() += " ";
  err_.queue() += text;
  err_.queue() += "\n";
}

// How a job ends: a rank fails, a signal or a deadline comes, and nothing may stay behind.

bool Launcher::any_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->alive; });
}

void Launcher::signal_all(int signal) const {
  for (const auto& rank : ranks_) {
    if (rank->alive) ::kill(-rank->pid, signal);
  }
  if (any_alive()) return;
  for (const auto& [orphan, process] : living_descendants(not_ours_)) {
    ::kill(orphan, signal);
  }
}

void Launcher::enter(Stage stage, int signal) {
  stage_ = stage;
  stage_end_ = Clock::now() + (stage == Stage::killing ? Clock::duration(patience_after_kill)
                                                       : Clock::duration(options_.grace));
  if (stage == Stage::terminating || stage == Stage::killing) {
    told_to_end_ = true;
    signal_all(stage == Stage::terminating ? signal : SIGKILL);
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

  say("passing " + signal_name(signal) + " to the ranks; they have " + seconds(options_.grace) +
      " to end");
  signalled_ = true;
  enter(Stage::terminating, signal);
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
    // Output that was not read in this time will not be read.
    if (forced_status_ || signalled_) stage_ = Stage::leaving;
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
  // All that have ended, first looked at together: of two ranks that ended at almost
  // the same time, the one that was killed is the likelier cause.
  std::vector<std::pair<Rank*, int>> ended;
  siginfo_t info{};

  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const pid_t pid = info.si_pid;
    const auto found = std::find_if(
        ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank->pid == pid; });
    if (found != ranks_.end()) warden_->forget(pid);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (found != ranks_.end()) ended.emplace_back(found->get(), status);
    info = {};
  }

  std::stable_partition(
      ended.begin(), ended.end(), [](const auto& end) { return WIFSIGNALED(end.second); });
  for (const auto& end : ended) {
    end.first->alive = false;
  }

  for (const auto& [rank, status] : ended) {
    if (rank->rank == 0) input_.close();
    if (dismissed_) continue;
    if (may_be_replaced(status)) {
      ++replaced_;
      say(rank_name(rank->rank) + " (pid " + std::to_string(rank->pid) + ") " +
          describe_end(status) +
          "; spares that are left for it: " + std::to_string(options_.spares - replaced_ + 1));
      continue;
    }
    if (!outcome_.record(job_.first + rank->rank, status, told_to_end_)) continue;
    say(rank_name(rank->rank) + " (pid " + std::to_string(rank->pid) + ") " + describe_end(status) +
        (any_alive() ? "; the others have " + seconds(options_.grace) + " to end" : ""));
    // The rank that ends first may only have heard of it from another.
    std::ifstream file(job_.directory + "/first-failure");
    if (std::string why; std::getline(file, why)) say("what failed first: " + why);
    enter(Stage::waiting);
  }
  if (!ended.empty()) dismiss_spares();
}

bool Launcher::may_be_replaced(int wait_status) const {
  return wait_status != 0 && stage_ == Stage::running && replaced_ < options_.spares;
}

bool Launcher::waits(const Rank& rank) const {
  return rank.rank >= options_.ranks &&
         !std::filesystem::exists(
             job_.directory + "/rank-" + std::to_string(rank.rank - options_.ranks));
}

// Spares that wait still when all ranks have ended get no place any more.
void Launcher::dismiss_spares() {
  if (options_.spares == 0 || stage_ != Stage::running) return;
  const bool is_over = std::all_of(
      ranks_.begin(), ranks_.end(), [&](const auto& rank) { return !rank->alive || waits(*rank); });
  if (!is_over || !any_alive()) return;
  dismissed_ = true;
  enter(Stage::terminating);
}

void Launcher::look_for_orphans() {
  if (!processes_left_) return;
  const Processes orphans = living_descendants(not_ours_);
  processes_left_ = !orphans.empty();
  if (orphans.empty() || orphans_reported_) return;
  orphans_reported_ = true;
  std::vector<std::string> names;

  for (const auto& [pid, orphan] : orphans) {
    names.push_back(orphan.name + " (pid " + std::to_string(pid) + ")");
  }

  say("the ranks left processes behind: " + join(names, ", ") + "; ending them");
  if (stage_ == Stage::killing) {
    signal_all(SIGKILL);
  } else {
    enter(Stage::terminating);
  }
}

void Launcher::summarise() {
  for (const std::string& line :
      options_.hosts.empty() ? outcome_.later() : std::vector<std::string>()) {
    say("then " + line);
  }
  const auto end = Clock::now() + options_.grace;
  while (err_.pending() && Clock::now() < end) {
    pollfd writable{err_.fd(), POLLOUT, 0};
    if (::poll(&writable, 1, 100) > 0) err_.write_some();
  }
}

bool Outcome::record(int rank, int wait_status, bool expected) {
  if (wait_status == 0) return false;
  if (!expected && !first_failure_) {
    first_failure_ = wait_status;
    return true;
  }
  if (expected && !first_ended_) first_ended_ = wait_status;
  later_[describe_end(wait_status)].push_back(rank);
  return false;
}

int Outcome::status() const {
  if (first_failure_) return shell_status(*first_failure_);
  return first_ended_ ? shell_status(*first_ended_) : 0;
}

std::vector<std::string> Outcome::later() const {
  std::vector<std::string> out;
  for (const auto& [end, unsorted] : later_) {
    std::vector<int> ranks = unsorted;
    std::sort(ranks.begin(), ranks.end());
    std::string text = end;
    if (ranks.size() > 1 && text.rfind("was ", 0) == 0) text = "were " + text.substr(4);
    out.push_back(format_ranks(ranks) + " " + text);
  }
  return out;
}
}  // namespace symm::tool
