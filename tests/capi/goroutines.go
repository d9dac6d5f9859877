// A test of failures in a runtime that moves its tasks from thread to thread between any two calls:
// the failure that a call delivers into its options is that of this call. symm_last_error(), asked
// in a call of its own, is now and then the error of another task.
package main

/*
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/symm.h>

static int names_root(const char *message, int root) {
  char expected[64];
  snprintf(expected, sizeof expected, "root: %d is not in", root);
  return strncmp(message, expected, strlen(expected)) == 0;
}
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	tasks = 64
	calls = 2000
)

// Failures that were not those of the task's own call.
var (
	wrongInOptions atomic.Int64
	wrongOnThread  atomic.Int64
)

func createGroup() *C.symm_group_t {
	config := C.symm_group_config_t{
		struct_size: C.sizeof_symm_group_config_t,
		rank:        0,
		size:        1,
		backend:     C.SYMM_BACKEND_HOST,
		bootstrap:   C.CString("thread://goroutines"),
	}
	var group *C.symm_group_t
	if C.symm_group_create(&config, &group) != C.SYMM_OK {
		panic(C.GoString(C.symm_last_error()))
	}
	return group
}

// Each call of each task has a root of its own, which the message names. The group has rank 0 only.
func failOften(group *C.symm_group_t, task int) {
	failure := (*C.symm_failure_t)(C.calloc(1, C.sizeof_symm_failure_t))
	defer C.free(unsafe.Pointer(failure))
	value := C.calloc(1, 4)
	defer C.free(value)

	for call := 0; call < calls; call++ {
		failure.struct_size = C.sizeof_symm_failure_t
		options := C.symm_collective_options_t{
			struct_size: C.sizeof_symm_collective_options_t,
			failure:     failure,
		}
		root := C.int32_t(1 + task*calls + call)
		status := C.symm_broadcast(group, value, value, 1, C.SYMM_DTYPE_F32, root, &options, nil)
		runtime.Gosched()

		isOwn := C.names_root(&failure.message[0], root) != 0
		if status != C.SYMM_ERR_INVALID_ARGUMENT || !isOwn {
			wrongInOptions.Add(1)
		}
		if C.names_root(C.symm_last_error(), root) == 0 {
			wrongOnThread.Add(1)
		}
	}
}

func main() {
	group := createGroup()
	var all sync.WaitGroup
	for task := 0; task < tasks; task++ {
		all.Add(1)
		go func(task int) {
			defer all.Done()
			failOften(group, task)
		}(task)
	}
	all.Wait()

	println(tasks*calls, "failures; of another call in the options:", wrongInOptions.Load(),
		"; of another call on the thread:", wrongOnThread.Load())
	C.symm_group_release(group)
	if wrongInOptions.Load() != 0 {
		panic("a call delivered the failure of another call")
	}
}
