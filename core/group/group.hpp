// SPDX-License-Identifier: Apache-2.0
//
// The ranks that share memory. A group is formed from a mesh (the connections) and a back end (the memory) by two-phase creation:
// prepare, vote, exchange, vote.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/backend/address_map.hpp"
#include "core/backend/backend.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/bootstrap/bootstrap.hpp"

namespace symm {

struct GroupConfig {
  int rank = 0;
  int size = 0;
  BackendKind backend = BackendKind::automatic;
  int device = -1;
  bool overlapping_devices = false;
  bool check = false;
  bool multicast = false;
  std::string bootstrap;
  const StoreCallbacks* callbacks = nullptr;
  uint64_t create_timeout_ms = 0;  // 0: environment or default
  uint64_t timeout_ms = 0;
  std::string name;
};

inline constexpr int kChannels = 64;

class Group : public std::enable_shared_from_this<Group> {
 public:
  static std::shared_ptr<Group> create(const GroupConfig& config);
  // Null if color is negative.
  std::shared_ptr<Group> split(int color, int key);
  ~Group();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  uint64_t id() const noexcept { return id_; }
  const std::string& name() const noexcept { return name_; }
  const std::string& bootstrap() const noexcept { return bootstrap_; }
  Backend& backend() const noexcept { return *backend_; }
  Transport& transport() const noexcept { return *transport_; }
  AddressMap& addresses() noexcept { return addresses_; }
  Revocation& revocation() const noexcept { return *revocation_; }
  uint64_t timeout_or_default(uint64_t timeout_ms) const noexcept { return timeout_ms != 0 ? timeout_ms : timeout_ms_; }
  Deadline create_deadline() const noexcept { return Deadline::after_ms(create_timeout_ms_); }
  int unwatched_peers() const;
  uint64_t rejected_connections() const { return mesh_->rejected_connections(); }

  // Throws if the group was revoked or finalized: asked by every call that does work.
  void require_usable() const;
  void require_rank(const char* argument, int rank) const;
  void require_channel(int channel) const;

  // What all heaps of the group were asked so far, as a number that collectives compare; 0 unless ranks check each other.
  uint16_t heap_history() const noexcept {
    return config_.check ? static_cast<uint16_t>(heap_history_.load(std::memory_order_relaxed) >> 48) : uint16_t{0};
  }
  void heap_called(uint64_t change) noexcept { heap_history_.fetch_add(change, std::memory_order_relaxed); }

  // Where it names no rank, this one.
  Failure blamed(Failure failure) const;
  // Revoke on all ranks. The first reason given anywhere wins.
  void fail(const Failure& failure) noexcept;
  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream);
  void finalize(uint64_t timeout_ms);
  // Waits for `stream`; throws what has gone wrong on it, Error(timeout) without revoking the group.
  void synchronize(void* stream, uint64_t timeout_ms);

  // The mesh, spoken to in group ranks.
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline);
  Message receive(int peer, const Topic& topic, size_t body_size, size_t fd_count, Deadline deadline);
  const PeerIdentity& identity(int peer) const { return mesh_->peer(members_[static_cast<size_t>(peer)]); }
  // Number of the next exchange with this tag: the same on all ranks if they make their calls in the same order.
  uint64_t next_sequence(uint64_t tag);

 private:
  Group(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id);
  static std::shared_ptr<Group> form(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const GroupConfig& config,
                                     std::shared_ptr<Backend> inherited, std::string bootstrap, Deadline deadline);
  void connect_transport(Deadline deadline);

  std::shared_ptr<Mesh> mesh_;
  std::vector<int> members_;  // mesh rank of each group rank
  uint64_t id_;
  int rank_ = 0;
  int size_ = 0;
  GroupConfig config_;
  std::string name_;
  std::string bootstrap_;
  uint64_t create_timeout_ms_ = 0;
  uint64_t timeout_ms_ = 0;
  std::shared_ptr<Revocation> revocation_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Transport> transport_;
  AddressMap addresses_;
  std::atomic<bool> finalized_{false};
  std::atomic<uint64_t> heap_history_{
      0};  // a sum, so that the order of heaps, which threads may have to themselves, is no matter
  std::mutex sequence_mutex_;
  std::unordered_map<uint64_t, uint64_t> sequences_;
  uint64_t splits_ = 0;
};

}  // namespace symm
