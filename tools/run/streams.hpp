// Carries the ranks' output to a descriptor that must not be made non-blocking, since others share
// it, and their input from one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tools/unique_fd.hpp"

namespace symm::tool {
// The output of one rank, cut into lines. Only whole lines leave, so that ranks never mix within a
// line. A last line without its newline gets one when the rank closes the stream.
class LineAssembler {
 public:
  // On a terminal, text that ends with a carriage return (a progress line) is shown
  // in passing and overwritten by what comes next. `verbatim`: every byte is handed
  // on as it is, and no other.
  LineAssembler(std::string prefix, bool terminal, bool verbatim = false)
      : prefix_(std::move(prefix)), terminal_(terminal), verbatim_(verbatim) {}

  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);

  // A line without an end must not fill the memory, so it is broken here. A line that is handed
  // on verbatim is not broken, but it may be handed on in parts.
  static constexpr size_t longest_line = size_t{1} << 20;

 private:
  void emit(std::string_view line, char end, std::string& out) const;
  void emit_without_end(std::string_view line, std::string& out) const;

  std::string prefix_;
  bool terminal_;
  bool verbatim_;
  std::string partial_;
};

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  bool pending() const { return !queue_.empty(); }
  // True: stop reading from the ranks, so that they wait for the reader too.
  bool full() const { return queue_.size() >= limit; }
  bool broken() const { return broken_; }  // the reader has gone
  std::string& queue() { return queue_; }
  // Writes as much as possible without blocking.
  void write_some();

 private:
  static constexpr size_t limit = size_t{256} << 10;
  static constexpr size_t write_size = 4096;  // PIPE_BUF: a writable pipe takes that much

  int fd_;
  bool broken_ = false;
  std::string queue_;
};

// Standard input goes to rank 0. A file or pipe is handed over as it is. A terminal
// is not readable for rank 0, which is in a background process group, so its lines
// are copied through a pipe.
class StandardInput {
 public:
  StandardInput();

  int for_rank_0() const { return pipe_.read_end ? pipe_.read_end.get() : 0; }
  void rank_0_started() { pipe_.read_end.reset(); }

  // The descriptor to poll; -1: none. The launcher reads only while it is in the foreground of the
  // terminal and rank 0 keeps up.
  int readable_fd() const;
  int writable_fd() const { return queue_.empty() ? -1 : pipe_.write_end.get(); }
  void read_some();
  void write_some();
  void close() { pipe_.write_end.reset(); }

 private:
  Pipe pipe_;
  std::string queue_;
  bool ended_ = false;
};
}  // namespace symm::tool
