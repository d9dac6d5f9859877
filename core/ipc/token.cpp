// Encodes and decodes tokens. Decoding trusts nothing: a token may come from anywhere.
#include "core/ipc/token.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"

namespace symm::ipc {
namespace {
constexpr uint32_t kTokenMagic = 0x50495953;  // "SYIP"
constexpr size_t kStamped = 12;               // what is equal in all versions
constexpr size_t kChecksum = 8;
constexpr uint16_t kHost = 1;  // as enum BackendKind
constexpr uint16_t kCuda = 2;
constexpr uint16_t kBundle = 0x8000;  // beside the back end

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}
}  // namespace

std::vector<std::byte> encode(const Token& token) {
  if (token.directory.size() > kMaxDirectory) {
    throw Error(Status::unavailable,
        format(
            "the path of the directory for sockets is longer than the %zu bytes for which a token "
            "has room: %s",
            kMaxDirectory, token.directory.c_str()));
  }

  Writer out;
  const auto kind = static_cast<uint16_t>(token.backend | (token.is_bundle ? kBundle : 0));
  out.numbers(kTokenMagic, layouts::token.number, kind, token.library,
      static_cast<uint32_t>(kTokenFixed + token.directory.size() + kChecksum), token.slot);

  for (const Id* id : {&token.machine, &token.gpu, &token.exporter, &token.secret}) {
    out.bytes(*id);
  }

  out.numbers(token.block, token.number, token.offset, token.bytes, token.pid, token.position.value,
      token.position.word, static_cast<uint32_t>(token.directory.size()));
  out.text(token.directory);

  // The checksum detects damage on the way; against malice there is the secret.
  out.number(fnv1a(out.bytes_));
  return std::move(out.bytes_);
}

void require_room(size_t capacity, size_t bytes) {
  if (bytes <= capacity) return;
  throw Error(Status::invalid_argument,
      format("capacity: %zu is less than the %zu bytes of the token", capacity, bytes));
}

// Long, since it goes by the fields in their order: each is read, and refused in its own words.
TokenFault decode(std::span<const std::byte> bytes, Token& token) {
  constexpr TokenFault kTooShort{
      Status::invalid_argument, "it is shorter than any token: cut short? (token_bytes)"};
  if (bytes.size() < kStamped) return kTooShort;

  Reader in(bytes);
  if (in.number<uint32_t>() != kTokenMagic) {
    return {Status::invalid_argument, "these bytes are no token"};
  }

  const auto number = in.number<uint16_t>();
  if (number == 0) return {Status::invalid_argument, "it has an impossible version"};
  uint16_t kind = 0;
  in.numbers(kind, token.library);
  token.backend = kind & static_cast<uint16_t>(~kBundle);
  token.is_bundle = (kind & kBundle) != 0;
  if (number != layouts::token.number) {
    return {Status::unsupported, "it was made by another version of symm", {token.library, number}};
  }
  if (bytes.size() < kTokenFixed + kChecksum) return kTooShort;

  const auto length = in.number<uint32_t>();
  if (length > bytes.size()) {
    return {Status::invalid_argument, "it is shorter than it says: cut short? (token_bytes)"};
  }

  if (length < bytes.size()) {
    return {Status::invalid_argument, "it is followed by something else (token_bytes)"};
  }

  if (length > kMaxToken) return {Status::invalid_argument, "it is longer than any token"};
  token.slot = in.number<uint32_t>();
  for (Id* id : {&token.machine, &token.gpu, &token.exporter, &token.secret}) {
    *id = in.bytes<Id>();
  }

  in.numbers(token.block, token.number, token.offset, token.bytes, token.pid, token.position.value,
      token.position.word);
  const auto directory = in.number<uint32_t>();
  if (directory != length - kTokenFixed - kChecksum) {
    return {Status::invalid_argument, "its parts do not fit: damaged?"};
  }

  token.directory = in.text(directory);
  if (in.number<uint64_t>() != fnv1a(bytes.first(length - kChecksum))) {
    return {Status::invalid_argument, "its checksum is wrong: damaged on the way, or forged"};
  }

  if (token.backend != kHost && token.backend != kCuda) {
    return {Status::invalid_argument, "it is of an unknown back end"};
  }

  if (token.pid < 0) return {Status::invalid_argument, "it names an impossible process"};
  if ((token.bytes == 0) != (token.block == 0) || token.offset > UINT64_MAX - token.bytes) {
    return {Status::invalid_argument, "it names an impossible piece"};
  }

  if ((token.slot >= kSlots && token.slot != kNoSlot) || token.number == UINT64_MAX ||
      token.position.value >= kPassed ||
      (token.position.word >= kStreamWords && token.position.word != kNoWord)) {
    return {Status::invalid_argument, "it names an impossible place on the exporter's board"};
  }

  if (token.directory.empty() || token.directory[0] != '/' || !is_clean(token.directory)) {
    return {Status::invalid_argument, "it names an impossible directory"};
  }

  return {};
}

bool same_secret(const Id& a, const Id& b) noexcept {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= std::to_integer<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0;
}

std::string hexadecimal(const Id& id) {
  std::string text;
  for (const std::byte b : id) {
    text += format("%02x", std::to_integer<unsigned>(b));
  }
  return text;
}

Id machine_id() {
  static const Id value = [] {
    Id id{};
    size_t digits = 0;
    for (const char c : process::boot_id()) {
      const int d = digit(c);
      if (d < 0 || digits == 2 * id.size()) continue;  // the dashes
      id[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? d << 4 : d);
      ++digits;
    }
    return id;
  }();

  return value;
}
}  // namespace symm::ipc
