// SPDX-License-Identifier: Apache-2.0
//
// symm for C++17 and later: handles that release themselves, failures as exceptions, and
// collectives that know their data type.
//
// It is header only, on top of symm.h, which remains the reference: each function here makes
// the one C call that it names, and what symm.h says of that call holds (who must call it,
// whether it blocks, what it returns). Constants are those of symm.h.
//
// The names lie in an inline namespace, so that a program may also link the library's own
// objects, whose C++ classes have the same names. One source file includes either this header
// or those of the library.
//
// Failures
//   A call that fails throws symm::Error, which names the status, and the rank and the process
//   to blame.
//
// Handles
//   Group, Buffer, Memory, Heap and Request are handles. Moving is free, copying adds a
//   reference, and the destructor drops one. Every call refuses an empty handle (default
//   constructed, or moved from) with SYMM_ERR_INVALID_HANDLE. Piece moves only, and Import is
//   copied by share().
//
// Spans
//   Whatever has std::data() and std::size() (a vector, an array, a std::span) is taken as
//   contiguous elements; Span(pointer, count) is for all else. Counts are in elements, offsets
//   and sizes of memory in bytes.
//
// Constants
//   Constants are passed as the integer types of symm.h, so that those of a newer library pass
//   through.
//
// Options and deadlines
//   Every call that acts takes CallOptions, or the struct of symm.h that has more fields. A number
//   where CallOptions are expected is a deadline in milliseconds. 0 means the group's default,
//   SYMM_TIMEOUT_INFINITE waits for ever, and SYMM_TIMEOUT_NOW looks once.
//
// Streams
//   A null stream, the default, is right for the host back end. There a [stream] call returns
//   when its work is done, or at once if its options name a Request.
#ifndef SYMM_SYMM_HPP
#define SYMM_SYMM_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <symm/symm.h>

namespace symm {
inline namespace v0 {

// ---- the library -------------------------------------------------------------------------

// Version of the loaded library, encoded like SYMM_VERSION. symm_version(). [local]
inline uint32_t version() noexcept { return symm_version(); }

// Version of fused.h of the loaded library, encoded like SYMM_FUSED_VERSION. symm_fused_version().
// [local]
inline uint32_t fused_version() noexcept { return symm_fused_version(); }

// JSON object that says how the library was built. symm_build_info(). [local]
inline const char *build_info() noexcept { return symm_build_info(); }

// ---- errors ------------------------------------------------------------------------------

// Failure of a call. what() is "<call>: <name of the status>: <message>".
class Error : public std::runtime_error {
 public:
  // The last failure of this thread, which `call` has returned as `status`.
  Error(symm_status_t status, const char *call) : Error(status, call, last_failure()) {}

  // A failure of the caller's own, for which nobody else is to blame.
  Error(symm_status_t status, const char *call, const std::string &message)
      : std::runtime_error(text(status, call, message.c_str())), status_(status) {}

  symm_status_t status() const noexcept { return status_; }

  // The rank to blame, as numbered in the group of the call; -1: nobody in particular.
  int32_t rank() const noexcept { return rank_; }

  // Process id of that rank, as its own machine numbers it; 0: not known.
  int64_t pid() const noexcept { return pid_; }

  // errno of the system call that failed; 0: no system call failed.
  int32_t os_error() const noexcept { return os_error_; }

  // CUresult of the driver call that failed; 0: no driver call failed.
  int32_t cuda_result() const noexcept { return cuda_result_; }

 private:
  Error(symm_status_t status, const char *call, const symm_failure_t &failure)
      : std::runtime_error(text(status, call, failure.message)),
        status_(status),
        rank_(failure.rank),
        pid_(failure.pid),
        os_error_(failure.os_error),
        cuda_result_(failure.cuda_result) {}
  static symm_failure_t last_failure() noexcept {
    symm_failure_t failure{};
    failure.struct_size = sizeof failure;
    failure.rank = -1;
    symm_last_failure(&failure);
    return failure;
  }

  static std::string text(symm_status_t status, const char *call, const char *message) {
    return std::string(call) + ": " + symm_status_string(status) + ": " + message;
  }

  symm_status_t status_;
  int32_t rank_ = -1;
  int64_t pid_ = 0;
  int32_t os_error_ = 0;
  int32_t cuda_result_ = 0;
};

// Throw Error unless `status`, which the C function `call` has returned on this thread, is
// SYMM_OK. For C calls of your own.
inline void check(symm_status_t status, const char *call) {
  if (status != SYMM_OK) throw Error(status, call);
}

// Listener for log messages, for as long as the object lives. Moving is free. [local]
class LogListener {
 public:
  // Send messages to `callback`, on any thread. symm_log_add_listener().
  LogListener(symm_log_callback_t callback, void *user, symm_log_level_t level) {
    check(symm_log_add_listener(callback, user, level, &id_), "symm_log_add_listener");
  }

  // Write messages to a descriptor, a line each. symm_log_to_fd().
  LogListener(int32_t fd, symm_log_level_t level) {
    check(symm_log_to_fd(fd, level, &id_), "symm_log_to_fd");
  }

  LogListener(LogListener &&other) noexcept : id_(std::exchange(other.id_, 0)) {}
  LogListener &operator=(LogListener &&other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }

  ~LogListener() {
    if (id_ != 0) symm_log_remove_listener(id_);
  }

 private:
  uint64_t id_ = 0;
};

// Callback that gives memory back when an allocation is short of it, for as long as the object
// lives. Moving is free. [local]
class MemoryPressureListener {
 public:
  // symm_memory_pressure_add_listener().
  MemoryPressureListener(symm_memory_pressure_callback_t callback, void *user) {
    check(symm_memory_pressure_add_listener(callback, user, &id_),
          "symm_memory_pressure_add_listener");
  }

  MemoryPressureListener(MemoryPressureListener &&other) noexcept
      : id_(std::exchange(other.id_, 0)) {}
  MemoryPressureListener &operator=(MemoryPressureListener &&other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }

  ~MemoryPressureListener() {
    if (id_ != 0) symm_memory_pressure_remove_listener(id_);
  }

 private:
  uint64_t id_ = 0;
};

// ---- spans, data types and options -------------------------------------------------------

// Contiguous elements that something else owns, like std::span, which C++17 does not have.
template <class T>
class Span {
  template <class Container>
  using Data = std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>;
  template <class Container>
  using IfContiguous = std::enable_if_t<!std::is_same_v<std::decay_t<Container>, Span> &&
                                        std::is_convertible_v<Data<Container> (*)[], T (*)[]>>;

 public:
  constexpr Span() noexcept = default;
  constexpr Span(T *data, size_t size) noexcept : data_(data), size_(size) {}
  template <class Container, class = IfContiguous<Container>>
  constexpr Span(Container &&container)
      : data_(std::data(container)), size_(std::size(container)) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }
  constexpr size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](size_t index) const { return data_[index]; }

  // `count` elements from `offset` on, which must lie within.
  constexpr Span subspan(size_t offset, size_t count) const { return {data_ + offset, count}; }

 private:
  T *data_ = nullptr;
  size_t size_ = 0;
};

template <class Container>
Span(Container &&)
    -> Span<std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>>;

// A pair of a value and an index, for SYMM_OP_MINLOC and SYMM_OP_MAXLOC.
template <class Value, class Index>
struct Pair {
  static_assert(sizeof(Value) == sizeof(Index), "the index is as wide as the value");
  Value value;
  Index index;

  friend constexpr bool operator==(const Pair &a, const Pair &b) noexcept {
    return a.value == b.value && a.index == b.index;
  }
  friend constexpr bool operator!=(const Pair &a, const Pair &b) noexcept { return !(a == b); }
};

// The data type of T, as Dtype<T>::value: bool, integers, std::byte (as U8), float and double,
// std::complex of these, and Pair<float, int32_t>, <double, int64_t>, <int32_t, int32_t> and
// <int64_t, int64_t>.
// For a type of 16 or 8 bit floating point numbers write, for instance:
//
//     template <>
//     struct symm::Dtype<__half> {
//       static constexpr symm_dtype_t value = SYMM_DTYPE_F16;
//     };
template <class T>
struct Dtype {
  static_assert(std::is_integral_v<T> || std::is_same_v<T, std::byte>,
                "symm has no data type for T; specialise symm::Dtype");

  // Type codes of DLPack: 0 is signed, 1 is unsigned.
  static constexpr symm_dtype_t value =
      static_cast<symm_dtype_t>((std::is_signed_v<T> ? 0 : 0x100) | 8 * sizeof(T));
};

template <>
struct Dtype<bool> {
  static_assert(sizeof(bool) == 1);
  static constexpr symm_dtype_t value = SYMM_DTYPE_BOOL;
};

template <>
struct Dtype<float> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_F32;
};

template <>
struct Dtype<double> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_F64;
};

template <>
struct Dtype<std::complex<float>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_C64;
};

template <>
struct Dtype<std::complex<double>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_C128;
};

template <>
struct Dtype<Pair<std::int32_t, std::int32_t>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_I32_I32;
};

template <>
struct Dtype<Pair<std::int64_t, std::int64_t>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_I64_I64;
};

template <>
struct Dtype<Pair<float, std::int32_t>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_F32_I32;
};

template <>
struct Dtype<Pair<double, std::int64_t>> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_F64_I64;
};

class Request;

// Options of one call.
struct CallOptions {
  constexpr CallOptions() noexcept = default;

  // The call does not block: `into` tells when it is over. What the call returns has no meaning
  // then.
  constexpr CallOptions(Request &into, uint64_t timeout = 0) noexcept
      : timeout_ms(timeout), request(&into) {}

  // A deadline alone is options, too.
  constexpr CallOptions(uint64_t timeout, symm_failure_t *sink = nullptr) noexcept
      : timeout_ms(timeout), failure(sink) {}

  // Deadline in milliseconds; 0: the group's.
  uint64_t timeout_ms = 0;

  // Receives the failure of this call; null: it is in the exception only.
  symm_failure_t *failure = nullptr;

  // Receives the request of a call that does not block; null: the call blocks.
  Request *request = nullptr;
};

// Options of a batch. The defaults are the group's.
struct BatchOptions {
  // Deadline in milliseconds; 0: the group's.
  uint64_t timeout_ms = 0;

  void *stream = nullptr;

  // Receives the failure of the batch; null: it is in the exception only.
  symm_failure_t *failure = nullptr;

  // Shown where the calls are shown; null: none.
  const char *tag = nullptr;

  // Receives the request of a batch that does not block; null: the batch blocks.
  Request *request = nullptr;
};

// Options of one collective call. The defaults are the group's.
struct Options {
  // Force an algorithm; must be the same on all ranks.
  symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO;

  // Deadline in milliseconds; 0: the group's.
  uint64_t timeout_ms = 0;

  void *stream = nullptr;

  // Where a reduction of floats multiplies by a factor, which is scale, or the f32 at
  // scale_pointer.
  symm_scale_t scale_position = SYMM_SCALE_NONE;
  double scale = 0;
  const void *scale_pointer = nullptr;

  // Receives the failure of this call; null: it is in the exception only.
  symm_failure_t *failure = nullptr;

  // Shown where the call is shown; null: none.
  const char *tag = nullptr;

