// The handshake and the encryption of a TCP connection, on bytes in memory: it calls no socket.
#include "core/socket/secure.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/closed_streams.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/process.hpp"

#if SYMM_SODIUM
#include <sodium.h>
#endif

namespace symm {
namespace {
// The home directory in the system's records of this user; "" if there is none.
std::string home_in_records() {
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  const ClosedStreams held;  // the records are files, or asked for by a socket
  const int error = getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found);
  return error == 0 && found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

// The root of the file system is no user's home: daemons and containers start there.
bool is_home(const std::string& path) {
  return path[0] == '/' && path.find_first_not_of('/') != std::string::npos;
}
}  // namespace

std::string secret_file() {
  const std::string named = environment("SYMM_SECRET_FILE");
  if (!named.empty()) return named;

  std::string home = environment("HOME");
  if (!is_home(home)) home = home_in_records();
  if (!is_home(home)) {
    throw Error(Status::unavailable,
        format("HOME names no home directory, and user %u has none: set HOME or SYMM_SECRET_FILE, "
               "for the secret by which ranks on several machines authenticate",
            geteuid()));
  }
  return home + "/.config/symm/secret";
}

bool can_authenticate() noexcept {
#if SYMM_SODIUM
  return true;
#else
  return false;
#endif
}

#if SYMM_SODIUM

namespace {
using Bytes = SecureStream::Bytes;
using Text = std::span<const std::byte>;
constexpr size_t kStamp = 12;
constexpr std::string_view kMagic = "SYMM";
constexpr size_t kKey = crypto_scalarmult_BYTES;
constexpr size_t kNonce = 16;
constexpr size_t kMac = 32;

static_assert(SecureStream::kGreeting == kStamp + kKey + kNonce + kMac &&
              SecureStream::kAnswer == kKey + kNonce + kMac);
static_assert(SecureStream::kHeader == crypto_secretstream_xchacha20poly1305_HEADERBYTES &&
              SecureStream::kSeal == crypto_secretstream_xchacha20poly1305_ABYTES);

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

std::array<std::byte, kMac> hash(const Secret& secret, char what, Text first, Text second = {}) {
  std::array<std::byte, kMac> out{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret.data(), secret.size(), out.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&what), 1);
  crypto_generichash_update(&state, raw(first.data()), first.size());
  crypto_generichash_update(&state, raw(second.data()), second.size());
  crypto_generichash_final(&state, raw(out.data()), out.size());
  return out;
}

void append(Bytes& to, Text bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Bytes own_stamp() {
  Writer out;
  out.text(std::string(kMagic));
  out.numbers(uint32_t{layouts::greeting.number}, layouts::library);
  return std::move(out.bytes_);
}

// Why a stamp is not of this library's number; "" if it is. Nothing if it is not a stamp.
std::optional<std::string> fault_of_stamp(Text bytes) {
  Reader in(bytes);
  if (in.text(kMagic.size()) != kMagic) return std::nullopt;
  Stamp stamp;
  stamp.number = in.number<uint32_t>();
  stamp.library = in.number<uint32_t>();
  return stamp_difference(layouts::greeting, stamp, "the other end");
}

// Makes the file under a name of its own and then links it, so that it appears complete. If two
// processes make one, both read that of the first.
void make_secret(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
  }

  const std::string fresh = format("%s.%016lx", path.c_str(), process::random64());
  const Fd file =
      make_fd(::open, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", fresh);

  Secret secret;
  randombytes_buf(secret.data(), secret.size());
  const bool whole = write_whole(file.get(), secret.data(), secret.size());
  const int error =
      whole && (::link(fresh.c_str(), path.c_str()) == 0 || errno == EEXIST) ? 0 : errno;
  unlink(fresh.c_str());
  if (error != 0) throw system_error(error, "write", path);
}
}  // namespace

struct SecureStream::State {
  Secret secret{};
  std::array<unsigned char, kKey> private_key{};
  Bytes transcript;  // both messages of the handshake
  std::string refused;
  std::array<std::byte, kMac> keys[2];
  crypto_secretstream_xchacha20poly1305_state out{};
  crypto_secretstream_xchacha20poly1305_state in{};
  bool accepts = false;
  bool began = false;

