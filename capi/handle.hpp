// A handle of the C ABI names a slot in an arena that is never unmapped, and one of the objects
// that the slot had one after another: the low 48 bits are the slot's address, the 15 bits
// above are the slot's generation. So any pointer, valid or not, can be checked without
// touching memory that may not exist: it must lie in the arena, on a slot, and the slot must be
// in use by this process, in the same generation. No number is given out twice: a handle that
// was released stays invalid, also where a compiled program or another language kept its
// number. The highest bit is 0, for languages whose integers have a sign.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "capi/guard.hpp"
#include "core/base/error.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"

namespace symm::capi {
template <class Object>
struct Slot {
  std::atomic<uint32_t> references{0};  // 0: free
  std::atomic<uint32_t> generation{0};  // how many handles of this slot were released
  std::shared_ptr<Object> object;
  Slot* next_free = nullptr;
};

template <class Object>
class Arena {
 public:
  using Entry = Slot<Object>;
  static constexpr size_t kSlots = size_t{1} << 20;
  static constexpr uint32_t kGenerations = uint32_t{1} << 15;

  // A forked child has an arena of its own elsewhere, so it knows none of its parent's handles.
  static Arena& instance() { return PerProcess<Arena>::current(); }

  // The memory that a new handle needs, taken before its object is made: once all ranks have agreed
  // on an object, none of them may lack a handle for it.
  class Room {
   public:
    explicit Room(Arena& arena) : arena_(arena) {
      known_ = with_reserve([] {
        std::map<const Object*, Entry*> alone;
        alone.emplace(nullptr, nullptr);
        return alone.extract(alone.begin());
      });
      const std::lock_guard lock(arena.mutex_);
      known_.mapped() = with_reserve([&] { return arena.unused(); });
    }
    Room(Room&&) = delete;
    ~Room() {
      if (known_.empty()) return;
      const std::lock_guard lock(arena_.mutex_);
      known_.mapped()->next_free = std::exchange(arena_.free_, known_.mapped());
    }

    // Returns the object's handle with one more reference, or a new handle.
    Entry* take(std::shared_ptr<Object> object) noexcept {
      const std::lock_guard lock(arena_.mutex_);
      const auto known = arena_.of_object_.find(object.get());
      if (known != arena_.of_object_.end()) {
        Entry* const entry = known->second;
        uint32_t references = entry->references.load(std::memory_order_relaxed);
        while (references != 0) {
          if (entry->references.compare_exchange_weak(
                  references, references + 1, std::memory_order_relaxed)) {
            return entry;
          }
        }
        arena_.of_object_.erase(known);
      }

      Entry* const entry = known_.mapped();
      known_.key() = object.get();
      arena_.of_object_.insert(std::move(known_));
      entry->object = std::move(object);
      entry->references.store(1, std::memory_order_release);
      return entry;
    }

   private:
    Arena& arena_;
    typename std::map<const Object*, Entry*>::node_type known_;
  };

  void give(Entry* entry) noexcept {
    // The object goes after the lock: its destructor may give other handles' objects.
    const std::shared_ptr<Object> object = std::move(entry->object);
    const std::lock_guard lock(mutex_);
    const auto known = of_object_.find(object.get());
    if (known != of_object_.end() && known->second == entry) of_object_.erase(known);

    const uint32_t generation = entry->generation.load(std::memory_order_relaxed) + 1;
    entry->generation.store(generation, std::memory_order_release);
    if (generation == kGenerations) return;  // all numbers of this slot were given out
    entry->next_free = free_;
    free_ = entry;
  }

  // Returns the number of the handle of a slot in use.
  static uintptr_t number_of(const Entry& entry) noexcept {
    const uintptr_t generation = entry.generation.load(std::memory_order_relaxed);
    return generation << kAddressBits | reinterpret_cast<uintptr_t>(&entry);
  }

  // Returns the slot behind a handle; null if there is none.
  Entry* find(const void* handle) const noexcept {
    const auto number = reinterpret_cast<uintptr_t>(handle);
    const auto offset = (number & kAddressMask) - reinterpret_cast<uintptr_t>(slots_);
    if (offset >= used_.load(std::memory_order_acquire) * sizeof(Entry) ||
        offset % sizeof(Entry) != 0) {
      return nullptr;
    }
    Entry* entry = &slots_[offset / sizeof(Entry)];
    if (entry->references.load(std::memory_order_acquire) == 0) return nullptr;
    return number_of(*entry) == number ? entry : nullptr;
  }

 private:
  friend PerProcess<Arena>;
  static constexpr unsigned kAddressBits = 48;
  static constexpr uintptr_t kAddressMask = (uintptr_t{1} << kAddressBits) - 1;

  Arena() {
    void* memory = mmap(nullptr, kSlots * sizeof(Entry), PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw system_error(errno, "mmap", "table of handles");
    slots_ = static_cast<Entry*>(memory);

    const uintptr_t last = reinterpret_cast<uintptr_t>(slots_ + kSlots);
    if (last > kAddressMask) {
      throw Error(Status::internal,
          format("table of handles: %p has more than %u bits", memory, kAddressBits));
    }
  }

  Entry* unused() {
    if (free_ != nullptr) return std::exchange(free_, free_->next_free);
    const size_t used = used_.load(std::memory_order_relaxed);
    if (used == kSlots) {
      throw Error(
          Status::out_of_memory, format("all %zu handles of one kind are in use, or were", kSlots));
    }
    Entry* const entry = new (slots_ + used) Entry;
    used_.store(used + 1, std::memory_order_release);
    return entry;
  }

  std::mutex mutex_;
  Entry* slots_ = nullptr;
  std::atomic<size_t> used_{0};
  Entry* free_ = nullptr;
  std::map<const Object*, Entry*> of_object_;
};

// Returns a handle with one reference for what make() makes; null if that is null.
template <class Handle, class Make>
Handle* make_handle(const Make& make) {
  using Object = typename decltype(make())::element_type;
  typename Arena<Object>::Room room(Arena<Object>::instance());
  std::shared_ptr<Object> object = make();
  if (!object) return nullptr;
  return reinterpret_cast<Handle*>(Arena<Object>::number_of(*room.take(std::move(object))));
}

template <class Object>
Slot<Object>& slot_of(const void* handle, const char* argument) {
  if (handle == nullptr) throw Error(Status::invalid_handle, format("%s: is NULL", argument));
  Slot<Object>* slot = Arena<Object>::instance().find(handle);
  if (slot == nullptr) {
    throw Error(Status::invalid_handle,
        format("%s: %p is not a handle of this kind; it was released, or made before a fork()",
            argument, handle));
  }
  return *slot;
}

template <class Object>
void retain(const void* handle, const char* argument) {
  slot_of<Object>(handle, argument).references.fetch_add(1, std::memory_order_relaxed);
}

struct DoNothing {
  void operator()(auto&) const noexcept {}
};

// Gives a reference back. `last` is called with the object before its last reference is given
// back, `other` before any other one.
template <class Object, class Last = DoNothing, class Other = DoNothing>
void release(const void* handle, Last last = {}, Other other = {}) noexcept {
  if (handle == nullptr) return;
  const process::Uncancelled whole;
  Slot<Object>* slot = nullptr;
  try {
    slot = Arena<Object>::instance().find(handle);
  } catch (...) {
    return;  // no arena could be made: there are no handles
  }
  if (slot == nullptr) return;

  if (slot->references.load(std::memory_order_relaxed) > 1) other(*slot->object);
  if (slot->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  last(*slot->object);
  Arena<Object>::instance().give(slot);
}
}  // namespace symm::capi
