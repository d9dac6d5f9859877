// The first failure of a group, kept and told to everything that waits. Another takes its place
// only if it happened earlier.
#include "core/base/revocation.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/page.hpp"

namespace symm {
struct Revocation::Listeners {
  // Held while an event is told, so that no listener is called once it has gone.
  std::mutex mutex;
  std::map<uint64_t, std::function<void()>> functions;
  uint64_t next = 0;
};

namespace {
// "barrier: rank 1 (pid 7) did not come within 4000 ms" as rank 1 is to read it: "barrier: another
// rank waited in vain for rank 1 (pid 7, this rank), not there within 4000 ms".
std::string as_read_by(int rank, std::string message) {
  constexpr std::string_view kNotCome = " did not come";
  const size_t own = message.find(format("rank %d (pid ", rank));
  const size_t end = own == std::string::npos ? own : message.find(')', own);
  const size_t verb = end == std::string::npos ? end : message.find(kNotCome, end);
  if (verb == std::string::npos) return message;

  // Between the two there may be more ranks, but no other sentence.
  const std::string_view between = std::string_view(message).substr(end, verb - end);
  if (between.find_first_of(":;") != std::string_view::npos) return message;

  const size_t colon = message.rfind(": ", own);
  const size_t begin = colon == std::string::npos ? 0 : colon + 2;
  message.replace(verb, kNotCome.size(), ", not there");
  message.insert(end, ", this rank");
  message.insert(begin, "another rank waited in vain for ");
  return message;
}
}  // namespace

Revocation::Revocation(int size, std::shared_ptr<const Page> page)
    : page_(std::move(page)),
      listeners_(std::make_shared<Listeners>()),
      departed_(static_cast<size_t>(size)) {}

void Revocation::announce() noexcept {
  events_.fetch_add(1, std::memory_order_seq_cst);
  wake_all(events_);

  const std::lock_guard lock(listeners_->mutex);
  for (const auto& [id, function] : listeners_->functions) {
    function();
  }
}

std::shared_ptr<void> Revocation::listen(std::function<void()> event) {
  std::unique_lock lock(listeners_->mutex);
  const uint64_t id = listeners_->next++;
  event();
  listeners_->functions.emplace(id, std::move(event));

  // If there is no memory for the pointer's counts, the deleter runs at once, and takes the lock.
  lock.unlock();
  return {nullptr, [listeners = listeners_, id](void*) {
            const std::lock_guard held(listeners->mutex);
            listeners->functions.erase(id);
          }};
}

Revocation::Effect Revocation::revoke(Failure failure, int peer, bool seen) {
  Effect effect;
  if (failure.when_ns == 0) failure.when_ns = now_ns();

  {
    const std::lock_guard lock(mutex_);
    const bool first = failure_.status == Status::ok;
    // The rank that sent the cause has died, and may not have told all.
    if (seen && !first && told_by_ == peer) told_ = false;

    if (!first && failure.status == failure_.status && failure.rank == failure_.rank) {
      failure_.when_ns = std::min(failure_.when_ns, failure.when_ns);
    } else {
      effect.counts = first || std::tie(failure.when_ns, failure.rank) <
                                   std::tie(failure_.when_ns, failure_.rank);
      if (effect.counts) adopt(std::move(failure), peer, seen);
      effect.tell = !first && !told_;
      told_ = told_ || effect.tell;
    }
    revoked_.store(true, std::memory_order_release);
  }

  if (effect.counts) announce();
  return effect;
}

void Revocation::adopt(Failure failure, int peer, bool seen) {
  failure_ = std::move(failure);
  if (page_) {
    Page::set((*page_)->failure,
        static_cast<uint64_t>(failure_.status) << 32 | static_cast<uint32_t>(failure_.rank + 1));
  }
  told_by_ = seen ? -1 : peer;
  told_ = !seen;
}

Failure Revocation::cause() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Failure Revocation::failure() const {
  Failure read = cause();
  if (page_ && read.status == Status::timeout) {
    read.message = as_read_by((*page_)->rank, std::move(read.message));
  }
  return read;
}

void Revocation::throw_if_revoked() const {
  if (revoked()) throw Error(failure());
}

void Revocation::depart(int rank) {
  departed_[static_cast<size_t>(rank)].store(true, std::memory_order_release);
  announce();
}

void Revocation::finalize() noexcept {
  finalized_.store(true, std::memory_order_release);
  announce();
}

bool Revocation::departed(int rank) const noexcept {
  return departed_[static_cast<size_t>(rank)].load(std::memory_order_acquire);
}
}  // namespace symm
