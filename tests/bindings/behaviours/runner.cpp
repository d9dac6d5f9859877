// Runs table.txt as one of three ranks, through symm.hpp, and
// where its types make a wrong call impossible through symm.h:
// the runner that those of the other languages are compared with.
#include <signal.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/bindings/behaviours/line.hpp"
#include "tests/support/group.hpp"
#include "tools/bench/reference.hpp"

namespace behaviours {
namespace {
// Of the memory and the array with which a scenario begins.
constexpr size_t kBytes = 262'144;

// A type for each data type that C++ does not have.
template <symm_dtype_values dtype>
struct Narrow {
  std::byte bytes[(dtype & 0xff) / 8];
};
}  // namespace
}  // namespace behaviours

template <symm_dtype_values dtype>
struct symm::Dtype<behaviours::Narrow<dtype>> {
  static constexpr symm_dtype_values value = dtype;
};

namespace behaviours {
namespace {
template <class Seen>
void require(Seen seen, int64_t expected, const std::string& what) {
  if (static_cast<int64_t>(seen) == expected) return;
  throw std::runtime_error(
      what + " is " + std::to_string(seen) + ", not " + std::to_string(expected));
}

// Something that a line may expect.
struct Field {
  template <class Value>
  Field(const char* what, Value seen) : name(what), value(static_cast<int64_t>(seen)) {}

  const char* name;
  int64_t value;
};

void require_fields(const Line& line, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    require(field.value, line.integer(field.name, field.value), field.name);
  }
}

// Arrays and tokens are bytes alike. What was released is an empty handle, which can be
// misused. Those that are no longer are: Refusal.wrong_handles.
using Thing = std::variant<symm::Group, symm::Buffer, symm::Memory, symm::Heap,
    std::vector<std::byte>, symm::Import>;

class Runner {
 public:
  explicit Runner(int rank) : rank_(rank) {}

