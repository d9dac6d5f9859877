/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off: lists */
/*
 * symm: symmetric memory for any language.
 *
 * Ranks (processes, or threads of one process) form a group, allocate a block of the same size each, and
 * after a rendezvous every rank can load from and store to every other rank's block. Collectives run on
 * that memory. This header is the whole interface: C99, no dependency but <stddef.h> and <stdint.h>. For kernels of your own
 * see device.cuh beside it.
 *
 * Conventions
 *   Status      Every function that can fail returns symm_status_t: SYMM_OK (0) or a negative code. A
 *               failing call sets symm_last_error() on the calling thread; a succeeding call leaves it alone.
 *               INVALID_ARGUMENT makes no sense in any version (negative, NULL, out of range); UNSUPPORTED is what this
 *               library is too old for (an unknown flag, data type, operation, algorithm or struct field); NOT_FOUND is
 *               the answer "no" of a look-up, of which the message says nothing more.
 *   Outputs     Parameters named out or out_* come last before `stream` and are written only on success.
 *   Structs     The first field is struct_size, set by the caller to sizeof(the struct): no more of an output is written.
 *               Fields are only ever appended, and zero in an appended field means the default. A struct from a newer header
 *               is accepted while the part that this library does not know is zero. For a struct of options NULL means the
 *               defaults.
 *   Handles     Opaque and reference counted. Creation gives the caller one reference. A memory keeps its buffer and its
 *               group alive, so handles may be released in any order. *_release accepts NULL, is local, never waits and
 *               never fails. A handle that was released or belongs to the parent of a fork is refused with
 *               SYMM_ERR_INVALID_HANDLE (best effort: its slot may have been given out again). What is looked up comes as
 *               the handle that there is already, if there is one, with one more reference. Do not drop the last reference
 *               to a handle while a call on it is under way; to end such a call from elsewhere, use symm_group_abort().
 *   Threads     All functions may be called from any thread, on distinct handles concurrently. On one group, collective
 *               calls must be made in the same order on all ranks; calls from several threads of one rank on one group are
 *               serialised inside. Threads whose calls cannot be ordered need a group each (symm_group_split();
 *               symm_group_info() says what one costs). A thread that is cancelled (pthread_cancel()) in a call ends when
 *               the call has returned, so a call under way is ended by symm_group_abort() or its deadline. Threads that may
 *               be cancelled at any instruction (PTHREAD_CANCEL_ASYNCHRONOUS) must not call.
 *   Local       A call marked [local] involves this rank only. A call marked [collective] must be made by every
 *               rank of the group.
 *   Blocking    A call marked [blocking] returns when the work is done or its deadline has passed. A call marked
 *               [stream] is ordered on `stream`. With the host back end `stream` must be NULL and stream
 *               calls are blocking: the result is there when they return. With CUDA they return when the work is enqueued;
 *               NULL is the legacy default stream, and CU_STREAM_LEGACY and CU_STREAM_PER_THREAD mean what they mean to
 *               the driver.
 *   Capture     All [stream] calls but those of symm_ipc_* may be captured into CUDA graphs, as may look-ups, queries
 *               and a symm_rendezvous() of a buffer that has met already. Make each call once before: the first one
 *               loads its kernel. Up to 64 captures may take turns on a group; in each its calls keep their order.
 *   Deadlines   In milliseconds. 0 means the group's default, SYMM_TIMEOUT_INFINITE waits for ever, SYMM_TIMEOUT_NOW
 *               looks once. On a stream the time counts from when the work begins to wait, not from the call.
 *   Failures    When a rank dies, times out, aborts or calls something different from the others, the group is
 *               revoked: every pending and later call on it returns the same status on every rank, and
 *               symm_group_status() names the rank. Of several failures the earliest counts: as soon as the news has gone
 *               round, within milliseconds, all ranks that live report that one. Who lives is agreed on by
 *               symm_group_shrink(). Only release, the query calls and symm_group_shrink(), which makes a new group of
 *               the survivors, remain useful. symm_group_failure_fd() tells event loops. A captured CUDA graph does not ask
 *               the library: replayed after a revocation it ends by itself, and what it stores is undefined. The thread
 *               that made a failing call asks symm_last_failure(); where tasks change threads between two calls, the
 *               options of a call carry a symm_failure_t of the caller's. What fails on a stream after its call has
 *               returned is told by later calls, and by symm_group_status().
 *   Back ends   mean the same by the same call, but for this. OK says done on the host, enqueued with CUDA. A deadline of
 *               symm_wait_signal() that passes leaves a host group usable and revokes a CUDA group. With CUDA, small
 *               messages of ranks that disagree in data type or operation only may give a wrong result instead of
 *               MISMATCH; SYMM_GROUP_CHECK tells them apart. SYMM_ALGORITHM_TWO_SHOT needs symmetric memory on the host.
 *               SYMM_GROUP_SHARED_SCRATCH is for CUDA.
 *   Limits      32767 ranks of a host group, 16 of a CUDA group and 256 of its memories; 256 channels; 2^20 handles of a
 *               kind; names are cut to 63 bytes, messages and reasons to what their struct holds. symm_group_info() has
 *               them as numbers.
 *   Machines    Linux; for CUDA a driver of 12.0 or later. ROCm is not there. The environment variables are listed by
 *               docs/environment.md, symm_build_info() and `symm info --env`. They change defaults: SYMM_CHECK=0 does not
 *               switch off SYMM_GROUP_CHECK. SYMM_MULTICAST=0 alone forbids what the configuration asks for.
 */
/* clang-format on */
#ifndef SYMM_SYMM_H
#define SYMM_SYMM_H

#include <stddef.h>
#include <stdint.h>

/** Version of this header, major << 16 | minor << 8 | patch. Compare with symm_version(). */
#define SYMM_VERSION_MAJOR 0
#define SYMM_VERSION_MINOR 2
#define SYMM_VERSION_PATCH 0
#define SYMM_VERSION ((SYMM_VERSION_MAJOR << 16) | (SYMM_VERSION_MINOR << 8) | SYMM_VERSION_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define SYMM_API __attribute__((visibility("default")))
#else
#define SYMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants ------------------------------------------------------------------------------------- */

/** Result of a call. Values are fixed for ever; new ones may be added. */
typedef int32_t symm_status_t;
enum symm_status_values {
  SYMM_OK = 0,
  SYMM_ERR_INVALID_ARGUMENT = -1, /**< an argument is out of range; the message names it */
  SYMM_ERR_INVALID_HANDLE =
      -2, /**< NULL, released, of another type, inherited through fork(), or of a finalized group; a token
                                       whose memory was released or withdrawn */
  SYMM_ERR_OUT_OF_MEMORY = -3, /**< host or device memory, or a limit on it */
  SYMM_ERR_UNAVAILABLE = -4,   /**< no such device, driver, launcher or feature on this machine */
  SYMM_ERR_UNSUPPORTED =
      -5, /**< this library does not do that: it is too old, or the back end cannot */
  SYMM_ERR_TIMEOUT = -6,     /**< a deadline passed; the message names who was awaited */
  SYMM_ERR_ABORTED = -7,     /**< symm_group_abort() was called, here or on another rank */
  SYMM_ERR_PEER_FAILED = -8, /**< a rank died or left; the message gives its rank and pid */
  SYMM_ERR_MISMATCH = -9,    /**< ranks disagree (size, operation, data type, count ...) */
  SYMM_ERR_SYSTEM = -10,     /**< a system call failed; the message names it and its errno */
  SYMM_ERR_CUDA = -11,       /**< a CUDA driver call failed; the message names it and its result */
  SYMM_ERR_INTERNAL = -13,   /**< a defect of this library */
  SYMM_ERR_NOT_FOUND = -14   /**< a look-up found nothing */
};

/** Data type. The value is (DLPack type code) << 8 | bits, one lane. */
typedef int32_t symm_dtype_t;
enum symm_dtype_values {
  SYMM_DTYPE_I8 = 0x0008,
  SYMM_DTYPE_I16 = 0x0010,
  SYMM_DTYPE_I32 = 0x0020,
  SYMM_DTYPE_I64 = 0x0040,
  SYMM_DTYPE_U8 = 0x0108,
  SYMM_DTYPE_U16 = 0x0110,
  SYMM_DTYPE_U32 = 0x0120,
  SYMM_DTYPE_U64 = 0x0140,
  SYMM_DTYPE_F16 = 0x0210,
  SYMM_DTYPE_F32 = 0x0220,
  SYMM_DTYPE_F64 = 0x0240,
  SYMM_DTYPE_BF16 = 0x0410,
  SYMM_DTYPE_BOOL = 0x0608, /**< a byte: 0 is false, all else true; results are 0 or 1 */
  SYMM_DTYPE_F8E4M3 =
      0x0A08, /**< finite-only variant (DLPack float8_e4m3fn); results saturate at +-448 */
  SYMM_DTYPE_F8E5M2 = 0x0C08 /**< results saturate at +-57344 */
};

/** Reduction. Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every algorithm, so the result
 *  has the same bits everywhere. F16, BF16 and F8 are combined in f32 and rounded once, to nearest even.
 *  Integers wrap. MIN and MAX return NaN if any operand is NaN. AVG is the sum divided by the number of ranks
 *  (integers: truncated towards zero). Of BOOL, SUM and MAX are "or", MIN and PROD are "and", and there is no AVG
 *  (INVALID_ARGUMENT). The payload of a NaN result is unspecified. */
typedef int32_t symm_op_t;
enum symm_op_values {
  SYMM_OP_SUM = 0,
  SYMM_OP_AVG = 1,
  SYMM_OP_MIN = 2,
  SYMM_OP_MAX = 3,
  SYMM_OP_PROD = 4
};

/** Where a factor is multiplied in; see symm_collective_options_t. Since 0.2. */
typedef int32_t symm_scale_t;
enum symm_scale_values {
  SYMM_SCALE_NONE = 0,
  SYMM_SCALE_BEFORE = 1, /**< every operand, before it is combined */
  SYMM_SCALE_AFTER = 2   /**< the result, after the division of AVG and before rounding */
};

/** What memory a group works on. */
typedef int32_t symm_backend_t;
enum symm_backend_values {
  SYMM_BACKEND_AUTO = 0, /**< $SYMM_BACKEND ("host" or "cuda") if set, else the host */
  SYMM_BACKEND_HOST = 1, /**< memory shared between processes of one machine */
  SYMM_BACKEND_CUDA = 2
};

/** Collective operations, for symm_collective_plan(). */
typedef int32_t symm_collective_t;
enum symm_collective_values {
  SYMM_COLLECTIVE_ALLREDUCE = 0,
  SYMM_COLLECTIVE_REDUCE_SCATTER = 1,
  SYMM_COLLECTIVE_ALLGATHER = 2,
  SYMM_COLLECTIVE_BROADCAST = 3,
  SYMM_COLLECTIVE_REDUCE = 4,
  SYMM_COLLECTIVE_ALLTOALL = 5,
  SYMM_COLLECTIVE_ALLGATHERV = 6, /**< since 0.2, as all below */
  SYMM_COLLECTIVE_REDUCE_SCATTERV = 7,
  SYMM_COLLECTIVE_ALLTOALLV = 8,
  SYMM_COLLECTIVE_GATHER = 9,
  SYMM_COLLECTIVE_SCATTER = 10,
  SYMM_COLLECTIVE_ALLGATHER_ROWS = 11,
  SYMM_COLLECTIVE_ALLREDUCE_RMSNORM = 12
};

/** What a scale of symm_rmsnorm_t is for. Since 0.2. */
typedef int32_t symm_quant_scale_t;
enum symm_quant_scale_values {
  SYMM_QUANT_SCALE_TENSOR = 0, /**< all elements; the caller's */
  SYMM_QUANT_SCALE_TOKEN = 1,  /**< a row, from its largest element */
  SYMM_QUANT_SCALE_GROUP = 2   /**< 128 elements of a row, from their largest */
};

/** Algorithms. All give the same bits, but for the two of multicast (MULTIMEM), in which the switch adds, and HIERARCHICAL, for
 *  sums, averages and products of floats: these have orders of their own, and are used only where they are asked for. */
