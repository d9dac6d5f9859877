// The environment of each rank, the job's private directory, and the split of a job over
// machines.
#include "tools/run/job.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
constexpr std::array<std::string_view, 26> foreign_names = {"RANK", "WORLD_SIZE", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
    "ROLE_NAME", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_LOCALID",
    "SLURM_STEP_NUM_TASKS", "SYMM_RUN_TERMINAL", "SYMM_TRACE", "SYMM_FIRST_FAILURE", "SYMM_SPARE",
    "SYMM_TICKETS"};
constexpr std::array<std::string_view, 9> foreign_prefixes = {"OMPI_COMM_WORLD_", "PMIX_",
    "SYMM_RANK", "SYMM_SIZE", "SYMM_LOCAL_", "SYMM_JOB", "SYMM_BOOTSTRAP", "TORCHELASTIC_",
    "SLURM_STEP_TASKS_PER_NODE"};

// By these the loader, or a program, takes another file in place of NCCL.
constexpr std::array<std::string_view, 2> nccl_loader_names{"LD_PRELOAD", "LD_LIBRARY_PATH"};
constexpr std::array<const char*, 3> nccl_program_names{
    "VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH", "MEGATRON_NCCL_SO_PATH"};

// A user's path stands, also that of the drop-in; an empty one counts as none.
bool has_own_nccl(const char* name) { return *environment(name) != '\0'; }

// `first` in front of what the variable has, for those that list files or folders.
std::string in_front(const std::string& first, const char* inherited) {
  return *inherited == '\0' ? first : first + ":" + inherited;
}

// The variables by which the ranks get the drop-in.
std::vector<std::string> nccl_environment(const std::string& drop_in) {
  const std::filesystem::path file(drop_in);
  std::vector<std::string> out{"LD_PRELOAD=" + in_front(drop_in, environment("LD_PRELOAD"))};
  for (const char* const name : nccl_program_names) {
    if (!has_own_nccl(name)) out.push_back(std::string(name) + "=" + drop_in);
  }

  // Programs that look for libnccl.so, as those with cudarc do, find a link of that name beside the
  // file. A wheel has no links.
  const char* const folders = environment("LD_LIBRARY_PATH");
  if (std::filesystem::exists(file.parent_path() / "libnccl.so")) {
    out.push_back("LD_LIBRARY_PATH=" + in_front(file.parent_path(), folders));
  } else if (*folders != '\0') {
    out.push_back(std::string("LD_LIBRARY_PATH=") + folders);
  }
  return out;
}

