// Start, loop, output. How a job is brought to its end is in launcher_end.cpp.
#include "tools/run/launcher.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include "tools/host/host.hpp"
#include "tools/run/descendants.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
// 0, 1 and 2 must be taken before a pipe is made, or a rank's pipe might become our standard output.
void open_missing_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
}
}  // namespace

Launcher::Launcher(const RunOptions& options)
    : options_((open_missing_standard_streams(), options)), out_(STDOUT_FILENO), err_(STDERR_FILENO),
      directory_([this](const std::string& path) { warden_.emplace(path); }), not_ours_(inherited_children()) {
  job_.id = random_job_id();
  job_.directory = directory_.path();
  job_.ranks = options_.ranks;
  job_.terminal = ::isatty(STDERR_FILENO) != 0;
  if (const auto& part = options_.part) {
    job_.id = part->job;
    job_.first = part->first;
    job_.size = part->size;
    job_.place = part->place;
    keep_secret(job_.directory + "/secret");
  }
  // One of those that the kernel does not give to others, if nobody says which.
  if (!options_.hosts.empty() && options_.port == 0)
    options_.port = 20'000 + static_cast<int>(std::stoul(job_.id.substr(8), nullptr, 16) % 10'000);
  // From here on nothing below us can get away by losing its parent.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int Launcher::run() {
  if (options_.timeout) job_end_ = Clock::now() + *options_.timeout;
  start_ranks();
  while (turn()) {}
  summarise();
  return forced_status_ ? *forced_status_ : outcome_.status();
}

std::string Launcher::name_of(int rank) const {
  if (!options_.hosts.empty()) return "host " + options_.hosts[static_cast<size_t>(rank)].first;
  return "rank " + std::to_string(job_.first + rank);
}

std::string Launcher::prefix(int rank, bool colour) const {
  if (!options_.prefix) return {};
  static constexpr Colour colours[] = {Colour::cyan, Colour::green, Colour::yellow, Colour::magenta, Colour::blue, Colour::red};
  const std::string tag = options_.tag.empty() ? "" : options_.tag + " ";
  return paint("[" + tag + std::to_string(job_.first + rank) + "]", colours[static_cast<size_t>(rank) % std::size(colours)],
             colour) +
         " ";
}

const std::vector<std::string>& Launcher::command_of(int rank) const {
  auto program = options_.programs.begin();
  for (; rank >= program->first; ++program) rank -= program->first;
  return program->second;
}

void Launcher::start_ranks() {
  std::vector<cpu_set_t> cores;
  if (options_.bind == Bind::core) {
    cores = usable_cores();
    if (cores.size() < static_cast<size_t>(options_.ranks)) {
      say("warning: " + std::to_string(options_.ranks) + " ranks bound to " + std::to_string(cores.size()) +
          " cores: some share one and will wait for each other");
    }
  }
  try {
    for (int rank = 0; rank < options_.ranks; ++rank) start_rank(rank, cores);
  } catch (const ExecError& error) {
    say(error.what());
    forced_status_ = error.status;
  } catch (const std::system_error& error) {
    say("cannot start " + name_of(static_cast<int>(ranks_.size())) + ": " + error.what());
    forced_status_ = 1;
  }
  input_.rank_0_started();
  if (forced_status_) enter(Stage::terminating);
}

void Launcher::start_rank(int rank, const std::vector<cpu_set_t>& cores) {
  SpawnRequest request;
  request.command = command_of(rank);
  request.environment = rank_environment(job_, rank);
  if (!cores.empty()) request.processors = cores[static_cast<size_t>(rank) % cores.size()];
  UniqueFd secret;
  if (!options_.hosts.empty()) {
    const auto& [host, ranks] = options_.hosts[static_cast<size_t>(rank)];
    JobPart part{0, 0, job_.id,
        options_.hosts[0].first.substr(options_.hosts[0].first.find('@') + 1) + ":" + std::to_string(options_.port)};
    for (int i = 0; i < options_.ranks; ++i) {
      const int here = options_.hosts[static_cast<size_t>(i)].second;
      part.size += here;
      if (i < rank) part.first += here;
    }
    std::vector<std::string> arguments{"run", "--part", write_part(part), "-n", std::to_string(ranks)};
    arguments.insert(arguments.end(), request.command.begin(), request.command.end());
    request.command = command_on(host, options_.launcher, line_for_shell(arguments));
    request.environment.clear();
    for (char** entry = environ; *entry != nullptr; ++entry) request.environment.emplace_back(*entry);
    secret = pipe_with(secret_, lifelines_.emplace_back());
    request.standard_input = secret.get();
  } else if (rank == 0 && !options_.part) {
    request.standard_input = input_.for_rank_0();
  }
  // By the rank itself: were this process killed first, nobody would know of what the rank starts.
  request.announce = [this](pid_t self, bool runs) { runs ? warden_->watch(self) : warden_->forget(self); };
  Spawned process = spawn(request);
  const auto lines = [&](int fd) { return LineAssembler(prefix(rank, wants_colour(fd)), options_.prefix && ::isatty(fd) != 0); };
  ranks_.push_back(std::make_unique<Rank>(Rank{
      rank, std::move(process), true, lines(STDOUT_FILENO), lines(STDERR_FILENO), log_of(rank, "out"), log_of(rank, "err")}));
}

