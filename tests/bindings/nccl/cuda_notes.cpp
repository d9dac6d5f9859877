// What the fake CUDA driver saw, and its captures and streams, for programs that call by ctypes.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

extern "C" symm::cuda::CUresult cuStreamCreate(symm::cuda::CUstream* stream, unsigned flags);
extern "C" symm::cuda::CUresult cuEventCreate(symm::cuda::CUevent* event, unsigned flags);
extern "C" symm::cuda::CUresult cuEventDestroy(symm::cuda::CUevent event);
extern "C" symm::cuda::CUresult cuEventRecord(
    symm::cuda::CUevent event, symm::cuda::CUstream stream);
extern "C" symm::cuda::CUresult cuStreamWaitEvent(
    symm::cuda::CUstream stream, symm::cuda::CUevent event, unsigned flags);

#define NOTES extern "C" __attribute__((visibility("default")))

// The collective kernels that were launched since the last call, each with its stream.
NOTES size_t notes_launches(char* text, size_t size) {
  std::string all;
  for (const fake_cuda::Launch& one : fake_cuda::launches()) {
    all += one.kernel + " " + std::to_string(reinterpret_cast<uintptr_t>(one.stream)) + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

// Pairs of streams since the last call: the first had to wait for the second.
NOTES size_t notes_waits(char* text, size_t size) {
  std::string all;
  for (const auto& [waiting, other] : fake_cuda::waits()) {
    all += std::to_string(reinterpret_cast<uintptr_t>(waiting)) + " " +
           std::to_string(reinterpret_cast<uintptr_t>(other)) + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

NOTES size_t notes_violations(char* text, size_t size) {
  std::string all;
  for (const std::string& one : fake_cuda::violations()) {
    all += one + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

NOTES void* notes_stream() {
  symm::cuda::CUstream stream = nullptr;
  cuStreamCreate(&stream, 0);
  return stream;
}

NOTES void notes_begin_capture(void* stream) { fake_cuda::begin_capture(stream); }
NOTES void notes_end_capture(void* stream) { fake_cuda::end_capture(stream); }

// `stream` waits for `after`, and so joins its capture.
NOTES void notes_join(void* stream, void* after) {
  symm::cuda::CUevent event = nullptr;
  cuEventCreate(&event, 0);
  cuEventRecord(event, static_cast<symm::cuda::CUstream>(after));
  cuStreamWaitEvent(static_cast<symm::cuda::CUstream>(stream), event, 0);
  cuEventDestroy(event);
}

// Work that is under way until notes_let_go().
namespace {
std::atomic<bool> let_go{false};
}
NOTES void notes_hold(void* stream) {
  let_go = false;
  fake_cuda::enqueue(stream, [] { return let_go.load(); });
}
NOTES void notes_let_go() { let_go = true; }
NOTES void* notes_memory(size_t bytes) { return fake_cuda::ordinary_memory(bytes); }

// How often the primary contexts of devices have been retained without being released.
NOTES long notes_contexts() { return fake_cuda::live()["context"]; }
NOTES long notes_events() { return fake_cuda::live()["event"]; }