  // Most multiprocessors that a kernel of the call may use; 0: as many as the plan says.
  int32_t max_blocks = 0;

  // The order in which floats are combined.
  symm_order_t order = SYMM_ORDER_GROUP;

  // The type of the codes as which a sum's operands travel, and the elements that have a scale in
  // common; 0: they travel as they are, and 128.
  symm_dtype_t wire_dtype = 0;
  int32_t wire_group = 0;

  // The bytes of a chunk, a multiple of 16; the words of the chunks of an all-gather that have
  // come, or of those of a reduction's operand that are there; and their value, or where it is read
  // when the call runs. 0: the call is made in one piece.
  uint64_t chunk_bytes = 0;
  uint32_t *progress = nullptr;
  const uint32_t *ready = nullptr;
  uint32_t word_value = 0;
  const uint32_t *word_pointer = nullptr;

  // Receives the request of a call that does not block; null: the call blocks.
  Request *request = nullptr;
};

namespace detail {

inline symm_status_t retain(symm_group_t *group) { return symm_group_retain(group); }
inline symm_status_t retain(symm_buffer_t *buffer) { return symm_buffer_retain(buffer); }
inline symm_status_t retain(symm_memory_t *memory) { return symm_memory_retain(memory); }
inline symm_status_t retain(symm_heap_t *heap) { return symm_heap_retain(heap); }
inline void release(symm_group_t *group) noexcept { symm_group_release(group); }
inline void release(symm_buffer_t *buffer) noexcept { symm_buffer_release(buffer); }
inline void release(symm_memory_t *memory) noexcept { symm_memory_release(memory); }
inline void release(symm_heap_t *heap) noexcept { symm_heap_release(heap); }
inline symm_status_t retain(symm_exchange_t *exchange) {
  return symm_exchange_retain(exchange);
}
inline void release(symm_exchange_t *exchange) noexcept { symm_exchange_release(exchange); }
inline symm_status_t retain(symm_request_t *request) { return symm_request_retain(request); }
inline void release(symm_request_t *request) noexcept { symm_request_release(request); }

// The place that a call fills with its request; null if there is none.
inline symm_request_t **place_of(Request *request) noexcept;

// Calls `function`, of which `call` is the name, with a place for its output as the last
// argument, and returns that output. A struct is told its size.
template <class... Parameters, class... Arguments>
auto given(const char *call, symm_status_t (*function)(Parameters...),
           const Arguments &...arguments) {
  std::remove_pointer_t<
      std::tuple_element_t<sizeof...(Parameters) - 1, std::tuple<Parameters...>>>
      out{};
  if constexpr (std::is_class_v<decltype(out)>) out.struct_size = sizeof out;
  check(function(arguments..., &out), call);
  return out;
}

// Whether a look-up, which returned `status`, has found something.
inline bool found(symm_status_t status, const char *call) {
  if (status != SYMM_ERR_NOT_FOUND) check(status, call);
  return status == SYMM_OK;
}

inline symm_call_options_t in_c(const CallOptions &options) {
  return {sizeof(symm_call_options_t), options.timeout_ms, options.failure,
          place_of(options.request)};
}

inline symm_collective_options_t in_c(const Options &options, symm_dtype_t result = 0) {
  return {sizeof(symm_collective_options_t),
          options.algorithm,
          options.timeout_ms,
          options.failure,
          options.scale_position,
          result,
          options.scale,
          options.scale_pointer,
          options.tag,
          options.max_blocks,
          options.order,
          place_of(options.request),
          options.wire_dtype,
          options.wire_group,
          options.chunk_bytes,
          options.progress,
          options.ready,
          options.word_value,
          options.word_pointer};
}

// The elements of `send` and `recv`, which must be of one type.
template <class Send, class Recv>
struct Operands {
  using Element = std::remove_pointer_t<decltype(std::data(std::declval<Recv &>()))>;
  static_assert(!std::is_const_v<Element>, "recv is written and cannot be const");
  static constexpr symm_dtype_t dtype = Dtype<std::remove_cv_t<Element>>::value;
  Span<const Element> send;
  Span<Element> recv;
};

constexpr bool is_narrow_float(symm_dtype_t dtype) {
  return dtype == SYMM_DTYPE_F16 || dtype == SYMM_DTYPE_BF16 || dtype == SYMM_DTYPE_F8E4M3 ||
         dtype == SYMM_DTYPE_F8E5M2;
}

// The elements of a reduction. recv may be float where send is of a narrower floating point
// type, and then has the sum unrounded; or the other way round, and the sum is rounded to it.
template <class Send, class Recv>
struct Reduced {
  using From = std::remove_cv_t<
      std::remove_pointer_t<decltype(std::data(std::declval<const Send &>()))>>;
  using To = typename Operands<Send, Recv>::Element;
  static constexpr symm_dtype_t dtype = Dtype<From>::value;
  static constexpr symm_dtype_t result = Dtype<std::remove_cv_t<To>>::value;
  static_assert(std::is_same_v<From, std::remove_cv_t<To>> || std::is_same_v<float, To> ||
                    (std::is_same_v<float, From> && is_narrow_float(result)),
                "recv has send's type, or one is float and the other a narrower float");
  Span<const From> send;
  Span<To> recv;
};

inline void require(bool right, const char *call, const std::string &what) {
  if (!right) throw Error(SYMM_ERR_INVALID_ARGUMENT, call, what);
}

inline void require_elements(const char *call, const char *argument, size_t elements,
                             size_t expected) {
  if (elements == expected) return;
  require(false, call,
          std::string(argument) + ": " + std::to_string(elements) + " elements, not " +
              std::to_string(expected));
}

}  // namespace detail

// ---- handles -----------------------------------------------------------------------------

// One reference to a reference-counted object of the library. [local]
template <class C>
class Handle {
 public:
  Handle() noexcept = default;

  // Take over the caller's reference.
  explicit Handle(C *owned) noexcept : handle_(owned) {}
  Handle(const Handle &other) : handle_(other.handle_) {
    if (handle_ == nullptr) return;
    if (const symm_status_t status = detail::retain(handle_); status != SYMM_OK) {
      throw Error(status, "retain");
    }
  }

  Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  ~Handle() { detail::release(handle_); }

  // The handle, for C calls of your own. The reference stays here.
  C *get() const noexcept { return handle_; }

  // Give the reference to the caller. This handle is empty afterwards.
  C *detach() noexcept { return std::exchange(handle_, nullptr); }

  // Drop the reference now.
  void reset() noexcept { *this = Handle(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 protected:
  C *handle_ = nullptr;
};

// ---- requests ----------------------------------------------------------------------------

// A call that the library makes while the program goes on. Passed in the options of a call, it
// receives the call's request in place of what it had. Dropping it does not end the call: memory
// that the call reads or writes must stay until the request is done.
class Request : public Handle<symm_request_t> {
 public:
  using Handle::Handle;

  // Whether the call is over; throws its failure if it has failed. symm_request_test(). [local]
  bool test() const {
    return detail::given("symm_request_test", symm_request_test, get(), nullptr) != 0;
  }

  // Wait until the call is over, and throw its failure if it has failed. A deadline of 0 is as long
  // as it takes. symm_request_wait(). [local] [blocking]
  void wait(const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_request_wait(get(), &c), "symm_request_wait");
  }

  // Wait until one of `requests`, of which some may be empty, is over in whatever way. Returns the
  // place of the first. symm_request_wait_any(). [local] [blocking]
  static size_t wait_any(Span<const Request> requests, const CallOptions &options = {}) {
    const auto c = detail::in_c(options);
    std::vector<symm_request_t *> handles;
    for (const Request &request : requests) {
      handles.push_back(request.get());
    }
    return detail::given("symm_request_wait_any", symm_request_wait_any, handles.data(),
                         handles.size(), &c);
  }

  // Facts about the call; `value` is the number that it would have returned.
  // symm_request_info(). [local]
  symm_request_info_t info() const {
    return detail::given("symm_request_info", symm_request_info, get());
  }

  // A descriptor that becomes readable when the call is over. It stays the library's.
  // symm_request_fd(). [local]
  int32_t fd() const { return detail::given("symm_request_fd", symm_request_fd, get()); }

 private:
  friend symm_request_t **detail::place_of(Request *request) noexcept;
};

namespace detail {

inline symm_request_t **place_of(Request *request) noexcept {
  if (request == nullptr) return nullptr;
  request->reset();
  return &request->handle_;
}

}  // namespace detail

// All streams, where a parameter accepts them.
inline void *const all_streams = reinterpret_cast<void *>(uintptr_t{SYMM_ALL_STREAMS});

// ---- buffers and memories ----------------------------------------------------------------

class Group;

// Allocation of one rank.
class Buffer : public Handle<symm_buffer_t> {
 public:
  using Handle::Handle;

  // The block, valid while the buffer or a memory of it lives. symm_buffer_pointer(),
  // symm_buffer_bytes(). [local]
  template <class T = std::byte>
  Span<T> span() const {
    void *const pointer = detail::given("symm_buffer_pointer", symm_buffer_pointer, get());
    return {static_cast<T *>(pointer),
            detail::given("symm_buffer_bytes", symm_buffer_bytes, get()) / sizeof(T)};
  }

  // Facts about the buffer. symm_buffer_info(). [local]
  symm_buffer_info_t info() const {
    return detail::given("symm_buffer_info", symm_buffer_info, get());
  }

  // The group that the buffer was made for; empty if that is gone. symm_buffer_group(). [local]
  inline Group group() const;

  // Export `bytes` bytes from `offset` on as DMA-BUF. The caller closes the descriptor.
  // symm_buffer_export_dmabuf(). [local]
  int32_t export_dmabuf(size_t offset, size_t bytes, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_buffer_export_dmabuf", symm_buffer_export_dmabuf, get(), offset,
                         bytes, &c);
  }

  // Say that what was issued on `stream` so far uses the block. symm_buffer_record_use().
  // [local] [stream]
  void record_use(void *stream, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_buffer_record_use(get(), &c, stream), "symm_buffer_record_use");
  }

  // Give the memory back and keep its address; with SYMM_SUSPEND_KEEP the contents, too.
  // symm_buffer_suspend(). [local] [stream]
  void suspend(uint64_t flags = 0, void *stream = nullptr,
               const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_buffer_suspend(get(), flags, &c, stream), "symm_buffer_suspend");
  }

  // Bring memory back to the address. symm_buffer_resume(). [local] [stream]
  void resume(void *stream = nullptr, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_buffer_resume(get(), &c, stream), "symm_buffer_resume");
  }
};

// Where an address lies: `offset` bytes from the start of `buffer`.
struct BufferPlace {
  Buffer buffer;
  size_t offset = 0;
};

// Find the buffer of this process that contains `address`. symm_buffer_find(). [local]
inline std::optional<BufferPlace> find_buffer(const void *address,
                                              const CallOptions &options = {}) {
  const auto c = detail::in_c(options);
  symm_buffer_t *found = nullptr;
  BufferPlace place;
  if (!detail::found(symm_buffer_find(address, &c, &found, &place.offset),
                     "symm_buffer_find")) {
    return {};
  }

  place.buffer = Buffer(found);
  return place;
}

