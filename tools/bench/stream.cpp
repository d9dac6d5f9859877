#include "tools/bench/stream.hpp"
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace symm::tool {
namespace {
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*create)(void**, unsigned) = nullptr;
  int (*synchronize)(void*) = nullptr;
  int (*destroy)(void*) = nullptr;
};

// Entries by the driver's own search, which knows which form of a call belongs to a version.
Driver load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: the driver does not like it
  if (library == nullptr) throw std::runtime_error("libcuda.so.1 cannot be loaded");
  const auto search =
      reinterpret_cast<int (*)(const char*, void**, int, uint64_t, int*)>(::dlsym(library, "cuGetProcAddress_v2"));
  if (search == nullptr) throw std::runtime_error("libcuda.so.1 has no cuGetProcAddress_v2");
  Driver driver;
  const auto find = [&](auto& entry, const char* name) {
    void* found = nullptr;
    int status = 0;
    if (search(name, &found, 12000, 0, &status) != 0 || found == nullptr)
      throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(found);
  };
  find(driver.init, "cuInit");
  find(driver.device_get, "cuDeviceGet");
  find(driver.retain, "cuDevicePrimaryCtxRetain");
  find(driver.push, "cuCtxPushCurrent");
  find(driver.create, "cuStreamCreate");
  find(driver.synchronize, "cuStreamSynchronize");
  find(driver.destroy, "cuStreamDestroy");
  return driver;
}

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

void require(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": CUDA error " + std::to_string(result));
}
}  // namespace

// The context stays retained and current: the program ends soon after.
Stream::Stream(int32_t device) {
  constexpr unsigned non_blocking = 1;
  int handle = 0;
  void* context = nullptr;
  require(driver().init(0), "cuInit");
  require(driver().device_get(&handle, device), "cuDeviceGet");
  require(driver().retain(&context, handle), "cuDevicePrimaryCtxRetain");
  require(driver().push(context), "cuCtxPushCurrent");
  require(driver().create(&stream_, non_blocking), "cuStreamCreate");
}

Stream::~Stream() {
  if (stream_ != nullptr) driver().destroy(stream_);
}

Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

void Stream::synchronize() const {
  if (stream_ != nullptr) require(driver().synchronize(stream_), "cuStreamSynchronize");
}
}  // namespace symm::tool
