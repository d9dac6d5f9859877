// What sharing by tokens costs in C: a token, an import, a message from process to process beside the same message without
// memory, the time from a consumer's death to its block being free, and a collection with ten thousand leases beside one with a
// single one.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <symm/symm.hpp>
#include "tools/bench/thresholds.hpp"
#include "tools/unique_fd.hpp"

namespace {
using symm::tool::quantile;
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Of one size, for a pipe, and made without a call of malloc(), unlike symm::Token.
struct Token {
  size_t size = 0;
  unsigned char bytes[SYMM_IPC_TOKEN_MAX_SIZE] = {};
};

// Two pipes to a child.
class Child {
 public:
  explicit Child(const std::function<void(Child&)>& body) {
    {
      symm::tool::Pipe down = symm::tool::make_pipe(), up = symm::tool::make_pipe();
      pid_ = fork();
      in_ = std::move(pid_ == 0 ? down.read_end : up.read_end);
      out_ = std::move(pid_ == 0 ? up.write_end : down.write_end);
    }
    if (pid_ != 0) return;
    try {
      body(*this);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  ~Child() { end(SIGKILL); }
  template <class T> void send(const T& value) {
    if (write(out_.get(), &value, sizeof value) != sizeof value) throw std::runtime_error("write");
  }
  template <class T> T receive() {
    T value;
    auto* bytes = reinterpret_cast<char*>(&value);
    for (size_t got = 0; got < sizeof value;) {
      const ssize_t more = read(in_.get(), bytes + got, sizeof value - got);
      if (more <= 0) throw std::runtime_error("the other process is gone");
      got += static_cast<size_t>(more);
    }
    return value;
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
 private:
  pid_t pid_ = -1;
  symm::tool::UniqueFd in_;
  symm::tool::UniqueFd out_;
};

struct Owned {
  explicit Owned(size_t bytes) : buffer(group().allocate(bytes)), data(buffer.span<char>().data()) {}
  static const symm::Group& group() {
    static const symm::Group alone = [] {
      symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
      config.size = 1;
      config.backend = SYMM_BACKEND_HOST;
      config.bootstrap = "thread://bench";
      return symm::Group::create(config);
    }();
    return alone;
  }
  Token token(size_t offset, size_t bytes) const {
    Token made;
    symm::check(
        symm_ipc_export(data + offset, bytes, nullptr, made.bytes, sizeof made.bytes, &made.size, nullptr), "symm_ipc_export");
    return made;
  }
  symm::Buffer buffer;
  char* data;
};

symm::Import import(const Token& token) {
  return symm::Import(symm::Span(reinterpret_cast<const std::byte*>(token.bytes), token.size));
}

constexpr size_t kPiece = 4096;

nlohmann::json token_cost(int count) {
  const Owned owned(1 << 20);
  owned.token(0, kPiece);
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) owned.token(static_cast<size_t>(i) % 256 * kPiece, kPiece);
  return {{"us", microseconds_since(start) / count}, {"count", count}};
}

nlohmann::json import_cost(int count) {
  Child child([count](Child& parent) {
    std::vector<Token> tokens;
    for (int i = 0; i < 16; ++i) tokens.push_back(parent.receive<Token>());
    const auto first = Clock::now();
    import(tokens[0]);
    const double first_us = microseconds_since(first);
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) import(tokens[static_cast<size_t>(i) % 16]);
    parent.send(first_us);
    parent.send(microseconds_since(start) / count);
    parent.receive<char>();
  });
  const Owned owned(1 << 20);
  for (size_t i = 0; i < 16; ++i) child.send(owned.token(i * kPiece, kPiece));
  const auto first_us = child.receive<double>();
  const auto us = child.receive<double>();
  return {{"import_and_release_us", us}, {"first_of_a_process_us", first_us}, {"count", count}};
}

// A round trip through pipes with nothing, with a piece of a standing buffer, and with a buffer of its own; in turns.
nlohmann::json messages(int rounds) {
  Child child([](Child& parent) {
    for (;;) {
      const auto token = parent.receive<Token>();
      char seen = 0;
      if (token.size != 0) seen = import(token).span<char>()[0];
      parent.send(seen);
    }
  });
  const Owned standing(16 * kPiece);
  std::vector<double> nothing;
  std::vector<double> piece;
  std::vector<double> buffer;
  for (int i = 0; i < rounds; ++i) {
    const char value = static_cast<char>(i % 100);
    auto start = Clock::now();
    child.send(Token{});
    child.receive<char>();
    nothing.push_back(microseconds_since(start));

    start = Clock::now();
    const size_t offset = static_cast<size_t>(i) % 16 * kPiece;
    symm::ipc_withdraw(symm::Span(standing.data + offset, kPiece));
    standing.data[offset] = value;
    child.send(standing.token(offset, kPiece));
    if (child.receive<char>() != value) throw std::runtime_error("wrong data");
    piece.push_back(microseconds_since(start));

    start = Clock::now();
    {
      const Owned own(kPiece);
      *own.data = value;
      child.send(own.token(0, kPiece));
      if (child.receive<char>() != value) throw std::runtime_error("wrong data");
    }
    buffer.push_back(microseconds_since(start));
  }
  const auto row = [&](const std::vector<double>& values) {
    return nlohmann::json{{"p50_us", quantile(values, 0.5)}, {"p99_us", quantile(values, 0.99)},
        {"over_pipe_us", quantile(values, 0.5) - quantile(nothing, 0.5)}};
  };
  return {
      {"pipe_alone", row(nothing)}, {"piece_of_a_buffer", row(piece)}, {"buffer_of_its_own", row(buffer)}, {"rounds", rounds}};
}

nlohmann::json death(int kills) {
  std::vector<double> free_after;
  for (int i = 0; i < kills; ++i) {
    Child child([](Child& parent) {
      const symm::Import held = import(parent.receive<Token>());
      parent.send('h');
      parent.receive<char>();
    });
    const Owned owned(1 << 20);
    child.send(owned.token(0, kPiece));
    child.receive<char>();
    const auto start = Clock::now();
    child.end(SIGKILL);
    symm::ipc_withdraw(owned.buffer.span(), 10'000);
    free_after.push_back(microseconds_since(start));
  }
  return {{"p50_us", quantile(free_after, 0.5)}, {"p99_us", quantile(free_after, 0.99)}, {"kills", kills}};
}

nlohmann::json collecting(int rounds) {
  constexpr int kLeases = 10'000;
  Child child([](Child& parent) {
    const auto token = parent.receive<Token>();
    const symm::Import one = import(token);
    parent.send('1');
    parent.receive<char>();
    std::vector<symm::Import> many;
    for (int i = 1; i < kLeases; ++i) many.push_back(import(token));
    parent.send('m');
    parent.receive<char>();
  });
  const Owned owned(1 << 20);
  child.send(owned.token(0, kPiece));
  child.receive<char>();
  symm::ipc_collect();
  const auto time = [rounds] {
    std::vector<double> all;
    for (int i = 0; i < rounds; ++i) {
      const auto start = Clock::now();
      symm::check(symm_ipc_collect(nullptr), "symm_ipc_collect");
      all.push_back(microseconds_since(start));
    }
    return quantile(all, 0.5);
  };
  const double with_one = time();
  child.send('g');
  child.receive<char>();
  const symm_ipc_stats_t stats = symm::ipc_stats();
  const double with_many = time();
  return {{"leases", stats.leased}, {"with_one_us", with_one}, {"with_all_us", with_many}, {"ratio", with_many / with_one}};
}
}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What sharing memory by tokens costs, in C; one JSON object"};
  int count = 100'000;
  int rounds = 3000;
  int kills = 100;
  app.add_option("--count", count, "tokens, and imports")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rounds", rounds, "messages, and collections")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--kills", kills, "consumers to kill")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  signal(SIGPIPE, SIG_IGN);
  nlohmann::json result;
  result["import"] = import_cost(count);
  result["messages"] = messages(rounds);
  result["death_to_free"] = death(kills);
  result["collect"] = collecting(rounds);
  result["token"] = token_cost(count);
  std::cout << result.dump(2) << '\n';
  return 0;
}