typedef int32_t symm_algorithm_t;
enum symm_algorithm_values {
  SYMM_ALGORITHM_AUTO = 0,
  SYMM_ALGORITHM_LL = 1,       /**< flag in data: the message rides in the line that signals it */
  SYMM_ALGORITHM_ONE_SHOT = 2, /**< every rank publishes its input, every rank combines all */
  SYMM_ALGORITHM_TWO_SHOT =
      3, /**< each rank combines its slice and stores it to all; on the host without a copy */
  SYMM_ALGORITHM_TWO_SHOT_STAGED = 4, /**< the same in chunks through library memory; any buffer */
  SYMM_ALGORITHM_MULTIMEM_ONE_SHOT =
      6, /**< every rank loads the sum from send's multicast address; not in place */
  SYMM_ALGORITHM_MULTIMEM_TWO_SHOT =
      7, /**< each rank loads the sum of its slice and stores it to all, by multicast */
  SYMM_ALGORITHM_MARKED =
      8, /**< CUDA: as LL, with a mark of 4 bytes for every 64; for what moves unchanged */
  SYMM_ALGORITHM_CHAIN =
      9, /**< several machines: sums that are not rounded yet go from each to the next, results come back */
  SYMM_ALGORITHM_BRUCK =
      10, /**< several machines: as TWO_SHOT, in as many rounds as the logarithm of the ranks */
  SYMM_ALGORITHM_HIERARCHICAL =
      11, /**< several machines: each combines its ranks, then ranks what machines have; GPUs: NCCL */
  SYMM_ALGORITHM_COPY_ENGINE =
      12 /**< CUDA: copy engines store what moves unchanged into recv, without kernels */
};

/** What symm_signal_value() does to a word. */
typedef int32_t symm_signal_op_t;
enum symm_signal_op_values { SYMM_SIGNAL_ADD = 0, SYMM_SIGNAL_SET = 1 };

/** How a word that is waited for, to the left, compares with a value, to the right; both are unsigned. */
typedef int32_t symm_compare_t;
enum symm_compare_values {
  SYMM_COMPARE_EQ = 0,
  SYMM_COMPARE_NE = 1,
  SYMM_COMPARE_LT = 2,
  SYMM_COMPARE_LE = 3,
  SYMM_COMPARE_GT = 4,
  SYMM_COMPARE_GE = 5
};

/** Class of the links between devices. */
typedef int32_t symm_topology_class_t;
enum symm_topology_class_values { SYMM_TOPOLOGY_UNKNOWN = 0, SYMM_TOPOLOGY_FULLY_CONNECTED = 1 };

/** Severity of a log message. */
typedef int32_t symm_log_level_t;
enum symm_log_level_values {
  SYMM_LOG_ERROR = 1,
  SYMM_LOG_WARNING = 2,
  SYMM_LOG_INFO = 3,
  SYMM_LOG_DEBUG = 4
};

enum symm_misc_values {
  SYMM_DEVICE_AUTO = -1, /**< the local rank's share: device (local rank modulo device count) */
  SYMM_NODE_NEAREST = -1 /**< no NUMA node in particular */
};

/** Bits of symm_group_config_t.flags. */
enum symm_group_flag_values {
  SYMM_GROUP_OVERLAPPING_DEVICES = 1, /**< several ranks may use one CUDA device */
  SYMM_GROUP_CHECK =
      2, /**< compare the arguments of every collective on all ranks; as SYMM_CHECK=1 */
  SYMM_GROUP_MULTICAST =
      4, /**< multicast addresses for the group's memories, where they can be had; as
                                           SYMM_MULTICAST=1. All ranks must ask; see symm_memory_multicast_pointer() */
  /** Groups made of this one by symm_group_split() and symm_group_create_from_ranks(), and of those, work in its scratch and
   *  keep it; each has a part of its own still, which symm_group_info() shows. All ranks must ask. UNSUPPORTED on the host, where
   *  ranks read each other's scratch after a call. Collectives of these groups count as those of one group:
   *  - There is one order of them, in which every rank makes those of its groups. Another one ends by TIMEOUT.
   *  - The library orders them between streams, outside of captures and within one capture. A graph must be replayed on a stream
   *    that is ordered with all else that these groups do, or results are undefined.
   *  - When one of these groups fails, the others' calls that use the scratch end by ABORTED, as what fails on a stream. The
   * group of symm_group_shrink() begins anew. Since 0.2. */
  SYMM_GROUP_SHARED_SCRATCH = 8,
  /** All-reduces may combine floats in an order of their own: between machines HIERARCHICAL is chosen where it is faster. All
   * ranks get the same result still, and a group of the same layout gets it again. As SYMM_ORDER=any. All ranks must ask. Since
   * 0.2. */
  SYMM_GROUP_ANY_ORDER = 16,
  /** A promise: in each all-reduce, all-gather, all-to-all and broadcast the recvs of all ranks are private, or lie at the same
   * offset of the same memory, and all are in place or none. Large ones then go by SYMM_ALGORITHM_COPY_ENGINE with CUDA. All
   * ranks must ask. Since 0.2. */
  SYMM_GROUP_SAME_OFFSETS = 32
};

/** No deadline. */
#define SYMM_TIMEOUT_INFINITE UINT64_MAX
/** Look once instead of waiting: the call succeeds if nothing is missing, else it is TIMEOUT, has taken nothing and has revoked
 *  nothing. For symm_wait_signal() and symm_barrier() on the host, and symm_ipc_withdraw(); INVALID_ARGUMENT where a call is
 * ordered on a CUDA stream or needs the other ranks to act. */
#define SYMM_TIMEOUT_NOW (UINT64_MAX - 1)

/* ---- handles --------------------------------------------------------------------------------------- */

typedef struct symm_group symm_group_t;   /**< ranks that share memory */
typedef struct symm_buffer symm_buffer_t; /**< one rank's allocation */
typedef struct symm_memory
    symm_memory_t; /**< a buffer after rendezvous: every rank's block mapped here */
typedef struct symm_heap symm_heap_t; /**< a memory that is handed out in pieces */
typedef struct symm_ipc symm_ipc_t;   /**< memory of another process, imported by a token */

/* ---- library --------------------------------------------------------------------------------------- */

/** Version of the loaded library, encoded like SYMM_VERSION. [local] Never fails. Since 0.1. */
SYMM_API uint32_t symm_version(void);

/** Static JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD targets. [local] Never NULL.
 *  Since 0.1. */
SYMM_API const char *symm_build_info(void);

/** Static name of a status, "unknown status" for a value of a newer library. [local] Never NULL. Since 0.1. */
SYMM_API const char *symm_status_string(symm_status_t status);

/** Message of the last failing call on this thread: one line of UTF-8, "" before the first failure. [local] Valid until
 *  the next failing call on this thread. Never NULL. Since 0.1. */
SYMM_API const char *symm_last_error(void);

/** A failure, whole. Filled by symm_last_failure() with the last one of the thread; by any call that takes options with the
 * failure of that very call, if options.failure points to one, whose struct_size the caller has set: written on failure only. */
typedef struct {
  size_t struct_size;
  symm_status_t status; /**< SYMM_OK before the first failure */
  int32_t
      rank; /**< the rank to blame, as numbered in the group of the call; -1: nobody in particular */
  int64_t pid; /**< its process, as its own machine numbers it; 0: not known */
  int32_t
      os_error; /**< errno of the system call that failed, on the rank to blame; 0: it was none */
  int32_t
      cuda_result; /**< CUresult of the driver call that failed, on the rank to blame; 0: it was none */
  char message[1024]; /**< as symm_last_error() */
} symm_failure_t;

/** What the last failing call on this thread failed of, and who is to blame. [local] A failure of this call itself becomes the
 *  last one. Since 0.1.
 *  @return INVALID_ARGUMENT for NULL or a struct_size smaller than that of 0.1. */
SYMM_API symm_status_t symm_last_failure(symm_failure_t *out);

/** How long a call may wait; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t timeout_ms;     /**< 0: the group's */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_wait_options_t;

#define SYMM_WAIT_OPTIONS_INIT {sizeof(symm_wait_options_t), 0, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_wait_options_init(symm_wait_options_t *options, size_t struct_size);

/** Receives log messages, possibly from a thread of the library's, and from several threads at once. Must not call into the
 *  library, but for symm_log_remove_listener(). */
typedef void (*symm_log_callback_t)(void *user, symm_log_level_t level, const char *message);

/** Send log messages of at most `level` to `callback`, for the whole process, beside all other listeners. [local]
 *  The library prints nothing, unless SYMM_LOG=error|warning|info|debug names a level: then messages go to stderr as well. A
 *  forked child has no listeners. Since 0.2.
 *  @param[out] out_id  for symm_log_remove_listener().
 *  @return INVALID_ARGUMENT (callback), UNSUPPORTED for an unknown level. */
SYMM_API symm_status_t symm_log_add_listener(symm_log_callback_t callback, void *user,
                                             symm_log_level_t level, uint64_t *out_id);

/** The same, to a descriptor: for languages whose code must not run on threads of the library. [local] Each message is a line,
 *  "error: ...", "warning: ...", "info: ..." or "debug: ...", of at most 543 bytes, written at once. A pipe or socket that is
 * full, because nobody reads it, loses lines and never holds up the library. Since 0.2.
 *  @param fd           duplicated; the caller may close it.
 *  @param[out] out_id  for symm_log_remove_listener(), which closes the duplicate.
 *  @return INVALID_ARGUMENT (fd is not open), UNSUPPORTED for an unknown level, SYSTEM. */
SYMM_API symm_status_t symm_log_to_fd(int32_t fd, symm_log_level_t level, uint64_t *out_id);

/** End a listener. [local] When the call returns, the callback is not running, but for a callback that ends itself, and will not
 * run again. Since 0.2.
 *  @return NOT_FOUND if there is no such listener, TIMEOUT if the callback has not returned within 60 seconds. */
SYMM_API symm_status_t symm_log_remove_listener(uint64_t id);

/** Size of one element in bytes. [local] Since 0.1.
 *  @return UNSUPPORTED for a dtype that this library does not know. */
SYMM_API symm_status_t symm_dtype_size(symm_dtype_t dtype, size_t *out_bytes);

/* ---- devices --------------------------------------------------------------------------------------- */

/** Number of devices of a back end. The host back end has one. AUTO resolves as symm_group_create() would. [local]
 *  Since 0.1.
 *  @return UNAVAILABLE when the back end cannot be used here; the message says why. */
SYMM_API symm_status_t symm_device_count(symm_backend_t backend, int32_t *out_count);

/** What is known of one device. Filled by symm_device_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  int32_t device;
  uint64_t memory_bytes; /**< total memory */
  int32_t compute_units; /**< processors this process may use, or multiprocessors */
  int32_t
      multicast; /**< 1 if multicast addresses can be had by asking for them (SYMM_GROUP_MULTICAST) */
  int32_t
      fabric; /**< 1 if memory can be had by fabric handles, which was tried, and so can be shared across machines */
  int32_t dmabuf;             /**< 1 if memory can be exported as DMA-BUF */
  char name[128];             /**< product name */
  char uuid[64];              /**< GPU UUID; for the host, the boot id */
  char multicast_reason[128]; /**< why multicast is 0, else "" */
  char fabric_reason[128];    /**< why fabric is 0, else "" */
  char dmabuf_reason[128];    /**< why dmabuf is 0, else "" */
  int32_t host_memory;        /**< 1 if SYMM_ALLOC_HOST can be had */
  int32_t
      numa_node; /**< of the host, nearest to the device; -1 if unknown, and for the host itself */
  /** why host_memory is 0, else "" */
  char host_memory_reason[128];
} symm_device_info_t;

/** Describe device `device` of `backend`. [local] Since 0.1.
 *  @return UNAVAILABLE when the back end cannot be used, INVALID_ARGUMENT for a device out of range. */
SYMM_API symm_status_t symm_device_info(symm_backend_t backend, int32_t device,
                                        symm_device_info_t *out);

/** Links between the devices of a back end. [local] Since 0.1.
 *  @param[out] out_class  class of the whole.
 *  @param[out] out_links  row-major matrix [device_count][device_count] of the number of direct links; the diagonal is 0.
 *                         NULL with capacity 0 asks for the class only.
 *  @param capacity        elements that out_links holds; at least device_count * device_count.
 *  @return UNAVAILABLE, INVALID_ARGUMENT. */
SYMM_API symm_status_t symm_topology(symm_backend_t backend, symm_topology_class_t *out_class,
                                     int32_t *out_links, size_t capacity);

/* ---- group ----------------------------------------------------------------------------------------- */

