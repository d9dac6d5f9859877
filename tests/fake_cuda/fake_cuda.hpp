// A CUDA driver on host memory, for the control path of the CUDA back end on
// machines without a GPU: memory is memfds, streams do what they are asked at
// once unless they were given something to wait for (each handle of a
// thread's own default stream, 2, is another stream in each thread), launches
// are written down and, but for the kernels of signals and words, not carried
// out. A program that links it finds it under the name of the real one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {
// What a test may have otherwise.
struct Settings {
  // The devices of the machine that the process sees,
  // beginning with number `first`, as by CUDA_VISIBLE_DEVICES.
  struct Visible {
    int count = 4;
    int first = 0;
  } devices;
  std::map<int, int> attributes;  // what cuDeviceGetAttribute says, for all devices
  int version = 13000;            // of the driver; 12030 is 12.3
  // calls that it is too old for; before anything has used the driver
  std::set<std::string> hidden;
  // Whether memory with a fabric handle may be made, and be
  // imported by it, as on a machine that is set up for it.
  bool fabric_create = false;
  bool fabric_import = false;
  // cuMemGetAddressRange() means the whole reservation, whatever was mapped there
  bool ranges_are_reservations = false;
  bool reuses_streams = false;     // handles of streams that were destroyed are given again
  std::atomic<bool> held = false;  // the driver is in copies and unmaps for ever
};
Settings& settings();

// Objects that exist, by kind: "handle", "reservation",
// "mapping", "stream", "event", "host", "context", "pushed";
// "binding" (of memory to a multicast object) if there is any.
std::map<std::string, long> live();

// The n-th call from now on this thread that may fail does, with `result`; 0: none
// will. Calls that give something back never fail.
void fail_call(int n, int result);
// Is this thread in a call of the driver? What it allocates there is none of the library's.
bool is_inside();
// The name of the call that failed by order on this thread since fail_call(), or "".
std::string failed_call();

struct Launch {
  std::string kernel;
  unsigned blocks;
  unsigned threads;
  void* stream;
  bool early = false;       // may begin while the one before it on the stream ends
  unsigned shared = 0;      // bytes of shared memory
  uint64_t detail = 0;      // of a check: what ranks compare
  uint64_t memory = 0;      // of pieces and the pipeline: into which peers may store, ...
  uint64_t stages[3] = {};  // ... and in which blocks the first ranks' stages are
};
std::vector<Launch> launches();  // and forget them
// Have launches of `kernel` carried out: `make` reads their arguments, and returns what
// is done when the stream comes to it.
void carry_out(
    const std::string& kernel, std::function<std::function<bool()>(const void* arguments)> make);

long multicast_calls();  // made by this process so far, whichever and however they ended
// What the order of multicast calls has been broken by in this process: binding before
// all devices have joined, and the like.
std::vector<std::string> violations();

// How often this process has imported by a fabric handle.
long fabric_imports();

// Memory of a device as cudaMalloc makes it: known to the driver, but not made by cuMemCreate.
void* ordinary_memory(size_t bytes);
void free_ordinary(void* memory);

// Who may touch the mapping that has an address, as (location type, id), in the order in which
// access was asked for.
std::vector<std::pair<int, int>> access(const void* address);
// Where the memory of that mapping lies, as (location type, id).
std::pair<int, int> location(const void* address);

// Put a stream under capture, which others join that wait for it, and end it for all of
// them. A capture is invalidated, which violations() tells, by calls that speak of the
// whole device, by asking a stream how far it is, and by an event of another one.
void begin_capture(void* stream, bool blocking = false);
void end_capture(void* stream);
// (stream, stream) for each time that one had to wait
// for what was under way on another, and forget them.
std::vector<std::pair<void*, void*>> waits();

// Work on a stream. It is done when `work` returns true; until then, what comes after
// it waits. The mutex of the driver is held.
void enqueue(void* stream, std::function<bool()> work);
bool idle(void* stream);
}  // namespace fake_cuda