bool foreign(std::string_view entry, const Job& job) {
  const std::string_view name = entry.substr(0, entry.find('='));

  if (!job.nccl.empty() && std::find(nccl_loader_names.begin(), nccl_loader_names.end(), name) !=
                               nccl_loader_names.end()) {
    return true;
  }
  if (!job.nccl.empty() &&
      std::any_of(nccl_program_names.begin(), nccl_program_names.end(),
          [&](const char* one) { return name == one && !has_own_nccl(one); })) {
    return true;
  }

  if (!job.place.empty() && name == "SYMM_SECRET_FILE") return true;
  if (!job.master.empty() && (name == "MASTER_ADDR" || name == "MASTER_PORT")) return true;

  return std::find(foreign_names.begin(), foreign_names.end(), name) != foreign_names.end() ||
         std::any_of(foreign_prefixes.begin(), foreign_prefixes.end(),
             [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

// RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE.
std::string torch_name(std::string_view name) {
  const size_t size = name.find("SIZE");
  if (size == std::string_view::npos) return std::string(name);
  return std::string(name.substr(0, size)) + "WORLD_SIZE";
}

// An address of IPv6 stands in brackets before a port only.
std::string without_brackets(const std::string& host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

constexpr const char* kDirectoryPrefix = "symm-run-";

UniqueFd open_directory(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_private_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 022) == 0;
}

constexpr size_t kSecretBytes = 32;

// The numbers that make up all of `text`.
int number_in(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}
}  // namespace

std::string for_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

std::string random_job_id() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", value);
  return text;
}

std::vector<std::string> rank_environment(const Job& job, int rank) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!foreign(*entry, job)) out.emplace_back(*entry);
  }

  const bool is_spare = rank >= job.ranks;
  const std::pair<const char*, int> numbers[] = {{"RANK", job.first + rank},
      {"SIZE", job.size > 0 ? job.size : job.ranks}, {"LOCAL_RANK", rank},
      {"LOCAL_SIZE", job.ranks}};
  for (const auto& [name, number] : numbers) {
    if (is_spare) break;  // it learns them when it takes the place of a rank
    out.push_back("SYMM_" + std::string(name) + "=" + std::to_string(number));
    out.push_back(torch_name(name) + "=" + std::to_string(number));
  }
  if (is_spare) out.push_back("SYMM_SPARE=" + std::to_string(rank - job.ranks));
  if (job.has_spares) out.push_back("SYMM_TICKETS=" + job.directory);
  if (!job.master.empty()) {
    const size_t colon = job.master.rfind(':');
    out.push_back("MASTER_ADDR=" + without_brackets(job.master.substr(0, colon)));
    out.push_back("MASTER_PORT=" + job.master.substr(colon + 1));
  }

  out.push_back("SYMM_JOB=" + job.id);
  out.push_back("SYMM_FIRST_FAILURE=" + job.directory + "/first-failure");
  out.push_back(job.place.empty() ? "SYMM_BOOTSTRAP=dir://" + job.directory
                                  : "SYMM_BOOTSTRAP=tcp://" + job.place);
  if (!job.place.empty()) out.push_back("SYMM_SECRET_FILE=" + job.directory + "/secret");
  if (!job.trace.empty()) out.push_back("SYMM_TRACE=" + job.trace);
  if (job.terminal) out.emplace_back("SYMM_RUN_TERMINAL=1");

  if (!job.nccl.empty()) {
    const std::vector<std::string> more = nccl_environment(job.nccl);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::vector<std::string> nccl_notes(const std::string& drop_in) {
  std::vector<std::string> notes;
  for (const char* const name : nccl_program_names) {
    std::error_code ignored;
    const char* const file = environment(name);
    if (!has_own_nccl(name) || std::filesystem::equivalent(file, drop_in, ignored)) continue;
    notes.push_back(std::string("--nccl: ") + name + "=" + file +
                    " is passed on, so the program that reads it takes that file, not the drop-in");
  }
  return notes;
}

std::string runtime_parent() {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  if (*runtime == '/' && is_private_directory(runtime)) return runtime;
  const char* temporary = environment("TMPDIR");
  return *temporary == '/' ? temporary : "/tmp";
}

std::string remedy_for_runtime_parent() {
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  std::string remedy =
      "set XDG_RUNTIME_DIR to a directory of your own that nobody else may write "
      "to (mode 0700), or TMPDIR to one that you may write to";
  if (!runtime.empty() && runtime != runtime_parent()) {
    remedy += "; XDG_RUNTIME_DIR=" + runtime + " is not taken, since it is not such a directory";
  }
  return remedy;
}

ReservedPort::ReservedPort() {
  UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

  const int on = 1;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = sizeof any;

  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(made.get(), address, size) != 0 || ::getsockname(made.get(), address, &size) != 0) {
    return;
  }

  number_ = ntohs(any.sin_port);
  socket_ = std::move(made);
}

bool master_is_chosen() {
  const bool is_rank = *environment("RANK") != '\0' && *environment("WORLD_SIZE") != '\0';
  return !is_rank && *environment("MASTER_ADDR") != '\0' && *environment("MASTER_PORT") != '\0';
}

std::string own_executable() {
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) return file;

  // The name by which the kernel was told to execute this program.
  const auto* const name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (name == nullptr) throw std::runtime_error("/proc/self/exe: " + failed.message());
  return std::filesystem::absolute(name);
}

std::string nccl_drop_in() {
  void* const library = open_nccl_drop_in();
  if (library == nullptr) {
    const char* const why = ::dlerror();
    throw std::runtime_error(std::string("--nccl: this symm was installed without its drop-in (") +
                             (why != nullptr ? why : "libsymm_nccl.so cannot be loaded") + ")");
  }

  const std::string file = file_of(library);
  if (file.empty()) {
    throw std::runtime_error("--nccl: the loader does not tell where libsymm_nccl.so is");
  }
  const std::string path = std::filesystem::absolute(file).lexically_normal();
  if (path.find_first_of(" :;") != std::string::npos) {
    throw std::runtime_error("--nccl: " + path +
                             ": the loader separates the paths in LD_PRELOAD and LD_LIBRARY_PATH "
                             "by spaces, colons and semicolons, so it cannot load the drop-in "
                             "from here: install symm in a folder without them");
  }
  return path;
}

