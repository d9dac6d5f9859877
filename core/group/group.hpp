// The ranks that share memory. A group is formed of a mesh (the connections) and a back end (the
// memory) by two-phase creation: prepare, vote, exchange, vote.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/backend/address_map.hpp"
#include "core/backend/backend.hpp"
#include "core/backend/topology.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/revocation.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/request.hpp"
#include "core/group/requests.hpp"
#include "core/group/spares.hpp"
#include "core/group/stragglers.hpp"
#include "core/group/ticket.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/types.hpp"

namespace symm {
struct GroupConfig : TransportOptions {  // channels 0: kDefaultChannels
  int rank = 0;
  int size = 0;
  BackendKind backend = BackendKind::automatic;
  int device = -1;
  bool shared_scratch = false;
  std::string bootstrap;
  const StoreCallbacks* callbacks = nullptr;
  uint64_t create_timeout_ms = 0;  // 0, also in timeout_ms: from the environment, or the default
  std::string name;
  std::vector<std::byte> id;  // from make_unique_id(); empty: none
};

// The options of a group that is made of another one. It inherits what is not set here. All
// fields but call_timeout_ms are equal on all ranks of the new group. Nothing in the struct
// allocates: a rank that ran out of memory before it votes would leave the others waiting.
struct SubgroupOptions {
  uint64_t call_timeout_ms = 0;  // 0, also in the other numbers: the group's
  const char* name = nullptr;    // read during the call only
  uint64_t flags = 0;            // SYMM_GROUP_* that are added, and those that are not inherited
  uint64_t remove_flags = 0;
  uint64_t scratch_bytes = 0;
  uint64_t create_timeout_ms = 0;
  uint64_t timeout_ms = 0;
  int channels = 0;
};

// How a group grows. Equal on all ranks, but for call_timeout_ms.
struct GrowOptions {
  enum class Mode : int32_t {
    fill_dead = 0,  // newcomers take the numbers of the ranks that are gone
    append = 1,     // the living move up, and `count` newcomers follow them
    spare = 2       // `count` newcomers become spares (spares.hpp)
  };
  uint64_t call_timeout_ms = 0;  // 0: the group's create_timeout_ms
  Mode mode = Mode::fill_dead;
  int count = 0;  // with append and spare only
};

inline constexpr int kDefaultChannels = 64;
inline constexpr int kMostChannels = 256;  // of a group or a memory

// The facts that a rank tells the others when a group is formed.
struct PeerFacts {
  int32_t backend = 0;
  int32_t device = 0;
  char host[64] = "";
  char machine[64] = "";      // SYMM_MACHINE, or the kernel's boot id
  char uuid[64] = "";         // the device's
  char bus[32] = "";          // its PCI bus id; "" for the host
  int32_t numa_node = -1;     // of the device, or of the processors of the host
  uint64_t revoked[16] = {};  // the groups that Stragglers::name_revoked() names
};

struct Offer;   // exchange.hpp
struct Growth;  // growth.cpp
class Group;
class PeerLink;
class SharedDirectory;

// The group of whose ranks another one is formed, and the call that does it.
struct Maker {
  const Group* group = nullptr;
  MessageCall call = MessageCall::group_split;
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  static std::shared_ptr<Group> create(const GroupConfig& config);
  // [collective] Null if color is negative.
  std::shared_ptr<Group> split(int color, int key, const SubgroupOptions& options = {});
  // [collective over `ranks`, in this order]
  std::shared_ptr<Group> create_from_ranks(
      std::span<const int32_t> ranks, const SubgroupOptions& options = {});
  // [collective over the ranks of this machine]
  std::shared_ptr<Group> local(const SubgroupOptions& options = {});
  // [collective over the living] A revoked group can shrink too. Without a name in the options the
  // new group has this group's.
  std::shared_ptr<Group> shrink(const SubgroupOptions& options = {});
  // A ticket for processes that are to join this group, or one that shrink() and grow() make of it.
  Bytes invite(uint64_t lifetime_ms) const;
  // [collective over the living and as many newcomers] A revoked group can grow too. Null with
  // Mode::spare: this group has spares then.
  std::shared_ptr<Group> grow(const GrowOptions& options);
  // Waits until the group of the ticket, or one made of it, grows and takes this process.
  static std::shared_ptr<Group> join(std::span<const std::byte> ticket, const GroupConfig& config);
  int spares() const;  // those that wait, as far as this rank knows
  // [collective over the living] Returns the one failure that all ranks that live have after a call
  // of all ranks, of which `mine` is this rank's; its status is ok if no rank has one and none is
  // gone. Throws Error(timeout).
  Failure agree_on_outcome(const Failure& mine, Deadline deadline);
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
  // The timeout of a call that may look once. Throws if it is asked to look, and waits on a stream.
  uint64_t timeout_or_look(uint64_t timeout_ms) const;
  uint64_t timeout_or_default(uint64_t timeout_ms) const noexcept {
    return timeout_ms != 0 ? timeout_ms : config_.timeout_ms;
  }
  uint64_t create_timeout_ms() const noexcept { return config_.create_timeout_ms; }
  const GroupConfig& config() const noexcept { return config_; }
  // The order in which calls that name none combine ranks.
  Order order() const noexcept {
    if (config_.tree_order) return Order::tree;
    return config_.any_order ? Order::any : Order::ranks;
  }
  Deadline create_deadline() const noexcept {
    return Deadline::after_ms(config_.create_timeout_ms);
  }
  int unwatched_peers() const;
  std::vector<int> gone_ranks() const;  // those known to be dead, or to have left
  const Machines& machines() const noexcept { return machines_; }
  // Whether this rank can map the memory of `rank`.
  bool maps(int rank) const noexcept { return machines_.together(rank, rank_); }
  // Whether descriptors travel between this rank and `rank`.
  bool shares_host(int rank) const noexcept { return machines_.share_host(rank, rank_); }
  // The links between the devices of the ranks, for which NVML is asked once; -1 where one of
  // two ranks is on another machine. Throws Error(unavailable) if NVML does not tell.
  const Links& links();
  TopologyClass topology();
  // The links to `rank`; -1 if they are not known.
  int32_t links_to(int rank);
  // The location of the memory of `rank`, as seen from this rank.
  Locality locality_of(int rank);
  const PeerFacts& facts(int rank) const { return facts_[static_cast<size_t>(rank)]; }
  // The ranks that may still write to memory of this group, after it was revoked.
  std::vector<Straggler> stragglers() const;
  const std::shared_ptr<Stragglers>& past() const noexcept { return past_; }
  std::shared_ptr<const Followed> follow() const { return mesh_->follow(id_); }
  const Maker& maker() const noexcept { return maker_; }  // none once this group is formed
  // This group's rank for a rank of another group; -1 if it is not in this group.
  int rank_of(const Group& other, int rank_there) const;
  int failure_fd();  // readable once the group is revoked
  uint64_t rejected_connections() const { return mesh_->rejected_connections(); }

