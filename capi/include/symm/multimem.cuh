/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink multicast in kernels of your own: one load that adds up what all ranks have at an
 * address, and one store or addition that reaches all of them. The addresses are multicast
 * addresses (symm_memory_multicast_pointer()), which no other instruction may touch.
 *
 * The instructions need compute capability 9.0 or later. Where a kernel is compiled for an
 * earlier one too, SYMM_HAS_MULTIMEM is 0 in that pass and these functions are not there.
 *
 * All functions are [thread], for one thread alone, and relaxed at system scope: order comes
 * from the signals and barriers of device.cuh around them, as for other loads and stores.
 * - Accesses of 16 bytes need addresses that are a multiple of 16.
 * - The switch adds in an order of its own, f16 and bf16 in f32 and rounded once, so results
 *   may differ in the last bit from the library's other algorithms.
 * - All ranks must have what is added in place before anybody loads it: barrier, multimem,
 *   barrier.
 */
#ifndef SYMM_MULTIMEM_CUH
#define SYMM_MULTIMEM_CUH

#if defined(__CUDACC__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define SYMM_HAS_MULTIMEM 1
#else
#define SYMM_HAS_MULTIMEM 0
#endif

#if SYMM_HAS_MULTIMEM
namespace symm::device::multimem {

/** The sum over all ranks of four f32. */
__device__ __forceinline__ float4 load_add(const float4 *at) {
  float4 v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(at)
               : "memory");
  return v;
}

#define SYMM_MULTIMEM_LOAD(name, operation)                                                    \
  __device__ __forceinline__ uint4 name(const uint4 *at) {                                     \
    uint4 v;                                                                                   \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." operation " {%0, %1, %2, %3}, [%4];" \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                                  \
                 : "l"(at)                                                                     \
                 : "memory");                                                                  \
    return v;                                                                                  \
  }

/** The sum over all ranks of eight f16, two to a word. */
SYMM_MULTIMEM_LOAD(load_add_f16, "add.acc::f32.v4.f16x2")
/** The least over all ranks of eight f16, two to a word. */
SYMM_MULTIMEM_LOAD(load_min_f16, "min.v4.f16x2")
/** The greatest over all ranks of eight f16, two to a word. */
SYMM_MULTIMEM_LOAD(load_max_f16, "max.v4.f16x2")
/** The sum over all ranks of eight bf16, two to a word. */
SYMM_MULTIMEM_LOAD(load_add_bf16, "add.acc::f32.v4.bf16x2")
/** The least over all ranks of eight bf16, two to a word. */
SYMM_MULTIMEM_LOAD(load_min_bf16, "min.v4.bf16x2")
/** The greatest over all ranks of eight bf16, two to a word. */
SYMM_MULTIMEM_LOAD(load_max_bf16, "max.v4.bf16x2")
#undef SYMM_MULTIMEM_LOAD

#define SYMM_MULTIMEM_LOAD(name, type, constraint, operation)                    \
  __device__ __forceinline__ type name(const type *at) {                         \
    type v;                                                                      \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." operation " %0, [%1];" \
                 : "=" constraint(v)                                             \
                 : "l"(at)                                                       \
                 : "memory");                                                    \
    return v;                                                                    \
  }

/** The sum over all ranks of one integer. */
SYMM_MULTIMEM_LOAD(load_add, unsigned, "r", "add.u32")
/** The least over all ranks of one integer. */
SYMM_MULTIMEM_LOAD(load_min, unsigned, "r", "min.u32")
/** The greatest over all ranks of one integer. */
SYMM_MULTIMEM_LOAD(load_max, unsigned, "r", "max.u32")
/** The bits that all ranks have set in a word. */
SYMM_MULTIMEM_LOAD(load_and, unsigned, "r", "and.b32")
/** The bits that any rank has set in a word. */
SYMM_MULTIMEM_LOAD(load_or, unsigned, "r", "or.b32")
/** The least over all ranks of one signed integer. */
SYMM_MULTIMEM_LOAD(load_min, int, "r", "min.s32")
/** The greatest over all ranks of one signed integer. */
SYMM_MULTIMEM_LOAD(load_max, int, "r", "max.s32")
/** The sum over all ranks of one integer of 64 bits. */
SYMM_MULTIMEM_LOAD(load_add, unsigned long long, "l", "add.u64")
/** The least over all ranks of one integer of 64 bits. */
SYMM_MULTIMEM_LOAD(load_min, unsigned long long, "l", "min.u64")
/** The greatest over all ranks of one integer of 64 bits. */
SYMM_MULTIMEM_LOAD(load_max, unsigned long long, "l", "max.u64")
#undef SYMM_MULTIMEM_LOAD

#define SYMM_MULTIMEM_TO(name, type, constraint, operation)                                   \
  __device__ __forceinline__ void name(type *to, type v) {                                    \
    asm volatile("multimem." operation " [%0], {%1, %2, %3, %4};" ::"l"(to), constraint(v.x), \
                 constraint(v.y), constraint(v.z), constraint(v.w)                            \
                 : "memory");                                                                 \
  }
#define SYMM_MULTIMEM_WORD_TO(name, operation)                                         \
  __device__ __forceinline__ void name(unsigned *to, unsigned v) {                     \
    asm volatile("multimem." operation ".u32 [%0], %1;" ::"l"(to), "r"(v) : "memory"); \
  }

/** Store 16 bytes to all ranks, any bits. */
SYMM_MULTIMEM_TO(store, uint4, "r", "st.relaxed.sys.global.v4.bf16x2")
/** Store four f32 to all ranks. */
SYMM_MULTIMEM_TO(store, float4, "f", "st.relaxed.sys.global.v4.f32")
/** Store 4 bytes to all ranks, any bits. */
SYMM_MULTIMEM_WORD_TO(store, "st.relaxed.sys.global")

/** Add four f32 to what all ranks have. Additions of several ranks may come in any order. */
SYMM_MULTIMEM_TO(add, float4, "f", "red.relaxed.sys.global.add.v4.f32")
/** Add eight f16 to what all ranks have. Additions of several ranks may come in any order. */
SYMM_MULTIMEM_TO(add_f16, uint4, "r", "red.relaxed.sys.global.add.v4.f16x2")
/** Add eight bf16 to what all ranks have. Additions of several ranks may come in any order. */
SYMM_MULTIMEM_TO(add_bf16, uint4, "r", "red.relaxed.sys.global.add.v4.bf16x2")
/** Add an integer to what all ranks have. */
SYMM_MULTIMEM_WORD_TO(add, "red.relaxed.sys.global.add")
/**
 * Add an integer to what all ranks have, after everything that this thread, and those it met at
 * a __syncthreads(), wrote. It is a signal to all ranks at once, in a word of the block: signal
 * pads have no multicast address.
 */
SYMM_MULTIMEM_WORD_TO(add_release, "red.release.sys.global.add")
#undef SYMM_MULTIMEM_TO
#undef SYMM_MULTIMEM_WORD_TO

}  // namespace symm::device::multimem
#endif

#endif /* SYMM_MULTIMEM_CUH */