  ~State() {
    sodium_memzero(secret.data(), secret.size());
    sodium_memzero(private_key.data(), private_key.size());
    sodium_memzero(keys, sizeof keys);
  }

  // A fresh public key and a nonce.
  Bytes make_public_key() {
    Bytes key_and_nonce(kKey + kNonce);
    randombytes_buf(private_key.data(), private_key.size());
    crypto_scalarmult_base(raw(key_and_nonce.data()), private_key.data());
    randombytes_buf(raw(key_and_nonce.data()) + kKey, kNonce);
    return key_and_nonce;
  }

  // Derives the keys of both directions.
  bool derive_keys(Text their_key) {
    std::array<std::byte, kKey> shared;
    const bool valid =
        crypto_scalarmult(raw(shared.data()), private_key.data(), raw(their_key.data())) == 0;

    const auto both = hash(secret, 'h', transcript);
    for (int direction = 0; direction < 2; ++direction) {
      keys[direction] = hash(secret, static_cast<char>('0' + direction), shared, both);
    }
    sodium_memzero(shared.data(), shared.size());
    return valid;
  }
};

SecureStream::SecureStream(const Secret& secret) : state_(std::make_unique<State>()) {
  state_->secret = secret;
}

SecureStream::~SecureStream() = default;

Bytes SecureStream::greet() {
  state_->transcript = own_stamp();
  append(state_->transcript, state_->make_public_key());
  append(state_->transcript, hash(state_->secret, 'c', Text(state_->transcript)));
  return state_->transcript;
}

std::optional<Bytes> SecureStream::answer(Text theirs) {
  const Text greeting = theirs.first(kGreeting - kMac);
  const auto seal = hash(state_->secret, 'c', greeting);
  if (sodium_memcmp(seal.data(), theirs.data() + greeting.size(), kMac) != 0) return std::nullopt;
  const std::optional<std::string> fault = fault_of_stamp(greeting);
  if (!fault) return std::nullopt;

  state_->accepts = true;
  append(state_->transcript, theirs);
  state_->refused = *fault;
  if (!state_->refused.empty()) {
    Bytes refusal(kKey);
    append(refusal, own_stamp());
    refusal.resize(kKey + kNonce);
    append(refusal, hash(state_->secret, 's', theirs, Text(refusal)));
    return refusal;
  }

  Bytes reply = state_->make_public_key();
  append(reply, hash(state_->secret, 's', theirs, Text(reply)));
  append(state_->transcript, reply);

  if (!state_->derive_keys(theirs.subspan(kStamp, kKey))) return std::nullopt;
  return reply;
}

bool SecureStream::finish(Text theirs) {
  const auto seal = hash(state_->secret, 's', state_->transcript, theirs.first(kAnswer - kMac));
  if (sodium_memcmp(seal.data(), theirs.data() + kAnswer - kMac, kMac) != 0) return false;
  append(state_->transcript, theirs);
  if (state_->derive_keys(theirs.first(kKey))) return true;

  // No valid key leads to a secret of zero: the server refuses, and its nonce says why.
  state_->refused = fault_of_stamp(theirs.subspan(kKey, kNonce)).value_or("");
  return false;
}

const std::string& SecureStream::refused() const noexcept { return state_->refused; }

Bytes SecureStream::seal(Text text) {
  Bytes sealed;
  sealed.reserve(kHeader + kLength + text.size() + kSeal);
  seal(text, sealed);
  return sealed;
}

void SecureStream::seal(Text text, Bytes& to) {
  // Memory is allocated first: the cipher counts its frames, and each that is counted must be sent.
  const size_t header = state_->began ? 0 : kHeader;
  const size_t length = text.size() + kSeal;
  size_t at = to.size();
  to.resize(at + header + kLength + length);

  if (!state_->began) {
    crypto_secretstream_xchacha20poly1305_init_push(
        &state_->out, raw(to.data()) + at, raw(state_->keys[state_->accepts].data()));
  }
  state_->began = true;

  at += header;
  to[at] = static_cast<std::byte>(length & 0xFFU);
  to[at + 1] = static_cast<std::byte>(length >> 8);
  crypto_secretstream_xchacha20poly1305_push(&state_->out, raw(to.data()) + at + kLength, nullptr,
      raw(text.data()), text.size(), nullptr, 0, 0);
}

bool SecureStream::begin(Text header) {
  return crypto_secretstream_xchacha20poly1305_init_pull(
             &state_->in, raw(header.data()), raw(state_->keys[!state_->accepts].data())) == 0;
}

std::optional<Bytes> SecureStream::open(Text sealed) {
  if (sealed.size() < kSeal) return std::nullopt;
  Bytes text(sealed.size() - kSeal);
  return open(sealed, text.data()) ? std::optional(std::move(text)) : std::nullopt;
}

// The cipher checks the seal before it writes the text.
bool SecureStream::open(Text sealed, std::byte* to) {
  unsigned char tag = 0;
  return sealed.size() >= kSeal &&
         crypto_secretstream_xchacha20poly1305_pull(&state_->in, raw(to), nullptr, &tag,
             raw(sealed.data()), sealed.size(), nullptr, 0) == 0;
}

Secret read_secret() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) throw Error(Status::unavailable, "libsodium does not start on this machine");
  const std::string path = secret_file();
  if (path[0] != '/') {
    throw Error(Status::invalid_argument,
        "SYMM_SECRET_FILE is '" + path + "'; it must be an absolute path");
  }

  Fd file = make_fd(::open, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (!file && errno == ENOENT) {
    make_secret(path);
    file = make_fd(::open, path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (!file) throw system_error(errno, "open", path);

  struct stat status{};
  if (fstat(file.get(), &status) != 0) throw system_error(errno, "fstat", path);
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0 ||
      status.st_size != sizeof(Secret)) {
    throw Error(Status::unavailable,
        format(
            "%s, the secret of this user's jobs, has owner %u, mode %04o and %ld bytes; it needs "
            "owner %u, mode 0600 and 32 bytes: it is not used",
            path.c_str(), status.st_uid, status.st_mode & 07777, status.st_size, geteuid()));
  }

  Secret secret;
  if (read_whole(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    throw system_error(errno, "read", path);
  }
  return secret;
}

#else

struct SecureStream::State {};

SecureStream::SecureStream(const Secret&) {}

SecureStream::~SecureStream() = default;

SecureStream::Bytes SecureStream::greet() { return {}; }

std::optional<SecureStream::Bytes> SecureStream::answer(std::span<const std::byte>) {
  return std::nullopt;
}

bool SecureStream::finish(std::span<const std::byte>) { return false; }

const std::string& SecureStream::refused() const noexcept {
  static const std::string never;
  return never;
}

SecureStream::Bytes SecureStream::seal(std::span<const std::byte>) { return {}; }

void SecureStream::seal(std::span<const std::byte>, Bytes&) {}

bool SecureStream::begin(std::span<const std::byte>) { return false; }

std::optional<SecureStream::Bytes> SecureStream::open(std::span<const std::byte>) {
  return std::nullopt;
}

bool SecureStream::open(std::span<const std::byte>, std::byte*) { return false; }

Secret read_secret() {
  throw Error(Status::unavailable,
      "this library was built without libsodium (none was found, or SYMM_SODIUM was off), by which "
      "ranks on several machines know each other");
}

#endif
}  // namespace symm