  // Throws if the group was revoked or finalized. Every call that does work begins with it.
  void require_usable() const;
  void require_rank(const char* argument, int rank) const;
  // Throws unless the ranks are distinct, and this one is among them.
  void require_ranks(std::span<const int32_t> ranks) const;
  static void require_channel(int channel, int channels);
  // Throws unless ranks, of which none are all, can have a barrier on the channel.
  void require_barrier(std::span<const int32_t> ranks, int channel) const;

  // A hash of all calls of the group's heaps so far, which collectives compare; 0
  // unless ranks check each other.
  uint16_t heap_history() const noexcept {
    return config_.check
               ? static_cast<uint16_t>(heap_history_.load(std::memory_order_relaxed) >> 49)
               : uint16_t{0};
  }
  void heap_called(uint64_t change) noexcept {
    heap_history_.fetch_add(change, std::memory_order_relaxed);
  }

  // Returns the failure with this rank as its rank if it names none.
  Failure blamed(Failure failure) const;
  // Revokes the group on all ranks. The first reason given anywhere wins.
  void fail(const Failure& found) noexcept;
  // Revokes the group with the failure that an exchange threw. Gives the blamed rank time to
  // name another one, then throws the reason that won.
  [[noreturn]] void give_up(const std::exception& error, const char* what = "");
  // Makes a call of all ranks. If this rank does not get its turn in time, the others would
  // wait in vain, so the group fails.
  template <class Call>
  void in_turn(Call&& call) {
    try {
      call();
    } catch (const OutOfTurn&) {
      fail(blamed(current_failure()));
      throw;
    }
  }
  // Makes a call of all ranks. If this rank refuses its arguments, in a group that checks, the
  // others are told, since they would wait in vain.
  template <class Call>
  void with_refusals_told(const char* what, Call&& call) {
    try {
      call();
    } catch (const Error& error) {
      tell_refusal(what, error);
      throw;
    }
  }
  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream);
  // Sends or receives one message, or several that progress together. Messages name the place of a
  // side in `sides`.
  void pass_message(MessageSide& side, uint64_t timeout_ms, void* stream);
  void pass_messages(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream,
      const char* call = "messages");
  // Posts messages that progress together, and makes a request of the wait for them, whose number
  // is that of the bytes received. `then` sees the sides when all are done.
  using SeeSides = std::function<void(std::span<const MessageSide>)>;
  std::shared_ptr<Request> start_messages(std::vector<MessageSide> sides, uint64_t timeout_ms,
      const char* call, SeeSides then = nullptr);
  void finalize(uint64_t timeout_ms);

