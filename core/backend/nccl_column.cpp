// Reads the column of NCCL's times and looks calls up in it.
#include "core/backend/nccl_column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/plan_text.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/little_endian.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm {
namespace {
using plan_text::in_quotes;
using plan_text::read_amount;
using plan_text::read_number;
using plan_text::refuse;
using plan_text::take_word;

constexpr std::string_view kName = "nccl";
constexpr std::string_view kAnyType = "any";
// NCCL is ahead where it takes a twentieth less: two measurements of one thing differ by as much.
constexpr uint64_t kParts = 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

#define SYMM_TYPE(name, c_name, value) DType::name,
constexpr DType kTypes[] = {SYMM_DTYPES(SYMM_TYPE)};
#undef SYMM_TYPE

// Microseconds with three decimals at most, as nanoseconds. No floats: the caller's thread may
// round and trap as it likes.
bool read_time(std::string_view text, uint64_t& ns) {
  constexpr size_t kDecimals = 3;
  constexpr uint64_t kMostUs = 1'000'000'000;
  const size_t point = std::min(text.find('.'), text.size());
  std::string decimals(text.substr(std::min(point + 1, text.size())));
  if (decimals.size() > kDecimals || (point < text.size() && decimals.empty())) return false;
  decimals.resize(kDecimals, '0');

  uint64_t us = 0;
  uint64_t rest = 0;
  if (!read_number(text.substr(0, point), &us) || !read_number(decimals, &rest) || us > kMostUs) {
    return false;
  }
  ns = us * 1000 + rest;
  return ns > 0;
}

// Reads a point such as "4K:6.2/9.9".
NcclPoint point_of(std::string_view text, const std::string& where) {
  const size_t colon = std::min(text.find(':'), text.size());
  const size_t slash = std::min(text.find('/', colon), text.size());

  NcclPoint point;
  const bool is_understood = slash < text.size() &&
                             read_amount(text.substr(0, colon), &point.bytes) &&
                             point.bytes <= kMostBytes &&
                             read_time(text.substr(colon + 1, slash - colon - 1), point.symm_ns) &&
                             read_time(text.substr(slash + 1), point.nccl_ns);

  if (!is_understood) {
    refuse(where, in_quotes(text) + " is not bytes:us/us, the times of symm and of NCCL");
  }
  return point;
}

Collective collective_named(std::string_view name, const std::string& where) {
  for (int32_t value = 0; is_valid(static_cast<Collective>(value)); ++value) {
    const auto collective = static_cast<Collective>(value);
    if (name == collective_name(collective)) return collective;
  }
  refuse(where, in_quotes(name) + " is not a collective");
}

DType type_named(std::string_view name, const std::string& where) {
  if (name == kAnyType) return DType{};
  for (const DType dtype : kTypes) {
    if (name == dtype_name(dtype)) return dtype;
  }
  refuse(where, in_quotes(name) + " is not a data type");
}

// Fractions are parts of this. No product overflows: sizes and times are bounded.
constexpr uint64_t kWhole = uint64_t{1} << 20;

// The time at `bytes`, on the line through two measured sizes: a call takes a fixed
// time, and a time for each byte.
uint64_t between(
    const NcclPoint& low, const NcclPoint& high, uint64_t NcclPoint::* ns, uint64_t bytes) {
  if (low.bytes == high.bytes) return low.*ns;
  const uint64_t part = (bytes - low.bytes) * kWhole / (high.bytes - low.bytes);
  return (high.*ns * part + low.*ns * (kWhole - part) + kWhole / 2) / kWhole;
}

// Writes a time in microseconds, such as "12.34".
std::string in_us(uint64_t ns) { return format("%lu.%02lu", ns / 1000, ns % 1000 / 10); }
}  // namespace

bool NcclColumn::is_name(std::string_view name) { return take_word(name) == kName; }

