// Every function with arguments that are right, and what must be refused in place of
// one of them. The runner (refusal_test.cpp) checks the status, that the message names
// the parameter, and that no output was touched.
#pragma once

#include "tests/support/options.hpp"
#include "tests/support/test.hpp"

namespace symm_test {
inline constexpr const char* kHandles[] = {"symm_group_t*", "symm_buffer_t*", "symm_memory_t*",
    "symm_heap_t*", "symm_ipc_t*", "symm_exchange_t*", "symm_request_t*"};
using OneOfEach = std::array<void*, std::size(kHandles)>;
void release(size_t kind, void* handle);

// A rank of a group, by itself unless told otherwise, with a buffer, a memory, an
// import of the buffer, a heap, an exchange with itself and a request that is done, and poisoned
// places for outputs.
class World {
 public:
  static constexpr size_t kBytes = 4096;  // the size of the block
  static constexpr size_t kToken = SYMM_IPC_TOKEN_MAX_BYTES;

  explicit World(const char* bootstrap = "thread://refusals", int rank = 0, int size = 1);
  ~World();
  World(World&&) = delete;

  // A poisoned place for a T.
  template <class T>
  T* out() {
    T* const place = static_cast<T*>(poisoned(sizeof(T)));
    if constexpr (std::is_pointer_v<T>) made_.push_back(place);
    return place;
  }
  // The pointer, which may be a handle, that the call has written; null if it has no such output.
  void* made() const {
    void* handle = nullptr;
    if (!made_.empty()) std::memcpy(&handle, made_.front(), sizeof handle);
    return handle;
  }
  // A poisoned struct but for its struct_size, which says `size`.
  template <class T>
  T* out_struct(size_t size = sizeof(T)) {
    void* place = poisoned(sizeof(T));
    std::memcpy(place, &size, sizeof size);
    std::memcpy(places_.back().before.data(), &size, sizeof size);
    return static_cast<T*>(place);
  }
  // A buffer that has not met, and one that is suspended; both are released with this object.
  symm_buffer_t* unmet_buffer();
  symm_buffer_t* suspended_buffer();
  // An import, and one that is suspended; both are released with this object.
  symm_ipc_t* fresh_import();
  symm_ipc_t* suspended_import();
  // A name under which nothing is published yet.
  const char* fresh_name();
  void* out_token() { return poisoned(kToken); }
  float* destination() { return static_cast<float*>(poisoned(64 * sizeof(float))); }
  bool has_outputs() const { return !places_.empty(); }
  // The struct_size that the last place was given, and the word at byte `at` of the first.
  size_t given_size() const { return word_of(places_.back().before, 0); }
  uint64_t first_word(size_t at) const { return word_of(places_.front().bytes, at); }
  bool outputs_untouched() const;
  void forget_outputs() {
    places_.clear();
    kept_.clear();
    made_.clear();
  }

  // The bits that are passed as an argument. Options are kept as long as outputs.
  template <class T>
  uint64_t bits(const T& value) {
    if constexpr (std::is_null_pointer_v<T>) return 0;
    if constexpr (std::is_pointer_v<std::decay_t<const T&>>) {
      return reinterpret_cast<uintptr_t>(+value);
    }
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return static_cast<uint64_t>(value);
  }
  template <class T>
  uint64_t bits(const support::Passed<T>& options) {
    return bits(kept_.emplace_back(std::make_shared<T>(options.value)).get());
  }

  OneOfEach handles() const { return {group, buffer, memory, heap, ipc, exchange, request}; }
  symm_group_t* group = nullptr;
  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;
  symm_ipc_t* ipc = nullptr;
  symm_heap_t* heap = nullptr;
  symm_exchange_t* exchange = nullptr;
  symm_request_t* request = nullptr;
  void* piece = nullptr;  // all of the heap, which has kBytes
  std::byte* block = nullptr;
  std::array<std::byte, kToken + 1> token{};
  size_t token_size = 0;
  std::string version_name;  // under which the bundle of `ipc` is published as version 1
  std::array<std::byte, SYMM_TICKET_MAX_BYTES + 1> ticket{};
  size_t ticket_size = 0;
  alignas(64) std::array<float, 64> source{};
  // Counts of a group of one rank.
  const size_t eight = 8;
  const size_t too_many = SIZE_MAX / 2;

