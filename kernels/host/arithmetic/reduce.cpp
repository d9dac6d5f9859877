// Combines operands of several ranks in one pass, by the kernel for type and operator that this
// processor runs best. It touches the operands and nothing else.
#include "kernels/host/arithmetic/reduce.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host/arithmetic/float_environment.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/host/arithmetic/table.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/neutral.hpp"
#include "kernels/number.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace symm::host {
namespace {
constexpr size_t kStreamAtLeast = 1024;  // below, the fence costs more than the cache pollution
// Below, lines that are given up one by one cost less than the way through memory does, where both
// processors share a cache. Where they do not, 2 KB would be enough.
constexpr size_t kPastPeerAtLeast = 8192;
// The results of one block stay in L1 until they are streamed out.
constexpr size_t kBlock = 4096;

Kernel find(const Reduction& r) noexcept {
  if (has_two_parts(r.dtype)) return find_for_two_parts(r.dtype, r.op);
  return kernel_table()[static_cast<size_t>(current_simd())](r.dtype, r.op, r.saturates);
}

void fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Whether a store waits for a line longer than a load does. AMD EPYC: 2.5 to 10 times as long;
// Intel Xeon: no longer, and there non-temporal stores of 256 KB to 1 MB take up to twice as long.
bool waits_for_lines() noexcept {
#if defined(__x86_64__)
  static const bool waits = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  }();
  return waits;
#else
  return false;
#endif
}

// Stores whole cache lines past the cache. Stores of 32 bytes were faster than stores of 16, and
// stores of 64 no faster than stores of 32.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void stream_wide(
    std::byte* to, const std::byte* from, size_t bytes) noexcept {
  for (size_t at = 0; at < bytes; at += sizeof(__m256i)) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
}

void stream_lines(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  if (current_simd() >= Simd::avx2) return stream_wide(to, from, bytes);
  for (size_t at = 0; at < bytes; at += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
}
#else
void stream_lines(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}
#endif

void stream_unfenced(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  const size_t body = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, body);
  std::memcpy(to + head + body, from + head + body, bytes - head - body);
}

void reduce_and_stream(const Reduction& whole, Kernel kernel) noexcept {
  alignas(kLine) std::byte block[kBlock];
  std::byte* const into = block;
  const size_t element = size_of(whole.dtype);
  const size_t step = kBlock / element;
  Reduction part = whole;
  part.destinations = &into;
  part.destination_count = 1;
  part.destination_offset = 0;

  for (size_t at = 0; at < whole.count; at += step) {
    part.count = std::min(step, whole.count - at);
    part.source_offset = whole.source_offset + at * element;
    if (whole.partial_in) part.partial_in = whole.partial_in + at * size_of_partial(whole.dtype);
    kernel(part);
    for (int i = 0; i < whole.destination_count; ++i) {
      stream_unfenced(whole.destinations[i] + whole.destination_offset + at * element, block,
          part.count * element);
    }
  }

  fence();
}

// Finding the kernel for a few words takes longer than adding them, and a solver's
// dot products add a few words.
constexpr size_t kFewBytes = 64;

template <class T>
void add_few(const Reduction& r) noexcept {
  T sums[kFewBytes / sizeof(T)];
  std::memcpy(sums, r.sources[0] + r.source_offset, r.count * sizeof(T));
  for (int i = 1; i < r.source_count; ++i) {
    const std::byte* from = r.sources[i] + r.source_offset;
    for (size_t at = 0; at < r.count; ++at) {
      T x;
      std::memcpy(&x, from + at * sizeof(T), sizeof(T));
      sums[at] += x;  // integers are unsigned here: they wrap
    }
  }

  for (int i = 0; i < r.destination_count; ++i) {
    std::memcpy(r.destinations[i] + r.destination_offset, sums, r.count * sizeof(T));
  }
}

// Returns null if the kernels are to do the reduction.
Kernel find_for_few(const Reduction& r) noexcept {
  const bool is_tree = r.in_tree && r.source_count > 3;
  if (r.op != Op::sum || is_tree || r.partial_in || r.partial_out || r.count > kFewBytes / 8) {
    return nullptr;
  }
  switch (r.dtype) {
    case DType::f32: return add_few<float>;
    case DType::f64: return add_few<double>;
    case DType::i32:
    case DType::u32: return add_few<uint32_t>;
    case DType::i64:
    case DType::u64: return add_few<uint64_t>;
    default: return nullptr;
  }
}

// A bitwise reduction does not see the elements, so there are kernels of bytes only.
Reduction of_bytes(const Reduction& of) noexcept {
  Reduction bytes = of;
  bytes.dtype = DType::u8;
  bytes.count = of.count * size_of(of.dtype);
  return bytes;
}

// A reduction of complex numbers as what they are combined as, twice as many real ones.
Reduction of_parts(const Reduction& of) noexcept {
  Reduction parts = of;
  parts.dtype = part_of(of.dtype);
  parts.count = 2 * of.count;
  return parts;
}

void fill_neutral(const Reduction& r) noexcept {
  const NeutralWords words = neutral_words(r.dtype, r.op);
  const size_t element = size_of(r.dtype);
  for (int i = 0; i < r.destination_count; ++i) {
    std::byte* const to = r.destinations[i] + r.destination_offset;
    for (size_t at = 0; at < r.count; ++at) {
      std::memcpy(to + at * element, &words, element);
    }
  }
}

