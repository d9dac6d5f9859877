// The ranks that share memory. A group is formed from a mesh (the connections) and a
// back end (the memory) by two-phase creation: prepare, vote, exchange, vote.
#pragma once

#include <list>

#include "core/backend/address_map.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/group/stragglers.hpp"

namespace symm {
struct GroupConfig : TransportOptions {  // channels 0: kDefaultChannels
  int rank = 0;
  int size = 0;
  BackendKind backend = BackendKind::automatic;
  int device = -1;
  bool shared_scratch = false;
  std::string bootstrap;
  const StoreCallbacks* callbacks = nullptr;
  uint64_t create_timeout_ms = 0;  // this and timeout_ms 0: environment or default
  std::string name;
};

inline constexpr int kDefaultChannels = 64;
inline constexpr int kMostChannels = 256;  // of a group or a memory

// What a rank says of itself when a group is formed.
struct PeerFacts {
  int32_t backend = 0;
  int32_t device = 0;
  char host[64] = "";
  char machine[64] = "";      // SYMM_MACHINE, or boot id of the kernel
  char uuid[64] = "";         // of the device
  uint64_t revoked[16] = {};  // groups, by Stragglers::name_revoked()
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  static std::shared_ptr<Group> create(const GroupConfig& config);
  // Null if color is negative.
  std::shared_ptr<Group> split(int color, int key);
  // [collective over `ranks`, in this order]
  std::shared_ptr<Group> create_from_ranks(std::span<const int32_t> ranks);
  std::shared_ptr<Group> local();  // [collective over the ranks of this machine]
  // [collective over the living] Also of a revoked group. `name`: null for this group's.
  std::shared_ptr<Group> shrink(uint64_t timeout_ms, const char* name);
  ~Group();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int channels() const noexcept { return config_.channels; }
  uint64_t id() const noexcept { return id_; }
  const std::string& name() const noexcept { return config_.name; }
  const std::string& bootstrap() const noexcept { return bootstrap_; }
  Backend& backend() const noexcept { return *backend_; }
  Transport& transport() const noexcept { return *transport_; }
  AddressMap& addresses() noexcept { return addresses_; }
  Revocation& revocation() const noexcept { return *revocation_; }
  const Page* page() const noexcept { return revocation_->page().get(); }
  // Of a call that looks once where it is asked to; throws where it is ordered on a stream.
  uint64_t timeout_or_look(uint64_t timeout_ms) const;
  uint64_t timeout_or_default(uint64_t timeout_ms) const noexcept {
    return timeout_ms != 0 ? timeout_ms : config_.timeout_ms;
  }
  uint64_t create_timeout_ms() const noexcept { return config_.create_timeout_ms; }
  Deadline create_deadline() const noexcept {
    return Deadline::after_ms(config_.create_timeout_ms);
  }
  int unwatched_peers() const;
  std::vector<int> gone_ranks() const;  // known to be dead, or to have left
  const Machines& machines() const noexcept { return machines_; }
  // can its memory be mapped here?
  bool maps(int rank) const noexcept { return machines_.together(rank, rank_); }
  const PeerFacts& facts(int rank) const { return facts_[static_cast<size_t>(rank)]; }
  // Those that may still write to what this group's ranks have mapped, after it was revoked.
  std::vector<Straggler> stragglers() const;
  const std::shared_ptr<Stragglers>& past() const noexcept { return past_; }
  int rank_of(const Group& other, int rank_there) const;  // -1: not in this group
  int failure_fd();                                       // readable once the group is revoked
  uint64_t rejected_connections() const { return mesh_->rejected_connections(); }

  // Throws if the group was revoked or finalized: asked by every call that does work.
  void require_usable() const;
  void require_rank(const char* argument, int rank) const;
  void require_ranks(std::span<const int32_t> ranks) const;  // distinct, this one among them
  static void require_channel(int channel, int channels);

  // What all heaps of the group were asked so far, as a number that collectives
  // compare; 0 unless ranks check each other.
  uint16_t heap_history() const noexcept {
    return config_.check
               ? static_cast<uint16_t>(heap_history_.load(std::memory_order_relaxed) >> 48)
               : uint16_t{0};
  }
  void heap_called(uint64_t change) noexcept {
    heap_history_.fetch_add(change, std::memory_order_relaxed);
  }

