// The text of tombstones, and the system calls that set and remove them.
#include "core/bootstrap/tombstone.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/poll.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"
#include "core/socket/directory.hpp"

namespace symm {
namespace {
constexpr size_t kMostText = 2048;  // bytes of the failure's text: it names directories
// One character for each of this number of ranks fits beside the text. More ranks
// never meet on one machine.
constexpr size_t kMostRanksNoted = 1600;

std::string encode(const Tombstone& tombstone) {
  std::string know;
  for (const bool knows : tombstone.know) {
    know += knows ? '1' : '0';
  }

  const Failure& failure = tombstone.failure;
  const std::string text = failure.message.substr(0, length_within(kMostText, failure.message));
  return expiry(tombstone.until_ns) +
         format("%016lx %s %d %d %ld %d %d ", tombstone.failed_ns, know.c_str(),
             static_cast<int>(failure.status), failure.rank, failure.pid, failure.os_error,
             failure.cuda_result) +
         printable(text);
}

std::optional<Tombstone> decode(const std::string& note) {
  Tombstone found;
  char know[kMostRanksNoted + 1];
  int status = 0;
  int length = 0;
  const int fields = std::sscanf(note.c_str(), "%*16x %16lx %16lx %1600s %d %d %ld %d %d %n",
      &found.until_ns, &found.failed_ns, know, &status, &found.failure.rank, &found.failure.pid,
      &found.failure.os_error, &found.failure.cuda_result, &length);
  if (fields != 8 || length == 0) return std::nullopt;

  for (const char knows : std::string(know)) {
    found.know.push_back(knows == '1');
  }
  found.failure.status = static_cast<Status>(status);
  found.failure.message = note.substr(static_cast<size_t>(length));
  return found;
}

bool all_know(const Tombstone& tombstone) {
  return std::find(tombstone.know.begin(), tombstone.know.end(), false) == tombstone.know.end();
}
}  // namespace

std::string name_of_tombstone(const std::string& attempt) {
  return kNotePrefix[0] + attempt.substr(1);
}

bool set_tombstone(const std::string& path, const Tombstone& tombstone) {
  if (tombstone.know.size() > kMostRanksNoted || all_know(tombstone)) return true;
  return ::symlink(encode(tombstone).c_str(), path.c_str()) == 0 || errno != EEXIST;
}

std::optional<Tombstone> read_tombstone(const std::string& path) {
  const std::string note = read_note(AT_FDCWD, path.c_str());
  return has_expired(note) ? std::nullopt : decode(note);
}

void note_reader(const std::string& path, const Tombstone& seen, int rank) {
  if (seen.is_known_to(rank) || static_cast<size_t>(rank) >= seen.know.size()) return;

  // One rank at a time has the tombstone, under a name of its own. It is removed before it is
  // set again, so that this needs no room.
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  const std::string own =
      directory + fresh_name(kNotePrefix + format("%016lx", process::random64()));
  const auto take = [&] { return ::rename(path.c_str(), own.c_str()) == 0; };
  // A rank that holds the tombstone may have no processor for a while. After this time it has died.
  constexpr uint64_t kTurnMs = 2'000;
  const Deadline deadline = Deadline::after_ms(kTurnMs);

  // A rank that fails while this one has the tombstone may set another. What this rank knows of the
  // first one is added to that.
  std::vector<bool> known(seen.know.size());
  known[static_cast<size_t>(rank)] = true;
  while (retry_until(take, deadline)) {
    std::optional<Tombstone> tombstone = read_tombstone(own);
    ::unlink(own.c_str());
    if (!tombstone || tombstone->know.size() != known.size()) return;

    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = known[i] || tombstone->know[i];
    }
    tombstone->know = known;
    if (set_tombstone(path, *tombstone)) return;
  }
}
}  // namespace symm