/** Key-value store by which ranks find each other, supplied by the caller. The functions are called only on the thread that
 *  is inside symm_group_create(), and must not unwind (no exception, panic or longjmp). They return SYMM_OK or a negative
 *  status, which then fails the creation. A key is set once; it begins with symm/ and the name of the group, so a store that
 *  serves several creations of one name must keep them apart itself. */
typedef struct {
  size_t struct_size;
  void *user; /**< passed to every function */
  /** Store `size` bytes under `key`. */
  symm_status_t (*set)(void *user, const char *key, const void *value, size_t size,
                       uint64_t timeout_ms);
  /** Wait until `key` is there, at most timeout_ms (then SYMM_ERR_TIMEOUT), and copy its value to `value`. If it is longer
   *  than `capacity`, return SYMM_ERR_INVALID_ARGUMENT. `*out_size` receives its length. */
  symm_status_t (*get)(void *user, const char *key, void *value, size_t capacity, size_t *out_size,
                       uint64_t timeout_ms);
} symm_store_t;

/** How to make a group. Start from SYMM_GROUP_CONFIG_INIT or symm_group_config_init(). */
typedef struct {
  size_t struct_size;
  int32_t rank;           /**< this rank; read only if size > 0 */
  int32_t size;           /**< number of ranks; 0: rank and size come from the bootstrap */
  symm_backend_t backend; /**< must be the same on all ranks */
  int32_t device;         /**< CUDA ordinal or SYMM_DEVICE_AUTO; the host back end ignores it */
  uint64_t flags;         /**< enum symm_group_flag_values */
  /* clang-format off: a list */
  /** Where the ranks meet. NULL: $SYMM_BOOTSTRAP, else "env://".
   *    "env://"         rank and size from the launcher (SYMM_*, Open MPI, PMI-1 as of MPICH, torchrun, Slurm, or a
   *                     single process); sources that disagree are an error.
   *    "tcp://host:port" rank 0 listens on that port of `host`, its machine; ranks may be on several machines, whose
   *                     user has the same secret file: see docs/machines.md. UNAVAILABLE without libsodium.
   *    "dir:///path"    a directory of mode 0700 owned by this user, made if missing; ranks on one machine.
   *    "thread://name"  ranks are threads of this process; `name` is any string. */
  /* clang-format on */
  const char *bootstrap;
  const symm_store_t *store; /**< if not NULL, used instead of `bootstrap`; needs size > 0 */
  uint64_t
      create_timeout_ms; /**< for create, split and rendezvous; 0: $SYMM_CREATE_TIMEOUT_MS, else 300,000 */
  uint64_t timeout_ms; /**< for every other wait; 0: $SYMM_TIMEOUT_MS, else 60,000 */
  const char *
      name; /**< tells apart concurrent groups with the same bootstrap; shown in messages; NULL: "" */
  uint64_t
      scratch_bytes; /**< at most for the group's scratch, on each rank, and for that of each group made of this one; the
                                 same     on all ranks; 0: what is fastest. With less, large messages take longer */
  int32_t
      channels; /**< barrier channels, and signal channels of a memory that asks for no other number; the same on
                                   all ranks; 0: 64 */
  symm_failure_t *failure; /**< NULL, or receives the failure of symm_group_create() */
} symm_group_config_t;

#define SYMM_GROUP_CONFIG_INIT  \
  {sizeof(symm_group_config_t), \
   0,                           \
   0,                           \
   SYMM_BACKEND_AUTO,           \
   SYMM_DEVICE_AUTO,            \
   0,                           \
   NULL,                        \
   NULL,                        \
   0,                           \
   0,                           \
   NULL,                        \
   0,                           \
   0,                           \
   NULL}

/** Set the first `struct_size` bytes of `config` to the defaults. [local] Since 0.1.
 *  @return INVALID_ARGUMENT if config is NULL or struct_size is smaller than that of 0.1. */
SYMM_API symm_status_t symm_group_config_init(symm_group_config_t *config, size_t struct_size);

/** Form a group. [collective] [blocking, create_timeout_ms] All ranks succeed or all fail with the same status, and a failure
 *  leaves nothing behind. What goes wrong once all have agreed is the group's trouble: a rank that has it finds it failed, one
 *  that has not returned yet may get that failure instead. The first group of a process starts the threads that notice deaths.
 *  Since 0.1.
 *  @return INVALID_ARGUMENT, UNSUPPORTED (a flag, or more channels than there are), UNAVAILABLE (back end, launcher), TIMEOUT
 *          (names the missing ranks), PEER_FAILED, MISMATCH, SYSTEM, OUT_OF_MEMORY. */
SYMM_API symm_status_t symm_group_create(const symm_group_config_t *config, symm_group_t **out);

/** Divide a group. [collective over `group`] [blocking, create_timeout_ms] Ranks that pass the same color form a new group,
 *  ordered by key, then by rank. Groups may overlap with others made earlier; their signals never meet. Since 0.1.
 *  @param color  >= 0, or negative to be in no new group: then *out is set to NULL.
 *  @return as symm_group_create(). */
SYMM_API symm_status_t symm_group_split(symm_group_t *group, int32_t color, int32_t key,
                                        symm_group_t **out);

/** Form a group of some ranks of another. [collective over `ranks`] [blocking, create_timeout_ms] The others take no part. Since
 * 0.2.
 *  @param ranks  distinct ranks of `group`, this one among them, the same in the same order on all of these: ranks[i] becomes
 * rank i.
 *  @param count  > 0.
 *  @return as symm_group_create(); MISMATCH if the order differs. */
SYMM_API symm_status_t symm_group_create_from_ranks(symm_group_t *group, const int32_t *ranks,
                                                    size_t count, symm_group_t **out);

/** Form a group of this rank's machine, in the order of its ranks: those whose memory is mapped here (machine of
 *  symm_group_info()). [collective over the ranks of a machine] [blocking, create_timeout_ms] It needs no engine, and what fails
 *  on other machines leaves it as it is. Since 0.2.
 *  @return as symm_group_create_from_ranks(). */
SYMM_API symm_status_t symm_group_local(symm_group_t *group, symm_group_t **out);

/** How to shrink a group; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t timeout_ms;     /**< 0: the group's create_timeout_ms */
  const char *name;        /**< of the new group; NULL: that of the old one */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_group_shrink_options_t;

#define SYMM_GROUP_SHRINK_OPTIONS_INIT {sizeof(symm_group_shrink_options_t), 0, NULL, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_group_shrink_options_init(symm_group_shrink_options_t *options,
                                                      size_t struct_size);

/** Form a group of those ranks of `group` that are alive and have not released it, in their old order. [collective over these]
 *  [blocking, options.timeout_ms] Also and above all after a failure: `group` may be revoked, and stays as it is. Ranks that die
 *  meanwhile are left out; all others get the same group, or the same failure. symm_group_translate_rank() tells who became who.
 *  Since 0.2.
 *  @return TIMEOUT (a rank lives and did not come; when it has been killed, or has released the group, the call can be made
 * again), PEER_FAILED (others take this rank for dead), otherwise as symm_group_create(). */
SYMM_API symm_status_t symm_group_shrink(symm_group_t *group,
                                         const symm_group_shrink_options_t *options,
                                         symm_group_t **out);

/** Which rank of `group` is rank `rank` of `other`. [local] For groups made of one another, by split, shrink and the like,
 * always; for others as long as a process is one rank of each. Since 0.2.
 *  @param rank  of `other`.
 *  @return NOT_FOUND if it is not in `group`. */
SYMM_API symm_status_t symm_group_translate_rank(symm_group_t *group, symm_group_t *other,
                                                 int32_t rank, int32_t *out_rank);

/** This process's rank in the group. [local] Since 0.1. */
SYMM_API symm_status_t symm_group_rank(symm_group_t *group, int32_t *out_rank);

/** Number of ranks. [local] Since 0.1. */
SYMM_API symm_status_t symm_group_size(symm_group_t *group, int32_t *out_size);

/** What is known of a group. Filled by symm_group_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  int32_t size;
  symm_backend_t backend;
  int32_t device;
  uint64_t id; /**< the same on all ranks, different for every group */
  int32_t
      channels; /**< barrier channels, and signal channels of a memory by default: 0 .. channels-1 */
  int32_t
      unwatched_peers; /**< peers whose death is noticed by their closed socket only, for want of a pidfd */
  uint64_t
      rejected_connections; /**< connection attempts refused during creation: wrong user or wrong group */
  char bootstrap[64];       /**< what the ranks were found by, for instance "env:// (Open MPI)" */
  char name[64];
  int32_t multicast;          /**< 1 if its memories are given multicast addresses */
  char multicast_reason[192]; /**< why multicast is 0, else ""; the same on all ranks */
  /* since 0.2 */
  uint64_t scratch_bytes; /**< that the group takes on this rank, of memory of its own */
  int32_t max_ranks;      /**< of a group of this back end */
  int32_t max_memories;   /**< of a group; 0: no limit */
  int32_t max_channels;   /**< of a group or memory */
  int32_t max_handles;    /**< of each kind, in a process */
  int32_t max_name;       /**< bytes of a name that are kept */
  uint64_t
      shared_scratch_bytes; /**< and of the group's that it was made of: SYMM_GROUP_SHARED_SCRATCH; else 0 */
  int32_t machines;   /**< that its ranks are on; those of one map each other's memory */
  int32_t machine;    /**< this rank's, counted in the order of their lowest ranks */
  int32_t local_rank; /**< among the ranks of this machine, which keep their order */
  int32_t local_size; /**< how many those are */
  char engine[64];    /**< what carries bytes between machines, as "ucx 1.22.0"; "" on one */
} symm_group_info_t;

/** Describe a group. [local] Since 0.1. */
SYMM_API symm_status_t symm_group_info(symm_group_t *group, symm_group_info_t *out);

/** Health of a group. Filled by symm_group_status(). */
typedef struct {
  size_t struct_size;
  symm_status_t status; /**< SYMM_OK, or why the group was revoked */
  int32_t failed_rank;  /**< rank that caused it, -1 if none */
  int64_t failed_pid;   /**< its process id where known, else 0 */
  char message[256];    /**< "" while status is SYMM_OK */
} symm_group_status_t;

/** Ask whether the group was revoked, and why. [local] Never waits. Since 0.1. */
SYMM_API symm_status_t symm_group_status(symm_group_t *group, symm_group_status_t *out);

/** Which ranks this rank knows to be dead, or to have released the group. [local] Never waits. Since 0.2.
 *  @param[out] out_ranks  receives the first `capacity` of them, in ascending order; NULL with capacity 0 asks for the count
 * only.
 *  @param capacity        ranks that out_ranks holds.
 *  @param[out] out_count  how many there are. */
SYMM_API symm_status_t symm_group_failed_ranks(symm_group_t *group, int32_t *out_ranks,
                                               size_t capacity, size_t *out_count);

/** A descriptor for event loops, which becomes readable, and stays so, when the group is revoked: then ask symm_group_status().
 *  [local] The group's, valid as long as the group; not to be read, written or closed, and not there in a forked child. What
 * fails on a CUDA stream revokes the group only when a call on the group, symm_group_status() for one, finds it. Since 0.2.
 *  @return SYSTEM. */
SYMM_API symm_status_t symm_group_failure_fd(symm_group_t *group, int32_t *out_fd);

/** What is known of one rank of a group. Filled by symm_peer_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  symm_backend_t backend;
  int32_t device;        /**< as that rank's process numbers it */
  int32_t alive;         /**< 0 once its death or departure was noticed */
  int64_t pid;           /**< as seen from here; 0 if its process is in another pid namespace */
  char host[64];         /**< its host name */
  char machine[64];      /**< $SYMM_MACHINE there, or the boot id of its kernel */
  char uuid[64];         /**< of its GPU; for the host back end, the boot id */
  int32_t machine_index; /**< as symm_group_info_t.machine */
  int32_t
      mapped; /**< 1: its memory is mapped here; 0: it is reached by symm_put(), symm_get() and the like only */
} symm_peer_info_t;

/** Describe rank `rank` of a group, this one or another. [local] Since 0.2.
 *  @return INVALID_ARGUMENT. */
SYMM_API symm_status_t symm_peer_info(symm_group_t *group, int32_t rank, symm_peer_info_t *out);