NcclRow NcclColumn::parse(
    std::string_view name, std::string_view values, const std::string& where) {
  NcclRow row;
  std::string_view rest = name;
  take_word(rest);  // "nccl"
  const std::string_view collective = take_word(rest);
  const std::string_view type = take_word(rest);
  if (type.empty() || !take_word(rest).empty()) {
    refuse(where, in_quotes(name) + " is not nccl <collective> <data type>");
  }

  row.collective = collective_named(collective, where);
  row.dtype = type_named(type, where);
  row.where = where;
  if ((row.dtype == DType{}) == traits(row.collective).has_op) {
    refuse(where, in_quotes(name) + ": a data type is named for reductions, and 'any' for others");
  }

  for (std::string_view word = take_word(values); !word.empty(); word = take_word(values)) {
    const NcclPoint point = point_of(word, where);
    if (point.bytes == 0 || (!row.points.empty() && point.bytes <= row.points.back().bytes)) {
      refuse(where, in_quotes(word) + ": sizes must ascend, from 1 byte on");
    }
    row.points.push_back(point);
  }
  if (row.points.empty()) refuse(where, in_quotes(name) + " has no times");
  return row;
}

void NcclColumn::add(NcclRow row) {
  for (NcclRow& known : rows_) {
    if (known.collective == row.collective && known.dtype == row.dtype) {
      known = std::move(row);
      return;
    }
  }
  rows_.push_back(std::move(row));
}

uint64_t NcclColumn::hash() const {
  if (rows_.empty()) return 0;
  Writer out;
  for (const NcclRow& row : rows_) {
    out.numbers(static_cast<int32_t>(row.collective), static_cast<int32_t>(row.dtype),
        static_cast<uint64_t>(row.points.size()));
    for (const NcclPoint& point : row.points) {
      out.numbers(point.bytes, point.symm_ns, point.nccl_ns);
    }
  }
  return fnv1a(out.bytes_) | 1;
}

const NcclRow* NcclColumn::find(const CollectiveCall& call) const {
  const DType dtype = traits(call.collective).has_op ? call.dtype : DType{};
  const auto found = std::find_if(rows_.begin(), rows_.end(),
      [&](const NcclRow& row) { return row.collective == call.collective && row.dtype == dtype; });
  return found == rows_.end() ? nullptr : &*found;
}

void NcclColumn::advise(const CollectiveCall& call, PlanReport& report) const {
  report.advice = Advice::unmeasured;
  if (rows_.empty()) {
    report.advice_reason = "NCCL was not measured: the plan table has no column of it";
    return;
  }
  if (call.algorithm != Algorithm::automatic || !call.is_plain() || call.pieces != nullptr ||
      call.block_limit != 0) {
    report.advice_reason = "NCCL was not measured beside calls with these options";
    return;
  }

  const NcclRow* const row = find(call);
  const char* const type = dtype_name(call.dtype);
  if (row == nullptr) {
    report.advice_reason = format(
        "NCCL was not measured: %s of %s has no row", collective_name(call.collective), type);
    return;
  }

  const uint64_t bytes = call.unit();
  const auto& points = row->points;
  if (bytes < points.front().bytes || bytes > points.back().bytes) {
    report.advice_reason = format("NCCL was not measured at %lu bytes, but from %lu to %lu (%s)",
        bytes, points.front().bytes, points.back().bytes, row->where.c_str());
    return;
  }

  const auto high = std::find_if(
      points.begin(), points.end(), [&](const NcclPoint& point) { return point.bytes >= bytes; });
  const auto low = high->bytes == bytes ? high : high - 1;
  report.symm_ns = between(*low, *high, &NcclPoint::symm_ns, bytes);
  report.nccl_ns = between(*low, *high, &NcclPoint::nccl_ns, bytes);
  const bool is_ahead = report.nccl_ns * kParts < report.symm_ns * (kParts - 1);
  report.advice = is_ahead ? Advice::nccl : Advice::symm;
  report.advice_reason = format("%s measured with %d ranks: NCCL %s us, symm %s us%s (%s)",
      low == high ? "as" : "between two sizes", ranks_, in_us(report.nccl_ns).c_str(),
      in_us(report.symm_ns).c_str(), is_ahead ? "; NCCL is faster here" : "", row->where.c_str());
}
}  // namespace symm
