// The rounds by which living ranks agree on which ranks live. agreement.hpp has the definitions
// and the proof. Messages go by the mesh, which works while the group is revoked.
#include "core/group/agreement.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/page.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/group.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
constexpr uint64_t kGraceMs = 1'000;   // for the others to hear which ranks are late
constexpr int kMostRanksHere = 8'192;  // their views of two bits a rank fit into a message

// The encoding of a view: whether it is decided, the rank whose failure it is, a byte for each four
// ranks, and the failure, filled with zeros to a known length.
size_t size_of_view(int ranks) {
  return 1 + sizeof(int32_t) + static_cast<size_t>(ranks + 3) / 4 + kFailureHeader +
         kMaxFailureText;
}

Bytes encode(const View& view, bool decided) {
  Writer out;
  out.number(static_cast<uint8_t>(decided));
  out.number(static_cast<uint32_t>(view.by));

  for (size_t rank = 0; rank < view.gone.size(); rank += 4) {
    unsigned bits = 0;
    for (size_t i = 0; i < std::min<size_t>(4, view.gone.size() - rank); ++i) {
      bits |= (view.gone[rank + i] ? 1U : 0U) << 2 * i | (view.late[rank + i] ? 2U : 0U) << 2 * i;
    }
    out.number(static_cast<uint8_t>(bits));
  }

  encode(out, view.failure);
  out.bytes_.resize(size_of_view(static_cast<int>(view.gone.size())));
  return std::move(out.bytes_);
}

View decode(int rank, const Bytes& body, int ranks, bool& decided) {
  Reader in(body);
  View view{std::vector<bool>(static_cast<size_t>(ranks)),
      std::vector<bool>(static_cast<size_t>(ranks)), -1, {}};
  decided = in.number<uint8_t>() != 0;
  view.by = static_cast<int>(in.number<uint32_t>());

  for (size_t at = 0; at < view.gone.size(); at += 4) {
    const auto bits = in.number<uint8_t>();
    for (size_t i = 0; i < std::min<size_t>(4, view.gone.size() - at); ++i) {
      view.gone[at + i] = (bits >> 2 * i & 1U) != 0;
      view.late[at + i] = (bits >> 2 * i & 2U) != 0;
    }
  }

  auto failure = in.rest();
  while (failure.size() > kFailureHeader && failure.back() == std::byte{}) {
    failure = failure.first(failure.size() - 1);
  }
  const char* fault = decode(Reader(failure), view.failure);
  if (fault != nullptr || view.by < -1 || view.by >= ranks) {
    throw Error(
        {Status::peer_failed, rank, 0, format("rank %d sent something else than a view", rank)});
  }
  return view;
}

void merge(std::vector<bool>& into, const std::vector<bool>& from) {
  for (size_t i = 0; i < into.size(); ++i) {
    into[i] = into[i] || from[i];
  }
}

void merge(View& into, const View& from) {
  merge(into.gone, from.gone);
  merge(into.late, from.late);

  // A failure that reports a death weighs less than any other: the view has the death already,
  // and any other failure must be told.
  const auto weight = [](const View& view) {
    if (view.by < 0) return 0;
    return view.failure.status == Status::peer_failed ? 1 : 2;
  };
  if (weight(from) > weight(into) || (weight(from) == weight(into) && from.by < into.by)) {
    into.by = from.by;
    into.failure = from.failure;
  }
}

class Agreement {
 public:
  Agreement(
      Group& group, const Topic& topic, const Failure& mine, Deadline deadline, MessageCall call)
      : group_(group),
        topic_(topic),
        deadline_(deadline),
        call_(call),
        size_(static_cast<size_t>(group.size())) {
    mine_ = {std::vector<bool>(size_), std::vector<bool>(size_),
        mine.status == Status::ok ? -1 : group.rank(), mine};
    told_.resize(size_);
  }

  View run() {
    tell(false);
    while (!decided_ && !given_up_ && !all_agree()) {
      look();
    }
    try {
      if (!given_up_) tell(true);
    } catch (const std::bad_alloc&) {
      // The others come to the same decision by themselves, unless a rank dies now.
    }

    const auto late = std::find(mine_.late.begin(), mine_.late.end(), true);
    if (late == mine_.late.end()) return std::move(mine_);
    const int rank = static_cast<int>(late - mine_.late.begin());
    const int64_t pid = group_.identity(rank).pid;
    throw Error({Status::timeout, rank, pid,
        format("rank %d (pid %ld) lives, and did not come before the deadline", rank, pid)});
  }

 private:
  bool is_left(size_t rank) const { return !mine_.gone[rank] && !mine_.late[rank]; }

  bool am(size_t rank) const { return static_cast<int>(rank) == group_.rank(); }

  bool all_agree() const {
    for (size_t rank = 0; rank < size_; ++rank) {
      if (!am(rank) && is_left(rank) && !(told_[rank] && *told_[rank] == mine_)) return false;
    }
    return true;
  }