// What Memory::put_pieces() and Memory::get_pieces() copy, and the signal behind it. The caller
// keeps lists and tables until the call returns.
class Pieces {
  template <class List>
  using IfList = std::enable_if_t<!std::is_same_v<std::decay_t<List>, Pieces>>;

 public:
  // The pieces of a list.
  template <class List, class = IfList<List>>
  Pieces(List &&list) {
    const Span pieces(list);
    call_.pieces = pieces.data();
    call_.count = pieces.size();
  }

  // Pages of `page_bytes` bytes, from the numbers of one table to those of the other. A table
  // that is empty stands for 0, 1, 2 and so on.
  static Pieces pages(size_t page_bytes, Span<const uint64_t> from_table,
                      Span<const uint64_t> to_table = {}) {
    const bool one_is_empty = from_table.empty() || to_table.empty();
    detail::require(one_is_empty || from_table.size() == to_table.size(), "symm::Pieces::pages",
                    "the tables differ in length");
    Pieces made;
    made.call_.count = from_table.empty() ? to_table.size() : from_table.size();
    made.call_.page_bytes = page_bytes;
    made.call_.from_table = from_table.empty() ? nullptr : from_table.data();
    made.call_.to_table = to_table.empty() ? nullptr : to_table.data();
    return made;
  }

  // These pieces with a signal when all are there, as Memory::signal_value() sends it; by default
  // one that Memory::wait_signal() takes.
  Pieces with_signal(int32_t channel, symm_signal_op_t op = SYMM_SIGNAL_ADD,
                     uint64_t value = 1) const noexcept {
    Pieces made = *this;
    made.call_.flags |= SYMM_PIECES_SIGNAL;
    made.call_.channel = channel;
    made.call_.op = op;
    made.call_.value = value;
    return made;
  }

  // These pieces, whose list or tables lie in memory of the device, which reads them when the copy
  // runs; and `count`, if it is not null, the number of pieces, which is no larger than their size.
  Pieces on_device(const uint64_t *count = nullptr) const noexcept {
    Pieces made = *this;
    made.call_.flags |= SYMM_PIECES_ON_DEVICE;
    made.call_.device_count = count;
    return made;
  }

  const symm_pieces_call_t &in_c() const noexcept { return call_; }

 private:
  Pieces() = default;

  symm_pieces_call_t call_ = SYMM_PIECES_CALL_INIT;
};

// Every rank's block, mapped here. It keeps its buffer and its group alive.
class Memory : public Handle<symm_memory_t> {
 public:
  using Handle::Handle;

  // Facts about the memory. symm_memory_info(). [local]
  symm_memory_info_t info() const {
    return detail::given("symm_memory_info", symm_memory_info, get());
  }

  // The group of the memory. symm_memory_group(). [local]
  inline Group group() const;

  // This rank's block as a buffer. symm_memory_buffer(). [local]
  Buffer buffer() const {
    return Buffer(detail::given("symm_memory_buffer", symm_memory_buffer, get()));
  }

  // Rank `rank`'s block as it is mapped here, even after that rank died. symm_memory_pointer().
  // [local]
  template <class T = std::byte>
  Span<T> span(int32_t rank) const {
    void *const pointer =
        detail::given("symm_memory_pointer", symm_memory_pointer, get(), rank);
    const size_t bytes = info().bytes;
    return {static_cast<T *>(pointer), bytes / sizeof(T)};
  }

  // This rank's own block. [local]
  template <class T = std::byte>
  Span<T> span() const {
    return span<T>(info().rank);
  }

  // Rank `rank`'s signal pad, uint64_t[channel][source rank]. symm_memory_signal_pad(). [local]
  Span<uint64_t> signal_pad(int32_t rank) const {
    void *const pad =
        detail::given("symm_memory_signal_pad", symm_memory_signal_pad, get(), rank);
    return {static_cast<uint64_t *>(pad), info().signal_pad_bytes / sizeof(uint64_t)};
  }

  // Table of the size() block addresses, readable by the group's device.
  // symm_memory_pointer_table(). [local]
  void *const *pointer_table() const {
    return detail::given("symm_memory_pointer_table", symm_memory_pointer_table, get());
  }

  // Table of the size() pad addresses, readable by the group's device.
  // symm_memory_signal_pad_table(). [local]
  uint64_t *const *signal_pad_table() const {
    void *const *const table =
        detail::given("symm_memory_signal_pad_table", symm_memory_signal_pad_table, get());
    return reinterpret_cast<uint64_t *const *>(table);
  }

  // Describe the memory for kernels of your own; see device.cuh. symm_memory_device_view().
  // [local]
  symm_memory_view_t device_view(const CallOptions &options = {},
                                 const void *stop = nullptr) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_memory_device_view", symm_memory_device_view, get(), stop, &c);
  }

  // The multicast address; SYMM_ERR_UNAVAILABLE if there is none.
  // symm_memory_multicast_pointer(). [local]
  void *multicast_pointer(const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_memory_multicast_pointer", symm_memory_multicast_pointer, get(),
                         &c);
  }

  // Copy the elements of `source` to byte `offset` of rank `rank`'s block. symm_put(). [local]
  // [stream]
  template <class Source>
  void put(int32_t rank, size_t offset, const Source &source, const CallOptions &options = {},
           void *stream = nullptr) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_put(get(), rank, offset, from.data(), from.size_bytes(), &c, stream),
          "symm_put");
  }

  // Fill `destination` from byte `offset` of rank `rank`'s block on. symm_get(). [local]
  // [stream]
  template <class Destination>
  void get(int32_t rank, size_t offset, Destination &&destination,
           const CallOptions &options = {}, void *stream = nullptr) const {
    const Span to(destination);
    const auto c = detail::in_c(options);
    check(symm_get(get(), rank, offset, to.data(), to.size_bytes(), &c, stream), "symm_get");
  }

  // put(), then signal() on `channel`. symm_put_signal(). [local] [stream]
  template <class Source>
  void put_signal(int32_t rank, size_t offset, const Source &source, int32_t channel = 0,
                  const CallOptions &options = {}, void *stream = nullptr) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_put_signal(get(), rank, offset, from.data(), from.size_bytes(), channel, &c,
                          stream),
          "symm_put_signal");
  }

  // put(), then signal_value() on `channel`. symm_put_signal_value(). [local] [stream]
  template <class Source>
  void put_signal_value(int32_t rank, size_t offset, const Source &source, int32_t channel,
                        symm_signal_op_t op, uint64_t value, const CallOptions &options = {},
                        void *stream = nullptr) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_put_signal_value(get(), rank, offset, from.data(), from.size_bytes(), channel,
                                op, value, &c, stream),
          "symm_put_signal_value");
  }

  // Copy pieces of `source` to rank `rank`'s block from byte `offset` on, then signal if the
  // pieces say so. symm_put_pieces(). [local] [stream]
  template <class Source>
  void put_pieces(int32_t rank, size_t offset, const Source &source, const Pieces &pieces,
                  const CallOptions &options = {}, void *stream = nullptr) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_put_pieces(get(), rank, offset, from.data(), from.size_bytes(), &pieces.in_c(),
                          &c, stream),
          "symm_put_pieces");
  }

  // Copy pieces of rank `rank`'s block, from byte `offset` on, to `destination`, then signal if
  // the pieces say so. symm_get_pieces(). [local] [stream]
  template <class Destination>
  void get_pieces(int32_t rank, size_t offset, Destination &&destination, const Pieces &pieces,
                  const CallOptions &options = {}, void *stream = nullptr) const {
    const Span to(destination);
    const auto c = detail::in_c(options);
    check(symm_get_pieces(get(), rank, offset, to.data(), to.size_bytes(), &pieces.in_c(), &c,
                          stream),
          "symm_get_pieces");
  }

  // Say that what was issued on `stream` so far uses the blocks. symm_memory_record_use().
  // [local] [stream]
  void record_use(void *stream, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_memory_record_use(get(), &c, stream), "symm_memory_record_use");
  }

  // Store `count` copies of `value` from byte `offset` of rank `rank`'s block on.
  // symm_fill32(). [local] [stream]
  void fill32(int32_t rank, size_t offset, uint32_t value, size_t count,
              const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_fill32(get(), rank, offset, value, count, &c, stream), "symm_fill32");
  }

  // Store `count` copies of `value` from byte `offset` of rank `rank`'s block on.
  // symm_fill8(). [local] [stream]
  void fill8(int32_t rank, size_t offset, uint8_t value, size_t count,
             const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_fill8(get(), rank, offset, value, count, &c, stream), "symm_fill8");
  }

  // Store `count` copies of `value` from byte `offset` of rank `rank`'s block on.
  // symm_fill16(). [local] [stream]
  void fill16(int32_t rank, size_t offset, uint16_t value, size_t count,
              const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_fill16(get(), rank, offset, value, count, &c, stream), "symm_fill16");
  }

  // Store `count` copies of `value` from byte `offset` of rank `rank`'s block on.
  // symm_fill64(). [local] [stream]
  void fill64(int32_t rank, size_t offset, uint64_t value, size_t count,
              const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_fill64(get(), rank, offset, value, count, &c, stream), "symm_fill64");
  }

  // Store a 32-bit `value` at byte `offset` of rank `rank`'s block, after everything that this
  // rank wrote before. symm_write_value32(). [local] [stream]
  void write_value32(int32_t rank, size_t offset, uint32_t value,
                     const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_write_value32(get(), rank, offset, value, &c, stream), "symm_write_value32");
  }

  // Store a 64-bit `value` at byte `offset` of rank `rank`'s block, after everything that this
  // rank wrote before. symm_write_value64(). [local] [stream]
  void write_value64(int32_t rank, size_t offset, uint64_t value,
                     const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_write_value64(get(), rank, offset, value, &c, stream), "symm_write_value64");
  }

  // Read the 32-bit word at byte `offset` of rank `rank`'s block, now.
  // symm_read_value32(). [local]
  uint32_t read_value32(int32_t rank, size_t offset, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_read_value32", symm_read_value32, get(), rank, offset, &c);
  }

  // Read the 64-bit word at byte `offset` of rank `rank`'s block, now.
  // symm_read_value64(). [local]
  uint64_t read_value64(int32_t rank, size_t offset, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_read_value64", symm_read_value64, get(), rank, offset, &c);
  }

  // Change the 32-bit word at byte `offset` of rank `rank`'s block in one step. `fetched`, unless
  // it is null, receives what the word was; with CUDA when the call runs, so it is memory that the
  // device writes. symm_atomic32(). [local] [stream]
  void atomic32(int32_t rank, size_t offset, symm_atomic_op_t op, uint32_t value,
                uint32_t compare = 0, void *fetched = nullptr, const CallOptions &options = {},
                void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_atomic32(get(), rank, offset, op, value, compare, &c, fetched, stream),
          "symm_atomic32");
  }

  // Change the 64-bit word at byte `offset` of rank `rank`'s block in one step. `fetched`, unless
  // it is null, receives what the word was; with CUDA when the call runs, so it is memory that the
  // device writes. symm_atomic64(). [local] [stream]
  void atomic64(int32_t rank, size_t offset, symm_atomic_op_t op, uint64_t value,
                uint64_t compare = 0, void *fetched = nullptr, const CallOptions &options = {},
                void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_atomic64(get(), rank, offset, op, value, compare, &c, fetched, stream),
          "symm_atomic64");
  }

  // Wait until the 32-bit word at byte `offset` of this rank's own block compares with `value`,
  // whoever writes the word. symm_wait_value32(). [local] [stream]
  void wait_value32(size_t offset, symm_compare_t compare, uint32_t value,
                    const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_value32(get(), offset, compare, value, &c, stream), "symm_wait_value32");
  }

  // Wait until the 64-bit word at byte `offset` of this rank's own block compares with `value`,
  // whoever writes the word. symm_wait_value64(). [local] [stream]
  void wait_value64(size_t offset, symm_compare_t compare, uint64_t value,
                    const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_value64(get(), offset, compare, value, &c, stream), "symm_wait_value64");
  }

  // Send a signal to rank `rank`. symm_signal(). [local] [stream]
  void signal(int32_t rank, int32_t channel = 0, const CallOptions &options = {},
              void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_signal(get(), rank, channel, &c, stream), "symm_signal");
  }

  // Take one signal from rank `rank`, waiting for it if need be. SYMM_ERR_TIMEOUT blames that
  // rank. symm_wait_signal(). [local] [stream]
  void wait_signal(int32_t rank, int32_t channel = 0, const CallOptions &options = {},
                   void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_signal(get(), rank, channel, &c, stream), "symm_wait_signal");
  }

  // Add `value` to the word that this rank has at rank `rank`, or set the word to it.
  // symm_signal_value(). [local] [stream]
  void signal_value(int32_t rank, int32_t channel, symm_signal_op_t op, uint64_t value,
                    const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_signal_value(get(), rank, channel, op, value, &c, stream), "symm_signal_value");
  }

  // Wait until the word from rank `rank` compares with `value`. With the host back end
  // *out_seen becomes what the word was then. symm_wait_signal_value(). [local] [stream]
  void wait_signal_value(int32_t rank, int32_t channel, symm_compare_t compare, uint64_t value,
                         const CallOptions &options = {}, void *stream = nullptr,
                         uint64_t *out_seen = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_signal_value(get(), rank, channel, compare, value, &c, out_seen, stream),
          "symm_wait_signal_value");
  }

  // Wait until each of `waits` has been as awaited, at whatever moment. symm_wait_signals().
  // [local] [stream]
  void wait_all(Span<const symm_signal_wait_t> waits, const CallOptions &options = {},
                void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_signals(get(), waits.data(), waits.size(), SYMM_WAIT_ALL, &c, nullptr,
                            stream),
          "symm_wait_signals");
  }

  // Wait until one of `waits` is as awaited. With the host back end *out_index becomes the first
  // that is. symm_wait_signals(). [local] [stream]
  void wait_any(Span<const symm_signal_wait_t> waits, const CallOptions &options = {},
                void *stream = nullptr, size_t *out_index = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_wait_signals(get(), waits.data(), waits.size(), SYMM_WAIT_ANY, &c, out_index,
                            stream),
          "symm_wait_signals");
  }

  // Count the signals from rank `rank` that are there and not taken. Never waits.
  // symm_test_signal(). [local]
  uint64_t test_signal(int32_t rank, int32_t channel = 0,
                       const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_test_signal", symm_test_signal, get(), rank, channel, &c);
  }

  // Read the word from rank `rank`. symm_test_signal_value(). [local]
  uint64_t test_signal_value(int32_t rank, int32_t channel = 0,
                             const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_test_signal_value", symm_test_signal_value, get(), rank, channel,
                         &c);
  }

  using Handle::get;
};

