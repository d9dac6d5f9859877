// A language without a binding: Go opens the library at run time, fills its neighbour's block and
// all-reduces a slice.
//
//	go run dlopen.go
//	symm run -n 4 -- go run dlopen.go
//
// Only symm.h is needed to build it, not the library (CGO_CFLAGS=-I<prefix>/include).
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <symm/symm.h>

// cgo cannot call pointers to functions: one line for each function that the program uses.
static __typeof__(symm_version) *version;
static __typeof__(symm_group_create) *create;
static __typeof__(symm_group_info) *info_of;
static __typeof__(symm_alloc) *alloc;
static __typeof__(symm_rendezvous) *rendezvous;
static __typeof__(symm_memory_pointer) *pointer_of;
static __typeof__(symm_put) *put;
static __typeof__(symm_barrier) *barrier;
static __typeof__(symm_allreduce) *allreduce;
static __typeof__(symm_group_finalize) *finalize;
static __typeof__(symm_buffer_release) *release_buffer;
static __typeof__(symm_memory_release) *release_memory;
static __typeof__(symm_group_release) *release_group;

static void *library;
static void *find(const char *name) { return dlsym(library, name); }

static const char *open_symm(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return dlerror();
  version = find("symm_version");
  if (version == NULL || version() >> 24 != SYMM_VERSION_MAJOR) return "another version of symm";
  create = find("symm_group_create");
  info_of = find("symm_group_info");
  alloc = find("symm_alloc");
  rendezvous = find("symm_rendezvous");
  pointer_of = find("symm_memory_pointer");
  put = find("symm_put");
  barrier = find("symm_barrier");
  allreduce = find("symm_allreduce");
  finalize = find("symm_group_finalize");
  release_buffer = find("symm_buffer_release");
  release_memory = find("symm_memory_release");
  release_group = find("symm_group_release");
  return NULL;
}

// The options of a call, with a place for its failure: Go moves its tasks from thread to thread, and
// the failure that the library keeps for a thread might be another task's. Zero is the default of
// all other fields.
static symm_status_t do_create(symm_group_t **out, symm_failure_t *failure) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.failure = failure;
  return create(&config, out);
}
static symm_status_t do_meet(symm_group_t *group, size_t bytes, symm_memory_t **out,
                             symm_failure_t *failure) {
  symm_alloc_options_t how = SYMM_ALLOC_OPTIONS_INIT;
  symm_rendezvous_options_t meet = SYMM_RENDEZVOUS_OPTIONS_INIT;
  symm_buffer_t *buffer = NULL;
  symm_status_t status;
  how.failure = failure;
  meet.failure = failure;
  status = alloc(group, bytes, &how, &buffer);
  if (status == SYMM_OK) status = rendezvous(group, buffer, &meet, out);
  release_buffer(buffer); // the memory keeps it
  return status;
}
static symm_status_t do_put(symm_memory_t *memory, int32_t rank, const float *x, size_t count,
                            symm_failure_t *failure) {
  const symm_call_options_t options = {sizeof options, 5000, failure};
  return put(memory, rank, 0, x, count * sizeof *x, &options, NULL);
}
static symm_status_t do_barrier(symm_group_t *group, symm_failure_t *failure) {
  const symm_call_options_t options = {sizeof options, 0, failure};
  return barrier(group, NULL, 0, 0, &options, NULL);
}
static symm_status_t do_sum(symm_group_t *group, float *x, size_t count, symm_failure_t *failure) {
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.failure = failure;
  return allreduce(group, x, x, count, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, NULL);
}
static symm_status_t do_finalize(symm_group_t *group, symm_failure_t *failure) {
  const symm_call_options_t options = {sizeof options, 0, failure};
  return finalize(group, &options);
}
// These two cannot fail here.
static void *do_pointer(symm_memory_t *memory, int32_t rank) {
  void *pointer = NULL;
  pointer_of(memory, rank, &pointer);
  return pointer;
}
static symm_group_info_t do_info(symm_group_t *group) {
  symm_group_info_t info = {sizeof info};
  info_of(group, &info);
  return info;
}
static void do_release(symm_memory_t *memory, symm_group_t *group) {
  release_memory(memory);
  release_group(group);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// must makes a call, and ends the program by its message where it fails.
func must(call func(failure *C.symm_failure_t) C.symm_status_t) {
	failure := C.symm_failure_t{struct_size: C.sizeof_symm_failure_t}
	if call(&failure) != C.SYMM_OK {
		fmt.Fprintf(os.Stderr, "rank to blame %d: %s\n", failure.rank, C.GoString(&failure.message[0]))
		os.Exit(1)
	}
}

func main() {
	name := os.Getenv("SYMM_LIB")
	if name == "" {
		name = "libsymm.so.0"
	}
	path := C.CString(name)
	defer C.free(unsafe.Pointer(path))
	if reason := C.open_symm(path); reason != nil {
		fmt.Fprintln(os.Stderr, C.GoString(reason))
		os.Exit(1)
	}

	// Rank and size come from the launcher; without one it is a group of one.
	var group *C.symm_group_t
	must(func(f *C.symm_failure_t) C.symm_status_t { return C.do_create(&group, f) })
	info := C.do_info(group)
	rank, size := int(info.rank), int(info.size)

	// From here on every rank's block of 4 KiB is mapped here.
	var memory *C.symm_memory_t
	must(func(f *C.symm_failure_t) C.symm_status_t { return C.do_meet(group, 4096, &memory, f) })
	block := unsafe.Slice((*float32)(C.do_pointer(memory, info.rank)), 1024)

	// Any memory can be copied into the block of the right neighbour.
	x := []float32{float32(rank), 1}
	right := C.int32_t((rank + 1) % size)
	must(func(f *C.symm_failure_t) C.symm_status_t {
		return C.do_put(memory, right, (*C.float)(&x[0]), C.size_t(len(x)), f)
	})
	must(func(f *C.symm_failure_t) C.symm_status_t { return C.do_barrier(group, f) })
	fmt.Printf("rank %d of %d: rank %v was here\n", rank, size, block[0])

	must(func(f *C.symm_failure_t) C.symm_status_t {
		return C.do_sum(group, (*C.float)(&x[0]), C.size_t(len(x)), f)
	})
	fmt.Printf("rank %d of %d: the sums are %v\n", rank, size, x)

	must(func(f *C.symm_failure_t) C.symm_status_t { return C.do_finalize(group, f) })
	C.do_release(memory, group)
}
