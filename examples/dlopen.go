// A language without a binding: Go opens the library at run time and all-reduces a slice.
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
static __typeof__(symm_group_create) *create;
static __typeof__(symm_group_rank) *rank_of;
static __typeof__(symm_group_size) *size_of;
static __typeof__(symm_allreduce) *allreduce;
static __typeof__(symm_group_finalize) *finalize;
static __typeof__(symm_group_release) *release;
static __typeof__(symm_last_error) *last_error;

static const char *open_symm(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return dlerror();
  create = dlsym(library, "symm_group_create");
  rank_of = dlsym(library, "symm_group_rank");
  size_of = dlsym(library, "symm_group_size");
  allreduce = dlsym(library, "symm_allreduce");
  finalize = dlsym(library, "symm_group_finalize");
  release = dlsym(library, "symm_group_release");
  last_error = dlsym(library, "symm_last_error");
  return NULL;
}
static symm_status_t do_create(symm_group_t **out) { return create(NULL, out); }
static symm_status_t do_rank(symm_group_t *group, int32_t *out) { return rank_of(group, out); }
static symm_status_t do_size(symm_group_t *group, int32_t *out) { return size_of(group, out); }
static symm_status_t do_sum(symm_group_t *group, float *x, size_t count) {
  return allreduce(group, x, x, count, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL);
}
static symm_status_t do_finalize(symm_group_t *group) { return finalize(group, NULL); }
static void do_release(symm_group_t *group) { release(group); }
static const char *do_last_error(void) { return last_error(); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

func check(status C.symm_status_t) {
	if status != C.SYMM_OK {
		fmt.Fprintln(os.Stderr, C.GoString(C.do_last_error()))
		os.Exit(1)
	}
}

func main() {
	// The message of a failure belongs to the thread of the call, and Go moves its tasks.
	runtime.LockOSThread()

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

	var group *C.symm_group_t
	var rank, size C.int32_t
	check(C.do_create(&group))
	check(C.do_rank(group, &rank))
	check(C.do_size(group, &size))

	x := []float32{float32(rank), 1}
	check(C.do_sum(group, (*C.float)(&x[0]), C.size_t(len(x))))
	fmt.Printf("rank %d of %d: %v\n", rank, size, x)

	check(C.do_finalize(group))
	C.do_release(group)
}
