// A CUDA driver on host memory, for the control path of the CUDA back end on machines without a GPU: memory is memfds, streams do
// what they are asked at once unless they were given something to wait for (each handle of a thread's own default stream, 2, is
// another stream in each thread), launches are written down and, but for the kernels of
// signals and words, not carried out. A program that links it finds it under the name of the real one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {
// Objects that exist, by kind: "handle", "reservation", "mapping", "stream", "event", "host", "context", "pushed";
// "binding" (of memory to a multicast object) if there is any.
std::map<std::string, long> live();

// The n-th call from now on this thread that may fail does, with `result`; 0: none will. Calls that give something back never
// fail.
void fail_call(int n, int result);
// Is this thread in a call of the driver? What it allocates there is none of the library's.
bool is_inside();
// The name of the call that failed by order on this thread since fail_call(), or "".
std::string failed_call();

struct Launch {
  std::string kernel;
  unsigned blocks, threads;
  void* stream;
  bool early = false;       // may begin while the one before it on the stream ends
  uint64_t detail = 0;      // of a check: what ranks compare
  uint64_t memory = 0;      // of pieces and the pipeline: into which peers may store, ...
  uint64_t stages[3] = {};  // ... and in which blocks the first ranks' stages are
};
std::vector<Launch> launches();  // and forget them
// Have launches of `kernel` carried out: `make` reads their arguments, and returns what is done when the stream comes to it.
void carry_out(const std::string& kernel, std::function<std::function<bool()>(const void* arguments)> make);

// Multicast. A device has it and the driver its calls unless told otherwise.
void set_multicast(bool device, bool calls = true);
long multicast_calls();  // made by this process so far, whichever and however they ended
// What the order of multicast calls has been broken by in this process: binding before all devices have joined, and the like.
std::vector<std::string> violations();

// The devices that the process sees: `count` of those of the machine, beginning with number `first`, as CUDA_VISIBLE_DEVICES
// does.
void set_devices(int count, int first = 0);

// Whether memory with a fabric handle may be made, and be imported by it; not as long as nobody says so, as on a machine that is
// not set up for it. And how often this process has imported by one.
void set_fabric(bool create, bool import = true);
long fabric_imports();

// What cuDeviceGetAttribute says of `which`, for all devices.
void set_attribute(int which, int value);
// The version of the driver; 12030 is 12.3.
void set_version(int version);
// As a driver for which cuMemGetAddressRange() means the whole reservation, whatever was mapped there.
void name_reservations(bool whole);
// As a driver that is too old for `call`; before anything has used the driver.
void hide(const std::string& call);

// Memory of a device as cudaMalloc makes it: known to the driver, but not made by cuMemCreate.
void* ordinary_memory(size_t bytes);
void free_ordinary(void* memory);

// Of the mapping that has an address: who may touch it, as (location type, id), in the order asked for; where its memory lies.
std::vector<std::pair<int, int>> access(const void* address);
std::pair<int, int> location(const void* address);

// As when handles of streams that were destroyed are given again.
void reuse_streams(bool reuse);
// As long as it is held, the driver is in copies and unmaps for ever.
void hold(bool held);
// Put a stream under capture, which others join that wait for it, and end it for all of them. A capture is invalidated, which
// violations() tells, by calls that speak of the whole device, by asking a stream how far it is, and by an event of another one.
void begin_capture(void* stream, bool blocking = false);
void end_capture(void* stream);
// (stream, stream) for each time that one had to wait for what was under way on another, and forget them.
std::vector<std::pair<void*, void*>> waits();

// Work on a stream. It is done when `work` returns true; until then, what comes after it waits. The mutex of the driver is held.
void enqueue(void* stream, std::function<bool()> work);
bool idle(void* stream);
}  // namespace fake_cuda