// Where an address lies: in rank `rank`'s block of `memory`, `offset` bytes from its start.
struct Place {
  Memory memory;
  int32_t rank = -1;
  size_t offset = 0;
};

// ---- heaps -------------------------------------------------------------------------------

template <class T>
class Piece;

// Memory that is handed out in pieces, at the same offsets on all ranks that make the same
// calls.
class Heap : public Handle<symm_heap_t> {
 public:
  using Handle::Handle;

  // Take a piece of `count` elements of this rank's block, which is not zeroed.
  // symm_heap_alloc(). [local]
  template <class T = std::byte>
  Piece<T> allocate(size_t count, size_t alignment = 0, const CallOptions &options = {}) const {
    detail::require(count <= SIZE_MAX / sizeof(T), "symm_heap_alloc",
                    "count: " + std::to_string(count) + " is too large");
    void *pointer = nullptr;
    size_t offset = 0;
    const auto c = detail::in_c(options);
    check(symm_heap_alloc(get(), count * sizeof(T), alignment, &c, &pointer, &offset),
          "symm_heap_alloc");
    return Piece<T>(*this, {static_cast<T *>(pointer), count}, offset);
  }

  // Find the piece that contains `address`; empty if there is none. symm_heap_find(). [local]
  Span<std::byte> find(const void *address, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    void *pointer = nullptr;
    size_t bytes = 0;
    detail::found(symm_heap_find(get(), address, &c, &pointer, &bytes), "symm_heap_find");
    return {static_cast<std::byte *>(pointer), bytes};
  }

  // The memory that the pieces lie in. symm_heap_memory(). [local]
  Memory memory() const {
    return Memory(detail::given("symm_heap_memory", symm_heap_memory, get()));
  }

  // The group of the heap. symm_heap_group(). [local]
  inline Group group() const;

  // Facts about the heap. symm_heap_info(). [local]
  symm_heap_info_t info() const {
    return detail::given("symm_heap_info", symm_heap_info, get());
  }
};

// Piece of a heap, which the destructor gives back. That must happen on all ranks in the same
// order, and when nobody uses the piece any more.
template <class T>
class Piece {
 public:
  Piece() noexcept = default;

  // Take over a piece of `heap`.
  Piece(Heap heap, Span<T> span, size_t offset) noexcept
      : heap_(std::move(heap)), span_(span), offset_(offset) {}
  Piece(Piece &&other) noexcept
      : heap_(std::move(other.heap_)),
        span_(std::exchange(other.span_, {})),
        offset_(std::exchange(other.offset_, 0)) {}
  Piece &operator=(Piece &&other) noexcept {
    Piece taken(std::move(other));
    std::swap(heap_, taken.heap_);
    std::swap(span_, taken.span_);
    std::swap(offset_, taken.offset_);
    return *this;
  }

  ~Piece() {
    if (!span_.empty()) symm_heap_free(heap_.get(), span_.data(), nullptr);
  }

  T *data() const noexcept { return span_.data(); }
  size_t size() const noexcept { return span_.size(); }
  Span<T> span() const noexcept { return span_; }

  // The piece at the same offset of rank `rank`'s block. [local]
  Span<T> span(int32_t rank) const {
    return {reinterpret_cast<T *>(heap_.memory().span(rank).data() + offset_), span_.size()};
  }

  // Bytes from the start of the block, the same on all ranks, for put() and get() of the
  // memory.
  size_t offset() const noexcept { return offset_; }

  // Give the piece back now. symm_heap_free(). [local]
  void reset() noexcept { *this = Piece(); }

 private:
  Heap heap_;
  Span<T> span_;
  size_t offset_ = 0;
};

// ---- groups and collectives --------------------------------------------------------------

// Blocks of an operand, by rank, in elements. Without displacements they lie one behind the
// other.
struct Blocks {
  Span<const size_t> counts;
  Span<const size_t> displacements = {};

  // Elements up to the end of the last block.
  size_t end() const {
    size_t end = 0;
    size_t next = 0;
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts.data()[r] == 0) continue;
      next = (displacements.empty() ? next : displacements.data()[r]) + counts.data()[r];
      end = end < next ? next : end;
    }
    return end;
  }

  const size_t *at() const noexcept {
    return displacements.empty() ? nullptr : displacements.data();
  }
};

// Blocks of an operand whose counts and displacements lie in memory of the device, for
// Group::alltoallv_device().
struct DeviceBlocks {
  Span<const uint64_t> counts;
  Span<const uint64_t> displacements = {};
  const uint64_t *at() const noexcept {
    return displacements.empty() ? nullptr : displacements.data();
  }
};

// How devices are linked: those of a back end, or those of the ranks of a group.
struct Topology {
  symm_topology_class_t topology_class = SYMM_TOPOLOGY_UNKNOWN;

  // Number of devices, or of ranks.
  size_t devices = 0;

  // Row-major matrix [devices][devices] of the number of direct links; the diagonal is 0. Of a
  // group, -1 where one of two ranks is on another machine than this one.
  std::vector<int32_t> links;
};

// The bytes by which the ranks of one group meet.
using UniqueId = std::vector<std::byte>;

// Make an id on one rank, to be sent to all by any means. symm_unique_id(). [local]
inline UniqueId unique_id(const CallOptions &options = {}) {
  const auto c = detail::in_c(options);
  UniqueId id(SYMM_UNIQUE_ID_MAX_BYTES);
  size_t bytes = 0;
  check(symm_unique_id(&c, id.data(), id.size(), &bytes), "symm_unique_id");
  id.resize(bytes);
  return id;
}

// The bytes by which processes join a group that grows.
using Ticket = std::vector<std::byte>;

// The side that sends the elements of `source` to rank `rank`, for Group::messages(). The memory
// stays the caller's.
template <class Source>
symm_message_t sending(int32_t rank, const Source &source, int32_t channel = 0) {
  const Span from(source);
  return {sizeof(symm_message_t), SYMM_MESSAGE_SEND, rank, channel, from.data(), nullptr,
          from.size_bytes()};
}

// The side that receives from rank `rank` into `destination`, for Group::messages(). The memory
// stays the caller's.
template <class Destination>
symm_message_t receiving(int32_t rank, Destination &&destination, int32_t channel = 0) {
  const Span to(destination);
  return {sizeof(symm_message_t), SYMM_MESSAGE_RECV, rank, channel, nullptr, to.data(),
          to.size_bytes()};
}

// A piece of `count` rows of `length` elements each: it is read from element `from` on and goes to
// element `to`, and on both sides rows lie `stride` elements apart. For Pieces and neighbor().
template <class Element>
constexpr symm_piece_t piece_of_rows(size_t from, size_t to, size_t length, size_t count,
                                     size_t stride) noexcept {
  constexpr uint64_t size = sizeof(Element);
  return {from * size, to * size, length * size, count, stride * size, stride * size};
}

// What goes to rank `rank` in every round of an exchange, for Group::exchange(): pieces of
// `source`, to its block of `memory` from byte `offset` on. That rank puts `expected_bytes` here.
// The source stays the caller's.
template <class Source>
symm_neighbor_t neighbor(int32_t rank, const Memory &memory, size_t offset,
                         const Source &source, Span<const symm_piece_t> pieces,
                         size_t expected_bytes) {
  const Span from(source);
  return {sizeof(symm_neighbor_t), rank,          memory.get(),  offset,        from.data(),
          from.size_bytes(),       pieces.data(), pieces.size(), expected_bytes};
}

// What this rank and its neighbours put into each other's blocks in every round. It keeps the
// memories alive; sources stay the caller's.
class NeighborExchange : public Handle<symm_exchange_t> {
 public:
  using Handle::Handle;

  // Begin a round. Until finish() returns, leave what goes as it is, and do not touch what comes.
  // symm_exchange_start(). [local] [stream]
  void start(const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_exchange_start(get(), &c, stream), "symm_exchange_start");
  }

  // End the round: all neighbours have put. Until the next start() no neighbour writes there.
  // symm_exchange_finish(). [local] [stream]
  void finish(const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    check(symm_exchange_finish(get(), &c, stream), "symm_exchange_finish");
  }
};

