// SPDX-License-Identifier: Apache-2.0
//
// Runs table.txt as one of three ranks, through the C API: the runner that those of the other languages are compared with.
#include <signal.h>
#include <symm/symm.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/behaviours/element.hpp"
#include "tests/bindings/behaviours/line.hpp"

namespace behaviours {
namespace {

struct Failed : std::runtime_error {
  explicit Failed(symm_status_t s) : std::runtime_error(symm_last_error()), status(s) {
    failure.struct_size = sizeof failure;
    if (symm_last_failure(&failure) != SYMM_OK) throw std::runtime_error(symm_last_error());
  }
  symm_status_t status;
  symm_failure_t failure = {};
};

void check(symm_status_t status) {
  if (status != SYMM_OK) throw Failed(status);
}

void require(int64_t seen, int64_t expected, const std::string& what) {
  if (seen == expected) return;
  throw std::runtime_error(what + " is " + std::to_string(seen) + ", not " + std::to_string(expected));
}

// The things of one scenario by their names. A released handle stays, so that it can be misused.
struct Things {
  std::map<std::string, symm_group_t*> groups;
  std::map<std::string, symm_buffer_t*> buffers;
  std::map<std::string, symm_memory_t*> memories;
  std::map<std::string, std::vector<std::byte>> arrays;
  std::map<std::string, bool> released;

  ~Things() {
    for (auto& [name, group] : groups) drop(name, [&] { symm_group_release(group); });
    for (auto& [name, buffer] : buffers) drop(name, [&] { symm_buffer_release(buffer); });
    for (auto& [name, memory] : memories) drop(name, [&] { symm_memory_release(memory); });
  }
  Things() = default;
  Things(const Things&) = delete;
  Things& operator=(const Things&) = delete;

  template <class F>
  void drop(const std::string& name, const F& release) {
    if (!released[name]) release();
    released[name] = true;
  }
  void release(const std::string& name) {
    if (groups.contains(name)) return drop(name, [&] { symm_group_release(groups[name]); });
    if (buffers.contains(name)) return drop(name, [&] { symm_buffer_release(buffers[name]); });
    if (memories.contains(name)) return drop(name, [&] { symm_memory_release(memories[name]); });
    throw std::runtime_error("nothing is called " + name);
  }
};

class Runner {
 public:
  explicit Runner(int rank) : rank_(rank) {}

