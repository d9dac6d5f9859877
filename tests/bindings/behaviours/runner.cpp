// Runs table.txt as one of three ranks, through symm.hpp, and where its types make a wrong call impossible through symm.h: the
// runner that those of the other languages are compared with.
#include <signal.h>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <symm/symm.hpp>
#include <thread>
#include "tests/bindings/behaviours/line.hpp"
#include "tools/bench/reference.hpp"

namespace behaviours { namespace {
// A type for each data type that C++ does not have.
template <symm_dtype_values dtype> struct Narrow { std::byte bytes[(dtype & 0xff) / 8]; };
}}  // namespace behaviours

template <symm_dtype_values dtype> struct symm::Dtype<behaviours::Narrow<dtype>> {
  static constexpr symm_dtype_values value = dtype;
};

namespace behaviours { namespace {
template <class Seen> void require(Seen seen, int64_t expected, const std::string& what) {
  if (static_cast<int64_t>(seen) == expected) return;
  throw std::runtime_error(what + " is " + std::to_string(seen) + ", not " + std::to_string(expected));
}

// Something that a line may expect.
struct Field {
  template <class Value> Field(const char* what, Value seen) : name(what), value(static_cast<int64_t>(seen)) {}
  const char* name;
  int64_t value;
};
void require_fields(const Line& line, std::initializer_list<Field> fields) {
  for (const Field& field : fields) require(field.value, line.integer(field.name, field.value), field.name);
}

// The things of one scenario by their names.
struct Things {
  std::map<std::string, symm::Group> groups;
  std::map<std::string, symm::Buffer> buffers;
  std::map<std::string, symm::Memory> memories;
  std::map<std::string, symm::Heap> heaps;  // their memories are in `memories`
  std::map<std::string, std::vector<std::byte>> arrays;
  std::map<std::string, symm::Token> tokens;
  std::map<std::string, symm::Import> imports;
  std::set<std::string> released;  // these stand for handles that no longer are, so that they can be misused

  Things() = default;
  Things(const Things&) = delete;
  Things& operator=(const Things&) = delete;
  ~Things() {
    for (const std::string& name : released) {
      if (buffers.contains(name)) buffers[name].detach();
      if (memories.contains(name)) memories[name].detach();
    }
  }

  void release(const std::string& name) {
    if (groups.contains(name)) return groups[name].reset();
    if (imports.contains(name)) return imports[name].reset();
    if (buffers.contains(name)) drop(buffers[name]);
    else drop(memories.at(name));
    released.insert(name);
  }
  template <class Handle> static void drop(Handle& handle) {
    auto* gone = handle.get();
    handle.reset();
    handle = Handle(gone);
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
    if (line.has("send")) return collective(line);
    const auto found = verbs_.find(line.verb);
    if (found == verbs_.end()) throw std::runtime_error("unknown verb " + line.verb);
    found->second(line);
  }
 private:
  const symm::Group& group(const Line& line) { return things_->groups.at(line.text("group", "group")); }
  const symm::Memory& memory(const Line& line) { return things_->memories.at(line.text("memory")); }

  const symm::Heap& heap(const Line& line) { return things_->heaps.at(line.text("heap")); }

  std::byte* address(const Line& line, const std::string& key) {
    const auto [name, offset] = line.address(key);
    if (auto array = things_->arrays.find(name); array != things_->arrays.end()) return array->second.data() + offset;
    const symm::Memory& block = things_->memories.at(name);
    const int32_t own = block.info().rank;
    const int32_t rank = key == "at" ? line.integer32("rank", own) : own;
    if (rank == own || !is_far(rank)) return block.span(rank).data() + offset;
    copy_.resize(block.info().bytes);
    symm::check(symm_get(block.get(), rank, 0, copy_.data(), copy_.size(), nullptr), "symm_get");
    return copy_.data() + offset;
  }
  // On another machine: its memory is not mapped here, and a copy of its block stands for it. Only in the group of the scenario.
  bool is_far(int32_t rank) { return things_->groups.at("group").peer_info(rank).mapped == 0; }
  bool is_far(const Line& line) { return line.has("rank") && is_far(rank(line)); }
  std::span<std::byte> bytes(const Line& line, const std::string& key) { return {address(line, key), line.size("bytes")}; }

  symm::Span<std::byte> piece(const Line& line) { return {address(line, "at"), line.size("bytes")}; }