// Ranks that share memory.
class Group : public Handle<symm_group_t> {
 public:
  Group() noexcept = default;

  // Take over the caller's reference, also if this throws.
  explicit Group(symm_group_t *owned) : Handle(owned) {
    if (owned == nullptr) return;
    check(symm_group_rank(owned, &rank_), "symm_group_rank");
    check(symm_group_size(owned, &size_), "symm_group_size");
  }

  // Form a group. Without `config`, rank and size come from the launcher. symm_group_create().
  // [collective] [blocking]
  static Group create(const symm_group_config_t &config = SYMM_GROUP_CONFIG_INIT) {
    return Group(detail::given("symm_group_create", symm_group_create, &config));
  }

  // Form a group as rank `rank` of `size` by an id that unique_id() made on one rank. `config` may
  // have everything else. symm_group_create(). [collective] [blocking]
  static Group create(Span<const std::byte> id, int32_t rank, int32_t size,
                      symm_group_config_t config = SYMM_GROUP_CONFIG_INIT) {
    config.rank = rank;
    config.size = size;
    config.id = id.data();
    config.id_bytes = id.size();
    return create(config);
  }

  // Form a group of the ranks that pass the same color, ordered by key; empty where color < 0.
  // symm_group_split(). [collective] [blocking]
  Group split(int32_t color, int32_t key = 0,
              const symm_group_options_t &options = SYMM_GROUP_OPTIONS_INIT) const {
    return Group(
        detail::given("symm_group_split", symm_group_split, get(), color, key, &options));
  }

  // Form a group of `ranks`, in their order. symm_group_create_from_ranks(). [collective over
  // `ranks`] [blocking]
  Group create_from_ranks(Span<const int32_t> ranks,
                          const symm_group_options_t &options = SYMM_GROUP_OPTIONS_INIT) const {
    return Group(detail::given("symm_group_create_from_ranks", symm_group_create_from_ranks,
                               get(), ranks.data(), ranks.size(), &options));
  }

  // Form a group of the ranks of this rank's machine. symm_group_local(). [collective over the
  // ranks of a machine] [blocking]
  Group local(const symm_group_options_t &options = SYMM_GROUP_OPTIONS_INIT) const {
    return Group(detail::given("symm_group_local", symm_group_local, get(), &options));
  }

  // Form a group of the ranks that live, also when this group is revoked. symm_group_shrink().
  // [collective over these] [blocking]
  Group shrink(const symm_group_options_t &options = SYMM_GROUP_OPTIONS_INIT) const {
    return Group(detail::given("symm_group_shrink", symm_group_shrink, get(), &options));
  }

  // Make a ticket, by which other processes join this group when it grows, for `lifetime_ms`
  // milliseconds; 0: for as long as the machine runs. symm_group_invite(). [local]
  Ticket invite(uint64_t lifetime_ms = 0) const {
    symm_invite_options_t c = SYMM_INVITE_OPTIONS_INIT;
    c.lifetime_ms = lifetime_ms;
    Ticket ticket(SYMM_TICKET_MAX_BYTES);
    size_t bytes = 0;
    check(symm_group_invite(get(), &c, ticket.data(), ticket.size(), &bytes),
          "symm_group_invite");
    ticket.resize(bytes);
    return ticket;
  }

  // Wait, as a newcomer, until the group of the ticket grows. symm_group_join(). [blocking]
  static Group join(Span<const std::byte> ticket,
                    const symm_group_config_t &config = SYMM_GROUP_CONFIG_INIT) {
    return Group(detail::given("symm_group_join", symm_group_join, ticket.data(), ticket.size(),
                               &config));
  }

  // Form a group of the ranks that live and of newcomers, also when this group is revoked.
  // symm_group_grow(). [collective over these] [blocking]
  Group grow(const symm_grow_options_t &options = SYMM_GROW_OPTIONS_INIT) const {
    return Group(detail::given("symm_group_grow", symm_group_grow, get(), &options));
  }

  // Connect `count` newcomers with the living ranks, as the spares of this group: grow() takes
  // them first. symm_group_grow() with SYMM_GROW_SPARE. [collective over these] [blocking]
  void keep_spares(int32_t count, uint64_t timeout_ms = 0) const {
    symm_grow_options_t c = SYMM_GROW_OPTIONS_INIT;
    c.timeout_ms = timeout_ms;
    c.mode = SYMM_GROW_SPARE;
    c.count = count;
    symm_group_t *none = nullptr;
    check(symm_group_grow(get(), &c, &none), "symm_group_grow");
  }

  int32_t rank() const noexcept { return rank_; }
  int32_t size() const noexcept { return size_; }

  // The rank of this group that is rank `rank` of `other`; -1: none.
  // symm_group_translate_rank(). [local]
  int32_t translate_rank(const Group &other, int32_t rank) const {
    int32_t found = -1;
    const symm_status_t status = symm_group_translate_rank(get(), other.get(), rank, &found);
    if (status != SYMM_ERR_NOT_FOUND) check(status, "symm_group_translate_rank");
    return found;
  }

  // Facts about the group. symm_group_info(). [local]
  symm_group_info_t info() const {
    return detail::given("symm_group_info", symm_group_info, get());
  }

  // Whether the group was revoked, and why. Does not throw for that. symm_group_status().
  // [local]
  symm_failure_t status() const {
    return detail::given("symm_group_status", symm_group_status, get());
  }

  // The ranks that are known to be dead or gone, in ascending order. symm_group_failed_ranks().
  // [local]
  std::vector<int32_t> failed_ranks() const {
    std::vector<int32_t> ranks(static_cast<size_t>(size_));
    size_t count = 0;
    check(symm_group_failed_ranks(get(), ranks.data(), ranks.size(), &count),
          "symm_group_failed_ranks");
    ranks.resize(count);
    return ranks;
  }

  // A descriptor that becomes readable when the group is revoked. It belongs to the group.
  // symm_group_failure_fd(). [local]
  int32_t failure_fd() const {
    return detail::given("symm_group_failure_fd", symm_group_failure_fd, get());
  }

  // Facts about rank `rank`. symm_group_peer_info(). [local]
  symm_group_peer_info_t peer_info(int32_t rank) const {
    return detail::given("symm_group_peer_info", symm_group_peer_info, get(), rank);
  }

  // Links between the devices of the ranks. symm_group_topology(). [local]
  Topology topology() const {
    Topology found;
    found.devices = ranks();
    found.links.resize(found.devices * found.devices);
    check(symm_group_topology(get(), &found.topology_class, found.links.data(),
                              found.links.size(), nullptr),
          "symm_group_topology");
    return found;
  }

  // What this rank has done on the group so far. symm_group_stats(). [local]
  symm_group_stats_t stats() const {
    return detail::given("symm_group_stats", symm_group_stats, get());
  }

  // How often this rank has made a collective, and with how many bytes.
  // symm_group_collective_stats(). [local]
  symm_collective_stats_t collective_stats(symm_collective_t collective) const {
    return detail::given("symm_group_collective_stats", symm_group_collective_stats, get(),
                         collective);
  }

  // How often collectives of this rank went by an algorithm. symm_group_algorithm_stats(). [local]
  symm_algorithm_stats_t algorithm_stats(symm_algorithm_t algorithm) const {
    return detail::given("symm_group_algorithm_stats", symm_group_algorithm_stats, get(),
                         algorithm);
  }

  // Revoke the group on all ranks. Never waits; any thread may call. symm_group_abort().
  // [local]
  void abort(const char *reason = nullptr) const {
    check(symm_group_abort(get(), reason), "symm_group_abort");
  }

