// The messages between the members of a group and its spares. All that comes is checked before it
// is believed.
#include "core/group/spares.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/ticket.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
constexpr uint64_t kSpareAnswerMs = 1'000;                    // for a spare that is asked
constexpr size_t kSpareCallBody = 2'048;                      // filled with zeros
constexpr size_t kNamedAtOnce = kMaxBody / sizeof(uint32_t);  // members that a message names

enum class SpareMessage : uint8_t { ask = 1, take = 2, release = 3 };

// The topics: what a member tells, the members of a group that takes a spare, and answers.
Topic calls(const Mesh& mesh) { return {MessageKind::growth, mesh.nonce(), 0, 0}; }
Topic named(const Mesh& mesh, uint64_t id) { return {MessageKind::growth, mesh.nonce(), 1, id}; }
Topic answers(const Mesh& mesh) { return {MessageKind::growth, mesh.nonce(), 2, 0}; }

// True unless the peer is gone.
bool tell(
    Mesh& mesh, int peer, const Topic& topic, std::span<const std::byte> body, Deadline until) {
  try {
    mesh.send(peer, topic, body, {}, until);
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed) throw;
    return false;
  }
}

Bytes body_of(SpareMessage kind, uint64_t number, const SpareCall& call) {
  Writer out;
  out.numbers(static_cast<uint8_t>(kind), number, static_cast<uint32_t>(call.members.size()));
  write_offer(out, call.offer);
  out.bytes_.resize(kSpareCallBody);
  return std::move(out.bytes_);
}
}  // namespace

// ---- members

Spares::Spares(std::shared_ptr<Mesh> mesh, int first)
    : mesh_(std::move(mesh)), first_(first), taken_(static_cast<size_t>(mesh_->size())) {}

std::vector<int> Spares::waiting() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> waiting;
  for (int rank = first_; rank < mesh_->size(); ++rank) {
    const bool is_out = taken_[static_cast<size_t>(rank)] || mesh_->is_gone(rank, mesh_->nonce());
    if (!is_out) waiting.push_back(rank);
  }
  return waiting;
}

std::vector<int> Spares::ask(size_t count, Deadline deadline) const {
  std::vector<int> asked;
  std::vector<int> ready;
  const uint64_t question = process::random64();
  const Bytes body = body_of(SpareMessage::ask, question, {});
  const Deadline until = std::min(deadline, Deadline::after_ms(kSpareAnswerMs));

  for (const int rank : waiting()) {
    SYMM_POINT("spares.ask");
    if (tell(*mesh_, rank, calls(*mesh_), body, until)) asked.push_back(rank);
  }
  while (ready.size() < count && !asked.empty()) {
    const auto news =
        mesh_->receive_any(asked, answers(*mesh_), UINT64_MAX, sizeof question, until);
    if (!news) break;
    // Answers to earlier questions, which came late or were not needed, are read here, too.
    if (news->message && Reader(news->message->body).number<uint64_t>() != question) continue;
    std::erase(asked, news->peer);
    if (news->message) ready.push_back(news->peer);
  }
  return ready;
}

// The call goes last: when a spare hears it, the members are there, since messages keep their
// order. So a member that fails or dies on the way leaves no spare waiting.
void Spares::offer(int spare, const SpareCall& call, Deadline deadline) const {
  for (std::span<const int> left = call.members; !left.empty();
      left = left.subspan(std::min(left.size(), kNamedAtOnce))) {
    const auto part = left.first(std::min(left.size(), kNamedAtOnce));
    if (!tell(*mesh_, spare, named(*mesh_, call.id), std::as_bytes(part), deadline)) return;
  }
  SYMM_POINT("spares.offer");
  tell(*mesh_, spare, calls(*mesh_), body_of(SpareMessage::take, call.id, call), deadline);
}

