// Follows the waits that ranks show from one rank to the next, and says which calls they are in.
#include "core/host/standstill.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/mismatch.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"

namespace symm::host {
namespace {
constexpr uint64_t kPatienceNs = 1000 * kMillisecondNs;
// Between machines: the time for what is under way to arrive.
constexpr uint64_t kOnTheWayNs = 300 * kMillisecondNs;
constexpr uint32_t kLeastLooks = 2;
}  // namespace

std::string Standstill::text_of(const Controls& controls, const ShownWait& wait) {
  switch (wait.lane) {
    case lane::kCollective: return wait.call ? wait.call->text() : "";
    case lane::kGet: return "get";
    case lane::kMessages: return "send, recv or messages";
    default: break;
  }
  if (wait.lane < lane::kBarriers) {
    return name_of(static_cast<MessageCall>(wait.lane - lane::kCalls));
  }
  const int channel = static_cast<int>(wait.lane - lane::kBarriers);
  return channel < controls.user_channels() ? format("barrier on channel %d", channel)
                                            : std::string("group_finalize");
}

std::vector<Standstill::Place> Standstill::find() const {
  const auto most = 2 * static_cast<size_t>(controls_.context().size);
  std::vector<Place> path;
  int rank = controls_.context().rank;
  uint32_t lane = lane_;
  uint16_t about = 0;
  while (path.size() <= most) {
    const ShownWait wait = controls_.wait_of(rank, lane);
    if (wait.peer < 0) return {};

    const auto first = std::find_if(path.begin(), path.end(),
        [&](const Place& place) { return place.rank == rank && place.wait.lane == wait.lane; });
    if (first != path.end()) {
      first->followed = lane;
      first->followed_about = about;
      path.erase(path.begin(), first);
      return path;
    }

    path.push_back({rank, lane, about, wait});
    rank = wait.peer;
    lane = wait.lane;
    about = wait.about;
  }
  return {};
}

// Whether the circle that was seen before is still there. If not, the present circle, if
// there is one, takes its place.
bool Standstill::find_again() {
  now_ = find();
  const auto is_same = [](const Place& a, const Place& b) {
    return a.rank == b.rank && a.followed == b.followed && a.wait.lane == b.wait.lane &&
           a.wait.peer == b.wait.peer && a.wait.number == b.wait.number &&
           a.wait.about == b.wait.about;
  };
  if (!now_.empty() &&
      std::equal(now_.begin(), now_.end(), circle_.begin(), circle_.end(), is_same)) {
    return true;
  }

  circle_ = now_;
  since_ns_ = now_ns();
  return false;
}

bool Standstill::spans_machines() const {
  return std::any_of(now_.begin(), now_.end(),
      [&](const Place& place) { return !controls_[place.rank].is_mapped(); });
}

bool Standstill::has_own_rank() const {
  return std::any_of(now_.begin(), now_.end(),
      [&](const Place& place) { return place.rank == controls_.context().rank; });
}

// Whether all ranks of the circle make one call.
bool Standstill::is_one_call() const {
  const std::string first = text_of(controls_, now_.front().wait);
  return std::all_of(now_.begin(), now_.end(),
      [&](const Place& place) { return text_of(controls_, place.wait) == first; });
}

bool Standstill::are_about_one() const {
  return std::none_of(now_.begin(), now_.end(),
      [&](const Place& place) { return place.followed == place.wait.lane && place.is_switch(); });
}

bool Standstill::counts_after(uint64_t patience_ns) const {
  const bool switches =
      std::any_of(now_.begin(), now_.end(), [](const Place& place) { return place.is_switch(); });
  const bool far = spans_machines();
  if (far && !has_own_rank()) return false;
  if (far) patience_ns = std::max(patience_ns, kOnTheWayNs);
  if (now_ns() - since_ns_ < (switches || far ? patience_ns : 0)) return false;

  for (size_t i = 0; i < now_.size(); ++i) {
    const Place& place = now_[i];
    if (place.is_switch() && place.wait.several) return false;
    if (!lane::is_of_messages(place.wait.lane)) continue;
    if (!switches || place.wait.looks - circle_[i].wait.looks < kLeastLooks) return false;
  }
  return true;
}

bool Standstill::look() {
  return (find_again() && counts_after(kPatienceNs) && blame()) || blame_refusal();
}

bool Standstill::is_there_at_deadline() {
  if (blame_refusal()) return true;
  if (!find_again()) {
    if (now_.empty()) return false;
    constexpr uint64_t kMomentMs = 2;
    retry_until([] { return false; }, Deadline::after_ms(kMomentMs));
    if (!find_again()) return false;
  }
  return counts_after(0) && blame();
}

// Ranks that are in no call, or not for long, are left out of the mismatch.
bool Standstill::blame() {
  if (spans_machines() && is_one_call() && are_about_one()) return false;

  const TransportContext& context = controls_.context();
  std::vector<int> ranks;
  std::vector<std::string> calls;
  for (int rank = 0; rank < context.size; ++rank) {
    const auto place =
        std::find_if(now_.begin(), now_.end(), [&](const Place& one) { return one.rank == rank; });
    const ShownWait wait = place != now_.end() ? place->wait : controls_.wait_of(rank, lane_);
    if (wait.peer < 0) continue;
    if (std::string text = text_of(controls_, wait); !text.empty()) {
      ranks.push_back(rank);
      calls.push_back(std::move(text));
    }
  }

  const std::optional<Mismatch> found = mismatch_among(calls);
  if (!found) return blame_sets();

  const int right = ranks[found->right];
  const int wrong = ranks[found->wrong];
  failure_ = context.blame(wrong, Status::mismatch,
      format("rank %d makes %s, rank %d makes %s", right, calls[found->right].c_str(), wrong,
          calls[found->wrong].c_str()));
  return true;
}

bool Standstill::blame_refusal() {
  const TransportContext& context = controls_.context();
  if (!context.check) return false;
  const ShownWait own = controls_.wait_of(context.rank, lane_);
  if (own.peer < 0) return false;

  const int suspect = controls_.culprit(own.peer, lane_);
  const ShownWait theirs = controls_.wait_of(suspect, lane_);
  if (theirs.peer >= 0 || !theirs.refused || theirs.refusals == own.refusals) return false;

  failure_ = context.blame(
      suspect, Status::mismatch, context.rank_name(suspect) + " refused the arguments of its call");
  if (controls_[suspect].is_mapped()) {
    const RefusalLine& refusal = controls_[suspect].refusal();
    const char* const end = std::find(std::begin(refusal.text), std::end(refusal.text), '\0');
    failure_.message.append(": ").append(refusal.text, end);
  }
  return true;
}

// Ranks whose calls have one name name different ranks in them.
bool Standstill::blame_sets() {
  const uint32_t lane = now_.front().wait.lane;
  const auto [first, last] = std::minmax_element(
      now_.begin(), now_.end(), [](const Place& a, const Place& b) { return a.rank < b.rank; });
  if (lane < lane::kBarriers) {
    if (are_about_one()) return false;
    failure_ = controls_.context().blame(last->rank, Status::mismatch,
        format("%s: ranks %d and %d name different ranks of this group, or not in one order of "
               "calls",
            text_of(controls_, now_.front().wait).c_str(), first->rank, last->rank));
    return true;
  }

  failure_ =
      controls_.different_sets(static_cast<int>(lane - lane::kBarriers), first->rank, last->rank);
  return true;
}
}  // namespace symm::host