  void tell(bool decision) {
    const Bytes body = encode(mine_, decision);
    SYMM_POINT("agreement.tell");
    for (size_t rank = 0; rank < size_; ++rank) {
      // Ranks that are late are told too: should they come, they learn that they are.
      if (!am(rank) && !mine_.gone[rank]) {
        group_.send_if_there(static_cast<int>(rank), topic_, body, deadline_);
      }
    }
  }

  void look() {
    const View before = mine_;
    std::vector<int> awaited;
    for (size_t rank = 0; rank < size_; ++rank) {
      if (!am(rank) && is_left(rank)) awaited.push_back(static_cast<int>(rank));
    }

    if (auto news = await_news(awaited)) {
      if (news->later_tag) throw Overtaken(*news->later_tag);
      hear(static_cast<size_t>(news->peer), news->message);
    } else {
      for (const int rank : awaited) {
        const auto& told = told_[static_cast<size_t>(rank)];
        mine_.late[static_cast<size_t>(rank)] = !told || !(*told == mine_);
      }
    }
    if (decided_ || given_up_ || mine_ == before) return;

    // The other ranks may have longer deadlines. Once a rank is late, this rank only waits
    // until the others have heard of it.
    if (mine_.late != before.late) deadline_ = Deadline::after_ms(kGraceMs);
    tell(false);
  }

  // Ranks that wait for this one in other calls of a group that has not failed learn that it is
  // here. When they have failed the group, this rank waits for them to come.
  std::optional<Mesh::News> await_news(const std::vector<int>& awaited) {
    constexpr uint64_t kLookMs = 500;
    const char* const shown_as = call_ == MessageCall::group_grow ? "grow" : "shrink";
    const Page::Sleep shown(group_.revocation().page().get(), -1, shown_as, now_ns());
    const auto silent = std::find_if(awaited.begin(), awaited.end(), [&](int rank) {
      const auto& told = told_[static_cast<size_t>(rank)];
      return !told || !(*told == mine_);
    });
    std::unique_ptr<MessageWait> wait;
    if (silent != awaited.end() && !group_.revocation().revoked()) {
      wait = group_.transport().await_message(call_, *silent, 0);
    }

    for (;;) {
      auto news = group_.receive_any(awaited, topic_, size_of_view(group_.size()),
          std::min(deadline_, Deadline::after_ms(kLookMs)));
      if (news || deadline_.expired()) return news;
      try {
        if (wait && !group_.revocation().revoked()) wait->look();
      } catch (const Error&) {
        wait.reset();
      }
    }
  }

  void hear(size_t rank, const std::optional<Message>& message) {
    if (!message) {
      mine_.gone[rank] = true;
      return;
    }

    View theirs = decode(static_cast<int>(rank), message->body, group_.size(), decided_);
    const auto me = static_cast<size_t>(group_.rank());
    if (theirs.gone[me]) {
      throw Error({Status::peer_failed, group_.rank(), group_.identity(group_.rank()).pid,
          format("rank %zu takes rank %d, which lives, for dead: a connection between ranks broke",
              rank, group_.rank())});
    }

    given_up_ = theirs.late[me];
    if (decided_ || given_up_) {
      mine_ = std::move(theirs);
      return;
    }
    merge(mine_, theirs);
    told_[rank] = std::move(theirs);
  }

  Group& group_;
  const Topic topic_;
  Deadline deadline_;
  const MessageCall call_;
  const size_t size_;
  View mine_;
  std::vector<std::optional<View>> told_;  // by rank: the last view that the rank told this one
  bool decided_ = false;
  bool given_up_ = false;  // the others take this rank for late, and have ended without it
};
}  // namespace

Deadline deadline_to_tell(Deadline of_call) noexcept {
  const uint64_t left = of_call.remaining_ns();
  if (left == Deadline::kInfinite) return of_call;
  constexpr uint64_t kTellingNs = 500 * kMillisecondNs;
  return Deadline::after_ms((left - std::min(left / 4, kTellingNs)) / kMillisecondNs);
}

Deadline deadline_to_hear(Deadline of_call) noexcept {
  constexpr uint64_t kLeastMs = 2'000;
  return std::max(of_call, Deadline::after_ms(kLeastMs));
}

View agree(
    Group& group, const Topic& topic, const Failure& mine, Deadline deadline, MessageCall call) {
  if (group.size() > kMostRanksHere) {
    throw Error(Status::unsupported,
        format("a group of %d ranks: at most %d can agree", group.size(), kMostRanksHere));
  }

  try {
    return Agreement(group, topic, mine, deadline, call).run();
  } catch (const Overtaken&) {
    throw;
  } catch (const std::exception&) {
    Failure own = current_failure();
    if (own.rank >= 0) throw;
    // The others wait for this rank. It agrees once more, with what failed here as its failure.
    // That is news to the others, so they tell their views again.
    return Agreement(group, topic, group.blamed(std::move(own)), deadline, call).run();
  }
}
}  // namespace symm