UniqueFd Launcher::log_of(int rank, const char* stream) const {
  if (options_.log_directory.empty()) return {};
  const std::string path = options_.log_directory + "/rank." + std::to_string(job_.first + rank) + "." + stream;
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw std::system_error(errno, std::generic_category(), path);
  return file;
}

int Launcher::poll_timeout() const {
  Clock::time_point end = nobody_left() ? Clock::time_point::max() : stage_end_;
  if (stage_ == Stage::running) end = std::min(end, job_end_);
  // Grandchildren end without telling us; and in the background of a terminal we look whether we are in front again.
  const bool look_again = !any_alive() && processes_left_;
  const int longest = look_again ? 20 : 500;
  const auto left = std::chrono::floor<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left + 1, 0, longest));
}

bool Launcher::turn() {
  std::vector<pollfd> polled;
  std::vector<std::pair<Rank*, bool>> streams;  // whose, and whether it is stderr
  const auto want = [&](int fd, short events) { polled.push_back({fd, events, 0}); };
  want(signals_.fd(), POLLIN);
  want(out_.pending() ? out_.fd() : -1, POLLOUT);
  want(err_.pending() ? err_.fd() : -1, POLLOUT);
  // Of a part, its end alone matters.
  want(options_.part && stage_ == Stage::running  ? STDIN_FILENO
       : options_.part || !options_.hosts.empty() ? -1
                                                  : input_.readable_fd(),
      POLLIN);
  want(input_.writable_fd(), POLLOUT);
  const size_t first_stream = polled.size();
  for (const auto& rank : ranks_) {
    for (const bool is_err : {false, true}) {
      want((is_err ? err_ : out_).full() ? -1 : (is_err ? rank->process.err : rank->process.out).get(), POLLIN);
      streams.emplace_back(rank.get(), is_err);
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
    if (polled[first_stream + i].revents == 0) continue;
    auto [rank, is_err] = streams[i];
    read_stream(*rank, is_err);
  }
  close_streams_without_reader();
  for (const int signal : signals_.take()) on_signal(signal);
  reap();
  if (!any_alive()) look_for_orphans();
  if (nobody_left()) drain();
  on_time();
  return stage_ != Stage::leaving && (!nobody_left() || streams_open() || out_.pending() || err_.pending());
}

void Launcher::read_stream(Rank& rank, bool is_err) {
  UniqueFd& fd = is_err ? rank.process.err : rank.process.out;
  UniqueFd& log = is_err ? rank.err_log : rank.out_log;
  LineAssembler& lines = is_err ? rank.err : rank.out;
  Output& output = is_err ? err_ : out_;
  char buffer[65536];
  const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
  if (size > 0) {
    if (log && ::write(log.get(), buffer, static_cast<size_t>(size)) != size) {
      say("the log of rank " + std::to_string(job_.first + rank.rank) + " ends here: " + std::generic_category().message(errno));
      log.reset();
    }
    lines.feed({buffer, static_cast<size_t>(size)}, output.queue());
    return;
  }
  // A descriptor handed to a process elsewhere may keep the pipe open when all of the job has gone; then what is there is all.
  if (size < 0 && (errno == EINTR || (errno == EAGAIN && !nobody_left()))) return;
  lines.finish(output.queue());
  fd.reset();
}

// Nobody reads our output any more (`symm run ... | head`). Let the ranks feel it as they would without us: by SIGPIPE.
void Launcher::close_streams_without_reader() {
  for (const auto& rank : ranks_) {
    if (out_.broken()) rank->process.out.reset();
    if (err_.broken()) rank->process.err.reset();
  }
}

void Launcher::drain() {
  for (const auto& rank : ranks_) {
    while (rank->process.out && !out_.full()) read_stream(*rank, false);
    while (rank->process.err && !err_.full()) read_stream(*rank, true);
  }
}

bool Launcher::streams_open() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->process.out || rank->process.err; });
}

void Launcher::say(std::string_view text) {
  if (err_.broken()) return;
  err_.queue() += job_.terminal ? "\033[2K" : "";
  err_.queue() += paint("symm run:", Colour::bold, wants_colour(STDERR_FILENO));
  err_.queue() += " ";
  err_.queue() += text;
  err_.queue() += "\n";
}
}  // namespace symm::tool
