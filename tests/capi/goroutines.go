// A runtime that moves its tasks from thread to thread between any two calls: a failure is that of the call that it was delivered
// to, while symm_last_error(), asked in a call of its own, is another task's now and then.
package main

/*
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/symm.h>

static int is_of(const char *message, int root) {
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

func main() {
	config := C.symm_group_config_t{rank: 0, size: 1, backend: C.SYMM_BACKEND_HOST, bootstrap: C.CString("thread://goroutines")}
	config.struct_size = C.sizeof_symm_group_config_t
	var group *C.symm_group_t
	if C.symm_group_create(&config, &group) != C.SYMM_OK {
		panic(C.GoString(C.symm_last_error()))
	}
	var wrong, elsewhere atomic.Int64
	var all sync.WaitGroup
	for task := 0; task < tasks; task++ {
		all.Add(1)
		go func() {
			defer all.Done()
			failure := (*C.symm_failure_t)(C.calloc(1, C.sizeof_symm_failure_t))
			value := C.calloc(1, 4)
			for call := 0; call < calls; call++ {
				failure.struct_size = C.sizeof_symm_failure_t
				options := C.symm_collective_options_t{struct_size: C.sizeof_symm_collective_options_t, failure: failure}
				root := C.int32_t(1 + task*calls + call) // there is rank 0 only
				status := C.symm_broadcast(group, value, value, 1, C.SYMM_DTYPE_F32, root, &options, nil)
				runtime.Gosched()
				if status != C.SYMM_ERR_INVALID_ARGUMENT || C.is_of(&failure.message[0], root) == 0 {
					wrong.Add(1)
				}
				if C.is_of(C.symm_last_error(), root) == 0 {
					elsewhere.Add(1)
				}
			}
			C.free(value)
			C.free(unsafe.Pointer(failure))
		}()
	}
	all.Wait()
	println(tasks*calls, "failures; delivered to another call:", wrong.Load(), "; as last errors of threads:", elsewhere.Load())
	C.symm_group_release(group)
	if wrong.Load() != 0 {
		panic("a failure went to another call")
	}
}