/** What this rank has done on a group so far, calls that succeeded unless it says otherwise. Filled by symm_group_stats(). */
typedef struct {
  size_t struct_size;
  uint64_t collective_calls[32]; /**< by symm_collective_t */
  /** By symm_collective_t: count times the size of an element, of each call. Of those with counts for each rank, this rank's own
   *  block, or all that it sends to others and itself; with counts in device memory nothing. */
  uint64_t collective_bytes[32];
  uint64_t algorithm_calls
      [32]; /**< by symm_algorithm_t; calls that needed none, as those of one rank, are under AUTO */
  uint64_t barriers;
  uint64_t signals_sent;
  uint64_t signals_taken;
  uint64_t failures; /**< collectives, barriers and waits that failed */
  uint64_t sleeps;   /**< waits on the host that did not end while they spun */
  uint64_t slept_ns; /**< how long those took, in sum */
  uint64_t
      waits; /**< symm_wait_signal_value(), symm_wait_signals(), symm_wait_value32() and symm_wait_value64() */
} symm_group_stats_t;

/** Ask what was done on a group. [local] Never waits. Since 0.2. */
SYMM_API symm_status_t symm_group_stats(symm_group_t *group, symm_group_stats_t *out);

/** Revoke the group on all ranks: pending and later calls return ABORTED. [local] Never waits; any thread; idempotent.
 *  @param reason  shown in the messages; NULL for none. Since 0.1. */
SYMM_API symm_status_t symm_group_abort(symm_group_t *group, const char *reason);

/** Politely end a group: wait until all ranks have arrived here, so that none sees another leave early.
 *  [collective] [blocking, options.timeout_ms] Optional. Afterwards only queries and release are allowed: all else on the group
 * and its memories is INVALID_HANDLE. Since 0.2.
 *  @return TIMEOUT, PEER_FAILED, ABORTED; the group is ended all the same. */
SYMM_API symm_status_t symm_group_finalize(symm_group_t *group, const symm_wait_options_t *options);

/** Add a reference. [local] Since 0.1. */
SYMM_API symm_status_t symm_group_retain(symm_group_t *group);
/** Drop a reference. [local] NULL is accepted. Peers that still wait for this rank get PEER_FAILED. Since 0.1. */
SYMM_API void symm_group_release(symm_group_t *group);

/* ---- memory ---------------------------------------------------------------------------------------- */

/** Bits of symm_alloc_options_t.flags. */
enum symm_alloc_flag_values {
  SYMM_ALLOC_HOST = 1 /**< memory of the host, pinned, which devices and the host reach alike */
};

/** How to allocate; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t flags; /**< enum symm_alloc_flag_values */
  int32_t
      numa_node; /**< of SYMM_ALLOC_HOST; SYMM_NODE_NEAREST: to the device, with the host back end to the calling thread */
  uint64_t
      alignment; /**< of the address of this rank's block here, a power of two; 0: as symm_buffer_pointer() says */
  uint64_t
      page_bytes; /**< least size of its pages, a power of two; 0: the system's, of which the kernel may join some. On the
                          host larger ones are huge pages (2 MiB and 1 GiB on x86-64), which an administrator has set aside */
  const char *name;        /**< shown in messages, cut to 63 bytes; NULL: "" */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_alloc_options_t;

#define SYMM_ALLOC_OPTIONS_INIT \
  {sizeof(symm_alloc_options_t), 0, SYMM_NODE_NEAREST, 0, 0, NULL, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_alloc_options_init(symm_alloc_options_t *options, size_t struct_size);

/** Allocate this rank's block on the group's device, zeroed. [local] [blocking] The buffer may be rendezvoused on this
 *  group and on any other group of the same device. A group that was revoked or finalized allocates nothing. Since 0.2.
 *  With SYMM_ALLOC_HOST the block lies in memory of the host. On a CUDA group the devices of all ranks reach it, and after a
 *  rendezvous so does the host in each rank's process, by the same address; so do the importer's device and host after an import
 * by a token. symm_device_info() says whether it can be had. On a host group, where all memory is the host's, the flag only
 *  allows to name a node. All pages are on that node, whoever touches them first, or the call fails.
 *  @param size     bytes, > 0.
 *  @return OUT_OF_MEMORY (the limit that was hit is named; no room for the alignment; too few huge pages are free),
 *          INVALID_ARGUMENT (size, no such node, no power of two), UNSUPPORTED (a flag that this library does not know),
 *          UNAVAILABLE (SYMM_ALLOC_HOST, its node, pages of this size; the message says why), CUDA. */
SYMM_API symm_status_t symm_alloc(symm_group_t *group, size_t size,
                                  const symm_alloc_options_t *options, symm_buffer_t **out);

/** How to adopt; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  int32_t fd;       /**< a memfd, with the host back end, where `pointer` is NULL; -1: none */
  uint64_t offset;  /**< of the piece in it, a multiple of 16 */
  const char *name; /**< shown in messages, cut to 63 bytes; NULL: "" */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_adopt_options_t;

#define SYMM_ADOPT_OPTIONS_INIT {sizeof(symm_adopt_options_t), -1, 0, NULL, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_adopt_options_init(symm_adopt_options_t *options, size_t struct_size);

/** Make a buffer of memory that another library has allocated, to be rendezvoused like one of symm_alloc(). [local]
 *  [blocking] With the host back end it is a piece of a memfd (options.fd), open for reading and writing and sealed against
 *  shrinking (F_SEAL_SHRINK), since a rank that touched what its owner has cut off would be killed. The descriptor stays its
 *  owner's, to be closed at any time; pages that it has none for yet are allocated now.
 *  With CUDA it must have been made by cuMemCreate on the group's device and for a POSIX file descriptor
 *  (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), and mapped by cuMemMap; memory of cudaMalloc cannot be shared so. Ranks may mix
 *  adopted and allocated buffers.
 *
 *  The buffer refers to the physical memory and maps it once more: symm_buffer_pointer() is a new address of the same bytes,
 *  which stay as they are. The owner's mapping is never touched, and the owner may unmap it and free the memory at any time.
 *  While it is there, its addresses count as symmetric ones too, as operands and for symm_memory_find(). Peers map the whole
 *  allocation that the piece lies in.
 *  @param pointer  anywhere inside a mapped allocation, a multiple of 16; NULL for a descriptor.
 *  @param size     bytes, > 0; up to the end of the allocation that `pointer` lies in, or of the memfd. What was mapped piece by
 *                  piece (PyTorch's expandable segments) can be adopted piece by piece.
 *  @return INVALID_ARGUMENT (the message says what is wrong with the memory), UNSUPPORTED (an address with the host back end, for
 *          which no other process could map it; a descriptor with CUDA), OUT_OF_MEMORY, SYSTEM, CUDA. Since 0.2. */
SYMM_API symm_status_t symm_buffer_adopt(symm_group_t *group, const void *pointer, size_t size,
                                         const symm_adopt_options_t *options, symm_buffer_t **out);

/** Bits of symm_buffer_info_t.flags. */
enum symm_buffer_flag_values {
  SYMM_BUFFER_HOST = 1,   /**< allocated by SYMM_ALLOC_HOST, or for a host group */
  SYMM_BUFFER_ADOPTED = 2 /**< made by symm_buffer_adopt() */
};

/** What is known of a buffer. Filled by symm_buffer_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  int32_t device;        /**< 0 with the host back end */
  uint64_t bytes;        /**< asked for */
  uint64_t mapped_bytes; /**< of address space, and of memory where it was not adopted */
  uint64_t flags;        /**< enum symm_buffer_flag_values */
  int32_t numa_node;     /**< that was asked for, else SYMM_NODE_NEAREST */
  int32_t memories;      /**< that it has become and that live */
  void *pointer;         /**< as symm_buffer_pointer() */
  uint64_t
      page_bytes; /**< size of the pages that its memory is made of; 0: adopted from a device, not known */
  char name[64];
} symm_buffer_info_t;

/** Describe a buffer. [local] Since 0.2. */
SYMM_API symm_status_t symm_buffer_info(symm_buffer_t *buffer, symm_buffer_info_t *out);

/** Find the buffer of this process that `address` lies in, anywhere inside; an adopted one also by the addresses of its owner, as
 *  long as he has it mapped there. [local] Any thread; allocates and formats nothing where there is none. Since 0.2.
 *  @param[out] out         one reference, for symm_buffer_release(); may be NULL.
 *  @param[out] out_offset  bytes from the start of the block; may be NULL.
 *  @return NOT_FOUND. */
SYMM_API symm_status_t symm_buffer_find(const void *address, symm_buffer_t **out,
                                        size_t *out_offset);

/** Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card, say) to map. [local] symm_device_info()
 *  says whether that can be had. What such a device writes is ordered with kernels by its own means, not by symm.
 *  @param offset       bytes from the start of the buffer; the address there must be a multiple of the host's page size.
 *  @param size         bytes, > 0, within the buffer; the descriptor covers whole pages, so up to a page less one byte more.
 *  @param[out] out_fd  a descriptor of this piece, which starts at offset 0 of it and is closed on exec. The caller's, to close;
 *                      use it no longer than the buffer or a memory of it lives.
 *  @return INVALID_ARGUMENT (offset, size), UNAVAILABLE (the message says why; always on the host back end), CUDA. Since 0.1. */
SYMM_API symm_status_t symm_buffer_export_dmabuf(symm_buffer_t *buffer, size_t offset, size_t size,
                                                 int32_t *out_fd);

/** Address of the block; aligned to at least 4096 bytes and as asked for, an adopted one to 16. [local] Valid while the buffer or
 * a memory of it lives. Since 0.1. */
SYMM_API symm_status_t symm_buffer_pointer(symm_buffer_t *buffer, void **out_pointer);
/** Bytes asked for. [local] Since 0.1. */
SYMM_API symm_status_t symm_buffer_size(symm_buffer_t *buffer, size_t *out_bytes);
/** Add a reference. [local] Since 0.1. */
SYMM_API symm_status_t symm_buffer_retain(symm_buffer_t *buffer);
/** Drop a reference. [local] NULL is accepted. Since 0.1. */
SYMM_API void symm_buffer_release(symm_buffer_t *buffer);

/** How to meet; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t
      tag; /**< calls with equal tags meet, in the order in which they are made; 0 is as good as any */
  uint64_t timeout_ms; /**< 0: the group's create_timeout_ms */
  int32_t
      channels; /**< signal channels of the memory, the same on all ranks; 0: as many as the group has */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_rendezvous_options_t;

#define SYMM_RENDEZVOUS_OPTIONS_INIT {sizeof(symm_rendezvous_options_t), 0, 0, 0, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_rendezvous_options_init(symm_rendezvous_options_t *options,
                                                    size_t struct_size);

/** Exchange blocks: after it, every rank's block is mapped here. [collective] [blocking, options.timeout_ms] All or nothing.
 *  Several may run at once from several threads: on distinct groups freely, on one group with distinct tags. Ranks of which each
 *  waits with a tag that the other has not come with are told so after 2 seconds: threads that call at once come at once.
 *  A buffer meets once on a group: while the handles of both live, the memory is kept, and a second call is [local], looks at no
 *  option but its struct_size, and gives the same memory with one more reference. Since 0.2.
 *  A rank that was stopped in a call of a group that failed goes on with it when it is resumed. A buffer that it has mapped
 *  meets on no other group until its process is dead, has released that group, or made another when it knew of the failure.
 *  @param buffer   of the same size on all ranks. Threads that share one must agree on who calls first.
 *  @return MISMATCH (sizes, channels or tags differ), UNSUPPORTED (more channels than there are), TIMEOUT, PEER_FAILED, ABORTED,
 *          SYSTEM, OUT_OF_MEMORY, UNAVAILABLE (a process may still write to the buffer; the message names it, and the group stays
 *          usable). */
SYMM_API symm_status_t symm_rendezvous(symm_group_t *group, symm_buffer_t *buffer,
                                       const symm_rendezvous_options_t *options,
                                       symm_memory_t **out);

/** The memory that a buffer has become on a group. [local] Since 0.2.
 *  @return NOT_FOUND before symm_rendezvous(). */
SYMM_API symm_status_t symm_buffer_memory(symm_buffer_t *buffer, symm_group_t *group,
                                          symm_memory_t **out);

/** What is known of a memory. Filled by symm_memory_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  int32_t size;               /**< ranks */
  uint64_t bytes;             /**< of each block */
  uint64_t id;                /**< the same on all ranks */
  int32_t channels;           /**< signal channels */
  int32_t signal_pad_bytes;   /**< of each pad: channels * size * 8 */
  int32_t multicast;          /**< 1 if it has a multicast address, then on all ranks */
  char multicast_reason[192]; /**< why multicast is 0, else ""; the same on all ranks */
} symm_memory_info_t;

