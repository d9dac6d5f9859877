// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/exporter_link.hpp"

#include <cstring>

#include "core/base/process_stat.hpp"

namespace symm::ipc {

ExporterLink::ExporterLink(PeerFd socket, Monitor& monitor, const Token& token)
    : monitor_(monitor), exporter_(token.exporter), pid_(token.pid), socket_(std::move(socket)) {}

ExporterLink::~ExporterLink() {
  if (watching_socket_ != 0) monitor_.forget(watching_socket_);
  if (watching_pidfd_ != 0) monitor_.forget(watching_pidfd_);
}

std::string ExporterLink::exporter_name() const { return format("the exporter (pid %lld)", static_cast<long long>(pid_)); }

// ---- leases taken without asking

bool ExporterLink::push(const Event& event) {
  if (written_ - page().taken.load(std::memory_order_seq_cst) >= kEvents) return false;
  page().ring[written_ % kEvents] = event;
  page().written.store(++written_, std::memory_order_seq_cst);
  return true;
}

// What finds no room is told when the exporter says that there is some. It makes room, then looks whether the page is crowded;
// the page is called crowded, then looked at for room once more. So one of the two sees the other.
bool ExporterLink::flush() {
  for (;;) {
    size_t told = 0;
    while (told < untold_.size() && push(untold_[told])) ++told;
    untold_.erase(untold_.begin(), untold_.begin() + static_cast<std::ptrdiff_t>(told));
    const bool crowded = !untold_.empty();
    if (crowded == crowded_) return !crowded;
    crowded_ = crowded;
    page().crowded.store(crowded ? 1 : 0, std::memory_order_seq_cst);
  }
}

void ExporterLink::tell(const Event& event) {
  if (!flush() || !push(event)) {
    untold_.push_back(event);
    flush();
  }
  nudge(page().waiting.load(std::memory_order_seq_cst) != 0);
}

void ExporterLink::continue_telling() {
  const std::lock_guard lock(mutex_);
  const bool all = flush();
  nudge(!all || page().waiting.load(std::memory_order_seq_cst) != 0);
}

// The exporter reads the ring when it wants to know. It is asked to when it waits for releases, and when the ring fills up.
void ExporterLink::nudge(bool now) noexcept {
  if (!now && (written_ - page().taken.load(std::memory_order_acquire) < kEvents / 2 || written_ - nudged_at_ < kEvents / 4))
    return;
  nudged_at_ = written_;
  Packet packet;
  packet.type = PacketType::nudge;
  try {
    fdpass::send(socket_.get(), encode(packet), {});
  } catch (const std::exception&) {
    return;  // the connection has failed; it will be noticed
  }
}

void ExporterLink::add_part(Mapped& mapped, const Token& token) {
  mapped.parts.emplace(token.offset, Mapped::Part{token.bytes, token.number});
  ++imports_;
}

bool ExporterLink::valid(const Token& token, uint64_t block_bytes) const noexcept {
  const Regions regions = regions_of(block_bytes, token.offset, token.bytes);
  for (uint64_t i = regions.first; i <= regions.last; ++i) {
    const uint64_t from = board().valid_from[token.slot][i].load(std::memory_order_seq_cst);
    if (from == kVoid || token.number < from) return false;
  }
  return token.number <= board().newest.load(std::memory_order_acquire);
}

ExporterLink::Import ExporterLink::claim(const Token& token, int device) {
  const std::lock_guard lock(mutex_);
  const auto found = mapped_.find({token.block, device});
  if (!alive() || found == mapped_.end() || !found->second->block || found->second->retired) return {};
  Mapped& mapped = *found->second;
  if (token.slot == kNoSlot || token.slot != mapped.origin.slot || !same_secret(token.secret, mapped.origin.secret) ||
      token.offset + token.bytes > mapped.block->size() || !flush()) {
    return {};
  }
  Event event;
  event.kind = EventKind::claim;
  event.lease = last_lease_ + 1;
  event.block = token.block;
  event.number = token.number;
  event.offset = token.offset;
  event.bytes = token.bytes;
  if (!push(event)) {
    nudge(true);
    return {};
  }
  ++last_lease_;
  // The claim is written, and only now may the board be looked at (see pages.hpp): both are sequentially consistent.
  if (!valid(token, mapped.block->size())) {
    event.kind = EventKind::cancel;
    tell(event);
    return {};
  }
  nudge(false);
  add_part(mapped, token);
  ++mapped.users;
  return {found->second, event.lease};
}

bool ExporterLink::release(const Import& import, uint64_t offset, uint64_t number, Position position) noexcept {
  std::vector<std::shared_ptr<Block>> garbage;
  const std::lock_guard lock(mutex_);
  Mapped& mapped = *import.mapped;
  auto [part, end] = mapped.parts.equal_range(offset);
  while (part != end && part->second.number != number) ++part;
  if (part != end) mapped.parts.erase(part);
  --imports_;
  --mapped.users;
  try {
    if (alive()) {
      Event event;
      event.kind = EventKind::release;
      event.lease = import.lease;
      event.word = position.word;
      event.value = position.value;
      tell(event);
    }
    forget({mapped.origin.block, mapped.device}, mapped, garbage);
  } catch (const std::bad_alloc&) {
    // The lease ends with this process.
  }
  return !garbage.empty();
}

// A mapping that nobody uses is kept for the next import, unless there can be none.
void ExporterLink::forget(const Key& key, Mapped& mapped, std::vector<std::shared_ptr<Block>>& garbage) {
  if (mapped.users != 0 || (mapped.block && !mapped.retired && alive())) return;
  const auto found = mapped_.find(key);
  garbage.push_back(std::move(mapped.block));
  if (found != mapped_.end() && found->second.get() == &mapped) mapped_.erase(found);
}

// ---- asking

std::shared_ptr<Mapped> ExporterLink::place(const Token& token, int device) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Mapped>& mapped = mapped_[{token.block, device}];
  if (mapped && mapped->retired) mapped.reset();  // its users keep it
  if (!mapped) {
    mapped = std::make_shared<Mapped>();
    mapped->origin = token;
    mapped->device = device;
  }
  ++mapped->users;
  awaited_ = std::make_shared<Reply>();
  awaited_->lease = ++last_lease_;
  return mapped;
}