JobDirectory::JobDirectory(const std::function<void(const std::string& path)>& before) {
  // The directory of a launcher that was killed together with its warden. A directory that was made
  // just now is not locked yet.
  constexpr time_t kSettledSeconds = 60;

  for (const std::string& left : stale_job_directories(runtime_parent(), kSettledSeconds)) {
    remove_tree(left);
  }

  path_ = runtime_parent() + "/" + kDirectoryPrefix + random_job_id();
  if (before) before(path_);
  if (::mkdir(path_.c_str(), 0700) != 0) {
    throw std::runtime_error("cannot make the private directory " + path_ + ": " +
                             std::strerror(errno) + "; " + remedy_for_runtime_parent());
  }

  lock_ = open_directory(path_);
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    remove_tree(path_);
    throw std::system_error(error, std::generic_category(), "cannot lock " + path_);
  }
}

JobDirectory::~JobDirectory() { remove_tree(path_); }

std::vector<std::string> stale_job_directories(const std::string& parent, time_t seconds) {
  std::vector<std::string> stale;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kDirectoryPrefix, 0) != 0) continue;
    const UniqueFd directory = open_directory(entry.path().string());
    struct stat info{};
    if (!directory || ::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (::time(nullptr) - info.st_mtime < seconds) continue;
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) stale.push_back(entry.path().string());
  }

  return stale;
}

bool remove_tree(const std::string& path) noexcept {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  return !failed;
}

Hosts parse_hosts(std::string_view text) {
  Hosts hosts;
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) {
    const size_t colon = word.rfind(':');
    const int ranks =
        colon == std::string::npos ? -1 : number_in(std::string_view(word).substr(colon + 1));
    if (colon == 0 || ranks < 1 || ranks > 4096 || word.front() == '-') {
      throw std::invalid_argument("'" + word + "' is not a host with its ranks, as in node7:4");
    }
    hosts.emplace_back(word.substr(0, colon), ranks);
  }

  if (hosts.empty()) throw std::invalid_argument("no hosts");
  return hosts;
}

std::string write_part(const JobPart& part) {
  return std::to_string(part.first) + ":" + std::to_string(part.size) + ":" + part.id + ":" +
         part.place;
}

JobPart parse_part(const std::string& text) {
  JobPart part;
  std::istringstream words(text);
  std::string first;
  std::string size;
  std::getline(words, first, ':') && std::getline(words, size, ':') &&
      std::getline(words, part.id, ':') && std::getline(words, part.place);
  part.first = number_in(first);
  part.size = number_in(size);

  if (part.first < 0 || part.size <= part.first || part.place.empty()) {
    throw std::invalid_argument("no part of a job: " + text);
  }

  return part;
}

std::vector<std::string> command_on(
    const std::string& host, const std::string& launcher, const std::string& line) {
  std::vector<std::string> command;
  std::istringstream words(launcher);
  for (std::string word; words >> word;) {
    size_t at = word.find("%h");
    while (at != std::string::npos) {
      word.replace(at, 2, host);
      at = word.find("%h", at + host.size());
    }
    command.push_back(word);
  }

  command.push_back(line);
  return command;
}

std::string line_for_shell(const std::vector<std::string>& arguments) {
  std::string line = "cd " + for_shell(std::filesystem::current_path()) + " && exec";
  line += " " + for_shell(own_executable());
  for (const std::string& argument : arguments) {
    line += " " + for_shell(argument);
  }
  return line;
}

void keep_secret(const std::string& path) {
  std::string bytes(kSecretBytes, '\0');
  for (char& byte : bytes) {
    if (::read(STDIN_FILENO, &byte, 1) != 1) {
      throw std::runtime_error(
          "no secret came on standard input: this is what symm run --hosts starts, not people");
    }
  }

  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file ||
      ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::system_error(errno, std::generic_category(), path);
  }
}

Pipe pipe_with(const std::string& text) {
  Pipe pipe = make_pipe();
  if (::write(pipe.write_end.get(), text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(), "write");
  }
  return pipe;
}
}  // namespace symm::tool