/** Describe a memory. [local] Since 0.1. */
SYMM_API symm_status_t symm_memory_info(symm_memory_t *memory, symm_memory_info_t *out);

/** Address at which rank `rank`'s block is mapped here. [local] Valid while the memory lives, even after that rank died.
 *  @return UNAVAILABLE for a rank on another machine. Since 0.1. */
SYMM_API symm_status_t symm_memory_pointer(symm_memory_t *memory, int32_t rank, void **out_pointer);

/** Address of rank `rank`'s signal pad: uint64_t pad[channel][source rank], zero at first. [local] A word is written by its
 *  source rank only. Use a channel either through the calls for signals or by code of your own; symm/device.cuh does as those
 *  calls do. Since 0.2.
 *  @return UNAVAILABLE for a rank on another machine. */
SYMM_API symm_status_t symm_memory_signal_pad(symm_memory_t *memory, int32_t rank, void **out_pad);

/** Table of the `size` block addresses, readable by the group's device (and for the host back end, by the host). [local] Valid
 *  while the memory lives; NULL for ranks on other machines. Since 0.1. */
SYMM_API symm_status_t symm_memory_pointer_table(symm_memory_t *memory, void *const **out_table);
/** Table of the `size` pad addresses, as symm_memory_pointer_table(). [local] Since 0.1. */
SYMM_API symm_status_t symm_memory_signal_pad_table(symm_memory_t *memory, void *const **out_table);

/** How pads and counts lie in a symm_memory_view_t: as uint64_t[channel][source]. Another number is another layout. */
#define SYMM_MEMORY_VIEW_LAYOUT 1

/** A memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All pointers are device
 *  addresses. symm_memory_device_view() fills it. */
typedef struct {
  size_t struct_size;
  uint32_t
      layout; /**< SYMM_MEMORY_VIEW_LAYOUT of the library; a kernel that knows another must not use the pads */
  int32_t rank;
  int32_t size;          /**< ranks */
  int32_t channels;      /**< signal channels */
  void *const *blocks;   /**< symm_memory_pointer_table() */
  uint64_t *const *pads; /**< symm_memory_signal_pad_table() */
  uint64_t *taken;       /**< counts of signals that this rank has taken */
  uint64_t timeout_ns;   /**< of each wait; UINT64_MAX: none */
  const uint32_t *stop;  /**< a word that ends all waits when it becomes other than 0; NULL: none */
} symm_memory_view_t;

/** Describe a memory for kernels of your own, to which the struct is passed by value. [local] Valid while the memory lives.
 *  @param timeout_ms    of each wait in a kernel; 0: the group's, SYMM_TIMEOUT_INFINITE: none.
 *  @param stop          device address of an uint32_t that ends all waits (pinned host memory, say), or NULL.
 *  @return UNSUPPORTED with the host back end, which has no kernels. Since 0.2. */
SYMM_API symm_status_t symm_memory_device_view(symm_memory_t *memory, uint64_t timeout_ms,
                                               const void *stop, symm_memory_view_t *out);

/** Multicast address of the memory: what is stored there reaches all ranks' blocks, and a reducing load combines them, by the
 *  multimem instructions of the device (compute capability 9.0); any other access is undefined. [local] Valid while the memory
 *  lives. Only a group that asked for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1 on all ranks) has such addresses, and none
 *  where on any rank SYMM_MULTICAST=0, NCCL_NVLS_ENABLE=0, NVSHMEM_DISABLE_NVLS=1 or TORCH_SYMM_MEM_DISABLE_MULTICAST=1 is set,
 *  the driver or a device has no multicast, ranks share a device, or setting it up fails. Everything else works without.
 *  Since 0.1.
 *  @return UNAVAILABLE if there is none; the message says why, as symm_memory_info() does. */
SYMM_API symm_status_t symm_memory_multicast_pointer(symm_memory_t *memory, void **out_pointer);

/** Find the memory of `group` that maps `address`, which may lie anywhere inside any rank's block. [local] An adopted block is
 *  found by the addresses of its owner too, as long as he has it mapped there. Since 0.2.
 *  @param[out] out         one reference, for symm_memory_release(); may be NULL.
 *  @param[out] out_rank    whose block it is; may be NULL.
 *  @param[out] out_offset  bytes from the start of the block; may be NULL.
 *  @return NOT_FOUND if no memory of the group maps the address. */
SYMM_API symm_status_t symm_memory_find(symm_group_t *group, const void *address,
                                        symm_memory_t **out, int32_t *out_rank, size_t *out_offset);

/** Add a reference. [local] Since 0.1. */
SYMM_API symm_status_t symm_memory_retain(symm_memory_t *memory);
/** Drop a reference. [local] NULL is accepted. Other ranks keep their mappings of this block. Since 0.1. */
SYMM_API void symm_memory_release(symm_memory_t *memory);

/* ---- streams --------------------------------------------------------------------------------------- */

/* A stream is a CUstream of the primary context of the group's device. A handle is used in the call that it is given to and not
 * kept, so a stream may be destroyed at any time after. What went wrong in what calls have issued is known when the stream is
 * there: symm_group_synchronize() tells.
 *   A release asks the driver about the whole device, which would invalidate captures. It is put off while symm knows of a
 * capture: one in which it was called, until a call outside of one from the same thread, or one on a blocking stream. Release
 * nothing of which uses were not recorded during others. Kernels of up to three groups may wait for other ranks on a device at a
 * time, in any order. More groups at once, and kernels of others that wait for ranks, must be ordered alike on all ranks by the
 * caller. */

/** Where a parameter says so, cast to void * by way of uintptr_t: all streams. */
#define SYMM_ALL_STREAMS UINT64_MAX

/** What is issued on `stream` next runs after what was issued on `after_stream`. [local] [stream] Nothing on the host. Since 0.2.
 *  @param after_stream  SYMM_ALL_STREAMS: all streams that calls on this group were issued on, in a capture those of the capture.
 *  @return INVALID_HANDLE, INVALID_ARGUMENT, CUDA. */
SYMM_API symm_status_t symm_stream_wait(symm_group_t *group, void *stream, void *after_stream);

/** Ask whether all that was issued on `stream` is over. [local] Never waits; 1 always on the host. Since 0.2.
 *  @return INVALID_ARGUMENT (the stream is being captured, which this call leaves as it is), CUDA. */
SYMM_API symm_status_t symm_stream_query(symm_group_t *group, void *stream, int32_t *out_done);

/** Wait until all that was issued on `stream` is over, and say what went wrong with the group. [local] [blocking,
 *  options.timeout_ms] Since 0.2.
 *  @return TIMEOUT: the stream is not there yet, the group stays usable; what revoked the group; INVALID_ARGUMENT (the stream is
 *          being captured); CUDA. */
SYMM_API symm_status_t symm_group_synchronize(symm_group_t *group, void *stream,
                                              const symm_wait_options_t *options);

/** Say that what was issued on `stream` so far uses the buffer: call it behind the last work there. [local] [stream] Nothing on
 * the host. As record_stream() of PyTorch, it is about the release: that never waits, and the memory is given back later, when
 * all that the device had to do at that time is over; where uses were recorded, when those and symm's own calls are. Work on
 * streams that were not recorded must then be over before the release. In a capture the former holds again, since a graph may be
 * replayed anywhere. Since 0.2.
 *  @return INVALID_HANDLE, CUDA. */
SYMM_API symm_status_t symm_buffer_record_use(symm_buffer_t *buffer, void *stream);
/** The same, of a memory: of all ranks' blocks and pads that are mapped here. [local] [stream] Since 0.2. */
SYMM_API symm_status_t symm_memory_record_use(symm_memory_t *memory, void *stream);

/* ---- heap ------------------------------------------------------------------------------------------ */

/* One memory, handed out in pieces: creation is one allocation and one rendezvous, and after it no call of a heap says a word to
 * other ranks or makes a system call.
 *
 *   Offsets     What a call answers follows from the calls on the heap before it, and from nothing else: ranks that make the same
 *               calls, with the same sizes and alignments in the same order, get the same offsets, so a piece here is the piece
 *               at the same offset there. Threads of one rank must therefore take turns in an order that all ranks share. With
 *               SYMM_CHECK=1 (or SYMM_GROUP_CHECK) a hash of the calls is compared in every collective of the group: ranks that
 *               went apart get MISMATCH, with two of them named, and heap calls must come in the same order as collectives.
 *   Pieces      A piece is symmetric memory: tokens, put and get, signals, collectives without a copy, and multicast work at its
 *               offset in symm_heap_memory(). A new one is not zeroed.
 *   Freeing     Never waits, and the next symm_heap_alloc() may hand the bytes out again: what depends on time would differ
 *               from rank to rank. So the caller orders re-use. Free a piece when no other rank writes or reads it any more (a
 *               barrier says so) and its tokens are withdrawn. On CUDA, work that uses the piece may still be under way if what
 *               uses the next one comes after it: on the same stream, or on one that waits for it. */

/** How to make a heap; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t flags;          /**< as in symm_alloc_options_t */
  int32_t numa_node;       /**< as there */
  uint64_t alignment;      /**< of the block, and so the most that a piece can have; as there */
  uint64_t page_bytes;     /**< as there */
  const char *name;        /**< as there */
  uint64_t timeout_ms;     /**< 0: the group's create_timeout_ms */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_heap_options_t;

#define SYMM_HEAP_OPTIONS_INIT \
  {sizeof(symm_heap_options_t), 0, SYMM_NODE_NEAREST, 0, 0, NULL, 0, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_heap_options_init(symm_heap_options_t *options, size_t struct_size);

/** Make a heap of `bytes` on every rank. [collective] [blocking, options.timeout_ms] All or nothing: what fails on one rank fails
 *  on all. Not to be called during stream capture. Since 0.2.
 *  @param bytes    > 0, the same on all ranks; rounded up to a multiple of 256.
 *  @return INVALID_ARGUMENT, UNSUPPORTED (a flag, or 1 TiB and more), OUT_OF_MEMORY, MISMATCH (sizes differ), TIMEOUT,
 *          PEER_FAILED, ABORTED, SYSTEM, CUDA. */
SYMM_API symm_status_t symm_heap_create(symm_group_t *group, size_t bytes,
                                        const symm_heap_options_t *options, symm_heap_t **out);

/** Take a piece of this rank's block. [local] From any thread; also during stream capture. Since 0.2.
 *  @param size             bytes, > 0; what is taken is a multiple of 256.
 *  @param alignment        a power of two, at most that of the block; 0: 256, and never less.
 *  @param[out] out_pointer where the piece lies in this rank's block.
 *  @param[out] out_offset  bytes from the start of the block; may be NULL.
 *  @return OUT_OF_MEMORY (the message has what was asked for, what is free, and the largest free piece; nothing has changed),
 *          INVALID_ARGUMENT, and whatever the group was revoked with. */
SYMM_API symm_status_t symm_heap_alloc(symm_heap_t *heap, size_t size, size_t alignment,
                                       void **out_pointer, size_t *out_offset);

/** Give a piece back. [local] Never waits, from any thread, also after the group has failed; see "Freeing". Since 0.2.
 *  @param pointer  as symm_heap_alloc() gave it; NULL does nothing.
 *  @return INVALID_ARGUMENT (freed already, inside a piece, not of this heap); nothing has changed. */
SYMM_API symm_status_t symm_heap_free(symm_heap_t *heap, void *pointer);

/** Find the piece that contains `address`, anywhere between its first and its last byte in this rank's block. [local] Since 0.2.
 *  @param[out] out_pointer start of the piece.
 *  @param[out] out_size    bytes asked for; may be NULL.
 *  @return NOT_FOUND if no piece that is in use contains it. */
SYMM_API symm_status_t symm_heap_find(symm_heap_t *heap, const void *address, void **out_pointer,
                                      size_t *out_size);

/** The memory that the pieces lie in. [local] Since 0.2.
 *  @param[out] out  one reference, for symm_memory_release(); it keeps the pieces mapped, also when the heap is gone. */
SYMM_API symm_status_t symm_heap_memory(symm_heap_t *heap, symm_memory_t **out);

/** What is known of a heap. Filled by symm_heap_info(). */
typedef struct {
  size_t struct_size;
  uint64_t bytes;         /**< of each rank's block */
  uint64_t used_bytes;    /**< in pieces, each a multiple of 256 */
  uint64_t peak_bytes;    /**< the most that were ever used at once */
  uint64_t free_bytes;    /**< the rest */
  uint64_t largest_free;  /**< bytes of the largest free piece: more cannot be had at once */
  uint64_t pieces;        /**< in use */
  uint64_t free_pieces;   /**< that the free bytes lie in */
  uint64_t calls;         /**< of symm_heap_alloc() and symm_heap_free() that went well */
  uint64_t fragmentation; /**< per mille of the free bytes that are not in the largest free piece */
  char name[64];          /**< as given, cut to 63 bytes */
} symm_heap_info_t;

/** Describe a heap. [local] Since 0.2. */
SYMM_API symm_status_t symm_heap_info(symm_heap_t *heap, symm_heap_info_t *out);

/** Add a reference. [local] Since 0.2. */
SYMM_API symm_status_t symm_heap_retain(symm_heap_t *heap);
/** Drop a reference. [local] NULL is accepted. With the last one all pieces go, once nobody holds the memory. Since 0.2. */
SYMM_API void symm_heap_release(symm_heap_t *heap);

/* ---- signals --------------------------------------------------------------------------------------- */

/* Any number of streams, and threads of one rank, may share a channel, whether or not they are ordered with each other, and in
 * captured graphs: each barrier and each signal counts exactly once. A barrier ends when every rank of its set has begun as many
 * barriers on its channel as this rank had when it began, itself included. A wait that takes a signal takes one that no other
 * takes. Which of a rank's barriers meets which of another's, and who takes which signal, is as they happen to run where streams
 * are not ordered: give each a channel of its own where one is to meet its like.
 *
 * With the CUDA back end a wait that fails revokes the group, because what follows on the stream would run without it. With the
 * host back end a wait for a signal or a word that fails has taken nothing, and the group stays usable.
 *
 * A signal is a word of 64 bits, one for each channel, source and destination of a memory, zero at first. Signals are counted
 * (symm_signal(), symm_wait_signal()) or carry values (symm_signal_value(), symm_wait_signal_value()): use a channel for one of
 * the two. Channels of barriers are the group's, those of signals the memory's. */

/** Wait until all ranks of a set are here. [collective over the set] [stream] What they wrote before is visible after.
 *  Barriers on different channels are independent. Two ranks that are in several sets must come to the barriers of these on one
 *  channel in the same order: they count what they have had of each other. With the host back end another order is MISMATCH, and
 * a thread in a barrier keeps others of its rank from that channel; with CUDA streams that are not ordered with each other need
 *  a channel for each such set, or a barrier may end early. Since 0.2.
 *  @param ranks    distinct ranks, this one among them, in any order; NULL with count 0: the whole group.
 *  @param channel  0 .. channels-1.
 *  @return TIMEOUT (names the first missing rank; the group is revoked), MISMATCH (likewise), PEER_FAILED, ABORTED,
 *          INVALID_ARGUMENT. */
SYMM_API symm_status_t symm_barrier(symm_group_t *group, const int32_t *ranks, size_t count,
                                    int32_t channel, const symm_wait_options_t *options,
                                    void *stream);

/** Add one to the signals that this rank has sent to `rank` on `channel`. [local] [stream] Never waits; any number may be
 *  outstanding. What this rank wrote before is visible to whoever waited for the signal. Since 0.2. */
SYMM_API symm_status_t symm_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                   void *stream);

