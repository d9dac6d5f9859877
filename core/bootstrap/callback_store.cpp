// A store of two functions of the user's (symm_store_t). What they return is checked like any
// input.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
namespace {
constexpr size_t kLargestValue = 64 * 1024;

uint64_t milliseconds_left(Deadline deadline) {
  const int left = deadline.remaining_ms();
  return left < 0 ? Deadline::kInfinite : static_cast<uint64_t>(left);
}

void check(int32_t returned, const char* function, const std::string& key) {
  if (returned == 0) return;
  const auto status = static_cast<Status>(returned);
  if (returned > 0 || status < Status::internal) {
    throw Error(Status::invalid_argument,
        format("the user's store returned %d from %s(\"%s\"), which is not a status", returned,
            function, key.c_str()));
  }
  throw Error(status, format("the user's store failed in %s(\"%s\"): %s (%d)", function,
                          key.c_str(), status_text(status), returned));
}

class CallbackStore final : public Store {
 public:
  CallbackStore(const StoreCallbacks& callbacks, std::string prefix)
      : callbacks_(callbacks), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const Bytes& value, Deadline deadline) override {
    const std::string full = prefix_ + key;
    if (value.size() > kLargestValue) {
      throw Error(
          Status::invalid_argument, format("the value of \"%s\" has %zu bytes, more than %zu",
                                        full.c_str(), value.size(), kLargestValue));
    }
    check(callbacks_.set(callbacks_.user, full.c_str(), value.data(), value.size(),
              milliseconds_left(deadline)),
        "set", full);
  }

  Bytes get(const std::string& key, Deadline deadline) override {
    const std::string full = prefix_ + key;

    Bytes value(kLargestValue);
    size_t size = SIZE_MAX;  // if get() does not set the size, that is noticed
    check(callbacks_.get(callbacks_.user, full.c_str(), value.data(), value.size(), &size,
              milliseconds_left(deadline)),
        "get", full);

    if (size > value.size()) {
      throw Error(
          Status::invalid_argument, format("the user's store returned %zu bytes from get(\"%s\"), "
                                           "more than the %zu it was given room for",
                                        size, full.c_str(), value.size()));
    }
    value.resize(size);
    return value;
  }

 private:
  StoreCallbacks callbacks_;
  std::string prefix_;
};
}  // namespace

std::unique_ptr<Store> open_callback_store(
    const StoreCallbacks& callbacks, const std::string& name) {
  return std::make_unique<CallbackStore>(callbacks, format("symm/%s/", escape_key(name).c_str()));
}
}  // namespace symm
