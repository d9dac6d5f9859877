// Verbs of puts and gets, signals, messages, and words of blocks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/bindings/behaviours/runner.hpp"

namespace behaviours {
namespace {
uint32_t word(const Line& line) { return static_cast<uint32_t>(line.integer("value")); }

uint64_t long_word(const Line& line) { return static_cast<uint64_t>(line.integer("value")); }

symm_compare_t compare(const Line& line) {
  return static_cast<symm_compare_t>(line.constant("compare"));
}

void expect_seen(const Line& line, uint64_t seen) {
  require(seen, line.integer("expected", static_cast<int64_t>(seen)), "what was seen");
}

// ---- puts and gets

void put(Runner& runner, const Line& line) {
  runner.memory(line).put(rank(line), offset(line), runner.bytes(line, "source"), timeout(line));
}

void put_signal(Runner& runner, const Line& line) {
  runner.memory(line).put_signal(
      rank(line), offset(line), runner.bytes(line, "source"), channel(line), timeout(line));
}

void put_signal_value(Runner& runner, const Line& line) {
  const auto operation = static_cast<symm_signal_op_t>(line.constant("signal"));
  runner.memory(line).put_signal_value(rank(line), offset(line), runner.bytes(line, "source"),
      channel(line), operation, long_word(line), timeout(line));
}

void get(Runner& runner, const Line& line) {
  runner.memory(line).get(
      rank(line), offset(line), runner.bytes(line, "destination"), timeout(line));
}

// ---- pieces

std::vector<symm_piece_t> list_of(const Line& line) {
  const std::vector<uint64_t> numbers = line.numbers<uint64_t>("pieces");
  std::vector<symm_piece_t> list;
  for (size_t i = 0; i < numbers.size(); i += 6) {
    const uint64_t* const n = &numbers[i];
    list.push_back({n[0], n[1], n[2], n[3], n[4], n[5]});
  }
  return list;
}

// Calls `copy` with the pieces or the pages of the line, and with its signal.
template <class Copy>
void with_pieces(const Line& line, const Copy& copy) {
  const std::vector<symm_piece_t> list = list_of(line);
  const std::vector<uint64_t> from = line.numbers<uint64_t>("from_table");
  const std::vector<uint64_t> to = line.numbers<uint64_t>("to_table");
  const symm::Pieces pieces = line.has("page_bytes")
                                  ? symm::Pieces::pages(line.size("page_bytes"), from, to)
                                  : symm::Pieces(list);
  if (!line.has("signal")) return copy(pieces);
  const auto operation = static_cast<symm_signal_op_t>(line.constant("signal"));
  copy(pieces.with_signal(channel(line), operation, long_word(line)));
}

void put_pieces(Runner& runner, const Line& line) {
  with_pieces(line, [&](const symm::Pieces& pieces) {
    runner.memory(line).put_pieces(
        rank(line), offset(line), runner.bytes(line, "source"), pieces, timeout(line));
  });
}

void get_pieces(Runner& runner, const Line& line) {
  with_pieces(line, [&](const symm::Pieces& pieces) {
    runner.memory(line).get_pieces(
        rank(line), offset(line), runner.bytes(line, "destination"), pieces, timeout(line));
  });
}

// ---- signals

void signal(Runner& runner, const Line& line) {
  runner.memory(line).signal(rank(line), channel(line), timeout(line));
}

void signal_value(Runner& runner, const Line& line) {
  const auto operation = static_cast<symm_signal_op_t>(line.constant("signal"));
  runner.memory(line).signal_value(
      rank(line), channel(line), operation, long_word(line), timeout(line));
}

void wait_signal(Runner& runner, const Line& line) {
  runner.memory(line).wait_signal(rank(line), channel(line), timeout(line));
}

void wait_signal_value(Runner& runner, const Line& line) {
  uint64_t seen = 0;
  runner.memory(line).wait_signal_value(
      rank(line), channel(line), compare(line), long_word(line), timeout(line), nullptr, &seen);
  expect_seen(line, seen);
}

void wait_signals(Runner& runner, const Line& line) {
  std::vector<symm_signal_wait_t> waits;
  for (const int32_t from : line.numbers("among")) {
    waits.push_back(
        {sizeof(symm_signal_wait_t), from, channel(line), compare(line), long_word(line)});
  }

  size_t index = 0;
  if (line.integer("any") != 0) {
    runner.memory(line).wait_any(waits, timeout(line), nullptr, &index);
  } else {
    runner.memory(line).wait_all(waits, timeout(line));
  }
  expect_seen(line, index);
}

void test_signal(Runner& runner, const Line& line) {
  expect_seen(line, runner.memory(line).test_signal(rank(line), channel(line)));
}

void test_signal_value(Runner& runner, const Line& line) {
  expect_seen(line, runner.memory(line).test_signal_value(rank(line), channel(line)));
}

// ---- pieces, signals and fences of imports

void put_import(Runner& runner, const Line& line) {
  const auto& import = runner.the<symm::Import>(line.text("import"));
  with_pieces(line, [&](const symm::Pieces& pieces) {
    import.put_pieces(offset(line), runner.bytes(line, "source"), pieces, line.size("epoch"));
  });
}

void get_import(Runner& runner, const Line& line) {
  const auto& import = runner.the<symm::Import>(line.text("import"));
  with_pieces(line, [&](const symm::Pieces& pieces) {
    import.get_pieces(offset(line), runner.bytes(line, "destination"), pieces);
  });
}

void signal_import(Runner& runner, const Line& line) {
  const auto operation = static_cast<symm_signal_op_t>(line.constant("signal"));
  const auto& import = runner.the<symm::Import>(line.text("import"));
  import.signal_value(channel(line), operation, long_word(line));
}

void wait_token(Runner& runner, const Line& line) {
  const auto& token = runner.the<symm::Token>(line.text("token"));
  expect_seen(line,
      symm::ipc_wait_value(token, channel(line), compare(line), long_word(line), timeout(line)));
}

void fence(Runner& runner, const Line& line) {
  symm::ipc_fence(runner.bytes(line, "at"), line.size("epoch"), timeout(line));
}

// ---- messages

void send(Runner& runner, const Line& line) {
  runner.group(line).send(rank(line), runner.bytes(line, "source"), channel(line), timeout(line));
}

void recv(Runner& runner, const Line& line) {
  expect_seen(line, runner.group(line).recv(rank(line), runner.bytes(line, "destination"),
                        channel(line), timeout(line)));
}

// Block i is sent to the i-th rank of `to`, and received from the i-th rank of `from`.
void messages(Runner& runner, const Line& line) {
  const size_t bytes = line.size("bytes");
  std::vector<symm_message_t> sides;
  for (const int32_t to : line.numbers("to")) {
    std::byte* const from = runner.address(line, "source") + sides.size() * bytes;
    sides.push_back(symm::sending(to, symm::Span(from, bytes), channel(line)));
  }

  const size_t sends = sides.size();
  for (const int32_t from : line.numbers("from")) {
    std::byte* const to = runner.address(line, "destination") + (sides.size() - sends) * bytes;
    sides.push_back(symm::receiving(from, symm::Span(to, bytes), channel(line)));
  }
  const bool receives_first = line.integer("receives_first", 0) != 0;
  const auto middle = sides.begin() + static_cast<ptrdiff_t>(sends);
  if (receives_first) std::rotate(sides.begin(), middle, sides.end());

  for (const size_t came : runner.group(line).messages(sides, timeout(line))) {
    expect_seen(line, came);
  }
}

// ---- requests

void start_recv(Runner& runner, const Line& line) {
  symm::Request request;
  const symm::CallOptions options(request, timeout(line));
  runner.group(line).recv(rank(line), runner.bytes(line, "destination"), channel(line), options);
  runner.things[line.text("as")] = request;
}

void wait_request(Runner& runner, const Line& line) {
  const symm::Request request = runner.the<symm::Request>(line.text("request"));
  request.wait(timeout(line));
  expect_seen(line, request.info().value);
}

// ---- neighbours

// Piece i of the line goes to the i-th rank of `to`.
void exchange(Runner& runner, const Line& line) {
  const std::vector<symm_piece_t> pieces = list_of(line);
  const std::vector<size_t> expected = line.numbers<size_t>("expects");
  const symm::Memory memory = runner.memory(line);
  const symm::Span<std::byte> source = runner.bytes(line, "source");

  std::vector<symm_neighbor_t> neighbors;
  for (const int32_t to : line.numbers("to")) {
    const size_t i = neighbors.size();
    neighbors.push_back(symm::neighbor(to, memory, 0, source, {&pieces[i], 1}, expected[i]));
  }
  runner.things[line.text("as")] = runner.group(line).exchange(neighbors, timeout(line));
}

const symm::NeighborExchange& exchange_of(Runner& runner, const Line& line) {
  return runner.the<symm::NeighborExchange>(line.text("exchange"));
}

void start_round(Runner& runner, const Line& line) {
  exchange_of(runner, line).start(timeout(line));
}

void finish_round(Runner& runner, const Line& line) {
  exchange_of(runner, line).finish(timeout(line));
}

// The elements at an address, up to the end of the last block.
symm::Span<int32_t> elements(
    Runner& runner, const Line& line, const char* key, const symm::Blocks& blocks) {
  return {reinterpret_cast<int32_t*>(runner.address(line, key)), blocks.end()};
}

void neighbor_alltoallv(Runner& runner, const Line& line) {
  const std::vector<int32_t> to = line.numbers("to");
  const std::vector<int32_t> from = line.numbers("from");
  const std::vector<size_t> sent = line.numbers<size_t>("to_counts");
  const std::vector<size_t> received = line.numbers<size_t>("from_counts");
  const std::vector<size_t> places = line.numbers<size_t>("from_displacements");
  const symm::Blocks of_send{sent};
  const symm::Blocks of_recv{received, places};
  runner.group(line).neighbor_alltoallv(to, elements(runner, line, "source", of_send), of_send,
      from, elements(runner, line, "destination", of_recv), of_recv, channel(line), timeout(line));
}

// ---- words of blocks

void fill32(Runner& runner, const Line& line) {
  runner.memory(line).fill32(
      rank(line), offset(line), word(line), line.size("count"), timeout(line));
}

void fill8(Runner& runner, const Line& line) {
  runner.memory(line).fill8(rank(line), offset(line), static_cast<uint8_t>(word(line)),
      line.size("count"), timeout(line));
}

void fill16(Runner& runner, const Line& line) {
  runner.memory(line).fill16(rank(line), offset(line), static_cast<uint16_t>(word(line)),
      line.size("count"), timeout(line));
}

void fill64(Runner& runner, const Line& line) {
  runner.memory(line).fill64(
      rank(line), offset(line), long_word(line), line.size("count"), timeout(line));
}

void read_value32(Runner& runner, const Line& line) {
  expect_seen(line, runner.memory(line).read_value32(rank(line), offset(line), timeout(line)));
}

void read_value64(Runner& runner, const Line& line) {
  expect_seen(line, runner.memory(line).read_value64(rank(line), offset(line), timeout(line)));
}

symm_atomic_op_t atomic(const Line& line) {
  return static_cast<symm_atomic_op_t>(line.constant("atomic"));
}

void atomic32(Runner& runner, const Line& line) {
  uint32_t before = 0;
  runner.memory(line).atomic32(rank(line), offset(line), atomic(line),
      static_cast<uint32_t>(line.integer("value", 0)),
      static_cast<uint32_t>(line.integer("compared", 0)), &before, timeout(line));
  expect_seen(line, before);
}

void atomic64(Runner& runner, const Line& line) {
  uint64_t before = 0;
  runner.memory(line).atomic64(rank(line), offset(line), atomic(line),
      static_cast<uint64_t>(line.integer("value", 0)),
      static_cast<uint64_t>(line.integer("compared", 0)), &before, timeout(line));
  expect_seen(line, before);
}

void write_value32(Runner& runner, const Line& line) {
  runner.memory(line).write_value32(rank(line), offset(line), word(line), timeout(line));
}

void write_value64(Runner& runner, const Line& line) {
  runner.memory(line).write_value64(rank(line), offset(line), long_word(line), timeout(line));
}

void wait_value32(Runner& runner, const Line& line) {
  runner.memory(line).wait_value32(offset(line), compare(line), word(line), timeout(line));
}

void wait_value64(Runner& runner, const Line& line) {
  runner.memory(line).wait_value64(offset(line), compare(line), long_word(line), timeout(line));
}
}  // namespace

const Verbs& verbs_of_signals() {
  static const Verbs verbs = {
      {"atomic32", atomic32},
      {"atomic64", atomic64},
      {"fill16", fill16},
      {"fill32", fill32},
      {"fill64", fill64},
      {"fill8", fill8},
      {"get", get},
      {"get_import", get_import},
      {"get_pieces", get_pieces},
      {"messages", messages},
      {"exchange", exchange},
      {"start_recv", start_recv},
      {"start_round", start_round},
      {"fence", fence},
      {"finish_round", finish_round},
      {"neighbor_alltoallv", neighbor_alltoallv},
      {"put", put},
      {"put_import", put_import},
      {"put_pieces", put_pieces},
      {"put_signal", put_signal},
      {"put_signal_value", put_signal_value},
      {"read_value32", read_value32},
      {"read_value64", read_value64},
      {"recv", recv},
      {"send", send},
      {"signal", signal},
      {"signal_import", signal_import},
      {"signal_value", signal_value},
      {"test_signal", test_signal},
      {"test_signal_value", test_signal_value},
      {"wait_request", wait_request},
      {"wait_signal", wait_signal},
      {"wait_signal_value", wait_signal_value},
      {"wait_signals", wait_signals},
      {"wait_token", wait_token},
      {"wait_value32", wait_value32},
      {"wait_value64", wait_value64},
      {"write_value32", write_value32},
      {"write_value64", write_value64},
  };

  return verbs;
}
}  // namespace behaviours