  static int32_t rank(const Line& line) { return line.integer32("rank"); }
  static int32_t channel(const Line& line) { return line.integer32("channel", 0); }
  static size_t offset(const Line& line) { return line.size("offset"); }
  static uint64_t timeout(const Line& line) {
    return line.has("timeout_ms") && line.text("timeout_ms") == "now" ? SYMM_TIMEOUT_NOW : line.size("timeout_ms", 0);
  }
  static uint32_t word(const Line& line) { return static_cast<uint32_t>(line.integer("value")); }

  static uint64_t long_word(const Line& line) { return static_cast<uint64_t>(line.integer("value")); }
  static symm_compare_values compare(const Line& line) { return static_cast<symm_compare_values>(line.constant("compare")); }

  static void expect_count(const Line& line, uint64_t seen) {
    require(seen, line.integer("expected", static_cast<int64_t>(seen)), "what was seen");
  }

  void create(const std::string& as, const std::string& name, uint64_t create_timeout_ms, uint64_t flags = 0) {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.backend = SYMM_BACKEND_HOST;
    config.name = name.c_str();
    config.create_timeout_ms = create_timeout_ms;
    config.timeout_ms = 60'000;
    config.flags = flags;
    things_->groups[as] = symm::Group::create(config);
  }

  void expect_status(const Line& line, std::chrono::seconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    symm_group_status_t now = group(line).status();
    while (now.status == SYMM_OK && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      now = group(line).status();
    }
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

  void write(const Line& line) {
    const auto dtype = line.constant("dtype");
    std::byte* const begin = address(line, "at");
    std::byte* to = begin;
    for (int64_t i = 0; i < line.integer("count"); ++i, to += symm::reference::size_of(dtype))
      symm::reference::store_bits(dtype, symm::reference::encode_integer(dtype, line.formula(rank_, i)), to);
    if (!is_far(line)) return;
    const auto [name, offset] = line.address("at");
    symm::check(symm_put(things_->memories.at(name).get(), rank(line), offset, begin, static_cast<size_t>(to - begin), nullptr),
        "symm_put");
  }

  void expect(const Line& line) {
    if (is_far(line) && group(line).status().status != SYMM_OK) return line.use_all();  // what a dead machine had is gone
    const auto dtype = line.constant("dtype");
    const std::byte* at = address(line, "at");
    const int64_t shift = line.integer("shift", 0);
    for (int64_t i = 0; i < line.integer("count"); ++i, at += symm::reference::size_of(dtype)) {
      std::vector<uint64_t> of_ranks(static_cast<size_t>(kRanks));
      for (int r = 0; r < kRanks; ++r) of_ranks[static_cast<size_t>(r)] = static_cast<uint64_t>(line.formula(r, i + shift));
      int64_t value = line.formula(line.integer("from", rank_), i + shift);
      if (line.has("op")) value = static_cast<int64_t>(symm::reference::reduce(SYMM_DTYPE_I64, line.constant("op"), of_ranks));
      value *= line.integer("times", 1);
      const uint64_t expected = symm::reference::encode_integer(dtype, value);
      const uint64_t seen = symm::reference::load_bits(dtype, at);
      if (seen != expected) {
        throw std::runtime_error("element " + std::to_string(i) + " has the bits " + std::to_string(seen) + ", not " +
                                 std::to_string(expected) + ", which is " + std::to_string(value));
      }
    }
  }

  void collective(const Line& line) {
    collective_of_one<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool, float, double,
        Narrow<SYMM_DTYPE_F16>, Narrow<SYMM_DTYPE_BF16>, Narrow<SYMM_DTYPE_F8E4M3>, Narrow<SYMM_DTYPE_F8E5M2>>(line);
  }
  template <class... T> void collective_of_one(const Line& line) {
    const symm_dtype_t dtype = line.constant("dtype");
    const bool known = ((dtype == symm::Dtype<T>::value && (collective_of<T>(line), true)) || ...);
    if (!known) allreduce_untyped(line, dtype);
  }

  // What has no type in C++, or is no operation.
  void allreduce_untyped(const Line& line, symm_dtype_t dtype) {
    symm::check(symm_allreduce(group(line).get(), address(line, "send"), address(line, "recv"), line.size("count"), dtype,
                    line.constant("op"), nullptr, nullptr),
        "symm_allreduce");
  }

  template <class T> void collective_of(const Line& line) {
    const std::string& verb = line.verb;
    const symm::Group& ranks = group(line);
    const auto* send = reinterpret_cast<const T*>(address(line, "send"));
    if (verb == "allreduce_rmsnorm") {
      const auto at = [&](const char* key) -> void* { return line.has(key) ? address(line, key) : nullptr; };
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
      return ranks.allreduce_rmsnorm(symm::Span(send, line.size("tokens") * line.size("hidden")), line.size("hidden"), norm);
    }
    auto* recv = reinterpret_cast<T*>(address(line, "recv"));
    if (verb == "allgather_rows") {
      const size_t rows = line.size("rows"), row = line.size("count"), stride = line.size("recv_stride");
      return ranks.allgather_rows(symm::Span(send, rows * row), symm::Span(recv, rows * stride), rows, stride);
    }
    if (verb == "allgatherv" || verb == "alltoallv" || verb == "alltoallv_device" || verb == "reduce_scatterv") {
      const auto send_counts = line.numbers<size_t>("send_counts"), send_at = line.numbers<size_t>("send_displacements");
      const auto recv_counts = line.numbers<size_t>("recv_counts"), recv_at = line.numbers<size_t>("recv_displacements");
      const symm::Blocks of_send{send_counts, send_at}, of_recv{recv_counts, recv_at};
      const auto me = static_cast<size_t>(ranks.rank());
      if (verb == "allgatherv")
        return ranks.allgatherv(symm::Span(send, recv_counts.at(me)), symm::Span(recv, of_recv.end()), of_recv);
      if (verb == "alltoallv")
        return ranks.alltoallv(symm::Span(send, of_send.end()), of_send, symm::Span(recv, of_recv.end()), of_recv);
      if (verb == "alltoallv_device")
        return ranks.alltoallv_device(symm::Span(send, line.size("send_capacity")), {send_counts, send_at},
            symm::Span(recv, line.size("recv_capacity")), {recv_counts, recv_at});
      return ranks.reduce_scatterv(symm::Span(send, of_send.end()), of_send, symm::Span(recv, send_counts.at(me)),
          static_cast<symm_op_values>(line.constant("op")));
    }
    line.integer("in_place", 0);  // which says nothing new
    const size_t count = line.size("count");
    const size_t all = count * static_cast<size_t>(ranks.size());
    const int32_t op_number = line.constant("op", "SUM");
    if (op_number > SYMM_OP_PROD) return allreduce_untyped(line, symm::Dtype<T>::value);
    const auto op = static_cast<symm_op_values>(op_number);
    const int32_t root = line.integer32("root", 0);
    symm::Options options;
    options.algorithm = static_cast<symm_algorithm_values>(line.constant("algorithm", "AUTO"));
    options.scale_position = static_cast<symm_scale_values>(line.constant("position", "NONE"));
    options.scale = static_cast<double>(line.integer("scale", 0));
    if (line.has("scale_at")) options.scale_pointer = address(line, "scale_at");
    const symm::Span from(send, count), from_all(send, all);
    const auto reduce = [&](const auto& into) {
      if (verb == "allreduce") return ranks.allreduce(from, into, op, options);
      if (verb == "reduce_scatter") return ranks.reduce_scatter(from_all, into, op, options);
      ranks.reduce(from, into, op, root, options);
    };
    if constexpr (std::is_class_v<T>) {  // Narrow
      if (line.text("result", "") == "F32") return reduce(symm::Span(reinterpret_cast<float*>(recv), count));
    }
    const symm::Span to(recv, count), to_all(recv, all);
    if (verb == "allreduce" || verb == "reduce_scatter" || verb == "reduce") return reduce(to);
    if (verb == "allgather") return ranks.allgather(from, to_all, options);
    if (verb == "broadcast") return ranks.broadcast(from, to, root, options);
    if (verb == "gather") return ranks.gather(from, to_all, root, options);
    if (verb == "scatter") return ranks.scatter(from_all, to, root, options);
    if (verb == "alltoall") return ranks.alltoall(from_all, to_all, options);
    throw std::runtime_error("unknown verb " + verb);
  }

  using Row = const Line&;
  using Verb = std::function<void(Row)>;
  const std::map<std::string, Verb> verbs_ = {
      {"expect_group",
          [this](Row row) {
            const symm_group_info_t info = group(row).info();
            require_fields(row, {{"rank", info.rank}, {"size", info.size}, {"channels", info.channels}});
          }},
      {"expect_status", [this](Row row) { expect_status(row, std::chrono::seconds(0)); }},
      {"await", [this](Row row) { expect_status(row, std::chrono::seconds(20)); }},
      {"create",
          [this](Row row) {
            const uint64_t shared = row.integer("shared_scratch", 0) != 0 ? SYMM_GROUP_SHARED_SCRATCH : 0;
            const uint64_t check = row.integer("check", 0) != 0 ? SYMM_GROUP_CHECK : 0;
            create(row.text("as"), row.text("as"), row.size("timeout_ms"), shared | check);
          }},
      {"split",
          [this](Row row) {
            symm::Group part = group(row).split(row.integer32("color"), row.integer32("key"));
            if (!part != (row.integer("color") < 0)) throw std::runtime_error("a group although color < 0, or none");
            const std::string name = row.text("as");
            if (part) things_->groups[name] = std::move(part);
          }},
      {"create_from_ranks",
          [this](Row row) { things_->groups[row.text("as")] = group(row).create_from_ranks(row.numbers("ranks")); }},
      {"local", [this](Row row) { things_->groups[row.text("as")] = group(row).local(); }},
      {"shrink", [this](Row row) { things_->groups[row.text("as")] = group(row).shrink(); }},
      {"expect_failed",
          [this](Row row) {
            if (group(row).failed_ranks() != row.numbers("ranks")) throw std::runtime_error("other ranks have failed");
          }},
      {"finalize", [this](Row row) { group(row).finalize(); }},
      {"abort", [this](Row row) { group(row).abort(row.text("reason").c_str()); }},
      {"synchronize", [this](Row row) { group(row).synchronize(nullptr, timeout(row)); }},
      {"stream_wait", [this](Row row) { group(row).stream_wait(nullptr, symm::all_streams); }},
      {"expect_stream_done", [this](Row row) { require(group(row).stream_done(nullptr) ? 1 : 0, 1, "done"); }},
      {"record_use",
          [this](Row row) {
            const std::string name = row.text("name");
            if (things_->memories.contains(name)) things_->memories[name].record_use(nullptr);
            else things_->buffers.at(name).record_use(nullptr);
          }},
      {"die", [](Row) { raise(SIGKILL); }},
      {"private", [this](Row row) { things_->arrays[row.text("as")].resize(row.size("bytes")); }},
      {"alloc",
          [this](Row row) {
            symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
            options.alignment = row.size("alignment", 0);
            things_->buffers[row.text("as")] = group(row).allocate(row.size("bytes"), options);
          }},
      {"rendezvous_again",
          [this](Row row) {
            symm::Memory again = group(row).rendezvous(things_->buffers.at(row.text("buffer")));
            require(again.get() == memory(row).get() ? 1 : 0, 1, "whether it is the same memory");
            things_->memories[row.text("as")] = std::move(again);
          }},
      {"rendezvous",
          [this](Row row) {
            symm_rendezvous_options_t options = SYMM_RENDEZVOUS_OPTIONS_INIT;
            options.tag = row.size("tag", 0);
            options.channels = row.integer32("channels", 0);
            things_->memories[row.text("as")] = group(row).rendezvous(things_->buffers.at(row.text("buffer")), options);
          }},
      {"heap",
          [this](Row row) {
            const symm::Heap made = things_->heaps[row.text("as")] = group(row).heap(row.size("bytes"));
            things_->memories[row.text("as")] = made.memory();
          }},
      {"take",
          [this](Row row) {
            void* piece = nullptr;
            size_t offset = 0;
            symm::check(symm_heap_alloc(heap(row).get(), row.size("bytes"), row.size("alignment", 0), &piece, &offset),
                "symm_heap_alloc");
            require(offset, row.integer("offset"), "offset");
          }},
      {"give", [this](Row row) { symm::check(symm_heap_free(heap(row).get(), address(row, "at")), "symm_heap_free"); }},
      {"expect_piece",
          [this](Row row) {
            const symm::Span<std::byte> found = heap(row).find(address(row, "at"));
            require(found.size(), row.integer("bytes"), "bytes");
            const int64_t offset = found.empty() ? 0 : found.data() - heap(row).memory().span().data();
            require(offset, row.integer("offset", offset), "offset");
          }},
      {"expect_heap",
          [this](Row row) {
            const symm_heap_info_t info = heap(row).info();
            require_fields(row, {{"used_bytes", info.used_bytes}, {"free_bytes", info.free_bytes}, {"pieces", info.pieces},
                                    {"largest_free", info.largest_free}, {"fragmentation", info.fragmentation}});
          }},
      {"release", [this](Row row) { things_->release(row.text("name")); }},
      {"expect_memory",
          [this](Row row) {
            const symm_memory_info_t info = memory(row).info();
            require_fields(row, {{"rank", info.rank}, {"size", info.size}, {"bytes", info.bytes}, {"channels", info.channels}});
          }},
      {"find", [this](Row row) { find(row); }},
      {"write", [this](Row row) { write(row); }},
      {"expect", [this](Row row) { expect(row); }},
      {"export",
          [this](Row row) {
            symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
            options.hold_ms = row.size("hold_ms", 0);
            things_->tokens[row.text("as")] = symm::ipc_export(piece(row), options);
          }},
      {"import", [this](Row row) { things_->imports[row.text("as")] = symm::Import(things_->tokens.at(row.text("token"))); }},
      {"expect_import",
          [this](Row row) {
            const symm_ipc_info_t info = things_->imports.at(row.text("import")).info();
            require_fields(row, {{"bytes", info.bytes}, {"offset", info.offset}, {"host_memory", info.host_memory}});
          }},
      {"expect_holders",
          [this](Row row) {
            const symm_ipc_holders_t held = symm::ipc_holders(piece(row));
            require_fields(row, {{"leases", held.leases}, {"processes", held.processes}, {"quarantined", held.quarantined}});
          }},
      {"withdraw", [this](Row row) { symm::ipc_withdraw(piece(row), timeout(row)); }},
      {"barrier", [this](Row row) { group(row).barrier(row.numbers("among"), channel(row), timeout(row)); }},
      {"put", [this](Row row) { memory(row).put(rank(row), offset(row), bytes(row, "source")); }},
      {"put_signal", [this](Row row) { memory(row).put_signal(rank(row), offset(row), bytes(row, "source"), channel(row)); }},
      {"get", [this](Row row) { memory(row).get(rank(row), offset(row), bytes(row, "destination")); }},
      {"fill32", [this](Row row) { memory(row).fill32(rank(row), offset(row), word(row), row.size("count")); }},
      {"write_value32", [this](Row row) { memory(row).write_value32(rank(row), offset(row), word(row)); }},
      {"signal", [this](Row row) { memory(row).signal(rank(row), channel(row)); }},
      {"signal_value",
          [this](Row row) {
            memory(row).signal_value(
                rank(row), channel(row), static_cast<symm_signal_op_values>(row.constant("signal")), long_word(row));
          }},
      {"wait_signal_value",
          [this](Row row) {
            uint64_t seen = 0;
            memory(row).wait_signal_value(rank(row), channel(row), compare(row), long_word(row), timeout(row), nullptr, &seen);
            expect_count(row, seen);
          }},
      {"wait_signals",
          [this](Row row) {
            std::vector<symm_signal_wait_t> waits;
            for (const int32_t from : row.numbers("among"))
              waits.push_back({sizeof(symm_signal_wait_t), from, channel(row), compare(row), long_word(row)});
            size_t index = 0;
            memory(row).wait_signals(waits, row.integer("any") != 0, timeout(row), nullptr, &index);
            expect_count(row, index);
          }},
      {"test_signal", [this](Row row) { expect_count(row, memory(row).test_signal(rank(row), channel(row))); }},
      {"test_signal_value", [this](Row row) { expect_count(row, memory(row).test_signal_value(rank(row), channel(row))); }},
      {"write_value64", [this](Row row) { memory(row).write_value64(rank(row), offset(row), long_word(row)); }},
      {"wait_value32", [this](Row row) { memory(row).wait_value32(offset(row), compare(row), word(row), timeout(row)); }},
      {"wait_value64", [this](Row row) { memory(row).wait_value64(offset(row), compare(row), long_word(row), timeout(row)); }},
      {"wait_signal", [this](Row row) { memory(row).wait_signal(rank(row), channel(row), timeout(row)); }},
  };

  int rank_;
  std::vector<std::byte> copy_;
  std::unique_ptr<Things> things_;
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
    for (const std::string& words : line.words)
      if (message.find(words) == std::string::npos) throw std::runtime_error("'" + words + "' is not in '" + message + "'");
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
}}  // namespace behaviours

int main(int argc, char** argv) {
  const char* rank = std::getenv("SYMM_RANK");
  if (argc != 2 || rank == nullptr || behaviours::kRanks == 0) {
    std::cerr << "usage: symm run -n 3 -- " << argv[0] << " table.txt\n";
    return 2;
  }
  return behaviours::run_table(argv[1], std::atoi(rank));
}