  void begin(const std::string& scenario) {
    things_ = std::make_unique<Things>();
    create("group", scenario, 60'000);
  }

  void run(const Line& line) {
    const std::string& verb = line.verb;
    if (verb == "expect_group") return expect_group(line);
    if (verb == "expect_status") return expect_status(line, std::chrono::seconds(0));
    if (verb == "await") return expect_status(line, std::chrono::seconds(20));
    if (verb == "create") return create(line.text("as"), line.text("as"), line.size("timeout_ms"));
    if (verb == "split") return split(line);
    if (verb == "finalize") return check(symm_group_finalize(group(line), 0));
    if (verb == "abort") return check(symm_group_abort(group(line), line.text("reason").c_str()));
    if (verb == "die") return static_cast<void>(raise(SIGKILL));
    if (verb == "release") return things_->release(line.text("name"));
    if (verb == "private") {
      things_->arrays[line.text("as")].resize(line.size("bytes"));
      return;
    }
    if (verb == "alloc") {
      symm_buffer_t* made = nullptr;
      check(symm_alloc(group(line), line.size("bytes"), 0, &made));
      things_->buffers[line.text("as")] = made;
      return;
    }
    if (verb == "rendezvous") {
      symm_memory_t* made = nullptr;
      check(symm_rendezvous(group(line), things_->buffers.at(line.text("buffer")), line.size("tag", 0), &made));
      things_->memories[line.text("as")] = made;
      return;
    }
    if (verb == "expect_memory") return expect_memory(line);
    if (verb == "find") return find(line);
    if (verb == "write") return write(line);
    if (verb == "expect") return expect(line);
    if (verb == "barrier") {
      const std::vector<int32_t> ranks = line.ranks("among");
      return check(symm_barrier(group(line), ranks.empty() ? nullptr : ranks.data(), ranks.size(), line.integer32("channel", 0),
                                line.size("timeout_ms", 0), nullptr));
    }
    if (line.has("memory")) return data(line);
    collective(line);
  }

 private:
  symm_group_t* group(const Line& line) { return things_->groups.at(line.text("group", "group")); }

  std::byte* address(const Line& line, const std::string& key) {
    const auto [name, offset] = line.address(key);
    if (auto array = things_->arrays.find(name); array != things_->arrays.end()) return array->second.data() + offset;
    symm_memory_t* memory = things_->memories.at(name);
    const int32_t own = memory_info(memory).rank;
    void* block = nullptr;
    check(symm_memory_pointer(memory, key == "at" ? line.integer32("rank", own) : own, &block));
    return static_cast<std::byte*>(block) + offset;
  }

  void create(const std::string& as, const std::string& name, uint64_t create_timeout_ms) {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.backend = SYMM_BACKEND_HOST;
    config.name = name.c_str();
    config.create_timeout_ms = create_timeout_ms;
    config.timeout_ms = 60'000;
    symm_group_t* made = nullptr;
    check(symm_group_create(&config, &made));
    things_->groups[as] = made;
  }

  void expect_group(const Line& line) {
    symm_group_info_t info = {};
    info.struct_size = sizeof info;
    check(symm_group_info(group(line), &info));
    require(info.rank, line.integer("rank", info.rank), "rank");
    require(info.size, line.integer("size", info.size), "size");
    require(info.channels, line.integer("channels", info.channels), "channels");
  }

  void expect_status(const Line& line, std::chrono::seconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    symm_group_status_t now = {};
    now.struct_size = sizeof now;
    for (;;) {
      check(symm_group_status(group(line), &now));
      if (now.status != SYMM_OK || std::chrono::steady_clock::now() >= deadline) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    require(now.status, line.constant("status"), std::string("status (") + now.message + ")");
    require(now.failed_rank, line.integer("failed_rank", now.failed_rank), "failed_rank");
  }

  void split(const Line& line) {
    symm_group_t* part = nullptr;
    check(symm_group_split(group(line), line.integer32("color"), line.integer32("key"), &part));
    if ((part == nullptr) != (line.integer("color") < 0)) throw std::runtime_error("a group although color < 0, or none");
    const std::string name = line.text("as");
    if (part != nullptr) things_->groups[name] = part;
  }

  void expect_memory(const Line& line) {
    const symm_memory_info_t info = memory_info(things_->memories.at(line.text("memory")));
    require(info.rank, line.integer("rank", info.rank), "rank");
    require(info.size, line.integer("size", info.size), "size");
    require(static_cast<int64_t>(info.bytes), line.integer("bytes", static_cast<int64_t>(info.bytes)), "bytes");
    require(info.channels, line.integer("channels", info.channels), "channels");
  }

  static symm_memory_info_t memory_info(symm_memory_t* memory) {
    symm_memory_info_t info = {};
    info.struct_size = sizeof info;
    check(symm_memory_info(memory, &info));
    return info;
  }

  void find(const Line& line) {
    symm_memory_t* found = nullptr;
    int32_t rank = -1;
    size_t offset = 0;
    check(symm_memory_find(group(line), address(line, "at"), &found, &rank, &offset));
    const uint64_t id = memory_info(found).id;
    symm_memory_release(found);
    require(static_cast<int64_t>(id), static_cast<int64_t>(memory_info(things_->memories.at(line.text("memory"))).id), "id");
    require(rank, line.integer("rank"), "rank");
    require(static_cast<int64_t>(offset), line.integer("offset"), "offset");
  }

  void write(const Line& line) {
    const auto dtype = line.constant("dtype");
    std::byte* to = address(line, "at");
    for (int64_t i = 0; i < line.integer("count"); ++i) to = store(to, dtype, encode(dtype, line.formula(rank_, i)));
  }

  void expect(const Line& line) {
    const auto dtype = line.constant("dtype");
    const std::byte* at = address(line, "at");
    const int64_t shift = line.integer("shift", 0);
    for (int64_t i = 0; i < line.integer("count"); ++i) {
      int64_t value = line.formula(line.integer("from", rank_), i + shift);
      if (line.has("op")) value = combine(line, i + shift);
      const uint64_t expected = encode(dtype, value);
      uint64_t seen = 0;
      at = load(at, dtype, seen);
      if (seen != expected) {
        throw std::runtime_error("element " + std::to_string(i) + " has the bits " + std::to_string(seen) + ", not " +
                                 std::to_string(expected) + ", which is " + std::to_string(value));
      }
    }
  }

  static int64_t combine(const Line& line, int64_t i) {
    int64_t value = line.formula(0, i);
    const auto op = line.constant("op");
    for (int r = 1; r < kRanks; ++r) {
      const int64_t next = line.formula(r, i);
      if (op == SYMM_OP_SUM || op == SYMM_OP_AVG) value += next;
      if (op == SYMM_OP_MIN) value = std::min(value, next);
      if (op == SYMM_OP_MAX) value = std::max(value, next);
      if (op == SYMM_OP_PROD) value *= next;
    }
    return op == SYMM_OP_AVG ? value / kRanks : value;
  }

  void data(const Line& line) {
    const std::string& verb = line.verb;
    symm_memory_t* memory = things_->memories.at(line.text("memory"));
    const int32_t rank = line.integer32("rank");
    const int32_t channel = line.integer32("channel", 0);
    const size_t offset = line.size("offset", 0);
    const size_t bytes = line.size("bytes", 0);
    if (verb == "put") return check(symm_put(memory, rank, offset, address(line, "source"), bytes, nullptr));
    if (verb == "put_with_signal")
      return check(symm_put_with_signal(memory, rank, offset, address(line, "source"), bytes, channel, nullptr));
    if (verb == "get") return check(symm_get(memory, rank, offset, address(line, "destination"), bytes, nullptr));
    if (verb == "put_signal") return check(symm_put_signal(memory, rank, channel, nullptr));
    if (verb == "wait_signal") return check(symm_wait_signal(memory, rank, channel, line.size("timeout_ms", 0), nullptr));
    const auto value = static_cast<uint32_t>(line.integer("value"));
    if (verb == "fill32") return check(symm_fill32(memory, rank, offset, value, line.size("count"), nullptr));
    if (verb == "write_value32") return check(symm_write_value32(memory, rank, offset, value, nullptr));
    throw std::runtime_error("unknown verb " + verb);
  }

  void collective(const Line& line) {
    const std::string& verb = line.verb;
    if (!line.has("send")) throw std::runtime_error("unknown verb " + verb);
    symm_group_t* g = group(line);
    const std::byte* send = address(line, "send");
    std::byte* recv = address(line, "recv");
    const size_t count = line.size("count");
    const symm_dtype_t dtype = line.constant("dtype");
    const symm_op_t op = line.constant("op", "SUM");
    const int32_t root = line.integer32("root", 0);
    symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
    options.algorithm = line.constant("algorithm", "AUTO");
    if (verb == "allreduce") return check(symm_allreduce(g, send, recv, count, dtype, op, &options, nullptr));
    if (verb == "reduce_scatter") return check(symm_reduce_scatter(g, send, recv, count, dtype, op, &options, nullptr));
    if (verb == "allgather") return check(symm_allgather(g, send, recv, count, dtype, &options, nullptr));
    if (verb == "broadcast") return check(symm_broadcast(g, send, recv, count, dtype, root, &options, nullptr));
    if (verb == "reduce") return check(symm_reduce(g, send, recv, count, dtype, op, root, &options, nullptr));
    if (verb == "alltoall") return check(symm_alltoall(g, send, recv, count, dtype, &options, nullptr));
    throw std::runtime_error("unknown verb " + verb);
  }

  int rank_;
  std::unique_ptr<Things> things_;
};

// The call must have failed as the line says, or not at all.
void run_line(Runner& runner, const Line& line) {
  try {
    runner.run(line);
  } catch (const Failed& failed) {
    if (line.failure.empty()) throw;
    const std::string message = failed.what();
    require(failed.status, constant("STATUS", line.failure), "status (" + message + ")");
    if (line.blamed) require(failed.failure.rank, *line.blamed, "the rank to blame (" + message + ")");
    for (const std::string& words : line.words) {
      if (message.find(words) == std::string::npos) throw std::runtime_error("'" + words + "' is not in '" + message + "'");
    }
    return;
  }
  if (!line.failure.empty()) throw std::runtime_error("it succeeded");
}

int run_table(const char* path, int rank) {
  std::ifstream table(path);
  if (!table) throw std::runtime_error(std::string("cannot read ") + path);
  Runner runner(rank);
  int scenarios = 0;
  int number = 0;
  for (std::string text; std::getline(table, text);) {
    ++number;
    try {
      if (text.empty() || text[0] == '#') continue;
      if (text.starts_with("scenario ")) {
        runner.begin(text.substr(9));
        ++scenarios;
        continue;
      }
      const Line line(text, rank);
      if (!line.mine) continue;
      run_line(runner, line);
      if (line.failure.empty()) line.require_all_used();  // a call that fails may not have come to all
    } catch (const std::exception& error) {
      std::cout << "table.txt:" << number << ": rank " << rank << ": " << error.what() << "\n" << std::flush;
      return 1;
    }
  }
  std::cout << "rank " << rank << ": " << scenarios << " scenarios\n";
  return scenarios > 0 ? 0 : 1;
}

}  // namespace
}  // namespace behaviours

int main(int argc, char** argv) {
  const char* rank = std::getenv("SYMM_RANK");
  if (argc != 2 || rank == nullptr) {
    std::cerr << "usage: symm run -n 3 -- " << argv[0] << " table.txt\n";
    return 2;
  }
  return behaviours::run_table(argv[1], std::atoi(rank));
}