  // Where it names no rank, this one.
  Failure blamed(Failure failure) const;
  // Revoke on all ranks. The first reason given anywhere wins.
  void fail(const Failure& failure) noexcept;
  // The same for what an exchange threw. Throws the reason, once those that are blamed
  // had time to say that it is another.
  [[noreturn]] void give_up(const std::exception& error, const char* what = "");
  // A call of all ranks. Should this one not get its turn in time, the others are left waiting.
  template <class Call>
  void in_turn(Call&& call) {
    try {
      call();
    } catch (const OutOfTurn&) {
      fail(blamed(current_failure()));
      throw;
    }
  }
  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream);
  void finalize(uint64_t timeout_ms);
  // Waits for `stream`; throws what has gone wrong on
  // it, Error(timeout) without revoking the group.
  void synchronize(void* stream, uint64_t timeout_ms);

  // Memories stay for as long as the handles of the group and of their buffer, so that
  // the next rendezvous finds them on all ranks or on none, whenever a garbage
  // collector comes by. Until then group and memory keep each other.
  void keep(std::list<std::shared_ptr<Memory>> one) noexcept;
  void forget(const Memory& memory) noexcept;
  void forget_memories() noexcept;

  // The mesh, spoken to in group ranks.
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline deadline);
  Message receive(
      int peer, const Topic& topic, size_t body_size, size_t fd_count, Deadline deadline);
  // The same for those that may be gone: not at all if it is, and the first news of
  // any, where revocations do not matter.
  void send_if_there(
      int peer, const Topic& topic, std::span<const std::byte> body, Deadline deadline);
  std::optional<Mesh::News> receive_any(
      std::span<const int> peers, const Topic& topic, size_t body_size, Deadline deadline);
  std::optional<Topic> other_vote(int peer, const Topic& topic) const;
  const PeerIdentity& identity(int peer) const {
    return mesh_->peer(members_[static_cast<size_t>(peer)]);
  }
  // Number of the next exchange with this tag: the same on
  // all ranks if they make their calls in the same order.
  uint64_t next_sequence(uint64_t tag);

 private:
  Group(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const std::string& name);
  static std::shared_ptr<Group> form(const std::shared_ptr<Mesh>& mesh, std::vector<int> members,
      uint64_t id, const GroupConfig& config, std::shared_ptr<Backend> inherited,
      const std::string& bootstrap, Deadline deadline, std::shared_ptr<Group> lender = nullptr,
      const Group* whole = nullptr);
  // Ranks of this group that are to form another one.
  struct Part {
    std::vector<int> ranks;
    std::string name;
  };
  template <class Choose>  // Part()
  std::shared_ptr<Group> form_part(uint64_t id, Deadline deadline, const Choose& choose,
      std::shared_ptr<Group> lender = nullptr, const Group* whole = nullptr);
  // The same; its failures are of this group.
  template <class Choose>
  std::shared_ptr<Group> part(uint64_t id, Deadline deadline, const Choose& choose);
  uint64_t machine_key() const;
  void connect_transport(Deadline deadline);
  void end_with(const Group& whole) noexcept;

  std::shared_ptr<Mesh> mesh_;
  std::vector<int> members_;  // mesh rank of each group rank
  uint64_t id_;
  int rank_ = 0;
  int size_ = 0;
  GroupConfig config_;
  std::string bootstrap_;
  std::shared_ptr<Revocation> revocation_;
  std::shared_ptr<Stragglers> past_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Group> lender_;  // in whose scratch this group works
  std::unique_ptr<Transport> transport_;
  AddressMap addresses_;
  std::mutex kept_mutex_;
  std::list<std::shared_ptr<Memory>> kept_;
  std::atomic<bool> finalized_{false};
  // a sum, so that the order of heaps, which threads may have, is no matter
  std::atomic<uint64_t> heap_history_{0};
  std::mutex sequence_mutex_;
  std::unordered_map<uint64_t, uint64_t> sequences_;
  std::unordered_map<uint64_t, uint64_t> parts_;  // made of each set of ranks
  std::atomic<uint64_t> splits_{0}, shrinks_{0};
  std::vector<PeerFacts> facts_;  // by group rank
  Machines machines_;
  std::mutex failure_fd_mutex_;
  std::shared_ptr<PeerFd> failure_fd_;
  std::shared_ptr<void> failure_listener_;
};
}  // namespace symm