/** The same with a value: add it to the word, or set the word to it. [local] [stream] Never waits. Since 0.2.
 *  @return INVALID_ARGUMENT (rank, channel), UNSUPPORTED (op). */
SYMM_API symm_status_t symm_signal_value(symm_memory_t *memory, int32_t rank, int32_t channel,
                                         symm_signal_op_t op, uint64_t value, void *stream);

/** Take one signal from `rank` on `channel`, waiting for it if need be. [local] [stream] Since 0.2.
 *  @return TIMEOUT (blames `rank`), PEER_FAILED, ABORTED. */
SYMM_API symm_status_t symm_wait_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                        const symm_wait_options_t *options, void *stream);

/** Wait until the word from `rank` on `channel` compares so with `value`. [local] [stream] Takes nothing. Since 0.2.
 *  @param[out] out_seen  the word when it did; may be NULL, and must be with the CUDA back end, where the call does not wait.
 *  @return TIMEOUT (blames `rank`), PEER_FAILED, ABORTED, UNSUPPORTED (compare). */
SYMM_API symm_status_t symm_wait_signal_value(symm_memory_t *memory, int32_t rank, int32_t channel,
                                              symm_compare_t compare, uint64_t value,
                                              const symm_wait_options_t *options,
                                              uint64_t *out_seen, void *stream);

/** One of the signals that symm_wait_signals() waits for, as the arguments of symm_wait_signal_value(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  int32_t channel;
  symm_compare_t compare;
  uint64_t value;
} symm_signal_wait_t;

/** Wait for several signals. [local] [stream] Takes nothing. Since 0.2.
 *  @param waits           `count` of them, with equal struct_size.
 *  @param count           1 .. 64.
 *  @param any             0: until each has been as awaited, at whatever moment; 1: until one of them is.
 *  @param[out] out_index  with `any` the first that was as awaited, else 0; may be NULL, and must be with the CUDA back end.
 *  @return TIMEOUT, PEER_FAILED (with `any`: all of their ranks are gone), ABORTED, INVALID_ARGUMENT, UNSUPPORTED (compare). */
SYMM_API symm_status_t symm_wait_signals(symm_memory_t *memory, const symm_signal_wait_t *waits,
                                         size_t count, int32_t any,
                                         const symm_wait_options_t *options, size_t *out_index,
                                         void *stream);

/** How many signals from `rank` on `channel` are there and not taken. [local] Never waits for a rank or a stream. What was
 * written before them is visible, with CUDA to what is issued from now on. Not to be captured. Since 0.2. */
SYMM_API symm_status_t symm_test_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                        uint64_t *out_pending);

/** The word from `rank` on `channel`, likewise. [local] Since 0.2. */
SYMM_API symm_status_t symm_test_signal_value(symm_memory_t *memory, int32_t rank, int32_t channel,
                                              uint64_t *out_value);

/* ---- data ------------------------------------------------------------------------------------------ */

/** Copy `size` bytes to `offset` in rank `rank`'s block. [local] [stream] `source` may be any memory of this process that
 *  the group's device reaches (with CUDA pageable memory of the host only where the driver copies it) and may be symmetric, but
 *  must not overlap the destination, which is not checked. Visible to that rank after a signal or barrier. What a rank on
 *  another machine has released is not written any more. Since 0.1. */
SYMM_API symm_status_t symm_put(symm_memory_t *memory, int32_t rank, size_t offset,
                                const void *source, size_t size, void *stream);
/** Copy `size` bytes from `offset` in rank `rank`'s block to `destination`. [local] [stream] Since 0.1.
 *  @return UNAVAILABLE if that rank is on another machine and has released the memory. */
SYMM_API symm_status_t symm_get(symm_memory_t *memory, int32_t rank, size_t offset,
                                void *destination, size_t size, void *stream);
/** symm_put(), then symm_signal() on `channel`, in one call. [local] [stream] Since 0.2. */
SYMM_API symm_status_t symm_put_signal(symm_memory_t *memory, int32_t rank, size_t offset,
                                       const void *source, size_t size, int32_t channel,
                                       void *stream);
/** Store `count` copies of a 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block. [local] [stream] Since 0.1. */
SYMM_API symm_status_t symm_fill32(symm_memory_t *memory, int32_t rank, size_t offset,
                                   uint32_t value, size_t count, void *stream);
/** Store one 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block, after everything that this rank wrote before
 *  (release order). [local] [stream] Since 0.1. */
SYMM_API symm_status_t symm_write_value32(symm_memory_t *memory, int32_t rank, size_t offset,
                                          uint32_t value, void *stream);

/** Store one 64-bit value at `offset` (a multiple of 8), likewise. [local] [stream] Since 0.2. */
SYMM_API symm_status_t symm_write_value64(symm_memory_t *memory, int32_t rank, size_t offset,
                                          uint64_t value, void *stream);
/** Wait until the word at `offset` (a multiple of 4) in this rank's own block compares so with `value`, whoever writes it, by
 *  whatever means. [local] [stream] What was written before it in release order is visible after. With the host back end a word
 * that is not written by symm_write_value32() or symm_write_value64() is looked at every millisecond once the wait sleeps. Since
 * 0.2.
 *  @return TIMEOUT, ABORTED, INVALID_ARGUMENT, UNSUPPORTED (compare). */
SYMM_API symm_status_t symm_wait_value32(symm_memory_t *memory, size_t offset,
                                         symm_compare_t compare, uint32_t value,
                                         const symm_wait_options_t *options, void *stream);
/** The same for a word of 64 bits (`offset` is a multiple of 8). [local] [stream] Since 0.2. */
SYMM_API symm_status_t symm_wait_value64(symm_memory_t *memory, size_t offset,
                                         symm_compare_t compare, uint64_t value,
                                         const symm_wait_options_t *options, void *stream);

/* ---- collectives ----------------------------------------------------------------------------------- */

/* Common to all: [collective] [stream]. send and recv may be any memory of this process with any alignment; memory of
 * symm_rendezvous() on the same group is used without a copy. They may be equal where "in place" is described and must not
 * overlap otherwise. count 0 is allowed, also with NULL pointers. Arguments must agree on all ranks, except that some ranks
 * may pass symmetric memory and others not, and at different offsets. A disagreement in operation, dtype, op, root or count is
 * MISMATCH and names two ranks that differ; SYMM_CHECK=1 (or SYMM_GROUP_CHECK) makes every rank compare with every other in
 * every call, where otherwise ranks compare only with those for which they wait anyway (see Back ends above for CUDA).
 * Errors: INVALID_ARGUMENT (root, NULL, overlap, an algorithm that cannot do it), UNSUPPORTED (a dtype, op or algorithm that this
 * library does not know), TIMEOUT, PEER_FAILED, ABORTED, MISMATCH. SYMM_ALGORITHM_MULTIMEM_* do the sum of F32, F16 and BF16 by
 * all-reduce; send (TWO_SHOT: and recv) must lie in memory with a multicast address, the same memory at the same offset on all
 * ranks, a multiple of 16. SYMM_ALGORITHM_COPY_ENGINE does all-gather, broadcast, not in place all-to-all, and as a
 * reduce-scatter and an all-gather an all-reduce whose count is a multiple of the ranks; recv must lie in the same memory at the
 * same offset on all ranks. If it does not, that is MISMATCH, and the memory undefined where any of them lies. After an error
 * other than INVALID_ARGUMENT the contents of recv are undefined and send is unharmed (unless in place). */

/** Options of one collective call; NULL means the defaults.
 *
 *  symm_allreduce(), symm_reduce_scatter() and symm_reduce() of floats can multiply by a factor, and leave the sum of
 *  narrow ones unrounded. Operands are then converted to f32 (F64: f64), multiplied (BEFORE), combined in rank order, divided
 *  (AVG), multiplied (AFTER), and rounded once to the type of the result; the factor is rounded to f32 (F64: f64)
 *  first. Every algorithm but those of multicast gives the same bits; its limits on bytes count f32 (F64: f64).
 *  With a position one of scale and scale_pointer, and not both, is other than 0; without, both are 0. All of it must
 *  agree on all ranks, but for what scale_pointer points to: each rank's factor is for its own operand (BEFORE) or
 *  result (AFTER). INVALID_ARGUMENT: a factor with integers, another result_dtype than F32 of F16, BF16 and F8, either of
 *  them without a reduction. With a result_dtype other than dtype no form is in place. */
typedef struct {
  size_t struct_size;
  symm_algorithm_t algorithm;  /**< force one; must be the same on all ranks */
  uint64_t timeout_ms;         /**< 0: the group's */
  symm_failure_t *failure;     /**< NULL, or receives the failure of this call */
  symm_scale_t scale_position; /**< whether, and where, there is a factor */
  symm_dtype_t result_dtype;   /**< of recv; 0: dtype */
  double scale;                /**< the factor, finite */
  const void *
      scale_pointer; /**< the factor as one aligned f32 in memory that the device (host back end: the host) reads when
                                *   the call runs; so a captured call takes a new one at each replay */
} symm_collective_options_t;

