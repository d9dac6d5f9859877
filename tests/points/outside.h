// Faults from outside the library: what a call of libc that it makes may meet.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
enum { SYMM_FAILS, SYMM_INTERRUPTED, SYMM_SHORTENED };
// Says whether this call of `name` meets the fault. The test defines it.
int symm_strikes(int fault, const char* name);
#ifdef __cplusplus
}
#endif
