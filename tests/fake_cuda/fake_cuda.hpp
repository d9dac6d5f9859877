// A CUDA driver on host memory, for the control path of the CUDA back end on
// machines without a GPU. Memory is memfds. Streams do their work at once
// unless they were given something to wait for. The handle of a thread's own
// default stream, 2, is another stream in each thread. Launches are
// recorded, and only the kernels of signals, words, messages and pieces are carried out. A
// program that links this driver finds it under the name of the real one.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {
// Settings that a test may change.
struct Settings {
  // The devices of the machine that the process sees,
  // beginning with number `first`, as by CUDA_VISIBLE_DEVICES.
  struct Visible {
    int count = 4;
    int first = 0;
  } devices;
  // Results of cuDeviceGetAttribute, for all devices.
  std::map<int, int> attributes;
  // The version of the driver; 12030 is 12.3.
  int version = 13000;
  // Calls for which the driver is too old. They are set before anything has used the driver.
  std::set<std::string> hidden;
  // Whether memory with a fabric handle may be made, and be imported by that handle, as
  // on a machine that is set up for fabric handles.
  bool fabric_create = false;
  bool fabric_import = false;
  // The fabric handles that are exported are no handles of the driver's.
  bool fabric_forged = false;
  // Bytes that the devices have in all for memory of cuMemCreate(); 0: without a limit.
  size_t memory_bytes = 0;
  // cuMemGetAddressRange() gives the whole reservation, whatever was mapped there.
  bool ranges_are_reservations = false;
  // No device may access what is imported, as where two GPUs have neither links nor PCIe between
  // them.
  bool are_apart = false;
  // The links between devices carry atomic operations, as NVLink does and PCIe does not.
  bool native_atomics = true;
  // No image has code for the devices.
  bool no_binary = false;
  // Handles of destroyed streams are given again.
  bool reuses_streams = false;
  // Copies and unmaps do not return.
  std::atomic<bool> held = false;
  // Calls that make memory do not return.
  std::atomic<bool> making = false;
  // Calls for streams and events, copies and fills do not return, as while a thread copies between
  // pageable memory and the null stream and work before its copy is under way.
  std::atomic<bool> copying = false;
};
Settings& settings();

// The number of objects that exist, by kind: "handle", "reservation", "mapping",
// "stream", "event", "graph", "host", "context", "pushed"; and "binding" (of memory to
// a multicast object) and "opened" (ordinary memory of other processes) if there is any.
std::map<std::string, long> live();

// Bytes of the memory of cuMemCreate() that exists.
size_t bytes_in_use();

// Makes the n-th call from now on by this thread fail with `result`, or none if n is 0.
// Calls that release something do not count and never fail.
void fail_call(int n, int result);
// Whether this thread is in a call of the driver. Memory that it allocates there is not the
// library's.
bool is_inside();
// The name of the call of this thread that was made to fail since fail_call(), or "".
std::string failed_call();
// How often this thread makes each call of the driver in `body`.
std::map<std::string, long> calls_of(const std::function<void()>& body);

struct Launch {
  std::string kernel;
  unsigned blocks;
  unsigned threads;
  void* stream;
  // The kernel may begin while the one before it on the stream ends.
  bool early = false;
  // Bytes of shared memory.
  unsigned shared = 0;
  // For a check: the detail that ranks compare.
  uint64_t detail = 0;
  // For kernels that combine: whether they do in tree order.
  bool in_tree = false;
  // For pieces and the pipeline: the memory into which peers may store, and the blocks
  // that hold the stages of the first ranks.
  uint64_t memory = 0;
  uint64_t stages[3] = {};
  // For the hybrid cube mesh: the roles of the ranks.
  uint32_t quad = 0;
  uint32_t partners = 0;
};
// The launches since the last call of launches(), which are forgotten.
std::vector<Launch> launches();
// Has launches of `kernel` carried out. `make` reads the arguments of a launch, and
// returns the work that is done when the stream comes to it. Null: as in the beginning.
void carry_out(
    const std::string& kernel, std::function<std::function<bool()>(const void* arguments)> make);

// The number of multicast calls by this process so far, however they ended.
long multicast_calls();
// Calls of this process in a wrong order, such as binding
// memory to a multicast object before all devices have joined.
std::vector<std::string> violations();

// The number of imports by a fabric handle in this process.
long fabric_imports();

// Memory of a device as cudaMalloc makes it: known to the driver, but not made by cuMemCreate.
// With `has_handle` false there is no handle by which to share it, as of a pool's.
void* ordinary_memory(size_t bytes, int device = 0, bool has_handle = true);
void free_ordinary(void* memory);

// The locations that may touch the mapping of an address, as (location type, id), in
// the order in which access was asked for.
std::vector<std::pair<int, int>> access(const void* address);
// Where the memory of that mapping lies, as (location type, id).
std::pair<int, int> location(const void* address);

// Begins the capture of a stream, which other streams join by waiting
// for it, and ends the capture of all of them. A capture is invalidated,
// which violations() tells, by calls about the whole device, by a query
// of a captured stream, and by an event from outside of the capture.
void begin_capture(void* stream, bool blocking = false);
void end_capture(void* stream);
// The launches that `body` makes on a stream while it is captured, of which each replay does the
// work once more. Graphs of the driver's own remember nothing.
using Graph = std::vector<std::function<bool()>>;
Graph graph_of(void* stream, const std::function<void()>& body);
void replay(const Graph& graph, void* stream);
// Pairs of streams since the last call of waits(): the first
// had to wait for work that was under way on the second.
std::vector<std::pair<void*, void*>> waits();

// Adds work to a stream. The work is done when `work` returns true, and until then
// later work waits. `work` is called with the mutex of the driver held.
void enqueue(void* stream, std::function<bool()> work);
bool idle(void* stream);
}  // namespace fake_cuda
