// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/ranks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

namespace ranks {
namespace {

int pipe_to_parent = -1;

std::string unique_name() {
  static std::atomic<int> count{0};
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1));
}

}  // namespace

void check(symm_status_t status) {
  if (status != SYMM_OK) throw Failed(status, std::string(symm_status_string(status)) + ": " + symm_last_error());
}

Group create(const Config& config, int rank, int size) {
  symm_group_config_t c = SYMM_GROUP_CONFIG_INIT;
  c.rank = rank;
  c.size = size;
  c.backend = SYMM_BACKEND_HOST;
  c.bootstrap = config.bootstrap.c_str();
  c.name = config.name.c_str();
  c.create_timeout_ms = config.create_timeout_ms;
  c.timeout_ms = config.timeout_ms;
  c.flags = config.flags;
  symm_group_t* group = nullptr;
  check(symm_group_create(&c, &group));
  return Group(group);
}

Group split(const Group& group, int color, int key) {
  symm_group_t* part = nullptr;
  check(symm_group_split(group.get(), color, key, &part));
  return Group(part);
}

void* Block::pointer(int rank) const {
  void* address = nullptr;
  check(symm_memory_pointer(memory.get(), rank, &address));
  return address;
}

Block allocate(const Group& group, size_t bytes, uint64_t tag) {
  symm_buffer_t* buffer = nullptr;
  check(symm_alloc(group.get(), bytes, 0, &buffer));
  Block block;
  block.buffer.reset(buffer);
  symm_memory_t* memory = nullptr;
  check(symm_rendezvous(group.get(), buffer, tag, &memory));
  block.memory.reset(memory);
  return block;
}

int rank_of(const Group& group) {
  int32_t rank = -1;
  check(symm_group_rank(group.get(), &rank));
  return rank;
}

int size_of(const Group& group) {
  int32_t size = -1;
  check(symm_group_size(group.get(), &size));
  return size;
}

void barrier(const Group& group, int channel, uint64_t timeout_ms) {
  check(symm_barrier(group.get(), nullptr, 0, channel, timeout_ms, nullptr));
}

BootstrapResult::BootstrapResult() {
  std::string pattern = (std::filesystem::temp_directory_path() / "symm-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  directory_ = pattern;
}

BootstrapResult::~BootstrapResult() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Config BootstrapResult::processes() const {
  Config config;
  config.bootstrap = "dir://" + directory_;
  return config;
}

Config BootstrapResult::threads() const {
  Config config;
  config.bootstrap = "thread://" + directory_;
  return config;
}

void as_threads(int size, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void as_threads(int size, const std::function<void(int, const Group&)>& body) {
  Config config;
  config.bootstrap = "thread://" + unique_name();
  as_threads(size, [&](int rank) {
    const Group group = create(config, rank, size);
    try {
      body(rank, group);
    } catch (...) {
      symm_group_abort(group.get(), "a test failed on this rank");  // so that the others do not wait for it
      throw;
    }
  });
}

Processes::Processes(int size, const std::function<void(int)>& body) : said_(static_cast<size_t>(size)) {
  std::cout << std::flush;
  const pid_t parent = getpid();
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(3);
      for (const int end : pipes_) close(end);
      close(ends[0]);
      pipe_to_parent = ends[1];
      int status = 0;
      try {
        body(rank);
      } catch (const std::exception& error) {
        say(std::string("exception: ") + error.what());
        status = 1;
      }
      if (testing::Test::HasFailure()) status = 1;
      std::cout << std::flush;
      // exit(), not _exit(): what the library does at the end of a process is under test too.
      std::exit(status);
    }
    close(ends[1]);
    pids_.push_back(pid);
    statuses_.push_back(-1);
    pipes_.push_back(ends[0]);
  }
}

Processes::~Processes() {
  for (size_t i = 0; i < pids_.size(); ++i) {
    if (statuses_[i] == -1) {
      ::kill(pids_[i], SIGKILL);
      waitpid(pids_[i], &statuses_[i], 0);
    }
    close(pipes_[i]);
  }
}

void Processes::kill(int rank, int signal) {
  ::kill(pid(rank), signal);
  if (signal != SIGSTOP) return;
  siginfo_t info{};  // its threads may go on for a moment otherwise
  waitid(P_PID, static_cast<id_t>(pid(rank)), &info, WSTOPPED | WEXITED | WNOWAIT);
}

bool Processes::reap(int rank, int milliseconds) {
  int& status = statuses_[static_cast<size_t>(rank)];
  if (status != -1) return true;
  int ended = 0;
  const bool in_time = eventually([&] { return waitpid(pid(rank), &ended, WNOHANG) == pid(rank); }, milliseconds);
  if (!in_time) {
    ::kill(pid(rank), SIGKILL);
    waitpid(pid(rank), &ended, 0);
  }
  status = ended;
  return in_time;
}

int Processes::wait(int rank, int milliseconds) {
  if (!reap(rank, milliseconds))
    ADD_FAILURE() << "rank " << rank << " did not end within " << milliseconds << " ms; it said: " << said(rank);
  return statuses_[static_cast<size_t>(rank)];
}

std::string Processes::said(int rank) {
  const auto index = static_cast<size_t>(rank);
  pollfd waiting{pipes_[index], POLLIN, 0};
  char buffer[4096];
  while (poll(&waiting, 1, 0) > 0) {
    const ssize_t got = read(pipes_[index], buffer, sizeof buffer);
    if (got <= 0) break;
    said_[index].append(buffer, static_cast<size_t>(got));
  }
  return said_[index];
}

bool Processes::hear(int rank, const std::string& text, int milliseconds) {
  return eventually([&] { return said(rank).find(text) != std::string::npos; }, milliseconds);
}

void Processes::expect_success(const std::vector<int>& except) {
  for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
    if (std::find(except.begin(), except.end(), rank) != except.end()) continue;
    const int status = wait(rank);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << " ended with wait status " << status << ": " << said(rank);
  }
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(pipe_to_parent, text.data(), text.size()) < 0) return;
}

void sleep_for_ever() {
  for (;;) pause();
}

bool eventually(const std::function<bool()>& so, int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

Footprint Footprint::now() {
  Footprint footprint;
  const auto entries = [](const char* folder) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
  };
  footprint.descriptors = entries("/proc/self/fd");
  footprint.threads = entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:symm") != std::string::npos) ++footprint.mappings;
  }
  return footprint;
}

Footprint Footprint::settled() {
  constexpr int kSame = 20;
  Footprint last = now();
  int same = 0;
  eventually([&] {
    const Footprint next = now();
    same = next == last ? same + 1 : 0;
    last = next;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return same >= kSame;
  });
  return last;
}

std::ostream& operator<<(std::ostream& out, const Footprint& f) {
  return out << f.descriptors << " descriptors, " << f.mappings << " mappings, " << f.threads << " threads";
}

size_t machine_shared_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    size_t kilobytes = 0;
    if (word == "Shmem:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace ranks