  // End the group in good order. symm_group_finalize(). [collective] [blocking]
  void finalize(const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_group_finalize(get(), &c), "symm_group_finalize");
  }

  // Order streams: what is issued on `stream` next runs after what was issued on `after`, which
  // may be all_streams. symm_stream_wait(). [local] [stream]
  void stream_wait(void *stream, void *after, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_stream_wait(get(), stream, after, &c), "symm_stream_wait");
  }

  // Whether everything that was issued on `stream` is over. symm_stream_query(). [local]
  bool stream_done(void *stream, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_stream_query", symm_stream_query, get(), stream, &c) != 0;
  }

  // Wait for `stream`, and throw what went wrong. symm_group_synchronize(). [local] [blocking]
  void synchronize(void *stream = nullptr, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_group_synchronize(get(), stream, &c), "symm_group_synchronize");
  }

  // Wait until all of `ranks`, this one among them, are here; empty: the whole group.
  // symm_barrier(). [collective over the set] [stream]
  void barrier(Span<const int32_t> ranks = {}, int32_t channel = 0,
               const CallOptions &options = {}, void *stream = nullptr) const {
    const int32_t *named = ranks.empty() ? nullptr : ranks.data();
    const auto c = detail::in_c(options);
    check(symm_barrier(get(), named, ranks.size(), channel, &c, stream), "symm_barrier");
  }

  // Send the elements of `source` to rank `rank`. symm_send(). [local] [stream]
  template <class Source>
  void send(int32_t rank, const Source &source, int32_t channel = 0,
            const CallOptions &options = {}, void *stream = nullptr) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_send(get(), rank, channel, from.data(), from.size_bytes(), &c, stream),
          "symm_send");
  }

  // Receive the next message from rank `rank` into `destination`, which may be longer, but not
  // with CUDA. Returns the number of bytes that came. symm_recv(). [local] [stream]
  template <class Destination>
  size_t recv(int32_t rank, Destination &&destination, int32_t channel = 0,
              const CallOptions &options = {}, void *stream = nullptr) const {
    const Span to(destination);
    const auto c = detail::in_c(options);
    size_t bytes = 0;
    check(symm_recv(get(), rank, channel, to.data(), to.size_bytes(), &c, &bytes, stream),
          "symm_recv");
    return bytes;
  }

  // Send and receive `messages`, which sending() and receiving() make and which progress
  // together. Returns the numbers of bytes, in their order. symm_messages(). [local] [stream]
  std::vector<size_t> messages(Span<const symm_message_t> messages,
                               const CallOptions &options = {}, void *stream = nullptr) const {
    const auto c = detail::in_c(options);
    std::vector<size_t> lengths(messages.size());
    check(symm_messages(get(), messages.data(), messages.size(), &c, lengths.data(), stream),
          "symm_messages");
    return lengths;
  }

  // Agree with the neighbours on what is put in every round, of which neighbor() makes each part.
  // symm_exchange_create(). [collective] [blocking]
  NeighborExchange exchange(Span<const symm_neighbor_t> neighbors,
                            const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return NeighborExchange(detail::given("symm_exchange_create", symm_exchange_create, get(),
                                          neighbors.data(), neighbors.size(), &c));
  }

  // Send block i of `send` to rank send_ranks[i], and receive block i of `recv` from rank
  // recv_ranks[i]. symm_neighbor_alltoallv(). [local] [stream]
  template <class Send, class Recv>
  void neighbor_alltoallv(Span<const int32_t> send_ranks, const Send &send,
                          const Blocks &of_send, Span<const int32_t> recv_ranks, Recv &&recv,
                          const Blocks &of_recv, int32_t channel = 0,
                          const CallOptions &options = {}, void *stream = nullptr) const {
    const detail::Operands<Send, Recv> data{send, recv};
    const auto c = detail::in_c(options);
    require_neighbors("send", send_ranks, of_send, data.send.size());
    require_neighbors("recv", recv_ranks, of_recv, data.recv.size());
    check(symm_neighbor_alltoallv(get(), send_ranks.data(), send_ranks.size(), data.send.data(),
                                  of_send.counts.data(), of_send.at(), recv_ranks.data(),
                                  recv_ranks.size(), data.recv.data(), of_recv.counts.data(),
                                  of_recv.at(), data.dtype, channel, &c, stream),
          "symm_neighbor_alltoallv");
  }

  // Allocate a zeroed block of `bytes` bytes. symm_alloc(). [local] [blocking]
  Buffer allocate(size_t bytes,
                  const symm_alloc_options_t &options = SYMM_ALLOC_OPTIONS_INIT) const {
    return Buffer(detail::given("symm_alloc", symm_alloc, get(), bytes, &options));
  }

  // Make a buffer of device memory that another library has allocated. symm_buffer_adopt().
  // [local] [blocking]
  template <class Piece>
  Buffer adopt(Piece &&piece,
               const symm_adopt_options_t &options = SYMM_ADOPT_OPTIONS_INIT) const {
    const Span span(piece);
    return Buffer(detail::given("symm_buffer_adopt", symm_buffer_adopt, get(), span.data(),
                                span.size_bytes(), &options));
  }

  // Make a buffer of a piece of a memfd, whose descriptor stays the caller's.
  // symm_buffer_adopt(). [local] [blocking]
  Buffer adopt_fd(int32_t fd, uint64_t offset, size_t bytes,
                  symm_adopt_options_t options = SYMM_ADOPT_OPTIONS_INIT) const {
    options.flags |= SYMM_ADOPT_FD;
    options.fd = fd;
    options.offset = offset;
    return Buffer(
        detail::given("symm_buffer_adopt", symm_buffer_adopt, get(), nullptr, bytes, &options));
  }

  // Exchange blocks of one size. Calls with equal tags meet. symm_rendezvous(). [collective]
  // [blocking]
  Memory rendezvous(const Buffer &buffer, const symm_rendezvous_options_t &options =
                                              SYMM_RENDEZVOUS_OPTIONS_INIT) const {
    return Memory(
        detail::given("symm_rendezvous", symm_rendezvous, get(), buffer.get(), &options));
  }

  // Exchange blocks of one size, with `tag` and otherwise the defaults. [collective] [blocking]
  Memory rendezvous(const Buffer &buffer, uint64_t tag) const {
    symm_rendezvous_options_t options = SYMM_RENDEZVOUS_OPTIONS_INIT;
    options.tag = tag;
    return rendezvous(buffer, options);
  }

  // Make a heap of `bytes` bytes on every rank. symm_heap_create(). [collective] [blocking]
  Heap heap(size_t bytes, const symm_heap_options_t &options = SYMM_HEAP_OPTIONS_INIT) const {
    return Heap(detail::given("symm_heap_create", symm_heap_create, get(), bytes, &options));
  }

  // Move a memory of another group here; empty on a newcomer, which gets a block of zeros.
  // symm_memory_move(). [collective] [blocking]
  Memory move_memory(const Memory &memory, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return Memory(detail::given("symm_memory_move", symm_memory_move, memory.get(), get(), &c));
  }

  // Move a heap of another group here, with all its pieces; empty on a newcomer.
  // symm_heap_move(). [collective] [blocking]
  Heap move_heap(const Heap &heap, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    return Heap(detail::given("symm_heap_move", symm_heap_move, heap.get(), get(), &c));
  }

  // The memory that `buffer` has become on this group; empty before a rendezvous.
  // symm_buffer_memory(). [local]
  Memory memory_of(const Buffer &buffer, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    symm_memory_t *found = nullptr;
    detail::found(symm_buffer_memory(buffer.get(), get(), &c, &found), "symm_buffer_memory");
    return Memory(found);
  }

  // Find the memory of this group that maps `address`. symm_memory_find(). [local]
  std::optional<Place> find(const void *address, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    symm_memory_t *found = nullptr;
    Place place;
    if (!detail::found(symm_memory_find(get(), address, &c, &found, &place.rank, &place.offset),
                       "symm_memory_find")) {
      return {};
    }
    place.memory = Memory(found);
    return place;
  }

  // Collectives are [collective] [stream]. Types and counts are those of the operands. In
  // place, the same elements are passed as send and recv where symm.h allows it. Operands that
  // do not fit each other are SYMM_ERR_INVALID_ARGUMENT before anything is done.

  // recv[i] = op of all ranks' send[i]. symm_allreduce().
  template <class Send, class Recv>
  void allreduce(const Send &send, Recv &&recv, symm_op_t op,
                 const Options &options = {}) const {
    const detail::Reduced<Send, Recv> data{send, recv};
    detail::require_elements("symm_allreduce", "send", data.send.size(), data.recv.size());
    run("symm_allreduce", symm_allreduce, options, data.result, data.send.data(),
        data.recv.data(), data.recv.size(), data.dtype, op);
  }

  // recv = this rank's part of the op of all ranks' send, which has size() times as many
  // elements. symm_reduce_scatter().
  template <class Send, class Recv>
  void reduce_scatter(const Send &send, Recv &&recv, symm_op_t op,
                      const Options &options = {}) const {
    const detail::Reduced<Send, Recv> data{send, recv};
    detail::require_elements("symm_reduce_scatter", "send", data.send.size(),
                             data.recv.size() * ranks());
    run("symm_reduce_scatter", symm_reduce_scatter, options, data.result, data.send.data(),
        data.recv.data(), data.recv.size(), data.dtype, op);
  }

  // recv = all ranks' send, one after the other. symm_allgather().
  template <class Send, class Recv>
  void allgather(const Send &send, Recv &&recv, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    detail::require_elements("symm_allgather", "recv", data.recv.size(),
                             data.send.size() * ranks());
    run("symm_allgather", symm_allgather, options, 0, data.send.data(), data.recv.data(),
        data.send.size(), data.dtype);
  }

  // recv = the root's send; elsewhere send may be empty. symm_broadcast().
  template <class Send, class Recv>
  void broadcast(const Send &send, Recv &&recv, int32_t root,
                 const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    if (rank_ == root || !data.send.empty()) {
      detail::require_elements("symm_broadcast", "send", data.send.size(), data.recv.size());
    }
    run("symm_broadcast", symm_broadcast, options, 0, data.send.data(), data.recv.data(),
        data.recv.size(), data.dtype, root);
  }

  // On the root recv[i] = op of all ranks' send[i]; elsewhere recv may be empty. symm_reduce().
  template <class Send, class Recv>
  void reduce(const Send &send, Recv &&recv, symm_op_t op, int32_t root,
              const Options &options = {}) const {
    const detail::Reduced<Send, Recv> data{send, recv};
    if (rank_ == root || !data.recv.empty()) {
      detail::require_elements("symm_reduce", "recv", data.recv.size(), data.send.size());
    }
    run("symm_reduce", symm_reduce, options, data.result, data.send.data(), data.recv.data(),
        data.send.size(), data.dtype, op, root);
  }

  // recv[i] = op of send[i] of the ranks up to this one. symm_scan().
  template <class Send, class Recv>
  void scan(const Send &send, Recv &&recv, symm_op_t op, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    detail::require_elements("symm_scan", "recv", data.recv.size(), data.send.size());
    run("symm_scan", symm_scan, options, 0, data.send.data(), data.recv.data(),
        data.send.size(), data.dtype, op);
  }

  // recv[i] = op of send[i] of the ranks before this one, on rank 0 the neutral element of op.
  // symm_exscan().
  template <class Send, class Recv>
  void exscan(const Send &send, Recv &&recv, symm_op_t op, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    detail::require_elements("symm_exscan", "recv", data.recv.size(), data.send.size());
    run("symm_exscan", symm_exscan, options, 0, data.send.data(), data.recv.data(),
        data.send.size(), data.dtype, op);
  }

  // Combine by a function of the caller's, in the order of the ranks: combine(into, other) changes
  // `into`, which is of lower ranks. `collective` says who gets what, as for symm_reduce_by(). What
  // combine() throws on this rank is thrown here, behind the call, and the group is aborted. An
  // element is copied from rank to rank as bytes. Host back end. [collective] [blocking]
  template <class T, class Combine>
  void reduce_by(symm_collective_t collective, Span<const T> send, Span<T> recv,
                 Combine &&combine, int32_t root = 0, const CallOptions &options = {}) const {
    static_assert(std::is_trivially_copyable_v<T>, "elements go to other ranks as bytes");
    const bool scatters = collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
    const bool receives = collective != SYMM_COLLECTIVE_REDUCE || rank() == root;
    const size_t count = scatters ? recv.size() : send.size();
    detail::require_elements("symm_reduce_by", "send", send.size(),
                             scatters ? count * ranks() : count);
    if (receives) detail::require_elements("symm_reduce_by", "recv", recv.size(), count);

    struct Call {
      std::remove_reference_t<Combine> *combine;
      std::exception_ptr thrown;
    } call{&combine, nullptr};
    const auto combine_all = [](void *user, void *into, const void *other,
                                size_t elements) -> int32_t {
      auto *const self = static_cast<Call *>(user);
      try {
        for (size_t i = 0; i < elements; ++i) {
          (*self->combine)(static_cast<T *>(into)[i], static_cast<const T *>(other)[i]);
        }
        return 0;
      } catch (...) {
        self->thrown = std::current_exception();
        return 1;
      }
    };
    const auto c = detail::in_c(options);
    const symm_status_t status = symm_reduce_by(get(), collective, send.data(), recv.data(),
                                                count, sizeof(T), combine_all, &call, root, &c);
    if (call.thrown) std::rethrow_exception(call.thrown);
    check(status, "symm_reduce_by");
  }

  // Part r of recv = this rank's part of rank r's send; both have size() parts.
  // symm_alltoall().
  template <class Send, class Recv>
  void alltoall(const Send &send, Recv &&recv, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    const size_t count = data.recv.size() / ranks();
    detail::require_elements("symm_alltoall", "send", data.send.size(), data.recv.size());
    detail::require_elements("symm_alltoall", "recv", data.recv.size(), count * ranks());
    run("symm_alltoall", symm_alltoall, options, 0, data.send.data(), data.recv.data(), count,
        data.dtype);
  }

  // Blocks of recv = all ranks' send, of which this rank's has as many elements as its block.
  // symm_allgatherv().
  template <class Send, class Recv>
  void allgatherv(const Send &send, Recv &&recv, const Blocks &of_recv,
                  const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    require_blocks("symm_allgatherv", "recv", of_recv, data.recv.size());
    detail::require_elements("symm_allgatherv", "send", data.send.size(),
                             of_recv.counts.data()[rank_]);
    run("symm_allgatherv", symm_allgatherv, options, 0, data.send.data(), data.recv.data(),
        of_recv.counts.data(), of_recv.at(), data.dtype);
  }

  // recv = the op of all ranks' blocks for this rank. symm_reduce_scatterv().
  template <class Send, class Recv>
  void reduce_scatterv(const Send &send, const Blocks &of_send, Recv &&recv, symm_op_t op,
                       const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    require_blocks("symm_reduce_scatterv", "send", of_send, data.send.size());
    detail::require_elements("symm_reduce_scatterv", "recv", data.recv.size(),
                             of_send.counts.data()[rank_]);
    run("symm_reduce_scatterv", symm_reduce_scatterv, options, 0, data.send.data(),
        of_send.counts.data(), of_send.at(), data.recv.data(), data.dtype, op);
  }

  // Block r of recv = rank r's block for this rank. symm_alltoallv().
  template <class Send, class Recv>
  void alltoallv(const Send &send, const Blocks &of_send, Recv &&recv, const Blocks &of_recv,
                 const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    require_blocks("symm_alltoallv", "send", of_send, data.send.size());
    require_blocks("symm_alltoallv", "recv", of_recv, data.recv.size());
    run("symm_alltoallv", symm_alltoallv, options, 0, data.send.data(), of_send.counts.data(),
        of_send.at(), data.recv.data(), of_recv.counts.data(), of_recv.at(), data.dtype);
  }

  // Do as alltoallv() with counts that are read when the call runs, of blocks that lie within
  // send and recv then. symm_alltoallv_device().
  template <class Send, class Recv>
  void alltoallv_device(const Send &send, const DeviceBlocks &of_send, Recv &&recv,
                        const DeviceBlocks &of_recv, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    require_numbers("symm_alltoallv_device", "send", of_send);
    require_numbers("symm_alltoallv_device", "recv", of_recv);
    run("symm_alltoallv_device", symm_alltoallv_device, options, 0, data.send.data(),
        data.send.size(), of_send.counts.data(), of_send.at(), data.recv.data(),
        data.recv.size(), of_recv.counts.data(), of_recv.at(), data.dtype);
  }

  // On the root part r of recv = rank r's send; elsewhere recv may be empty. symm_gather().
  template <class Send, class Recv>
  void gather(const Send &send, Recv &&recv, int32_t root, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    if (rank_ == root) {
      detail::require_elements("symm_gather", "recv", data.recv.size(),
                               data.send.size() * ranks());
    }
    run("symm_gather", symm_gather, options, 0, data.send.data(), data.recv.data(),
        data.send.size(), data.dtype, root);
  }

  // recv = this rank's part of the root's send; elsewhere send may be empty. symm_scatter().
  template <class Send, class Recv>
  void scatter(const Send &send, Recv &&recv, int32_t root, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    if (rank_ == root) {
      detail::require_elements("symm_scatter", "send", data.send.size(),
                               data.recv.size() * ranks());
    }
    run("symm_scatter", symm_scatter, options, 0, data.send.data(), data.recv.data(),
        data.recv.size(), data.dtype, root);
  }

  // On the root block r of recv = rank r's send; elsewhere recv and of_recv may be empty.
  // symm_gatherv().
  template <class Send, class Recv>
  void gatherv(const Send &send, Recv &&recv, const Blocks &of_recv, int32_t root,
               const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    if (rank_ == root) require_blocks("symm_gatherv", "recv", of_recv, data.recv.size());
    run("symm_gatherv", symm_gatherv, options, 0, data.send.data(), data.send.size(),
        data.recv.data(), of_recv.counts.data(), of_recv.at(), data.dtype, root);
  }

  // recv = this rank's block of the root's send; elsewhere send and of_send may be empty.
  // symm_scatterv().
  template <class Send, class Recv>
  void scatterv(const Send &send, const Blocks &of_send, Recv &&recv, int32_t root,
                const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    if (rank_ == root) require_blocks("symm_scatterv", "send", of_send, data.send.size());
    run("symm_scatterv", symm_scatterv, options, 0, data.send.data(), of_send.counts.data(),
        of_send.at(), data.recv.data(), data.recv.size(), data.dtype, root);
  }

  // The first bytes of recv = those of the root's send, on all ranks but the root, where recv may
  // be empty; elsewhere send may. Returns the number of bytes. symm_broadcast_bytes().
  template <class Send, class Recv>
  size_t broadcast_bytes(const Send &send, Recv &&recv, int32_t root,
                         const Options &options = {}) const {
    const Span from(send);
    const Span into(recv);
    const auto c = detail::in_c(options);
    size_t bytes = 0;
    check(symm_broadcast_bytes(get(), from.data(), from.size_bytes(), into.data(),
                               into.size_bytes(), root, &c, &bytes, options.stream),
          "symm_broadcast_bytes");
    return bytes;
  }

  // Row by row, recv = all ranks' rows of send, one behind the other; from one row of recv to
  // the next are `recv_stride` elements. symm_allgather_rows().
  template <class Send, class Recv>
  void allgather_rows(const Send &send, Recv &&recv, size_t rows, size_t recv_stride,
                      const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    const size_t row = rows == 0 ? 0 : data.send.size() / rows;
    detail::require_elements("symm_allgather_rows", "send", data.send.size(), row * rows);
    const size_t needed = row == 0 ? 0 : (rows - 1) * recv_stride + row * ranks();
    if (data.recv.size() < needed) {
      detail::require_elements("symm_allgather_rows", "recv", data.recv.size(), needed);
    }
    run("symm_allgather_rows", symm_allgather_rows, options, 0, data.send.data(),
        data.recv.data(), rows, row, recv_stride, data.dtype);
  }

  // Row by row, recv = this rank's part of the reduction of send, whose rows have a part for each
  // rank, one behind the other; from one row of send to the next are `send_stride` elements.
  // symm_reduce_scatter_rows().
  template <class Send, class Recv>
  void reduce_scatter_rows(const Send &send, Recv &&recv, size_t rows, size_t send_stride,
                           symm_op_t op, const Options &options = {}) const {
    const detail::Operands<Send, Recv> data{send, recv};
    const size_t row = rows == 0 ? 0 : data.recv.size() / rows;
    detail::require_elements("symm_reduce_scatter_rows", "recv", data.recv.size(), row * rows);
    const size_t needed = row == 0 ? 0 : (rows - 1) * send_stride + row * ranks();
    if (data.send.size() < needed) {
      detail::require_elements("symm_reduce_scatter_rows", "send", data.send.size(), needed);
    }
    run("symm_reduce_scatter_rows", symm_reduce_scatter_rows, options, 0, data.send.data(),
        data.recv.data(), rows, row, send_stride, data.dtype, op);
  }

  // The collective that `call` describes, with its arguments as symm.h has them; options.stream
  // orders it. symm_collective().
  void collective(const symm_collective_call_t &call, const Options &options = {}) const {
    run("symm_collective", symm_collective, options, 0, &call);
  }

  // Independent collectives in one submission. `calls` is a vector, an array or the like of
  // symm_collective_call_t. symm_batch().
  template <class Calls>
  void batch(const Calls &calls, const BatchOptions &options = {}) const {
    const symm_batch_options_t c = {sizeof(symm_batch_options_t), options.timeout_ms,
                                    options.failure, options.tag,
                                    detail::place_of(options.request)};
    check(symm_batch(get(), std::data(calls), std::size(calls), &c, options.stream),
          "symm_batch");
  }

  // The algorithm that a collective would use, and why. `count` is that of the C call.
  // symm_collective_plan(). [local]
  template <class Send, class Recv>
  symm_plan_info_t plan(symm_collective_t collective, const Send &send, Recv &&recv,
                        size_t count, symm_op_t op = SYMM_OP_SUM, const Options &options = {},
                        int32_t root = 0) const {
    const detail::Operands<Send, Recv> data{send, recv};
    symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
    call.collective = collective;
    call.send = data.send.data();
    call.recv = data.recv.data();
    call.count = count;
    call.dtype = data.dtype;
    call.op = op;
    call.root = root;
    return plan(call, options);
  }

  // The algorithm that any collective would use, with its arguments as symm.h has them.
  // symm_collective_plan(). [local]
  symm_plan_info_t plan(const symm_collective_call_t &call, const Options &options = {}) const {
    const auto c = detail::in_c(options);
    return detail::given("symm_collective_plan", symm_collective_plan, get(), &call, &c);
  }

 private:
  template <class Function, class... Arguments>
  void run(const char *call, Function function, const Options &options, symm_dtype_t result,
           const Arguments &...arguments) const {
    const auto c = detail::in_c(options, result);
    check(function(get(), arguments..., &c, options.stream), call);
  }

  // Throws unless `blocks` has a count for each rank, and as many displacements if it has any.
  template <class Any>
  void require_numbers(const char *call, const char *operand, const Any &blocks) const {
    const std::string name(operand);
    detail::require_elements(call, (name + "_counts").c_str(), blocks.counts.size(), ranks());
    if (!blocks.displacements.empty()) {
      detail::require_elements(call, (name + "_displacements").c_str(),
                               blocks.displacements.size(), ranks());
    }
  }

  void require_blocks(const char *call, const char *operand, const Blocks &blocks,
                      size_t elements) const {
    require_numbers(call, operand, blocks);
    if (blocks.end() > elements) {
      detail::require_elements(call, operand, elements, blocks.end());
    }
  }

  static void require_neighbors(const char *operand, Span<const int32_t> ranks,
                                const Blocks &blocks, size_t elements) {
    constexpr const char *kCall = "symm_neighbor_alltoallv";
    const bool has_places =
        blocks.displacements.empty() || blocks.displacements.size() == ranks.size();
    detail::require(blocks.counts.size() == ranks.size() && has_places, kCall,
                    std::string(operand) + ": has not as many blocks as neighbours");
    if (blocks.end() > elements) {
      detail::require_elements(kCall, operand, elements, blocks.end());
    }
  }

  size_t ranks() const {
    if (size_ == 0) throw Error(SYMM_ERR_INVALID_HANDLE, "symm::Group", "it is empty");
    return static_cast<size_t>(size_);
  }

  int32_t rank_ = -1;
  int32_t size_ = 0;
};