#define SYMM_COLLECTIVE_OPTIONS_INIT \
  {sizeof(symm_collective_options_t), SYMM_ALGORITHM_AUTO, 0, NULL, SYMM_SCALE_NONE, 0, 0, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.1. */
SYMM_API symm_status_t symm_collective_options_init(symm_collective_options_t *options,
                                                    size_t struct_size);

/** recv[i] = op over ranks r of send_r[i], i < count, on every rank. In place: send == recv. Since 0.1. */
SYMM_API symm_status_t symm_allreduce(symm_group_t *group, const void *send, void *recv,
                                      size_t count, symm_dtype_t dtype, symm_op_t op,
                                      const symm_collective_options_t *options, void *stream);

/** recv[i] = op over ranks r of send_r[rank * recv_count + i], i < recv_count; send has size * recv_count elements.
 *  In place: recv == send + rank * recv_count elements. Since 0.1. */
SYMM_API symm_status_t symm_reduce_scatter(symm_group_t *group, const void *send, void *recv,
                                           size_t recv_count, symm_dtype_t dtype, symm_op_t op,
                                           const symm_collective_options_t *options, void *stream);

/** recv[r * send_count + i] = send_r[i], i < send_count; recv has size * send_count elements.
 *  In place: send == recv + rank * send_count elements. Since 0.1. */
SYMM_API symm_status_t symm_allgather(symm_group_t *group, const void *send, void *recv,
                                      size_t send_count, symm_dtype_t dtype,
                                      const symm_collective_options_t *options, void *stream);

/** recv[i] = send_root[i], i < count; send is read on the root only. In place: send == recv. Since 0.1. */
SYMM_API symm_status_t symm_broadcast(symm_group_t *group, const void *send, void *recv,
                                      size_t count, symm_dtype_t dtype, int32_t root,
                                      const symm_collective_options_t *options, void *stream);

/** recv[i] = op over ranks r of send_r[i] on the root; recv is written on the root only. In place: send == recv.
 *  Since 0.1. */
SYMM_API symm_status_t symm_reduce(symm_group_t *group, const void *send, void *recv, size_t count,
                                   symm_dtype_t dtype, symm_op_t op, int32_t root,
                                   const symm_collective_options_t *options, void *stream);

/** recv[r * count + i] = send_r[rank * count + i], i < count; both have size * count elements. In place: send == recv.
 *  Since 0.1. */
SYMM_API symm_status_t symm_alltoall(symm_group_t *group, const void *send, void *recv,
                                     size_t count, symm_dtype_t dtype,
                                     const symm_collective_options_t *options, void *stream);

/* Collectives with counts: each rank has a block of its own length. `*_counts` has `size` numbers of elements, by rank, of which
 * any may be 0; `*_displacements` says how many elements from the start of the operand each block begins, in any order, NULL: one
 * behind the other. They are read before the call returns. Blocks of recv must not overlap, those of send may, unless in place.
 * What rank i sends to rank j must be what j expects from i; else MISMATCH, which names both. No rank leaves before all have
 * entered. For these and for gather, scatter and allgather_rows SYMM_ALGORITHM_TWO_SHOT_STAGED can be forced, on the host also
 * _TWO_SHOT; by itself the host reads each rank's send where it lies if it is symmetric memory, CUDA stores straight into each
 * rank's recv if that is (and not that of an all-to-all in place), and what is private, and all that is reduced with CUDA, goes
 * through the group's scratch. There is no factor and no result_dtype for symm_reduce_scatterv(). */

/** recv[recv_displacements[r] + i] = send_r[i], i < recv_counts[r]; send has recv_counts[rank] elements. The counts are the same
 *  on all ranks, the displacements need not be. In place: send == recv + recv_displacements[rank]. Since 0.2. */
SYMM_API symm_status_t symm_allgatherv(symm_group_t *group, const void *send, void *recv,
                                       const size_t *recv_counts, const size_t *recv_displacements,
                                       symm_dtype_t dtype, const symm_collective_options_t *options,
                                       void *stream);

/** recv[i] = op over ranks r of send_r[send_displacements_r[rank] + i], i < send_counts[rank]. The counts are the same on all
 *  ranks, the displacements need not be. In place: recv == send + send_displacements[rank]. Since 0.2. */
SYMM_API symm_status_t symm_reduce_scatterv(symm_group_t *group, const void *send,
                                            const size_t *send_counts,
                                            const size_t *send_displacements, void *recv,
                                            symm_dtype_t dtype, symm_op_t op,
                                            const symm_collective_options_t *options, void *stream);

/** recv[recv_displacements[r] + i] = send_r[send_displacements_r[rank] + i], i < recv_counts[r], which is send_counts_r[rank].
 *  In place: send == recv, with equal counts and displacements of both. Since 0.2. */
SYMM_API symm_status_t symm_alltoallv(symm_group_t *group, const void *send,
                                      const size_t *send_counts, const size_t *send_displacements,
                                      void *recv, const size_t *recv_counts,
                                      const size_t *recv_displacements, symm_dtype_t dtype,
                                      const symm_collective_options_t *options, void *stream);

/** symm_alltoallv() whose counts and displacements are read when it runs, from memory that the device (host back end: the host)
 *  can read: a captured call takes new ones at each replay. Other ranks may be in symm_alltoallv(). Never in place; blocks of
 * recv that overlap make it undefined. Between GPUs of several machines all ranks are in this one, with the same send_capacity,
 * and so much goes to each of them. Since 0.2.
 *  @param send_capacity  elements that send has room for, whatever the counts say; recv_capacity likewise.
 *  @return as symm_alltoallv(). A block that does not lie within its capacity is INVALID_ARGUMENT and names the count, and
 * nothing is stored; with CUDA the group fails with it when the call runs. */
SYMM_API symm_status_t symm_alltoallv_device(symm_group_t *group, const void *send,
                                             size_t send_capacity, const uint64_t *send_counts,
                                             const uint64_t *send_displacements, void *recv,
                                             size_t recv_capacity, const uint64_t *recv_counts,
                                             const uint64_t *recv_displacements, symm_dtype_t dtype,
                                             const symm_collective_options_t *options,
                                             void *stream);

/** recv[r * count + i] = send_r[i], i < count, on the root; recv is written on the root only. In place, on the root:
 *  send == recv + root * count elements. Since 0.2. */
SYMM_API symm_status_t symm_gather(symm_group_t *group, const void *send, void *recv, size_t count,
                                   symm_dtype_t dtype, int32_t root,
                                   const symm_collective_options_t *options, void *stream);

/** recv[i] = send_root[rank * count + i], i < count; send is read on the root only. In place, on the root:
 *  recv == send + root * count elements. Since 0.2. */
SYMM_API symm_status_t symm_scatter(symm_group_t *group, const void *send, void *recv, size_t count,
                                    symm_dtype_t dtype, int32_t root,
                                    const symm_collective_options_t *options, void *stream);

/** All-gather along the last dimension: recv[row * recv_stride + r * row_count + i] = send_r[row * row_count + i], row < rows,
 *  i < row_count. Since 0.2.
 *  @param rows         of send, which has rows * row_count elements.
 *  @param recv_stride  elements from one row of recv to the next, >= size * row_count; what lies between is left alone. It need
 *                      not be the same on all ranks. */
SYMM_API symm_status_t symm_allgather_rows(symm_group_t *group, const void *send, void *recv,
                                           size_t rows, size_t row_count, size_t recv_stride,
                                           symm_dtype_t dtype,
                                           const symm_collective_options_t *options, void *stream);

/** What symm_allreduce_rmsnorm() adds to the sum, how it normalises, and where results go. Matrices are [tokens][hidden], rows
 * one behind the other; weight, matrices and send begin at multiples of 16 bytes. NULL: there is none, or it is not wanted. */
typedef struct {
  size_t struct_size;
  const void *residual_in;   /**< added to the sum; of dtype */
  void *residual_out;        /**< sum + residual, of dtype */
  void *norm_out;            /**< the normalised rows, of dtype */
  const void *weight;        /**< [hidden]; not NULL */
  symm_dtype_t weight_dtype; /**< F32, F16 or BF16; 0: dtype */
  double epsilon;            /**< rounded to f32, as the offset; finite and not negative */
  double weight_offset;      /**< added to each weight: 1 for Gemma's, else 0 */
  symm_quant_scale_t scale_kind;
  void *quant_out;      /**< the normalised rows divided by their scale, of F8E4M3 */
  const void *scale_in; /**< TENSOR: the scale as one aligned f32, read when the call runs */
  void *scale_out;      /**< of f32. TOKEN: [tokens]; GROUP: [tokens][hidden / 128] */
} symm_rmsnorm_t;

#define SYMM_RMSNORM_INIT                                       \
  {sizeof(symm_rmsnorm_t),  NULL, NULL, NULL, NULL, 0, 1e-6, 0, \
   SYMM_QUANT_SCALE_TENSOR, NULL, NULL, NULL}

/** All-reduce, residual and RMSNorm in one: what a transformer does behind each row-parallel product. With s the sum over ranks
 * of send, combined as by symm_allreduce() and rounded to dtype, and all else in f32, each operation rounded once, none fused: h
 * = round(s + residual_in)                    -> residual_out y = round((h * (1 / sqrt(mean(h^2) + epsilon))) * (weight_offset +
 * weight))   -> norm_out q = f8e4m3(y / scale), saturating             -> quant_out where round() is to dtype; scale is
 * max(largest |y| / 448, 1 / (448 * 512)) of TOKEN and GROUP, for which NaN do not count. The squares are added in one order:
 * element i belongs to chain (i / 8) mod 1024, in which elements follow each other; then chains 2k and 2k + 1 are added, then
 * pairs of those, and so on. So the bits are those of this text on every back end, for any number of tokens, by any algorithm;
 * residual_in, weight and all outputs may be any memory of this process, and each rank's own. An output may be residual_in,
 * norm_out or residual_out may be send; otherwise nothing that is written overlaps anything. dtype is F32, F16 or BF16; hidden a
 * multiple of 8 (GROUP: of 128), at most 32 KB of dtype. options have no factor and no result_dtype; with CUDA ONE_SHOT is one
 * kernel, others are the all-reduce and a kernel behind it. Since 0.2.
 *  @param tokens  rows, 0 also with NULL pointers; must agree on all ranks, as hidden and dtype must. */
SYMM_API symm_status_t symm_allreduce_rmsnorm(symm_group_t *group, const void *send, size_t tokens,
                                              size_t hidden, symm_dtype_t dtype,
                                              const symm_rmsnorm_t *norm,
                                              const symm_collective_options_t *options,
                                              void *stream);

/** Set the first `struct_size` bytes of `norm` to the defaults. [local] Since 0.2. */
SYMM_API symm_status_t symm_rmsnorm_init(symm_rmsnorm_t *norm, size_t struct_size);

/** The algorithm chosen for a call, and why. Filled by symm_collective_plan(). */
typedef struct {
  size_t struct_size;
  symm_algorithm_t algorithm;
  int32_t slices;       /**< parts into which the work is divided among the ranks */
  uint64_t chunk_bytes; /**< bytes moved per step and rank when staged, else 0 */
  int32_t nontemporal;  /**< 1 if results bypass the cache */
  char reason[192];
} symm_plan_info_t;

/** One call of a collective. */
typedef struct {
  size_t struct_size;
  symm_collective_t collective;
  const void *send;
  void *recv;
  size_t count; /**< as the collective's own count argument */
  symm_dtype_t dtype;
  symm_op_t op;              /**< ignored where the collective has none */
  int32_t root;              /**< likewise */
  const size_t *send_counts; /**< this and what follows likewise */
  const size_t *send_displacements;
  const size_t *recv_counts;
  const size_t *recv_displacements;
  size_t
      rows; /**< whose `count` is row_count; of an all-reduce with RMSNorm tokens, and `count` is hidden */
  size_t recv_stride;
} symm_collective_call_t;

#define SYMM_COLLECTIVE_CALL_INIT  \
  {sizeof(symm_collective_call_t), \
   SYMM_COLLECTIVE_ALLREDUCE,      \
   NULL,                           \
   NULL,                           \
   0,                              \
   SYMM_DTYPE_F32,                 \
   SYMM_OP_SUM,                    \
   0,                              \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   0,                              \
   0}

/** Which algorithm a collective would use if every rank passed memory like this rank's. [local] Since 0.2.
 *  @param call     its arguments, as the collective takes them on this rank.
 *  @return INVALID_ARGUMENT, UNSUPPORTED, as the collective would answer. */
SYMM_API symm_status_t symm_collective_plan(symm_group_t *group, const symm_collective_call_t *call,
                                            const symm_collective_options_t *options,
                                            symm_plan_info_t *out);

/* ---- ipc ------------------------------------------------------------------------------------------- */

/* Sharing memory with any process of this user on this machine, outside of any group. The owner makes a token, which is plain
 * bytes and may travel by any means (queue, socket, file, standard input); whoever imports it gets the same physical memory.
 *
 *   Lease       Each import is a lease on the piece of memory that the token names. It ends with the last symm_ipc_release(), or
 *               with the death of the process that holds it. A token may be imported any number of times, by any number of
 *               processes, also in the process that made it, or never.
 *   Lifetime    Memory lives as long as anybody maps it. Releasing the buffer ends its tokens: what was imported before stays
 *               as it is, and is in limbo (counted by symm_ipc_stats()) until the last lease is over. When the process that
 *               made a token dies, those that imported it keep the data.
 *   Re-use      To write new data where others may still read, call symm_ipc_withdraw() first: it ends the tokens of that
 *               piece and waits for their leases.
 *   Ordering    What was written before symm_ipc_export() (with CUDA: issued on its stream) is there after symm_ipc_import() (on
 *               its stream); what the importer issued on the stream of symm_ipc_release() is over when its lease is.
 *   Where       The importer connects to a socket in a private directory: $SYMM_IPC_DIRECTORY, else $XDG_RUNTIME_DIR/symm, else
 *               /tmp/symm-<uid>. Processes in different PID, network or IPC namespaces need only share that directory.
 *   Threads     The first export or import starts threads that serve importers and notice deaths. After fork() the child
 *               starts afresh: buffers and imports of its parent are none of its own. */

/** Longest token in bytes. */
#define SYMM_IPC_TOKEN_MAX_SIZE 512

/** How to export; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t
      hold_ms; /**< keep the memory for this token, though its buffer is released, for as long from now; 0:
                                $SYMM_IPC_HOLD_MS, else do not */
  uint64_t
      hold_imports; /**< or until so many imports of this token were made; 0: only hold_ms ends it */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_ipc_export_options_t;

#define SYMM_IPC_EXPORT_OPTIONS_INIT {sizeof(symm_ipc_export_options_t), 0, 0, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.1. */
SYMM_API symm_status_t symm_ipc_export_options_init(symm_ipc_export_options_t *options,
                                                    size_t struct_size);

/** Make a token for `size` bytes at `pointer`. [local] [stream] Costs no system call after the first for a buffer.
 *  @param pointer    anywhere inside a buffer of symm_alloc() or an import of symm_ipc_import(); with CUDA also inside any
 *                    allocation that the driver can export (cuMemCreate with a POSIX file descriptor), which then is kept
 *                    until symm_ipc_withdraw(). A token for imported memory names the process that made that memory, or
 *                    this one if that one is dead.
 *  @param size       bytes; the whole buffer is mapped by the importer, whatever the size. Of 0 bytes, `pointer` may be NULL or
 *                    anything: the token stays good, and its import has no memory and no owner, but the device of `pointer`.
 *  @param out_token  receives the token.
 *  @param capacity   bytes that out_token holds; SYMM_IPC_TOKEN_MAX_SIZE is always enough.
 *  @param out_size   receives the length of the token.
 *  @return INVALID_ARGUMENT (not memory that can be exported, range, capacity), UNSUPPORTED (hold_ms for imported memory, which
 *          only its owner can hold), OUT_OF_MEMORY, SYSTEM, UNAVAILABLE (the directory is not private; a rank
 *          of a group that failed may still write there), PEER_FAILED, CUDA. Since 0.1. */
SYMM_API symm_status_t symm_ipc_export(const void *pointer, size_t size,
                                       const symm_ipc_export_options_t *options, void *out_token,
                                       size_t capacity, size_t *out_size, void *stream);

/** How to import; NULL means the defaults. */
typedef struct {
  size_t struct_size;
  uint64_t timeout_ms; /**< for the exporter's answer; 0: $SYMM_TIMEOUT_MS, else 60,000 */
  const char *
      directory; /**< where $SYMM_IPC_DIRECTORY of the exporter is seen here; NULL: under the same path */
  int32_t
      device; /**< CUDA ordinal for which to map; SYMM_DEVICE_AUTO: the GPU that has the memory */
  symm_failure_t *failure; /**< NULL, or receives the failure of this call */
} symm_ipc_import_options_t;

#define SYMM_IPC_IMPORT_OPTIONS_INIT \
  {sizeof(symm_ipc_import_options_t), 0, NULL, SYMM_DEVICE_AUTO, NULL}

/** Set the first `struct_size` bytes of `options` to the defaults. [local] Since 0.1. */
SYMM_API symm_status_t symm_ipc_import_options_init(symm_ipc_import_options_t *options,
                                                    size_t struct_size);

/** Map the memory that a token names. [local] [blocking, options.timeout_ms] [stream] Imports of one buffer in one process share
 *  one mapping; after the first, importing another piece of it is local.
 *  @param token       as made by symm_ipc_export(), exactly `token_size` bytes.
 *  @return INVALID_ARGUMENT (not a token, cut short, damaged, forged), UNSUPPORTED (made by a newer library),
 *          UNAVAILABLE (made on another machine or by another user; its GPU or directory is not visible here),
 *          INVALID_HANDLE (the memory was released or withdrawn), PEER_FAILED (the exporter is gone), TIMEOUT (it does not
 *          answer), OUT_OF_MEMORY, SYSTEM, CUDA. Since 0.1. */
SYMM_API symm_status_t symm_ipc_import(const void *token, size_t token_size,
                                       const symm_ipc_import_options_t *options, symm_ipc_t **out,
                                       void *stream);

/** Address of the imported piece; NULL of 0 bytes. [local] Valid until the last symm_ipc_release(), even after the exporter died.
 *  Since 0.1. */
SYMM_API symm_status_t symm_ipc_pointer(symm_ipc_t *ipc, void **out_pointer);
/** Bytes of the imported piece. [local] Since 0.1. */
SYMM_API symm_status_t symm_ipc_size(symm_ipc_t *ipc, size_t *out_bytes);

/** What is known of an import. Filled by symm_ipc_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  int32_t device;         /**< for which it is mapped here; 0 with the host back end */
  uint64_t bytes;         /**< of the piece */
  uint64_t offset;        /**< of the piece in the exporter's block */
  uint64_t block_bytes;   /**< of that block */
  int64_t exporter_pid;   /**< as the exporter itself knows it */
  int32_t exporter_alive; /**< 0 once its death or departure was noticed */
  int32_t
      host_memory; /**< 1 if the host may touch it: of the host back end, or of SYMM_ALLOC_HOST */
} symm_ipc_info_t;