void Spares::take(std::span<const int> members) noexcept {
  const std::lock_guard lock(mutex_);
  for (const int rank : members) {
    if (rank >= first_) taken_[static_cast<size_t>(rank)] = true;
  }
}

void Spares::release(Deadline deadline) const {
  const Bytes body = body_of(SpareMessage::release, 0, {});
  for (const int rank : waiting()) {
    tell(*mesh_, rank, calls(*mesh_), body, deadline);
  }
}

// ---- a spare

namespace {
bool has_sense(const SpareCall& call, const Mesh& mesh) {
  const auto size = static_cast<size_t>(call.offer.size);
  std::vector<bool> seen(static_cast<size_t>(mesh.size()));
  for (const int rank : call.members) {
    if (rank < 0 || rank >= mesh.size() || seen[static_cast<size_t>(rank)]) return false;
    seen[static_cast<size_t>(rank)] = true;
  }
  return call.members.size() == size &&
         call.members[static_cast<size_t>(call.offer.rank)] == mesh.rank();
}

Error no_call(const Mesh& mesh, int member) {
  return Error({Status::peer_failed, member, mesh.peer(member).pid,
      format("rank %d told something else than a place in a group", member)});
}

// Reads what `member` has told before its call. Throws if that is not there.
void hear_members(Mesh& mesh, int member, SpareCall& call, Deadline deadline) {
  for (auto left = std::as_writable_bytes(std::span(call.members)); !left.empty();) {
    const size_t size = std::min(left.size(), kNamedAtOnce * sizeof(uint32_t));
    const Message message = mesh.receive(member, named(mesh, call.id), size, 0, nullptr, deadline);
    std::copy(message.body.begin(), message.body.end(), left.begin());
    left = left.subspan(size);
  }
}

// The call that a message is; none if it is another one, or `member` is gone. A question is
// answered. Throws Error(peer_failed) if the message makes no sense.
std::optional<SpareCall> read_call(
    Mesh& mesh, int member, const Bytes& body, bool& is_released, Deadline deadline) {
  Reader in(body);
  const auto kind = static_cast<SpareMessage>(in.number<uint8_t>());
  SpareCall call;
  uint32_t count = 0;
  in.numbers(call.id, count);
  if (kind == SpareMessage::ask) {
    SYMM_POINT("spare.asked");
    Writer number;
    number.number(call.id);
    tell(mesh, member, answers(mesh), number.bytes_, deadline);
  }
  is_released = kind == SpareMessage::release;
  if (kind != SpareMessage::take) return std::nullopt;

  call.members.resize(std::min<size_t>(count, static_cast<size_t>(mesh.size())));
  if (!read_offer(in, call.offer)) throw no_call(mesh, member);
  try {
    hear_members(
        mesh, member, call, std::min(deadline, Deadline::after_ms(call.offer.deadline_ms)));
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed && error.status() != Status::timeout) throw;
    return std::nullopt;
  }
  if (!has_sense(call, mesh)) throw no_call(mesh, member);
  return call;
}
}  // namespace

std::optional<SpareCall> await_call(Mesh& mesh, int first, Deadline deadline) {
  std::vector<int> members;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const bool may_call = rank != mesh.rank() && !mesh.is_gone(rank, mesh.nonce());
    if (may_call) members.push_back(rank);
  }

  // Other spares call only when they are ranks of a group.
  const auto is_member = [&](int rank) { return rank < first; };
  while (std::any_of(members.begin(), members.end(), is_member)) {
    const auto news = mesh.receive_any(members, calls(mesh), UINT64_MAX, kSpareCallBody, deadline);
    if (!news) {
      throw Error(Status::timeout, "no member made a place for this spare before the deadline");
    }
    if (!news->message) {
      std::erase(members, news->peer);
      continue;
    }

    bool is_released = false;
    auto call = read_call(mesh, news->peer, news->message->body, is_released, deadline);
    if (call || is_released) return call;
  }
  return std::nullopt;
}
}  // namespace symm