inline Group Buffer::group() const {
  symm_group_t *found = nullptr;
  detail::found(symm_buffer_group(get(), &found), "symm_buffer_group");
  return Group(found);
}

inline Group Memory::group() const {
  return Group(detail::given("symm_memory_group", symm_memory_group, Handle::get()));
}

inline Group Heap::group() const {
  return Group(detail::given("symm_heap_group", symm_heap_group, get()));
}

// ---- devices -----------------------------------------------------------------------------

// Number of devices of a back end. symm_device_count(). [local]
inline int32_t device_count(symm_backend_t backend) {
  return detail::given("symm_device_count", symm_device_count, backend);
}

// Facts about a device. symm_device_info(). [local]
inline symm_device_info_t device_info(symm_backend_t backend, int32_t device) {
  return detail::given("symm_device_info", symm_device_info, backend, device);
}

// Links between the devices of a back end. symm_topology(). [local]
inline Topology topology(symm_backend_t backend) {
  Topology found;
  found.devices = static_cast<size_t>(device_count(backend));
  found.links.resize(found.devices * found.devices);
  check(symm_topology(backend, &found.topology_class, found.links.data(), found.links.size(),
                      nullptr),
        "symm_topology");
  return found;
}

// ---- sharing by tokens -------------------------------------------------------------------