template <class T>
void multiply(
    DType dtype, const std::byte* from, std::byte* to, size_t count, Number factor) noexcept {
  constexpr size_t kAtOnce = 256;
  T factors[kAtOnce];
  std::fill_n(factors, std::min(count, kAtOnce), factor.as<T>());
  Reduction product{.dtype = dtype, .op = Op::prod, .source_count = 2, .destination_count = 1};

  for (size_t at = 0; at < count; at += kAtOnce) {
    const std::byte* const sources[] = {
        from + at * sizeof(T), reinterpret_cast<const std::byte*>(factors)};
    std::byte* const into = to + at * sizeof(T);
    product.sources = sources;
    product.destinations = &into;
    product.count = std::min(kAtOnce, count - at);
    reduce(product);
  }
}
}  // namespace

size_t size_of_partial(DType dtype) noexcept { return is_small_float(dtype) ? 4 : size_of(dtype); }

Reduction of_partials(const Reduction& of) noexcept {
  const bool is_small = is_small_float(of.dtype);
  Reduction partials{.dtype = is_small ? DType::f32 : of.dtype, .op = of.op, .count = of.count};
  partials.ranks = of.ranks;
  partials.saturates = is_small && size_of(of.dtype) == 1;
  partials.in_tree = of.in_tree;
  return partials;
}

void reduce(const Reduction& reduction) noexcept {
  if (reduction.count == 0) return;
  if (reduction.source_count == 0 && !reduction.partial_in) return fill_neutral(reduction);
  if (is_bitwise(reduction.op) && reduction.dtype != DType::u8) return reduce(of_bytes(reduction));
  if (combined_as(reduction.dtype, reduction.op) != reduction.dtype) {
    return reduce(of_parts(reduction));
  }
  const FloatEnvironment plain(is_float(part_of(reduction.dtype)));
  if (const Kernel few = find_for_few(reduction)) return few(reduction);
  const Kernel kernel = find(reduction);
  if (reduction.nontemporal && !reduction.partial_out &&
      reduction.count * size_of(reduction.dtype) >= kStreamAtLeast) {
    reduce_and_stream(reduction, kernel);
  } else {
    kernel(reduction);
  }
}

void reduce_prefixes(const Reduction& whole, bool exclusive) noexcept {
  // Partial results of the ranks before a rank, and of these and the rank.
  alignas(kLine) std::byte sums[2][kBlock];
  const size_t element = size_of(whole.dtype);
  const size_t step = kBlock / size_of_partial(whole.dtype);

  for (size_t at = 0; at < whole.count; at += step) {
    for (int rank = 0; rank < whole.source_count; ++rank) {
      const std::byte* const before = rank == 0 ? nullptr : sums[rank % 2];
      std::byte* const with = sums[(rank + 1) % 2];
      Reduction part = whole;
      part.nontemporal = false;
      part.count = std::min(step, whole.count - at);
      part.destination_count = 0;

      // An exscan in place writes what it has read.
      part.sources = whole.sources + rank;
      part.source_count = 1;
      part.source_offset = whole.source_offset + at * element;
      part.partial_in = before;
      part.partial_out = with;
      reduce(part);

      part.source_count = 0;
      part.partial_in = exclusive ? before : with;
      part.partial_out = nullptr;
      part.destinations = whole.destinations + rank;
      part.destination_count = 1;
      part.destination_offset = whole.destination_offset + at * element;
      reduce(part);
    }
  }
}

void convert(const Conversion& c, Number factor) noexcept {
  const bool widens = is_small_float(c.from_dtype);
  const bool narrows = is_small_float(c.to_dtype);
  const DType wide_dtype = narrows ? c.from_dtype : c.to_dtype;
  const std::byte* from = c.from;
  std::byte* to = c.to;
  for (size_t block = 0; block < c.blocks;
      ++block, from += c.stride, to += c.count * size_of(c.to_dtype)) {
    std::byte* const wide = narrows ? const_cast<std::byte*>(from) : to;
    const std::byte* source = from;
    Reduction one;  // begins or ends a reduction of one operand
    one.count = c.count;

    if (widens) {
      one.dtype = c.from_dtype;
      one.sources = &from;
      one.source_count = 1;
      one.partial_out = wide;
      reduce(one);
      source = wide;
    }

    if (c.scaled && wide_dtype == DType::f64) {
      multiply<double>(wide_dtype, source, wide, c.count, factor);
    } else if (c.scaled) {
      multiply<float>(wide_dtype, source, wide, c.count, factor);
    } else if (source != wide) {
      std::memcpy(wide, source, c.count * size_of(wide_dtype));
    }

    if (narrows) {
      one.dtype = c.to_dtype;
      one.partial_in = wide;
      one.destinations = &to;
      one.destination_count = 1;
      reduce(one);
    }
  }
}

void copy(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal) noexcept {
  if (to == from || bytes == 0) return;
  if (!nontemporal || bytes < kStreamAtLeast) {
    std::memcpy(to, from, bytes);
    return;
  }
  stream_unfenced(to, from, bytes);
  fence();
}

void copy_to_peer(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal) noexcept {
  copy(to, from, bytes, nontemporal || (bytes >= kPastPeerAtLeast && waits_for_lines()));
}
}  // namespace symm::host