void ExporterLink::send(const Packet& packet, Deadline deadline) {
  const std::vector<std::byte> bytes = encode(packet);
  for (;;) {
    const fdpass::Sent sent = fdpass::send(socket_.get(), bytes, {});
    if (sent == fdpass::Sent::done) return;
    if (sent == fdpass::Sent::closed) throw Error(Status::peer_failed, exporter_name() + " is gone");
    pollfd room{socket_.get(), POLLOUT, 0};
    if (!poll_until({&room, 1}, deadline)) throw Error(Status::timeout, exporter_name() + " does not read what it is sent");
  }
}

ExporterLink::Import ExporterLink::request(const Token& token, int device, const Provider& provider, Deadline deadline) {
  std::vector<std::shared_ptr<Block>> garbage;
  Import import;
  import.mapped = place(token, device);
  const std::shared_ptr<Reply> reply = awaited_;
  import.lease = reply->lease;
  bool asked = false;
  try {
    Packet packet;
    packet.type = PacketType::request;
    packet.lease = import.lease;
    packet.wants_memory = import.mapped->block == nullptr;
    packet.token = token;
    send(packet, deadline);
    asked = true;
    while (reply->done.load(std::memory_order_acquire) == 0 && !deadline.expired()) {
      sleep_while(reply->done, 0, nullptr, 0, deadline);
    }
    if (reply->done.load(std::memory_order_acquire) == 0) {
      const auto stat = process_stat(pid_);
      const char* why = stat && (stat->state == 'T' || stat->state == 't') ? ": it is stopped" : "";
      throw Error(Status::timeout, exporter_name() + " does not answer" + why);
    }
    if (!reply->fault.empty()) throw Error(Status::peer_failed, reply->fault);
    if (reply->packet.type == PacketType::refusal) {
      asked = false;
      throw Error(reply->packet.status, reply->packet.text);
    }
    if (token.bytes > reply->packet.block_bytes || token.offset > reply->packet.block_bytes - token.bytes) {
      throw Error(Status::peer_failed, exporter_name() + " granted a piece beyond the end of its block");
    }
    std::shared_ptr<Block> block;
    if (packet.wants_memory) {
      if (!reply->fd) throw Error(Status::system, "the memory's descriptor could not be received: Too many open files (EMFILE)?");
      block = provider.import(std::move(reply->fd), {reply->packet.block_bytes, reply->packet.mapped_bytes}, device);
    }
    const std::lock_guard lock(mutex_);
    awaited_.reset();
    if (block) import.mapped->block = std::move(block);
    add_part(*import.mapped, token);
    return import;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    awaited_.reset();
    --import.mapped->users;
    if (asked && alive()) {
      Event event;
      event.kind = EventKind::cancel;
      event.lease = import.lease;
      tell(event);
    }
    forget({token.block, device}, *import.mapped, garbage);
    throw;
  }
}