// Bytes that name a piece of memory, for any process of this user on this machine.
using Token = std::vector<std::byte>;

// Make a token for `piece`, which lies in a buffer or an import. symm_ipc_export(). [local]
// [stream]
template <class Piece>
Token ipc_export(const Piece &piece,
                 const symm_ipc_export_options_t &options = SYMM_IPC_EXPORT_OPTIONS_INIT,
                 void *stream = nullptr) {
  const Span span(piece);
  Token token(SYMM_IPC_TOKEN_MAX_BYTES);
  size_t size = 0;
  check(symm_ipc_export(span.data(), span.size_bytes(), &options, token.data(), token.size(),
                        &size, stream),
        "symm_ipc_export");
  token.resize(size);
  return token;
}

// Make one token for many named pieces. symm_ipc_export_bundle(). [local] [stream]
inline Token ipc_export_bundle(
    Span<const symm_ipc_piece_t> pieces,
    const symm_ipc_export_options_t &options = SYMM_IPC_EXPORT_OPTIONS_INIT,
    void *stream = nullptr) {
  Token token(SYMM_IPC_TOKEN_MAX_BYTES);
  size_t size = 0;
  check(symm_ipc_export_bundle(pieces.data(), pieces.size(), &options, token.data(),
                               token.size(), &size, stream),
        "symm_ipc_export_bundle");
  token.resize(size);
  return token;
}

// Memory of another process: a lease on the piece, or on the bundle, that a token names. It
// moves, and only share() copies it.
class Import {
 public:
  Import() noexcept = default;

  // Take over the caller's import, and end it on `stream`.
  explicit Import(symm_ipc_t *owned, void *stream = nullptr) noexcept
      : ipc_(owned), stream_(stream) {}

  // Map the memory that `token` names. The destructor ends the lease on `stream`.
  // symm_ipc_import(). [local] [blocking] [stream]
  explicit Import(Span<const std::byte> token,
                  const symm_ipc_import_options_t &options = SYMM_IPC_IMPORT_OPTIONS_INIT,
                  void *stream = nullptr)
      : stream_(stream) {
    check(symm_ipc_import(token.data(), token.size(), &options, &ipc_, stream),
          "symm_ipc_import");
  }

  Import(Import &&other) noexcept
      : ipc_(std::exchange(other.ipc_, nullptr)), stream_(other.stream_) {}
  Import &operator=(Import other) noexcept {
    std::swap(ipc_, other.ipc_);
    std::swap(stream_, other.stream_);
    return *this;
  }

  ~Import() { reset(); }

  symm_ipc_t *get() const noexcept { return ipc_; }

  // Add a reference, which is dropped on `stream`. The lease ends with the last one.
  // symm_ipc_retain(). [local]
  Import share(void *stream = nullptr) const {
    check(symm_ipc_retain(ipc_), "symm_ipc_retain");
    return Import(ipc_, stream);
  }

  // Let `stream` wait for the export: what is issued on it next runs after what the exporter
  // had issued. symm_ipc_stream_wait(). [local] [stream]
  void stream_wait(void *stream, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_ipc_stream_wait(ipc_, &c, stream), "symm_ipc_stream_wait");
  }

  // Say that what was issued on `stream` so far uses the import: its lease does not end before
  // that is over. symm_ipc_record_use(). [local] [stream]
  void record_use(void *stream, const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_ipc_record_use(ipc_, &c, stream), "symm_ipc_record_use");
  }

  // Give the memory up when what was issued on the import's stream is over, and keep the
  // addresses. symm_ipc_suspend(). [local] [stream]
  void suspend(const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_ipc_suspend(ipc_, &c, stream_), "symm_ipc_suspend");
  }

  // Map memory at the addresses again: what `token` names, or, without one, what was there.
  // symm_ipc_resume(). [local] [blocking] [stream]
  void resume(Span<const std::byte> token = {},
              const symm_ipc_import_options_t &options = SYMM_IPC_IMPORT_OPTIONS_INIT) const {
    check(symm_ipc_resume(ipc_, token.data(), token.size(), &options, stream_),
          "symm_ipc_resume");
  }

  // Copy pieces of `source` into the memory from byte `offset` on, then signal if the pieces say
  // so. symm_ipc_put_pieces(). [local] [stream]
  template <class Source>
  void put_pieces(size_t offset, const Source &source, const Pieces &pieces, uint64_t epoch = 0,
                  const CallOptions &options = {}) const {
    const Span from(source);
    const auto c = detail::in_c(options);
    check(symm_ipc_put_pieces(ipc_, offset, from.data(), from.size_bytes(), &pieces.in_c(),
                              epoch, &c, stream_),
          "symm_ipc_put_pieces");
  }

  // Copy pieces of the memory, from byte `offset` on, to `destination`, then signal if the pieces
  // say so. symm_ipc_get_pieces(). [local] [stream]
  template <class Destination>
  void get_pieces(size_t offset, Destination &&destination, const Pieces &pieces,
                  const CallOptions &options = {}) const {
    const Span to(destination);
    const auto c = detail::in_c(options);
    check(symm_ipc_get_pieces(ipc_, offset, to.data(), to.size_bytes(), &pieces.in_c(), &c,
                              stream_),
          "symm_ipc_get_pieces");
  }

  // Add `value` to a word of the token, or set the word to it. symm_ipc_signal_value(). [local]
  // [stream]
  void signal_value(int32_t channel, symm_signal_op_t op, uint64_t value,
                    const CallOptions &options = {}) const {
    const auto c = detail::in_c(options);
    check(symm_ipc_signal_value(ipc_, channel, op, value, &c, stream_),
          "symm_ipc_signal_value");
  }

  // Drop the reference now. symm_ipc_release(). [local] [stream]
  void reset() noexcept { symm_ipc_release(std::exchange(ipc_, nullptr), stream_); }
  explicit operator bool() const noexcept { return ipc_ != nullptr; }

  // The piece, also after the exporter died. symm_ipc_pointer(), symm_ipc_bytes(). [local]
  template <class T = std::byte>
  Span<T> span() const {
    void *const pointer = detail::given("symm_ipc_pointer", symm_ipc_pointer, ipc_);
    return {static_cast<T *>(pointer),
            detail::given("symm_ipc_bytes", symm_ipc_bytes, ipc_) / sizeof(T)};
  }

  // How many pieces a bundle has. symm_ipc_bundle_size(). [local]
  size_t bundle_size() const {
    return detail::given("symm_ipc_bundle_size", symm_ipc_bundle_size, ipc_);
  }

  // A piece of a bundle. symm_ipc_bundle_piece(). [local]
  symm_ipc_piece_t bundle_piece(size_t index) const {
    return detail::given("symm_ipc_bundle_piece", symm_ipc_bundle_piece, ipc_, index);
  }

  // The piece of a bundle that has a name. symm_ipc_bundle_find(). [local]
  symm_ipc_piece_t bundle_piece(const std::string &name) const {
    return bundle_piece(
        detail::given("symm_ipc_bundle_find", symm_ipc_bundle_find, ipc_, name.c_str()));
  }

  // Facts about the import. symm_ipc_info(). [local]
  symm_ipc_info_t info() const { return detail::given("symm_ipc_info", symm_ipc_info, ipc_); }

 private:
  symm_ipc_t *ipc_ = nullptr;
  void *stream_ = nullptr;
};

// Wait for a word of a token of this process, and return it. symm_ipc_wait_value(). [local]
// [blocking]
inline uint64_t ipc_wait_value(Span<const std::byte> token, int32_t channel,
                               symm_compare_t compare, uint64_t value,
                               const CallOptions &options = {}, void *stream = nullptr) {
  const auto c = detail::in_c(options);
  uint64_t seen = 0;
  check(symm_ipc_wait_value(token.data(), token.size(), channel, compare, value, &c, &seen,
                            stream),
        "symm_ipc_wait_value");
  return seen;
}

// Keep puts of epochs below `epoch` off `piece`, and wait for those under way. symm_ipc_fence().
// [local] [blocking]
template <class Piece>
void ipc_fence(const Piece &piece, uint64_t epoch, const CallOptions &options = {},
               void *stream = nullptr) {
  const Span span(piece);
  const auto c = detail::in_c(options);
  check(symm_ipc_fence(span.data(), span.size_bytes(), epoch, &c, stream), "symm_ipc_fence");
}

// End the tokens of `piece`, and wait until nobody holds a lease on it. symm_ipc_withdraw().
// [local] [blocking]
template <class Piece>
void ipc_withdraw(const Piece &piece, const CallOptions &options = {}) {
  const Span span(piece);
  const auto c = detail::in_c(options);
  check(symm_ipc_withdraw(span.data(), span.size_bytes(), &c), "symm_ipc_withdraw");
}

// Publish a token under a name and the number of a version. symm_ipc_publish(). [local]
inline void ipc_publish(
    const std::string &name, uint64_t version, Span<const std::byte> token,
    const symm_ipc_publish_options_t &options = SYMM_IPC_PUBLISH_OPTIONS_INIT) {
  check(symm_ipc_publish(name.c_str(), version, token.data(), token.size(), &options),
        "symm_ipc_publish");
}

// A version that was looked up.
struct PublishedVersion {
  uint64_t version = 0;
  Token token;
};

// Find the newest version of a name that compares with `version`, and wait for one.
// symm_ipc_lookup(). [local] [blocking]
inline PublishedVersion ipc_lookup(
    const std::string &name, symm_compare_t compare = SYMM_COMPARE_GE, uint64_t version = 0,
    const symm_ipc_lookup_options_t &options = SYMM_IPC_LOOKUP_OPTIONS_INIT) {
  PublishedVersion found{0, Token(SYMM_IPC_TOKEN_MAX_BYTES)};
  size_t size = 0;
  check(symm_ipc_lookup(name.c_str(), compare, version, &options, found.token.data(),
                        found.token.size(), &size, &found.version),
        "symm_ipc_lookup");
  found.token.resize(size);
  return found;
}

// Withdraw a version, and wait until nobody holds it. symm_ipc_withdraw_version(). [local]
// [blocking]
inline void ipc_withdraw_version(const std::string &name, uint64_t version,
                                 const CallOptions &options = {}) {
  const auto c = detail::in_c(options);
  check(symm_ipc_withdraw_version(name.c_str(), version, &c), "symm_ipc_withdraw_version");
}

// Ask who holds leases on `piece`. symm_ipc_holders(). [local]
template <class Piece>
symm_ipc_holders_t ipc_holders(const Piece &piece, const CallOptions &options = {}) {
  const Span span(piece);
  const auto c = detail::in_c(options);
  return detail::given("symm_ipc_holders", symm_ipc_holders, span.data(), span.size_bytes(),
                       &c);
}

// Free what is provably free, and tell what all collections have done. Never waits.
// symm_ipc_collect(). [local]
inline symm_ipc_collect_stats_t ipc_collect(const CallOptions &options = {}) {
  const auto c = detail::in_c(options);
  return detail::given("symm_ipc_collect", symm_ipc_collect, &c);
}

// State of sharing in this process. symm_ipc_stats(). [local]
inline symm_ipc_stats_t ipc_stats() { return detail::given("symm_ipc_stats", symm_ipc_stats); }

}  // namespace v0
}  // namespace symm

#endif  // SYMM_SYMM_HPP