/** Describe an import. [local] Since 0.1. */
SYMM_API symm_status_t symm_ipc_info(symm_ipc_t *ipc, symm_ipc_info_t *out);

/** What is issued on `stream` next runs after what the exporter had issued before the export, too. [local] [stream] Since 0.2.
 *  @return INVALID_HANDLE, INVALID_ARGUMENT (captured), CUDA. */
SYMM_API symm_status_t symm_ipc_stream_wait(symm_ipc_t *ipc, void *stream);
/** Say that what was issued on `stream` so far uses the import: its lease does not end before that is over. [local] [stream]
 * Since 0.2. */
SYMM_API symm_status_t symm_ipc_record_use(symm_ipc_t *ipc, void *stream);

/** Add a reference. [local] Since 0.2. */
SYMM_API symm_status_t symm_ipc_retain(symm_ipc_t *ipc);
/** Drop a reference to an import, which ends with the last. [local] [stream] NULL is accepted. Never waits: with CUDA the lease
 *  ends when what was issued before on the `stream` of each release is over, and what was recorded.
 *  @param stream  SYMM_ALL_STREAMS: all that the device has to do; in a capture, or with a driver before 12.5, the end may then
 * be noticed no sooner than by the next allocation, release or symm_ipc_collect(). Since 0.1. */
SYMM_API void symm_ipc_release(symm_ipc_t *ipc, void *stream);

/** End the tokens made so far for any part of a piece of memory, and wait until nobody holds a lease on any part of it: then it
 *  may be written anew and exported again. [local] [blocking] Tokens of other pieces stay valid.
 *  @param pointer     inside memory that this process can export.
 *  @param size        bytes; of 0 there is nothing to do.
 *  @param timeout_ms  0: $SYMM_TIMEOUT_MS, else 60,000.
 *  @return TIMEOUT (names a holder; its tokens have ended all the same), PEER_FAILED (a holder is gone, but may still write:
 *          a GPU may be finishing its work, or its death cannot be confirmed. Release the buffer, do not use it again),
 *          INVALID_ARGUMENT. Since 0.1. */
SYMM_API symm_status_t symm_ipc_withdraw(const void *pointer, size_t size, uint64_t timeout_ms);

/** Who holds leases on a piece of memory. Filled by symm_ipc_holders(). */
typedef struct {
  size_t struct_size;
  uint64_t leases;     /**< on any part of the piece; 0: nobody holds it now */
  uint64_t processes;  /**< that hold them */
  int64_t pid;         /**< one of these, 0 if there is none or its pid is not visible here */
  int32_t quarantined; /**< 1 if a process that held the block is gone, but may still write to it */
} symm_ipc_holders_t;

/** Ask who holds a piece of memory, without ending its tokens: those who have one may import it at any time. [local] Never waits;
 *  looks at all leases. Since 0.2.
 *  @param pointer  inside memory that this process can export.
 *  @param size     bytes.
 *  @return INVALID_ARGUMENT, as symm_ipc_withdraw(). */
SYMM_API symm_status_t symm_ipc_holders(const void *pointer, size_t size, symm_ipc_holders_t *out);

/** What collections have done since the process began, of symm_ipc_collect() and of the library's own: the difference of two
 *  reports is what happened in between. Filled by symm_ipc_collect(). */
typedef struct {
  size_t struct_size;
  uint64_t leases_ended;       /**< found released by their holders */
  uint64_t leases_written_off; /**< of holders that died */
  uint64_t blocks_freed;       /**< released buffers that nobody holds any more */
  uint64_t bytes_freed;        /**< of these */
  uint64_t mappings_dropped;   /**< of other processes' memory, kept here for the next import */
  uint64_t blocks_in_limbo;    /**< released buffers that somebody still holds now */
  uint64_t bytes_in_limbo;     /**< of these */
} symm_ipc_report_t;

/** Free what is provably free. [local] Never waits. Looks only at consumers that have released something, never at all leases.
 *  symm_ipc_export() does the exporter's half of it, symm_alloc() all of it when memory is short. Since 0.1.
 *  @param[in,out] out  totals, this collection's included; NULL: not asked for. */
SYMM_API symm_status_t symm_ipc_collect(symm_ipc_report_t *out);

/** The state of sharing in this process. Filled by symm_ipc_stats(). */
typedef struct {
  size_t struct_size;
  uint64_t tokens;          /**< made so far */
  uint64_t exported_blocks; /**< that can be imported now */
  uint64_t exported_bytes;  /**< of these */
  uint64_t grants;          /**< leases given so far */
  uint64_t leased; /**< leases that others, and this process, hold on memory of this process */
  uint64_t leased_blocks; /**< on which there are leases */
  uint64_t limbo_blocks;  /**< released, but still held */
  uint64_t limbo_bytes;   /**< of these */
  uint64_t
      quarantined_blocks; /**< on which a holder that is gone may still write; never to be used again */
  uint64_t quarantined_bytes;    /**< of these */
  uint64_t written_off;          /**< leases of dead holders so far */
  uint64_t refused;              /**< imports refused so far: forged, stale */
  uint64_t rejected_connections; /**< of other users, or that broke the protocol */
  uint64_t consumers;            /**< processes connected to this one */
  uint64_t
      imported; /**< imports from other processes that are not released; those of its own count as `leased` */
  uint64_t imported_blocks; /**< mapped here for them, or kept for the next */
  uint64_t imported_bytes;  /**< of these */
  uint64_t exporters;       /**< processes to which this one is connected */
  uint64_t collections;     /**< run so far */
  uint64_t oldest_lease_ms; /**< age of the oldest lease, 0 if there is none */
  int64_t oldest_lease_pid; /**< its holder, 0 if the pid is not visible here */
  uint64_t
      oldest_lease_start_time; /**< of the holder, in clock ticks since boot (/proc/<pid>/stat, field 22), 0 if unknown */
} symm_ipc_stats_t;

/** Ask for the state of sharing. [local] Since 0.1. */
SYMM_API symm_status_t symm_ipc_stats(symm_ipc_stats_t *out);

#ifdef __cplusplus
}
#endif

#endif /* SYMM_SYMM_H */