  void begin(const std::string& scenario) {
    things_.clear();
    create("group", scenario, 60'000);
    const symm::Group& group = the<symm::Group>("group");
    const symm::Buffer buffer = group.allocate(kBytes);
    things_["b"] = buffer;
    things_["m"] = group.rendezvous(buffer);
    things_["p"] = std::vector<std::byte>(kBytes);
  }

  void run(const Line& line) {
    const std::string& verb = line.verb;
    if (line.has("send")) {
      if (line.has("f")) write(line, "send");
      collective(line);
      if (line.has("f")) expect(line, "recv");
    } else if (verb == "expect_group") {
      const symm_group_info_t info = group(line).info();
      require_fields(line, {{"rank", info.rank}, {"size", info.size}, {"channels", info.channels}});
    } else if (verb == "expect_status") {
      expect_status(line);
    } else if (verb == "create") {
      const uint64_t shared =
          line.integer("shared_scratch", 0) != 0 ? SYMM_GROUP_SHARED_SCRATCH : 0;
      const uint64_t check = line.integer("check", 0) != 0 ? SYMM_GROUP_CHECK : 0;
      create(line.text("as"), line.text("as"), line.size("timeout_ms"), shared | check);
    } else if (verb == "split") {
      symm::Group part = group(line).split(line.integer32("color"), line.integer32("key"));
      if (!part != (line.integer("color") < 0)) {
        throw std::runtime_error("a group although color < 0, or none");
      }
      const std::string name = line.text("as");
      if (part) things_[name] = std::move(part);
    } else if (verb == "create_from_ranks") {
      things_[line.text("as")] = group(line).create_from_ranks(line.numbers("ranks"));
    } else if (verb == "local") {
      things_[line.text("as")] = group(line).local();
    } else if (verb == "shrink") {
      things_[line.text("as")] = group(line).shrink();
    } else if (verb == "expect_failed") {
      if (group(line).failed_ranks() != line.numbers("ranks")) {
        throw std::runtime_error("other ranks have failed");
      }
    } else if (verb == "finalize") {
      group(line).finalize();
    } else if (verb == "abort") {
      group(line).abort(line.text("reason").c_str());
    } else if (verb == "synchronize") {
      group(line).synchronize(nullptr, timeout(line));
    } else if (verb == "stream_wait") {
      group(line).stream_wait(nullptr, symm::all_streams);
    } else if (verb == "expect_stream_done") {
      require(group(line).stream_done(nullptr) ? 1 : 0, 1, "done");
    } else if (verb == "record_use") {
      const std::string name = line.text("name");
      if (const auto* buffer = std::get_if<symm::Buffer>(&things_.at(name))) {
        buffer->record_use(nullptr);
      } else {
        memory(name).record_use(nullptr);
      }
    } else if (verb == "die") {
      raise(SIGKILL);
    } else if (verb == "alloc") {
      symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
      options.alignment = line.size("alignment", 0);
      things_[line.text("as")] = group(line).allocate(line.size("bytes"), options);
    } else if (verb == "rendezvous") {
      symm_rendezvous_options_t options = SYMM_RENDEZVOUS_OPTIONS_INIT;
      options.tag = line.size("tag", 0);
      options.channels = line.integer32("channels", 0);
      symm::Memory made = group(line).rendezvous(the<symm::Buffer>(line.text("buffer")), options);
      if (line.has("memory")) {
        require(made.get() == memory(line).get() ? 1 : 0, 1, "whether it is the same memory");
      }
      things_[line.text("as")] = std::move(made);
    } else if (verb == "heap") {
      things_[line.text("as")] = group(line).heap(line.size("bytes"));
    } else if (verb == "take") {
      void* piece = nullptr;
      size_t offset = 0;
      symm::check(symm_heap_alloc(heap(line).get(), line.size("bytes"), line.size("alignment", 0),
                      &piece, &offset),
          "symm_heap_alloc");
      require(offset, line.integer("offset"), "offset");
    } else if (verb == "give") {
      symm::check(symm_heap_free(heap(line).get(), address(line, "at")), "symm_heap_free");
    } else if (verb == "expect_piece") {
      const symm::Span<std::byte> found = heap(line).find(address(line, "at"));
      require(found.size(), line.integer("bytes"), "bytes");
      const int64_t offset = found.empty() ? 0 : found.data() - heap(line).memory().span().data();
      require(offset, line.integer("offset", offset), "offset");
    } else if (verb == "expect_heap") {
      const symm_heap_info_t info = heap(line).info();
      require_fields(line, {{"used_bytes", info.used_bytes}, {"free_bytes", info.free_bytes},
                               {"pieces", info.pieces}, {"largest_free", info.largest_free},
                               {"fragmentation", info.fragmentation}});
    } else if (verb == "release") {
      std::visit([](auto& thing) { thing = std::decay_t<decltype(thing)>(); },
          things_.at(line.text("name")));
    } else if (verb == "expect_memory") {
      const symm_memory_info_t info = memory(line).info();
      require_fields(line, {{"rank", info.rank}, {"size", info.size}, {"bytes", info.bytes},
                               {"channels", info.channels}});
    } else if (verb == "find") {
      find(line);
    } else if (verb == "write") {
      write(line, "at");
    } else if (verb == "expect") {
      expect(line, "at");
    } else if (verb == "export") {
      symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
      options.hold_ms = line.size("hold_ms", 0);
      things_[line.text("as")] = symm::ipc_export(bytes(line, "at"), options);
    } else if (verb == "import") {
      things_[line.text("as")] = symm::Import(the<symm::Token>(line.text("token")));
    } else if (verb == "expect_import") {
      const symm_ipc_info_t info = the<symm::Import>(line.text("import")).info();
      require_fields(line,
          {{"bytes", info.bytes}, {"offset", info.offset}, {"host_memory", info.host_memory}});
    } else if (verb == "expect_holders") {
      const symm_ipc_holders_t held = symm::ipc_holders(bytes(line, "at"));
      require_fields(line, {{"leases", held.leases}, {"processes", held.processes},
                               {"quarantined", held.quarantined}});
    } else if (verb == "withdraw") {
      symm::ipc_withdraw(bytes(line, "at"), timeout(line));
    } else if (verb == "barrier") {
      group(line).barrier(line.numbers("among"), channel(line), timeout(line));
    } else if (verb == "put") {
      memory(line).put(rank(line), offset(line), bytes(line, "source"));
    } else if (verb == "put_signal") {
      memory(line).put_signal(rank(line), offset(line), bytes(line, "source"), channel(line));
    } else if (verb == "get") {
      memory(line).get(rank(line), offset(line), bytes(line, "destination"));
    } else if (verb == "fill32") {
      memory(line).fill32(rank(line), offset(line), word(line), line.size("count"));
    } else if (verb == "write_value32") {
      memory(line).write_value32(rank(line), offset(line), word(line));
    } else if (verb == "signal") {
      memory(line).signal(rank(line), channel(line));
    } else if (verb == "signal_value") {
      memory(line).signal_value(rank(line), channel(line),
          static_cast<symm_signal_op_values>(line.constant("signal")), long_word(line));
    } else if (verb == "wait_signal_value") {
      uint64_t seen = 0;
      memory(line).wait_signal_value(
          rank(line), channel(line), compare(line), long_word(line), timeout(line), nullptr, &seen);
      expect_count(line, seen);
    } else if (verb == "wait_signals") {
      std::vector<symm_signal_wait_t> waits;
      for (const int32_t from : line.numbers("among")) {
        waits.push_back(
            {sizeof(symm_signal_wait_t), from, channel(line), compare(line), long_word(line)});
      }
      size_t index = 0;
      memory(line).wait_signals(waits, line.integer("any") != 0, timeout(line), nullptr, &index);
      expect_count(line, index);
    } else if (verb == "test_signal") {
      expect_count(line, memory(line).test_signal(rank(line), channel(line)));
    } else if (verb == "test_signal_value") {
      expect_count(line, memory(line).test_signal_value(rank(line), channel(line)));
    } else if (verb == "write_value64") {
      memory(line).write_value64(rank(line), offset(line), long_word(line));
    } else if (verb == "wait_value32") {
      memory(line).wait_value32(offset(line), compare(line), word(line), timeout(line));
    } else if (verb == "wait_value64") {
      memory(line).wait_value64(offset(line), compare(line), long_word(line), timeout(line));
    } else if (verb == "wait_signal") {
      memory(line).wait_signal(rank(line), channel(line), timeout(line));
    } else {
      throw std::runtime_error("unknown verb " + verb);
    }
  }

 private:
  template <class T>
  const T& the(const std::string& name) {
    return std::get<T>(things_.at(name));
  }

  const symm::Group& group(const Line& line) {
    return the<symm::Group>(line.text("group", "group"));
  }

  const symm::Heap& heap(const Line& line) { return the<symm::Heap>(line.text("heap")); }

  symm::Memory memory(const Line& line) { return memory(line.text("memory")); }

  symm::Memory memory(const std::string& name) {
    const auto* heap = std::get_if<symm::Heap>(&things_.at(name));
    return heap != nullptr ? heap->memory() : the<symm::Memory>(name);
  }

  std::byte* address(const Line& line, const std::string& key) {
    const auto [name, offset] = line.address(key);
    if (auto* array = std::get_if<std::vector<std::byte>>(&things_.at(name))) {
      return array->data() + offset;
    }
    const symm::Memory block = memory(name);
    const int32_t own = block.info().rank;
    const int32_t rank = key == "at" ? line.integer32("rank", own) : own;
    if (rank == own || !is_far(rank)) return block.span(rank).data() + offset;
    copy_.resize(block.info().bytes);
    symm::check(symm_get(block.get(), rank, 0, copy_.data(), copy_.size(), nullptr), "symm_get");
    return copy_.data() + offset;
  }

  // On another machine: its memory is not mapped here, and a copy of its block stands
  // for it. Only in the group of the scenario.
  bool is_far(int32_t rank) { return the<symm::Group>("group").peer_info(rank).mapped == 0; }

  bool is_far(const Line& line) { return line.has("rank") && is_far(rank(line)); }

  symm::Span<std::byte> bytes(const Line& line, const std::string& key) {
    return {address(line, key), line.size("bytes")};
  }

  static int32_t rank(const Line& line) { return line.integer32("rank"); }

  static int32_t channel(const Line& line) { return line.integer32("channel", 0); }

  static size_t offset(const Line& line) { return line.size("offset"); }

  static uint64_t timeout(const Line& line) {
    return line.has("timeout_ms") && line.text("timeout_ms") == "now" ? SYMM_TIMEOUT_NOW
                                                                      : line.size("timeout_ms", 0);
  }

  static uint32_t word(const Line& line) { return static_cast<uint32_t>(line.integer("value")); }

  static uint64_t long_word(const Line& line) {
    return static_cast<uint64_t>(line.integer("value"));
  }

  static symm_compare_values compare(const Line& line) {
    return static_cast<symm_compare_values>(line.constant("compare"));
  }

  static void expect_count(const Line& line, uint64_t seen) {
    require(seen, line.integer("expected", static_cast<int64_t>(seen)), "what was seen");
  }

  void create(const std::string& as, const std::string& name, uint64_t create_timeout_ms,
      uint64_t flags = 0) {
    things_[as] = support::create({.name = name,
                                      .create_timeout_ms = create_timeout_ms,
                                      .timeout_ms = 60'000,
                                      .flags = flags},
        0, 0);
  }

  void expect_status(const Line& line) {
    symm_group_status_t now{};
    support::eventually(
        [&] { return (now = group(line).status()).status == line.constant("status"); }, 20'000);
    require(now.status, line.constant("status"), std::string("status (") + now.message + ")");
    require(now.failed_rank, line.integer("failed_rank", now.failed_rank), "failed_rank");
  }

  void find(const Line& line) {
    if (is_far(line)) return line.use_all();  // and found by no address
    const auto place = group(line).find(address(line, "at"));
    const auto own = symm::find_buffer(address(line, "at"));
    if (!line.has("memory")) {
      require(place.has_value() || own.has_value() ? 1 : 0, 0, "whether something was found");
      return;
    }
    const auto id = static_cast<int64_t>(memory(line).info().id);
    require(place.value().memory.info().id, id, "id");
    require(place->rank, line.integer("rank"), "rank");
    require(place->offset, line.integer("offset"), "offset");
    if (place->rank != rank_) return;
    require(own.value().offset, line.integer("offset"), "offset in the buffer");
    require(group(line).memory_of(own->buffer).info().id, id, "id by the buffer");
  }

  void write(const Line& line, const std::string& where) {
    const auto dtype = line.constant("dtype");
    std::byte* const begin = address(line, where);
    std::byte* to = begin;
    for (int64_t i = 0, count = line.integer("count"); i < count;
        ++i, to += symm::reference::size_of(dtype)) {
      symm::reference::store_bits(
          dtype, symm::reference::encode_integer(dtype, line.formula(rank_, i)), to);
    }
    if (!is_far(line)) return;
    const auto [name, offset] = line.address("at");
    symm::check(symm_put(memory(name).get(), rank(line), offset, begin,
                    static_cast<size_t>(to - begin), nullptr),
        "symm_put");
  }

  void expect(const Line& line, const std::string& where) {
    // what a dead machine had is gone
    if (is_far(line) && group(line).status().status != SYMM_OK) return line.use_all();
    const auto dtype = constant("DTYPE", line.text("result", line.text("dtype")));
    const std::byte* at = address(line, where);
    const int64_t count = line.integer("count");
    const int64_t shift = line.integer("shift", 0);
    const int64_t times = line.integer("times", 1);
    const int64_t from = line.integer("from", rank_);
    const auto op = line.has("op") ? std::optional(line.constant("op")) : std::nullopt;
    std::vector<uint64_t> of_ranks(static_cast<size_t>(kRanks));
    for (int64_t i = 0; i < count; ++i, at += symm::reference::size_of(dtype)) {
      int64_t value = line.formula(from, i + shift);
      if (op) {
        for (int r = 0; r < kRanks; ++r) {
          of_ranks[static_cast<size_t>(r)] = static_cast<uint64_t>(line.formula(r, i + shift));
        }
        value = static_cast<int64_t>(symm::reference::reduce(SYMM_DTYPE_I64, *op, of_ranks));
      }
      value *= times;
      const uint64_t expected = symm::reference::encode_integer(dtype, value);
      const uint64_t seen = symm::reference::load_bits(dtype, at);
      if (seen != expected) {
        throw std::runtime_error("element " + std::to_string(i) + " has the bits " +
                                 std::to_string(seen) + ", not " + std::to_string(expected) +
                                 ", which is " + std::to_string(value));
      }
    }
  }

  void collective(const Line& line) {
    collective_of_one<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
        bool, float, double, Narrow<SYMM_DTYPE_F16>, Narrow<SYMM_DTYPE_BF16>,
        Narrow<SYMM_DTYPE_F8E4M3>, Narrow<SYMM_DTYPE_F8E5M2>>(line);
  }

  template <class... T>
  void collective_of_one(const Line& line) {
    const symm_dtype_t dtype = line.constant("dtype");
    const bool known = ((dtype == symm::Dtype<T>::value && (collective_of<T>(line), true)) || ...);
    if (!known) throw std::runtime_error("no type is that of " + line.text("dtype"));
  }

  template <class T>
  void collective_of(const Line& line) {
    const std::string& verb = line.verb;
    const symm::Group& ranks = group(line);
    const auto* send = reinterpret_cast<const T*>(address(line, "send"));
    if (verb == "allreduce_rmsnorm") {
      const auto at = [&](const char* key) -> void* {
        return line.has(key) ? address(line, key) : nullptr;
      };
      symm_rmsnorm_t norm = SYMM_RMSNORM_INIT;
      norm.residual_in = at("residual_in");
      norm.residual_out = at("residual_out");
      norm.norm_out = at("norm_out");
      norm.weight = at("weight");
      norm.epsilon = 0;
      norm.weight_offset = static_cast<double>(line.integer("weight_offset", 0));
      norm.scale_kind = line.constant("quant_scale", "TENSOR");
      norm.quant_out = at("quant_out");
      norm.scale_in = at("scale_in");
      norm.scale_out = at("scale_out");
      return ranks.allreduce_rmsnorm(
          symm::Span(send, line.size("tokens") * line.size("hidden")), line.size("hidden"), norm);
    }
    auto* recv = reinterpret_cast<T*>(address(line, "recv"));
    if (verb == "allgather_rows") {
      const size_t rows = line.size("rows");
      const size_t row = line.size("count");
      const size_t stride = line.size("recv_stride");
      return ranks.allgather_rows(
          symm::Span(send, rows * row), symm::Span(recv, rows * stride), rows, stride);
    }
    if (verb == "allgatherv" || verb == "alltoallv" || verb == "alltoallv_device" ||
        verb == "reduce_scatterv") {
      const auto send_counts = line.numbers<size_t>("send_counts");
      const auto send_at = line.numbers<size_t>("send_displacements");
      const auto recv_counts = line.numbers<size_t>("recv_counts");
      const auto recv_at = line.numbers<size_t>("recv_displacements");
      const symm::Blocks of_send{send_counts, send_at};
      const symm::Blocks of_recv{recv_counts, recv_at};
      const auto me = static_cast<size_t>(ranks.rank());
      if (verb == "allgatherv") {
        return ranks.allgatherv(
            symm::Span(send, recv_counts.at(me)), symm::Span(recv, of_recv.end()), of_recv);
      }
      if (verb == "alltoallv") {
        return ranks.alltoallv(
            symm::Span(send, of_send.end()), of_send, symm::Span(recv, of_recv.end()), of_recv);
      }
      if (verb == "alltoallv_device") {
        return ranks.alltoallv_device(symm::Span(send, line.size("send_capacity")),
            {send_counts, send_at}, symm::Span(recv, line.size("recv_capacity")),
            {recv_counts, recv_at});
      }
      return ranks.reduce_scatterv(symm::Span(send, of_send.end()), of_send,
          symm::Span(recv, send_counts.at(me)), static_cast<symm_op_values>(line.constant("op")));
    }
    line.integer("in_place", 0);  // which says nothing new
    const size_t count = line.size("count");
    const size_t all = count * static_cast<size_t>(ranks.size());
    const auto op = static_cast<symm_op_values>(line.constant("op", "SUM"));
    const int32_t root = line.integer32("root", 0);
    symm::Options options;
    options.algorithm = static_cast<symm_algorithm_values>(line.constant("algorithm", "AUTO"));
    options.scale_position = static_cast<symm_scale_values>(line.constant("position", "NONE"));
    options.scale = static_cast<double>(line.integer("scale", 0));
    if (line.has("scale_at")) options.scale_pointer = address(line, "scale_at");
    const symm::Span from(send, count);
    const symm::Span from_all(send, all);
    const auto reduce = [&](const auto& into) {
      if (verb == "allreduce") return ranks.allreduce(from, into, op, options);
      if (verb == "reduce_scatter") return ranks.reduce_scatter(from_all, into, op, options);
      ranks.reduce(from, into, op, root, options);
    };
    if constexpr (std::is_class_v<T>) {  // Narrow
      if (line.text("result", "") == "F32") {
        return reduce(symm::Span(reinterpret_cast<float*>(recv), count));
      }
    }
    const symm::Span to(recv, count);
    const symm::Span to_all(recv, all);
    if (verb == "allreduce" || verb == "reduce_scatter" || verb == "reduce") return reduce(to);
    if (verb == "allgather") return ranks.allgather(from, to_all, options);
    if (verb == "broadcast") return ranks.broadcast(from, to, root, options);
    if (verb == "gather") return ranks.gather(from, to_all, root, options);
    if (verb == "scatter") return ranks.scatter(from_all, to, root, options);
    if (verb == "alltoall") return ranks.alltoall(from_all, to_all, options);
    throw std::runtime_error("unknown verb " + verb);
  }

  int rank_;
  std::vector<std::byte> copy_;
  std::map<std::string, Thing> things_;
};

// The call must have failed as the line says, or not at all.
void run_line(Runner& runner, const Line& line) {
  try {
    runner.run(line);
  } catch (const symm::Error& error) {
    if (line.failure.empty()) throw;
    const std::string message = symm_last_error();  // what() has the call's name before it
    require(error.status(), constant("STATUS", line.failure), "status (" + message + ")");
    if (line.blamed) require(error.rank(), *line.blamed, "the rank to blame (" + message + ")");
    for (const std::string& words : line.words) {
      if (message.find(words) == std::string::npos) {
        throw std::runtime_error("'" + words + "' is not in '" + message + "'");
      }
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
      // A call that fails may not have read all of its keys.
      if (line.failure.empty()) line.require_all_used();
    } catch (const std::exception& error) {
      std::cout << "table.txt:" << number << ": rank " << rank << ": " << error.what() << "\n"
                << std::flush;
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
  if (argc != 2 || rank == nullptr || behaviours::kRanks == 0) {
    std::cerr << "usage: symm run -n 3 -- " << argv[0] << " table.txt\n";
    return 2;
  }
  return behaviours::run_table(argv[1], std::atoi(rank));
}
