#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

struct UserStore {
  std::map<std::string, std::string> values;
  int32_t returns = 0;
  size_t locked_size = 0;  // if not 0, what get() says
  bool silent = false;     // get() forgets to say the size
  uint64_t timeout_ms = 0;

  StoreCallbacks callbacks() { return {this, set, get}; }

  static int32_t set(void* user, const char* key, const void* value, size_t size, uint64_t timeout_ms) {
    auto& self = *static_cast<UserStore*>(user);
    self.timeout_ms = timeout_ms;
    self.values[key] = size == 0 ? std::string() : std::string(static_cast<const char*>(value), size);
    return self.returns;
  }
  static int32_t get(void* user, const char* key, void* value, size_t capacity, size_t* out_size, uint64_t timeout_ms) {
    auto& self = *static_cast<UserStore*>(user);
    self.timeout_ms = timeout_ms;
    const std::string& found = self.values[key];
    if (found.size() <= capacity) std::memcpy(value, found.data(), found.size());
    if (!self.silent) *out_size = self.locked_size != 0 ? self.locked_size : found.size();
    return self.returns;
  }
};

TEST(CallbackStore, PassesBytesAndDeadlinesOn) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "name");
  const Bytes value = bytes_of(std::string("a\0b", 3));
  store->set("key", value, Deadline::never());
  EXPECT_EQ(user.timeout_ms, UINT64_MAX);
  EXPECT_EQ(store->get("key", Deadline::after_ms(5'000)), value);
  EXPECT_GT(user.timeout_ms, 0u);
  EXPECT_LE(user.timeout_ms, 5'000u);
  store->set("empty", {}, soon());
  EXPECT_TRUE(store->get("empty", soon()).empty());
}

TEST(CallbackStore, EachNameHasItsOwnKeys) {
  UserStore user;
  for (const char* name : {"", "a", "a/b"}) open_callback_store(user.callbacks(), name)->set("key", {}, soon());
  EXPECT_EQ(user.values.size(), 3u);
}

TEST(CallbackStore, StatusOfTheUserComesThroughOrIsRefusedIfItIsNone) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "");
  for (const int32_t status : {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, 1, 42, -14, INT32_MAX, INT32_MIN}) {
    user.returns = status;
    const bool known = status <= -1 && status >= -13;
    for (const Failure& failure :
        {failure_of([&] { store->set("the key", {}, soon()); }), failure_of([&] { store->get("the key", soon()); })}) {
      EXPECT_EQ(failure.status, known ? static_cast<Status>(status) : Status::invalid_argument);
      EXPECT_NE(failure.message.find(known ? "the key" : std::to_string(status)), std::string::npos) << failure.message;
    }
  }
}

TEST(CallbackStore, SizesThatCannotBeAreRefused) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "");
  store->set("k", bytes_of("x"), soon());
  user.locked_size = 1 << 20;
  EXPECT_EQ(failure_of([&] { store->get("k", soon()); }).status, Status::invalid_argument);
  user.silent = true;
  EXPECT_EQ(failure_of([&] { store->get("k", soon()); }).status, Status::invalid_argument);
  EXPECT_EQ(failure_of([&] { store->set("large", Bytes(1 << 20), soon()); }).status, Status::invalid_argument);
}
}  // namespace