 private:
  struct Place {
    alignas(64) std::array<std::byte, 2048> bytes;
    std::array<std::byte, 2048> before;
  };
  void* poisoned(size_t size);
  static uint64_t word_of(const std::array<std::byte, 2048>& bytes, size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  }
  std::deque<Place> places_;
  std::deque<std::shared_ptr<void>> kept_;
  std::vector<const void*> made_;
  std::deque<std::string> names_;
  std::vector<symm_buffer_t*> buffers_;
  std::vector<symm_ipc_t*> imports_;
};

// A function and right arguments for it, of which argument number `changed` is replaced.
struct Call {
  const char* function;
  symm_status_t (*call)(World& w, size_t changed, uint64_t bits);
};

template <class P, class A>
P argument(const A& given, size_t& number, size_t changed, uint64_t bits) {
  if (number++ != changed) return static_cast<P>(given);
  if constexpr (std::is_pointer_v<P>) return reinterpret_cast<P>(static_cast<uintptr_t>(bits));
  if constexpr (std::is_integral_v<P>) return static_cast<P>(bits);
}
template <class... P, class... A>
symm_status_t call(
    symm_status_t (*function)(P...), size_t changed, uint64_t bits, const A&... arguments) {
  size_t number = 0;  // in braces they are made one after the other
  return std::apply(function, std::tuple<P...>{argument<P>(arguments, number, changed, bits)...});
}

inline constexpr const char* kAnyOutput = "out...";         // a parameter whose name begins so
inline constexpr const char* kOutputStruct = "out struct";  // with a struct_size
struct Refusal {
  std::vector<const char*> functions;   // none: every one that has one of the parameters
  std::vector<std::string> parameters;  // names or types
  const char* how;
  symm_status_t status;
  uint64_t (*value)(World& w);
  const char* named;  // in the message; nullptr: the parameter
};

// A struct that is cut short, and two of a newer header: one asks for something that
// this library has never heard of. Both want the failure of their call where `failure`
// points; null: they have no such field.
struct Struct {
  const char* type;
  const void* cut_short;
  const void* newer;
  const void* unused;
  symm_failure_t* failure;
  // The struct with zeros, but for its size and what must be set.
  const void* zeroed;
};

// A call that is wrong in more than one argument, or in a field of one.
struct WrongCall {
  const char* function;
  const char* named;
  const char* how;
  symm_status_t status;
  symm_status_t (*call)(World& w);
};

// The reason of an exemption: no value is a bad one, so no row without functions counts.
inline constexpr const char* kNullOnNewcomers = "NULL means that the rank is a newcomer";
inline constexpr const char* kNotLookedAt = "is not looked at on the root";

// Parameters for which there is no bad value, or which may be NULL, and why.
struct Exemption {
  std::vector<const char*> functions;  // none: of every function
  std::vector<std::string> parameters;
  const char* reason;
};

// A parameter of a function of the header.
struct Parameter {
  const char* function;
  const char* name;
  const char* type;
};
// The parameters of every function of the header, in order.
inline constexpr Parameter kParameters[] = {
#include "parameters.inc"
};

bool applies(const Refusal& row, const Parameter& to);
const std::vector<Call>& calls();
const std::vector<Refusal>& refusals();
const std::vector<Struct>& structs();
const std::vector<WrongCall>& wrong_calls();
const std::vector<Exemption>& exemptions();

// A side of a message with this rank, of 8 bytes.
inline support::Passed<symm_message_t> message(symm_message_kind_t kind, const void* source,
    void* destination = nullptr, int32_t rank = 0, int32_t channel = 0) {
  return {{sizeof(symm_message_t), kind, rank, channel, source, destination, 8}};
}

// A neighbour with whom `bytes` bytes of the world's source are exchanged, in one piece.
inline support::Passed<symm_neighbor_t> neighbor(
    const World& w, const symm_piece_t* piece, int32_t rank = 0, size_t offset = 0) {
  return {{sizeof(symm_neighbor_t), rank, w.memory, offset, w.source.data(), sizeof w.source, piece,
      1, 8}};
}

// Words of chunks, from some byte of the world's source on.
inline uint32_t* words_at(World& w, size_t byte = 0) {
  return reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(w.source.data()) + byte);
}

// An all-reduce, say, for a plan.
inline auto planned(const World& w, symm_collective_t collective, size_t count = 8,
    symm_dtype_t dtype = SYMM_DTYPE_F32, symm_op_t op = SYMM_OP_SUM, int32_t root = 0) {
  return support::call_of(collective, w.source.data(), w.source.data(), count, dtype, op, root);
}
}  // namespace symm_test