  // Throws Error(unsupported) in a group whose calls are ordered on streams.
  Requests& requests() const;
  // Called before a call that blocks: waits for the requests whose order it keeps. A call of all
  // ranks that does not get its turn fails the group.
  void settle_requests(RequestOrder order, const char* call, uint64_t timeout_ms) {
    if (!requests_->is_settled(order)) await_requests(order, call, timeout_ms);
  }

  // Waits for `stream` and throws what has gone wrong on it. Error(timeout) does not revoke the
  // group.
  void synchronize(void* stream, uint64_t timeout_ms);

  // A memory stays for as long as the handles of the group and of its buffer, so that the next
  // rendezvous finds it on all ranks or on none, whenever a garbage collector runs. Until then
  // group and memory keep each other.
  void keep(std::list<std::shared_ptr<Memory>> one) noexcept;
  void forget(const Memory& memory) noexcept;
  void forget_memories() noexcept;

  // Messages of the mesh, addressed by group ranks.
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline deadline);
  Message receive(
      int peer, const Topic& topic, size_t body_size, size_t fd_count, Deadline deadline);
  // Sends to a peer that may be gone, and sends nothing if it is.
  void send_if_there(
      int peer, const Topic& topic, std::span<const std::byte> body, Deadline deadline);
  // Waits for the first news of any of `peers`, some of which may be gone, about a
  // call of shrink(), including one that is later than any call of this rank. A
  // revocation does not end the wait.
  std::optional<Mesh::News> receive_any(
      std::span<const int> peers, const Topic& topic, size_t body_size, Deadline deadline);
  std::optional<Topic> other_vote(int peer, const Topic& topic) const;
  const PeerIdentity& identity(int peer) const {
    return mesh_->peer(members_[static_cast<size_t>(peer)]);
  }
  // The number of the next exchange with this tag, equal on all ranks if they make their calls
  // in one order.
  uint64_t next_sequence(uint64_t tag);

 private:
  void end() noexcept;
  void await_requests(RequestOrder order, const char* call, uint64_t timeout_ms);
  Group(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const std::string& name);
  // `options`: the options by which the group is made of another one.
  static std::shared_ptr<Group> form(const std::shared_ptr<Mesh>& mesh, std::vector<int> members,
      uint64_t id, const GroupConfig& config, const SubgroupOptions& options,
      std::shared_ptr<Backend> inherited, const std::string& bootstrap, Deadline deadline,
      std::shared_ptr<Group> lender = nullptr, const Maker& maker = {});
  static void require_options(const SubgroupOptions& options);
  // A configuration with the defaults and the environment.
  static GroupConfig completed(GroupConfig config);
  // The configuration of a group that is made of this one; its name is still this group's.
  GroupConfig config_for(const SubgroupOptions& options) const;
  Deadline deadline_of(const SubgroupOptions& options) const;
  std::shared_ptr<Group> shrink_in(
      uint64_t call, Deadline deadline, const SubgroupOptions& options);
  void require_growable() const;
  std::shared_ptr<Group> grow_in(uint64_t call, Deadline deadline, const GrowOptions& options);
  void tell_place(const Growth& growth, const Topic& topic, const GrowOptions& options);
  void hear_place(Growth& growth, const Topic& topic, const GrowOptions& options);
  void gather(Growth& growth, const Topic& topic, const GrowOptions& options);
  void choose_spares(Growth& growth, const GrowOptions& options) const;
  RankOffer offer_of(const Growth& growth) const;
  void offer_to_spares(const Growth& growth, const Spares& spares, uint64_t id,
      const std::vector<int>& members) const;
  void offer_ranks(Growth& growth, bool as_spares) const;
  void require_no_loss(const Growth& growth) const;
  std::shared_ptr<Mesh> connect_grown(Growth& growth, bool as_spares);
  std::shared_ptr<Group> form_grown(Growth& growth, uint64_t id);
  std::shared_ptr<Group> form_with_spares(const Growth& growth, uint64_t id);
  void keep_spares(const Growth& growth, const std::shared_ptr<Mesh>& mesh);
  SparePlaces spare_places() const;
  void set_spares(SparePlaces spares);
  void inherit_spares(const Group& from);
  static std::shared_ptr<Backend> warm_up(const GroupConfig& config);
  static std::shared_ptr<Group> stand_by(const Ticket& ticket, const Accepted& accepted,
      const GroupConfig& own, std::string& trouble, Deadline deadline);
  static std::shared_ptr<Group> take_rank(
      const Accepted& accepted, const GroupConfig& own, Deadline deadline);
  void agree_on_birth(Deadline deadline);
  void require_side(const MessageSide& side) const;
  uint64_t machine_key() const;
  bool hears_all() const noexcept;
  void await_heartbeats() const;
  void tell_refusal(const char* what, const Error& error) noexcept;
  TransportContext transport_context(Deadline deadline);
  Offer prepare_transport(bool inherits_backend, Deadline deadline);
  void connect_peer(int peer, Message message);
  void connect_transport(Deadline deadline);
  void finish_transport();

  // Ranks of this group that are to form another one.
  struct Part {
    std::vector<int> ranks;
    std::string name;
  };
  // Forms a group of the Part that choose() returns.
  template <class Choose>
  std::shared_ptr<Group> form_part(uint64_t id, Deadline deadline, const SubgroupOptions& options,
      const Choose& choose, std::shared_ptr<Group> lender = nullptr, const Maker& maker = {});
  // Forms a group as form_part() does, in `call`, and ends with this one. A failure is told in the
  // numbers of this group.
  template <class Choose>
  std::shared_ptr<Group> part(MessageCall call, uint64_t id, Deadline deadline,
      const SubgroupOptions& options, const Choose& choose);
  std::shared_ptr<Group> part_of(
      MessageCall call, std::span<const int32_t> ranks, const SubgroupOptions& options);
  void end_with(const Group& parent) noexcept;

  std::shared_ptr<Mesh> mesh_;
  std::vector<int> members_;  // mesh rank of each group rank
  uint64_t id_;
  uint64_t pool_;  // the number by which newcomers are found (ticket.hpp)
  int rank_ = 0;
  int size_ = 0;
  GroupConfig config_;
  SubgroupOptions asked_;  // while this group is formed of another one
  std::string bootstrap_;
  std::shared_ptr<Revocation> revocation_;
  std::shared_ptr<Stragglers> past_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Group> lender_;  // the group whose scratch this one uses
  Maker maker_;                    // while this group is formed
  std::unique_ptr<Transport> transport_;
  AddressMap addresses_;
  std::mutex kept_mutex_;
  std::list<std::shared_ptr<Memory>> kept_;
  std::atomic<bool> finalized_{false};
  // Its threads keep it longer than the group.
  const std::shared_ptr<Requests> requests_ = std::make_shared<Requests>();
  // This is a sum, because threads may call the group's heaps in any order, which
  // must not change the number.
  std::atomic<uint64_t> heap_history_{0};
  std::mutex sequence_mutex_;
  std::unordered_map<uint64_t, uint64_t> sequences_;
  std::unordered_map<uint64_t, uint64_t> parts_;  // how many groups each set of ranks has formed
  std::atomic<uint64_t> splits_{0};
  TimedMutex shrinking_;              // one call at a time, so that other calls are later
  std::atomic<uint64_t> shrinks_{0};  // the number of the next call
  mutable std::mutex spares_mutex_;
  SparePlaces spares_;
  std::vector<PeerFacts> facts_;  // by group rank
  Machines machines_;
  // The links to ranks of other hosts whose memory is mapped here.
  std::vector<std::shared_ptr<PeerLink>> distant_;
  std::mutex links_mutex_;
  std::optional<Links> links_;
  std::string why_no_links_;
  std::mutex failure_fd_mutex_;
  std::shared_ptr<PeerFd> failure_fd_;
  std::shared_ptr<void> failure_listener_;
};
}  // namespace symm