// ---- streams

void ExporterLink::wait_for_producer(const Token& token, const Provider& provider, void* stream, int device) {
  const Position position = token.position;
  if (position.word == kNoWord || board().words[position.word].load(std::memory_order_acquire) >= position.value) return;
  StreamWords* words = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!board_words_) board_words_ = provider.stream_words(board_, board().words);
    words = board_words_.get();
  }
  if (words != nullptr) words->wait(stream, device, position);
  // It died in between: nobody but us would let the stream go on.
  if (!alive()) pass_all_positions();
}

Position ExporterLink::mark(const Provider& provider, void* stream, int device) {
  StreamWords* words = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!own_words_) own_words_ = provider.stream_words(page_, page().words);
    words = own_words_.get();
  }
  return words != nullptr ? words->mark(stream, device) : Position{};
}

void ExporterLink::pass_all_positions() noexcept {
  for (auto& word : board().words) word.store(kPassed, std::memory_order_release);
}

// ---- what is there

bool ExporterLink::find(const void* pointer, uint64_t bytes, Token& token, Import& import, uint64_t& offset) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, mapped] : mapped_) {
    if (!mapped->block) continue;
    const auto start = reinterpret_cast<uintptr_t>(mapped->block->data());
    if (address < start || address - start >= mapped->block->size()) continue;
    const uint64_t at = address - start;
    for (auto part = mapped->parts.upper_bound(at); part != mapped->parts.begin();) {
      --part;
      if (at + bytes > part->first + part->second.bytes) continue;
      token = mapped->origin;
      token.number = part->second.number;
      token.offset = offset = at;
      token.bytes = bytes;
      token.position = {};
      import.mapped = mapped;
      return true;
    }
  }
  return false;
}

size_t ExporterLink::drop_unused() {
  std::vector<std::shared_ptr<Block>> garbage;
  const std::lock_guard lock(mutex_);
  std::erase_if(mapped_, [&](const auto& entry) {
    if (entry.second->users != 0) return false;
    garbage.push_back(std::move(entry.second->block));
    return true;
  });
  return garbage.size();
}

bool ExporterLink::close_if_idle() {
  const std::lock_guard lock(mutex_);
  if (!mapped_.empty() || imports_ != 0 || awaited_) return false;
  if (alive()) {
    if (!flush()) return false;
    Packet packet;
    packet.type = PacketType::bye;
    fdpass::send(socket_.get(), encode(packet), {});
  }
  return true;
}

ExporterLink::Counts ExporterLink::counts() {
  const std::lock_guard lock(mutex_);
  Counts counts;
  counts.imports = imports_;
  for (const auto& [key, mapped] : mapped_) {
    if (!mapped->block) continue;
    ++counts.blocks;
    counts.bytes += mapped->block->size();
  }
  return counts;
}

}  // namespace symm::ipc
