/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symm: symmetric memory for any language.
 *
 * Ranks, which are processes or threads of one process, form a group. Each rank allocates a
 * block of the same size, and after a rendezvous every rank can load from and store to the
 * block of every other rank. Collectives run on that memory.
 *
 * This header is the interface that is promised. It is C99 and needs only <stddef.h> and
 * <stdint.h>. fused.h beside it has calls that may still change, and kernels of your own use
 * device.cuh. The usual order of calls is:
 *
 *     symm_group_create(NULL, &group);                rank and size come from the launcher
 *     symm_alloc(group, bytes, NULL, &buffer);        this rank's block
 *     symm_rendezvous(group, buffer, NULL, &memory);  from here on every rank's block is mapped
 *     symm_memory_pointer(memory, rank, &pointer);    here that rank's block lies
 *     symm_barrier(group, NULL, 0, 0, NULL, stream);
 *     symm_allreduce(group, x, x, count, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, stream);
 *
 * The conventions come first, then a chapter for each kind of call.
 *
 * Tags
 *   The tags behind the first sentence of a function say how to call it.
 *   - [local]: the call involves this rank only.
 *   - [collective]: every rank of the group must make the call, or every rank of the set that
 *     the tag names.
 *   - [blocking]: the call returns when its work is done. [blocking, D]: or when the deadline D
 *     has passed.
 *   - [stream]: the call is ordered on its argument `stream`; see Streams.
 *   - [capturable]: the call may be made while a CUDA stream is being captured; see Capture.
 *
 * Tiers
 *   What this header declares is promised: docs/versioning.md says what stays. Two things are
 *   not.
 *   - [experimental] behind the first sentence of a constant: the name and the value stay, and
 *     will never mean anything else. What else is said of it may change with any minor version,
 *     and a later library may refuse it with UNSUPPORTED where a program names it. A call that
 *     leaves the choice to the library keeps its meaning.
 *   - fused.h has a version of its own, which tells when something in it has changed.
 *
 * Status
 *   Every function that can fail returns symm_status_t: SYMM_OK (0) or a negative code. A
 *   failing call leaves its message for symm_last_error() on the calling thread; a succeeding
 *   call leaves that message alone. Three codes tell apart how a call was refused:
 *   - INVALID_ARGUMENT: no version of symm accepts the argument, which is negative, NULL or out
 *     of range.
 *   - UNSUPPORTED: this library is too old for an unknown flag, data type, operation, algorithm
 *     or struct field, or the back end cannot do what was asked.
 *   - NOT_FOUND: a look-up answers "no". The message says nothing more.
 *
 * Errors
 *   The comment of a function lists the errors that it can return. Left out there, unless there
 *   is more to say, are those that any function can return:
 *   - INVALID_ARGUMENT: a pointer that must not be NULL, and is not a handle, is NULL, a
 *     struct_size, that of options.failure included, is too small or was never set, a number is
 *     out of range, or flags contradict each other.
 *   - UNSUPPORTED: a constant, a flag or a struct field belongs to a newer version of symm.
 *   - INVALID_HANDLE: a handle is NULL or not valid; SYMM_ERR_INVALID_HANDLE says what that
 *     means.
 *   - OUT_OF_MEMORY: host memory has run out, or all handles of one kind are in use or were.
 *   - CUDA: a call of the CUDA driver failed, or work that was issued before did.
 *   - INTERNAL: a defect of symm.
 *   - The failure of the group: where a call works on a group, or on memory of one, that has
 *     been revoked, it returns the status that the group was revoked with (see Failures).
 *
 *   Where several arguments of a call are wrong, any of them may be the one that is told.
 *
 * Parameters
 *   The object that is worked on comes first; in a look-up it is the object that is searched.
 *   Then come the other inputs, `options`, the outputs, and `stream`, which orders the call. In
 *   symm_stream_wait(), symm_stream_query() and symm_group_synchronize() streams are inputs.
 *   `bytes` and *_bytes are numbers of bytes, `size` is a number of ranks, and `count` is a
 *   number of elements.
 *
 * Options
 *   Every call that acts takes a struct of options. That is symm_call_options_t, with the
 *   deadline of this one call and a place for its failure, unless the call has a struct of its
 *   own, with more fields. NULL means the defaults. The deadline has no meaning where a call
 *   does not wait. These calls have no options:
 *   - What gives a fixed property of an object: *_rank(), *_size(), *_bytes(), *_group(),
 *     *_pointer(), symm_memory_buffer(), symm_memory_signal_pad(), symm_memory_*_table() and
 *     symm_heap_memory(). But symm_memory_multicast_pointer() and symm_buffer_memory() have
 *     them.
 *   - *_info(), *_stats(), *_topology() and symm_request_fd().
 *   - What tells the state of a group: symm_group_status(), symm_group_failed_ranks() and
 *     symm_group_failure_fd(); and symm_group_abort().
 *   - *_retain() and *_release().
 *   - What concerns the library as a whole: devices, listeners, symm_thread_interrupt(),
 *     symm_dtype_bytes(), the last failure, statuses, and versions.
 *
 * Outputs
 *   Parameters named out or out_* are written only on success, but for out_bytes of
 *   symm_broadcast_bytes(). The first output of a call is required, and all further ones may be
 *   NULL, unless a comment says otherwise. An array out_* with a `capacity` may be NULL where
 *   the capacity is 0.
 *
 * Structs
 *   The first field is struct_size, which the caller sets to the sizeof of the struct. No more
 *   of an output is written than that, and fields that this library does not know become zero.
 *   A struct_size must reach to the end of the last field that the struct had when it first
 *   appeared, and be at most 4096, which no struct exceeds; anything else is INVALID_ARGUMENT.
 *   Zero is the default of every field: a zeroed struct of options with its struct_size means
 *   what NULL means. The macros SYMM_*_INIT are such structs. Fields are only ever appended. A
 *   struct of a newer header is accepted while the part that this library does not know is
 *   zero. A struct symm_*_options_t says how a call is made and may be NULL; a struct
 *   symm_*_call_t has arguments of a call and must be given. Only symm_piece_t, of which there
 *   are long lists, has no struct_size.
 *
 * Texts
 *   Texts are UTF-8. Names, tags and reasons that a caller gives are taken as one line: each
 *   byte of a control character, or of a separator of lines or paragraphs, becomes a space, and
 *   each byte that belongs to no character becomes "?". Names that differ in these only are one
 *   name. Other texts, such as `bootstrap`, may have
 *   any bytes. All texts that the library gives, messages among them, are one line of UTF-8.
 *
 * Flags
 *   Flags are macros of type uint64_t, which stand above the struct that they belong to. Some
 *   say that a field counts; without such a flag the field must be 0. A flag beside its
 *   opposite, as SYMM_GROUP_CHECK beside SYMM_GROUP_NO_CHECK, is INVALID_ARGUMENT.
 *
 * Handles
 *   A handle is opaque and reference counted. Creation gives the caller one reference. A
 *   look-up gives the handle that exists already, if there is one, with one more reference. A
 *   memory keeps its buffer and its group alive, so handles may be released in any order.
 *   - Release: *_release() accepts NULL, is local, never waits and never fails.
 *   - Stale handles: a handle that was released, or that belongs to the parent of a fork, is
 *     refused with INVALID_HANDLE. No number of a handle is given out twice.
 *   - Calls under way: do not drop the last reference to a handle during a call on it. To end
 *     such a call from elsewhere, use symm_group_abort().
 *   - const: no handle is const, not even in a query, which may be the first to find that the
 *     group has failed.
 *
 * Threads
 *   All functions may be called from any thread, and concurrently on distinct handles.
 *   - Order: collective calls on one group must be made in the same order on all ranks. Calls
 *     that several threads of a rank make on one group are serialised inside. Threads whose
 *     calls cannot be ordered need a group each, made by symm_group_split(); symm_group_info()
 *     tells what a group costs. A call that does not get its turn before its deadline is
 *     TIMEOUT, which revokes the group.
 *   - Different calls: ranks that wait for each other in different calls, as in a barrier and
 *     in an all-reduce, would wait in vain. With the host back end they get MISMATCH, which
 *     names both calls, after a second. If several threads of such a rank have been seen to
 *     wait, another of them may still come, and only the deadline ends the wait. So it is with
 *     a wait for a signal or a word, which is no call of all ranks: a put by any thread of any
 *     rank may still end it, and what is late is TIMEOUT.
 *   - Cancellation: a thread that is cancelled by pthread_cancel() during a call ends when the
 *     call has returned, so symm_group_abort() or a deadline ends such a call. A thread that
 *     may be cancelled at any instruction (PTHREAD_CANCEL_ASYNCHRONOUS) must not call.
 *   - Signals: a signal's handler runs at once, and then the call goes on waiting, unless
 *     symm_thread_interrupt() says otherwise. No function may be called from a handler, nor
 *     symm_group_abort(): a handler sets a variable for the callback of
 *     symm_thread_interrupt().
 *   - Callbacks: none may unwind, by an exception, a panic, longjmp() or pthread_exit().
 *   - Descriptors: all threads that call must share one table of descriptors, since the library
 *     uses its descriptors on threads of its own, too. A thread that has left the table by
 *     unshare(CLONE_FILES) or close_range(CLOSE_RANGE_UNSHARE) must not call.
 *
 * Streams
 *   With the host back end `stream` must be NULL, anything else is INVALID_ARGUMENT, and a
 *   [stream] call blocks: the result is there when it returns. With the CUDA back end a
 *   [stream] call returns when its work is enqueued. NULL is the legacy default stream there,
 *   and CU_STREAM_LEGACY and CU_STREAM_PER_THREAD mean what they mean to the driver. A stream
 *   whose capture was invalidated is INVALID_ARGUMENT.
 *
 * Requests
 *   With the host back end a call does not block if its options have a place for a request;
 *   see the chapter on requests.
 *
 * Capture
 *   A [stream] call on a stream that is being captured becomes part of the CUDA graph, unless
 *   it is one of symm_ipc_*(). Look-ups, queries and symm_rendezvous() of a buffer that has met
 *   already run at once and leave the capture valid. A call without the tag [capturable] makes
 *   no such promise.
 *   - Make each call once before it is captured: the first one loads its kernel.
 *   - Up to 64 captures may take turns on a group. In each of them its calls keep their order.
 *
 * Deadlines
 *   A deadline is given in milliseconds. 0 means the default of the group,
 *   SYMM_TIMEOUT_INFINITE waits for ever, and SYMM_TIMEOUT_NOW looks once. On a stream the time
 *   counts from when the work begins to wait, not from the call.
 *
 * Failures
 *   A group fails as a whole. When a rank dies, misses a deadline, aborts, or makes another
 *   call than the others, the group is revoked: every pending and every later call on it
 *   returns the same status on every rank, and symm_group_status() names the rank to blame.
 *   - Several failures: the earliest counts. As soon as the news has gone round, within
 *     milliseconds, all living ranks report that one.
 *   - Afterwards: only release, queries and symm_group_shrink() remain useful. The latter
 *     agrees on who lives, and makes a new group of the survivors.
 *   - Event loops: symm_group_failure_fd() is a descriptor that becomes readable.
 *   - Which call failed: the thread that made it asks symm_last_failure(). Where tasks change
 *     threads between two calls, options.failure points to a symm_failure_t of the caller's.
 *     That stays as it was where its own struct_size or that of the options is refused.
 *   - Streams: what fails on a stream after its call has returned is reported by later calls,
 *     and by symm_group_status().
 *   - Graphs: a captured CUDA graph does not ask the library. Replayed after a revocation, it
 *     ends by itself, and what it stores is undefined.
 *
 * Back ends
 *   A call means the same on every back end, with these differences:
 *   - SYMM_OK of a [stream] call means "done" on the host, and "enqueued" with CUDA.
 *   - When the deadline of a wait for a signal or a word passes, a host group stays usable and
 *     a CUDA group is revoked.
 *   - With CUDA, a message has to be exactly as long as the room for it, a send is over only
 *     when its message is received, and what a rank sends to itself is received in the same
 *     call; the chapter on messages has more.
 *   - With CUDA, a round of an exchange that is not over before the deadline, or whose
 *     neighbour has left, revokes the group, and symm_exchange_create() is UNSUPPORTED between
 *     machines.
 *   - With CUDA, small messages of ranks that disagree only in data type or operation may give
 *     a wrong result instead of MISMATCH. SYMM_GROUP_CHECK tells them apart.
 *   - SYMM_ALGORITHM_TWO_SHOT needs symmetric memory on the host.
 *   - SYMM_GROUP_SHARED_SCRATCH is for CUDA.
 *   - docs/machines.md lists what differs between ranks on several machines.
 *
 * Limits
 *   A host group has at most 32767 ranks. A CUDA group has at most 72 ranks and 256 memories. A
 *   group or a memory has at most 256 channels. A process has at most 2^20 handles of a kind at
 *   once, and 2^35 in its life. symm_group_info() has these numbers. Texts are cut at the end
 *   of a character: names and tags to 63 bytes, messages to what their struct holds, and what
 *   one rank tells the others of a failure to 512 bytes.
 *
 * Platforms
 *   Linux. CUDA needs a driver of version 12.0 or later. ROCm is not supported.
 *
 * Environment
 *   docs/environment.md, symm_build_info() and `symm info --env` list the environment
 *   variables. A variable changes a default: SYMM_CHECK=0 does not switch off SYMM_GROUP_CHECK,
 *   and SYMM_CHECK=1 does not overrule SYMM_GROUP_NO_CHECK. Only SYMM_MULTICAST=0 forbids what
 *   a configuration asks for.
 */
#ifndef SYMM_SYMM_H
#define SYMM_SYMM_H

#include <stddef.h>
#include <stdint.h>

/** Major version of this header. */
#define SYMM_VERSION_MAJOR 0
/** Minor version of this header. */
#define SYMM_VERSION_MINOR 2
/** Patch version of this header. */
#define SYMM_VERSION_PATCH 0
/** Version of this header: major << 24 | minor << 12 | patch. symm_version() compares to it. */
#define SYMM_VERSION \
  ((SYMM_VERSION_MAJOR << 24) | (SYMM_VERSION_MINOR << 12) | SYMM_VERSION_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define SYMM_API __attribute__((visibility("default")))
#else
#define SYMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants ------------------------------------------------------------------------- */

/*
 * Each kind of constant is an integer type, symm_x_t, and an enum of its values, symm_x_values,
 * so that its size is fixed and a value of a newer version of symm can pass through.
 */

/** Result of a call. Values are fixed for ever; new ones may be added. */
typedef int32_t symm_status_t;
enum symm_status_values {
  /** The call did what was asked. */
  SYMM_OK = 0,
  /** An argument is out of range; the message names it. */
  SYMM_ERR_INVALID_ARGUMENT = -1,
  /**
   * What was given names nothing that can be used: a handle is NULL, was released, is of
   * another type, was inherited through fork(), or belongs to a finalized group or to memory of
   * one; or the memory of a token was released or withdrawn.
   */
  SYMM_ERR_INVALID_HANDLE = -2,
  /** Memory of the host or a device has run out, or a limit on it was hit. */
  SYMM_ERR_OUT_OF_MEMORY = -3,
  /** This machine has no such device, driver, launcher or feature. */
  SYMM_ERR_UNAVAILABLE = -4,
  /** This library does not do that: it is too old, or the back end cannot. */
  SYMM_ERR_UNSUPPORTED = -5,
  /** A deadline passed; the message names who was awaited. */
  SYMM_ERR_TIMEOUT = -6,
  /**
   * symm_group_abort() was called, here or on another rank; or a put came too late for a
   * symm_ipc_fence() of the memory's owner.
   */
  SYMM_ERR_ABORTED = -7,
  /** A rank died or left; the message gives its rank and pid. */
  SYMM_ERR_PEER_FAILED = -8,
  /** Ranks disagree about a size, an operation, a data type, a count or the like. */
  SYMM_ERR_MISMATCH = -9,
  /** A system call failed; the message names it and its errno. */
  SYMM_ERR_SYSTEM = -10,
  /** A call of the CUDA driver failed; the message names it and its result. */
  SYMM_ERR_CUDA = -11,
  /** A defect of this library. */
  SYMM_ERR_INTERNAL = -13,
  /** A look-up found nothing. */
  SYMM_ERR_NOT_FOUND = -14
};

/**
 * Data type. The value is (DLPack type code) << 8 | bits, one lane. DLPack has no pairs: the
 * code of a pair is 0x80 | (DLPack type code of its value), and its bits are those of both
 * parts.
 */
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
  /** A byte: 0 is false, all else is true; results are 0 or 1. */
  SYMM_DTYPE_BOOL = 0x0608,
  /** The finite-only variant (float8_e4m3fn of DLPack); finite results saturate at +-448. */
  SYMM_DTYPE_F8E4M3 = 0x0A08,
  /** Finite results saturate at +-57344; infinite ones stay infinite. */
  SYMM_DTYPE_F8E5M2 = 0x0C08,
  /** A complex number: two F32, the real part first. */
  SYMM_DTYPE_C64 = 0x0540,
  /** A complex number: two F64, the real part first. */
  SYMM_DTYPE_C128 = 0x0580,
  /** A pair: an I32 as value, then an I32 as index. */
  SYMM_DTYPE_I32_I32 = 0x8040,
  /** A pair: an I64 as value, then an I64 as index. */
  SYMM_DTYPE_I64_I64 = 0x8080,
  /** A pair: an F32 as value, then an I32 as index. */
  SYMM_DTYPE_F32_I32 = 0x8240,
  /** A pair: an F64 as value, then an I64 as index. */
  SYMM_DTYPE_F64_I64 = 0x8280
};

/**
 * Reduction operation. Ranks are combined in the order 0, 1, ..., size-1, on every rank and by
 * every algorithm, so the result has the same bits everywhere; symm_algorithm_t names the
 * exceptions.
 *
 * F16, BF16 and F8 are combined in f32 and rounded once, to nearest even. An infinite operand
 * gives what it gives in f32, infinity or NaN, in groups of every size; F8 saturates where all
 * operands are finite (and with a factor, what is rounded at the end), and only there. MIN and
 * MAX return the bits of an operand, and NaN if any operand is NaN. The payload of a NaN result
 * is unspecified.
 *
 * Integers wrap. AVG is the sum divided by the number of ranks, for integers truncated towards
 * zero.
 *
 * For BOOL, SUM and MAX are "or", MIN and PROD are "and", and AVG is INVALID_ARGUMENT.
 *
 * BAND, BOR and BXOR are "and", "or" and "exclusive or" of each bit, of integers only: with
 * all other types they are INVALID_ARGUMENT.
 *
 * SUM and AVG of complex numbers are those of their parts. PROD of a and b is, each product and
 * each sum of two of them rounded once,
 * (a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real), also where that is
 * NaN and the product of C, which looks for infinities, is not. All other operations of them
 * are INVALID_ARGUMENT, and so are a factor and a result_dtype.
 *
 * MINLOC and MAXLOC are of pairs of a value and an index, and pairs have no other operation:
 * everything else is INVALID_ARGUMENT. The result is the pair with the least or the greatest
 * value, of equal values the pair with the lowest index; it has the bits of an operand. A value
 * that is NaN is ahead of all that are not; the lowest index decides between several. -0.0 and
 * +0.0 are equal. An index is signed; the caller chooses what it says, for instance where the
 * value lies among all ranks' values. Results do not depend on the order of ranks.
 */
typedef int32_t symm_op_t;
enum symm_op_values {
  SYMM_OP_SUM = 0,
  SYMM_OP_AVG = 1,
  SYMM_OP_MIN = 2,
  SYMM_OP_MAX = 3,
  SYMM_OP_PROD = 4,
  SYMM_OP_BAND = 5,
  SYMM_OP_BOR = 6,
  SYMM_OP_BXOR = 7,
  /** The pair with the least value. */
  SYMM_OP_MINLOC = 8,
  /** The pair with the greatest value. */
  SYMM_OP_MAXLOC = 9
};

/** Where a factor is multiplied in; see symm_collective_options_t. */
typedef int32_t symm_scale_t;
enum symm_scale_values {
  /** There is no factor. */
  SYMM_SCALE_NONE = 0,
  /** Every operand is multiplied before it is combined. */
  SYMM_SCALE_BEFORE = 1,
  /** The result is multiplied, after the division of AVG and before rounding. */
  SYMM_SCALE_AFTER = 2
};

/**
 * The order in which a collective combines the floats of the ranks; see the introduction of the
 * chapter on collectives. Minima, maxima, and operations of integers and BOOL are the same in
 * any order.
 */
typedef int32_t symm_order_t;
enum symm_order_values {
  /** That of the group: SYMM_GROUP_TREE_ORDER, SYMM_GROUP_ANY_ORDER, else ranks. */
  SYMM_ORDER_GROUP = 0,
  /** ((rank 0, rank 1), rank 2), and so on. */
  SYMM_ORDER_RANKS = 1,
  /** As a balanced binary tree; as SYMM_GROUP_TREE_ORDER. */
  SYMM_ORDER_TREE = 2,
  /** As the algorithm likes; as SYMM_GROUP_ANY_ORDER. */
  SYMM_ORDER_ANY = 3
};

/** What memory a group works on. */
typedef int32_t symm_backend_t;
enum symm_backend_values {
  /**
   * $SYMM_BACKEND ("host" or "cuda") if it is set, else the host. A group with
   * SYMM_GROUP_ON_DEVICE: CUDA.
   */
  SYMM_BACKEND_AUTO = 0,
  /** Memory that is shared between processes of one machine. */
  SYMM_BACKEND_HOST = 1,
  /** Memory of CUDA devices. */
  SYMM_BACKEND_CUDA = 2
};

/** Collective operation, for symm_collective_plan() and symm_group_collective_stats(). */
typedef int32_t symm_collective_t;
enum symm_collective_values {
  SYMM_COLLECTIVE_ALLREDUCE = 0,
  SYMM_COLLECTIVE_REDUCE_SCATTER = 1,
  SYMM_COLLECTIVE_ALLGATHER = 2,
  SYMM_COLLECTIVE_BROADCAST = 3,
  SYMM_COLLECTIVE_REDUCE = 4,
  SYMM_COLLECTIVE_ALLTOALL = 5,
  SYMM_COLLECTIVE_ALLGATHERV = 6,
  SYMM_COLLECTIVE_REDUCE_SCATTERV = 7,
  SYMM_COLLECTIVE_ALLTOALLV = 8,
  SYMM_COLLECTIVE_GATHER = 9,
  SYMM_COLLECTIVE_SCATTER = 10,
  SYMM_COLLECTIVE_ALLGATHER_ROWS = 11,
  /** symm_allreduce_rmsnorm() of fused.h. [experimental] */
  SYMM_COLLECTIVE_ALLREDUCE_RMSNORM = 12,
  SYMM_COLLECTIVE_SCAN = 13,
  SYMM_COLLECTIVE_EXSCAN = 14,
  SYMM_COLLECTIVE_REDUCE_SCATTER_ROWS = 15,
  SYMM_COLLECTIVE_GATHERV = 16,
  SYMM_COLLECTIVE_SCATTERV = 17,
  SYMM_COLLECTIVE_BROADCAST_BYTES = 18
};

/**
 * Algorithm of a collective. All algorithms give the same bits, with two exceptions. By
 * MULTIMEM_ONE_SHOT and MULTIMEM_TWO_SHOT the switch adds, in an order of its own, and
 * HIERARCHICAL has an order of its own for sums, averages and products of floats. These are
 * used only where they are asked for.
 */
typedef int32_t symm_algorithm_t;
enum symm_algorithm_values {
  /** The library chooses; symm_collective_plan() says what and why. */
  SYMM_ALGORITHM_AUTO = 0,
  /** Flag in data: the message rides in the line that signals it. */
  SYMM_ALGORITHM_LL = 1,
  /** Every rank publishes its input, and every rank combines all inputs. */
  SYMM_ALGORITHM_ONE_SHOT = 2,
  /** Each rank combines its slice and stores the result to all; on the host without a copy. */
  SYMM_ALGORITHM_TWO_SHOT = 3,
  /** TWO_SHOT in chunks, through memory of the library; takes any buffer. */
  SYMM_ALGORITHM_TWO_SHOT_STAGED = 4,
  /** 8 ranks, each of which exchanges data with 4 neighbours only; all-reduce. */
  SYMM_ALGORITHM_HYBRID_CUBE_MESH = 5,
  /**
   * Every rank loads the sum from the multicast address of send; not in place. [experimental]
   */
  SYMM_ALGORITHM_MULTIMEM_ONE_SHOT = 6,
  /** Each rank loads the sum of its slice and stores it to all, by multicast. [experimental] */
  SYMM_ALGORITHM_MULTIMEM_TWO_SHOT = 7,
  /** CUDA: LL with a mark of 4 bytes for every 64, for data that moves unchanged. */
  SYMM_ALGORITHM_MARKED = 8,
  /**
   * Several machines: sums that are not rounded yet go from each machine to the next, and
   * results come back.
   */
  SYMM_ALGORITHM_CHAIN = 9,
  /** Several machines: TWO_SHOT in as many rounds as the logarithm of the ranks. */
  SYMM_ALGORITHM_BRUCK = 10,
  /**
   * Several machines: each machine combines the operands of its ranks, then the sums of the
   * machines are combined. [experimental] Between GPUs NCCL may do all of that.
   */
  SYMM_ALGORITHM_HIERARCHICAL = 11,
  /**
   * CUDA: copy engines store what moves unchanged into recv, without kernels. [experimental]
   */
  SYMM_ALGORITHM_COPY_ENGINE = 12
};

/** What symm_signal_value() does to a word. */
typedef int32_t symm_signal_op_t;
enum symm_signal_op_values { SYMM_SIGNAL_ADD = 0, SYMM_SIGNAL_SET = 1 };

/** What symm_atomic32() and symm_atomic64() make of a word and `value`. */
typedef int32_t symm_atomic_op_t;
enum symm_atomic_op_values {
  /** The word stays as it is. */
  SYMM_ATOMIC_FETCH = 0,
  /** The sum, which wraps. */
  SYMM_ATOMIC_ADD = 1,
  /** The bits that both have. */
  SYMM_ATOMIC_AND = 2,
  /** The bits that one of both has. */
  SYMM_ATOMIC_OR = 3,
  /** The bits in which they differ. */
  SYMM_ATOMIC_XOR = 4,
  /** The value. */
  SYMM_ATOMIC_SWAP = 5,
  /** The value if the word equals `compare`; else the word stays as it is. */
  SYMM_ATOMIC_COMPARE_SWAP = 6
};

/** What a side of a message does, in symm_messages(). */
typedef int32_t symm_message_kind_t;
enum symm_message_kind_values { SYMM_MESSAGE_SEND = 0, SYMM_MESSAGE_RECV = 1 };

/** How an awaited word, on the left, compares with a value, on the right; both are unsigned. */
typedef int32_t symm_compare_t;
enum symm_compare_values {
  SYMM_COMPARE_EQ = 0,
  SYMM_COMPARE_NE = 1,
  SYMM_COMPARE_LT = 2,
  SYMM_COMPARE_LE = 3,
  SYMM_COMPARE_GT = 4,
  SYMM_COMPARE_GE = 5
};

/** How many of the signals of symm_wait_signals() are awaited. */
typedef int32_t symm_wait_mode_t;
enum symm_wait_mode_values {
  /** All: until each has been as awaited, at whatever moment. */
  SYMM_WAIT_ALL = 0,
  /** Any: until one of them is as awaited. */
  SYMM_WAIT_ANY = 1
};

/** Class of the links between devices. */
typedef int32_t symm_topology_class_t;
enum symm_topology_class_values {
  SYMM_TOPOLOGY_UNKNOWN = 0,
  /** Every two devices have a link. */
  SYMM_TOPOLOGY_FULLY_CONNECTED = 1,
  /**
   * 8 devices (DGX-1 with P100 or V100): two quads, in each of which every two devices have a
   * link, and one link from each device to one device of the other quad.
   */
  SYMM_TOPOLOGY_HYBRID_CUBE_MESH = 2
};

/** Whether another library was measured to be faster for a call. */
typedef int32_t symm_advice_t;
enum symm_advice_values {
  /** It was not measured. */
  SYMM_ADVICE_UNMEASURED = 0,
  /** NCCL was not faster than symm, or by less than a twentieth. */
  SYMM_ADVICE_SYMM = 1,
  /** NCCL was faster than symm by a twentieth or more. */
  SYMM_ADVICE_NCCL = 2
};

/** Where a rank's memory is, as seen from another rank; the nearest that holds. */
typedef int32_t symm_locality_t;
enum symm_locality_values {
  /** Never given; what a newer version may say is another number. */
  SYMM_LOCALITY_UNKNOWN = 0,
  /** In the same device: the rank itself, or one that shares its GPU. */
  SYMM_LOCALITY_SAME_DEVICE = 1,
  /** In another GPU, which direct links or a switch of NVLink connect. */
  SYMM_LOCALITY_NVLINK = 2,
  /** On the same machine, and at the same NUMA node of its host. */
  SYMM_LOCALITY_SAME_NODE = 3,
  /** On the same machine, at another NUMA node, or it is not known at which. */
  SYMM_LOCALITY_SAME_MACHINE = 4,
  /** On another machine. */
  SYMM_LOCALITY_OTHER_MACHINE = 5
};

/** Severity of a log message. */
typedef int32_t symm_log_level_t;
enum symm_log_level_values {
  SYMM_LOG_ERROR = 1,
  SYMM_LOG_WARNING = 2,
  SYMM_LOG_INFO = 3,
  SYMM_LOG_DEBUG = 4
};

/** No deadline. */
#define SYMM_TIMEOUT_INFINITE UINT64_MAX
/**
 * Look once instead of waiting. The call succeeds if nothing is missing. Otherwise it returns
 * TIMEOUT, has taken nothing and has revoked nothing.
 *
 * Accepted by symm_barrier() and the waits for signals and words of a host group, by
 * symm_group_synchronize(), symm_ipc_import() and symm_ipc_withdraw(), and by all calls that
 * never wait, to which it says nothing. A call that is ordered on a CUDA stream and waits, or
 * that needs the other ranks to act, returns INVALID_ARGUMENT; so do signals, copies and stores
 * to the block of a rank, which wait when that rank is on another machine.
 */
#define SYMM_TIMEOUT_NOW (UINT64_MAX - 1)

/* ---- handles --------------------------------------------------------------------------- */

/** Ranks that share memory, deadlines and failures. */
typedef struct symm_group symm_group_t;
/** Allocation of one rank. */
typedef struct symm_buffer symm_buffer_t;
/** Buffer after rendezvous: the block of every rank is mapped here. */
typedef struct symm_memory symm_memory_t;
/** Memory that is handed out in pieces. */
typedef struct symm_heap symm_heap_t;
/** What neighbours put into each other's blocks in every round. */
typedef struct symm_exchange symm_exchange_t;
/** Call that the library makes while the program goes on. */
typedef struct symm_request symm_request_t;
/** Memory of another process, imported by a token. */
typedef struct symm_ipc symm_ipc_t;

/* ---- library --------------------------------------------------------------------------- */

/*
 * Version, errors and messages of the library as a whole. None of these calls needs a group.
 */

/**
 * Version of the loaded library, encoded like SYMM_VERSION.
 * [local] [capturable] Since 0.2.
 *
 * Never fails. A program may call the library if the upper 8 bits are SYMM_VERSION_MAJOR.
 */
SYMM_API uint32_t symm_version(void);

/**
 * Version of fused.h of the loaded library, encoded like SYMM_FUSED_VERSION.
 * [local] [capturable] Since 0.2.
 *
 * Never fails. 0: the library has no function of that header any more. The functions of fused.h
 * may be called if the upper 16 bits are SYMM_FUSED_VERSION_MAJOR.
 */
SYMM_API uint32_t symm_fused_version(void);

/**
 * Static JSON object with version, git revision, compiler, back ends, CUDA architectures, SIMD
 * targets and environment variables.
 * [local] [capturable] Since 0.2.
 *
 * Never fails and never returns NULL. What the object lists may change with any version.
 */
SYMM_API const char *symm_build_info(void);

/**
 * Static name of a status, "unknown status" for a value of a newer library.
 * [local] [capturable] Since 0.2.
 *
 * Never returns NULL.
 */
SYMM_API const char *symm_status_string(symm_status_t status);

/**
 * Message of the last failing call on this thread, "" before the first failure.
 * [local] [capturable] Since 0.2.
 *
 * The message is one line of UTF-8, valid until the next failing call on this thread. Never
 * returns NULL.
 */
SYMM_API const char *symm_last_error(void);

/**
 * Everything that is known of one failure. Filled by symm_last_failure().
 *
 * symm_group_status() fills one with why a group was revoked.
 *
 * Any call that takes options also writes the failure of that very call to options.failure, if
 * that is not NULL. The caller must have set its struct_size. Nothing is written when the call
 * succeeds.
 */
typedef struct {
  size_t struct_size;
  /** SYMM_OK: there was no failure yet. */
  symm_status_t status;
  /** The rank to blame, as numbered in the group of the call; -1: nobody in particular. */
  int32_t rank;
  /** Process id of that rank, as its own machine numbers it; 0: not known. */
  int64_t pid;
  /** errno of the system call that failed on the rank to blame; 0: no system call failed. */
  int32_t os_error;
  /** CUresult of the driver call that failed on the rank to blame; 0: no driver call failed. */
  int32_t cuda_result;
  /** The message, as symm_last_error() has it; "" while status is SYMM_OK. */
  char message[1024];
} symm_failure_t;

/** A symm_failure_t that is ready to be filled. */
#define SYMM_FAILURE_INIT {sizeof(symm_failure_t), SYMM_OK, 0, 0, 0, 0, ""}

/**
 * Tell what the last failing call on this thread failed of, and who is to blame.
 * [local] [capturable] Since 0.2.
 *
 * A failure of this call itself becomes the last one.
 *
 * @param[out] out  the failure.
 */
SYMM_API symm_status_t symm_last_failure(symm_failure_t *out);

/** Options of one call. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /**
   * Deadline in milliseconds; 0: the group's, for tokens $SYMM_TIMEOUT_MS, else 60,000. Without
   * meaning where a call does not wait.
   */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
  /**
   * NULL, or receives a request: the call does not block. The chapter on requests lists the
   * calls for which this is not UNSUPPORTED.
   */
  symm_request_t **request;
} symm_call_options_t;

/** The defaults of symm_call_options_t. */
#define SYMM_CALL_OPTIONS_INIT {sizeof(symm_call_options_t), 0, NULL, NULL}

/**
 * Receives log messages, possibly on a thread of the library, and on several threads at once.
 * It must not call into the library, except for symm_log_remove_listener().
 */
typedef void (*symm_log_callback_t)(void *user, symm_log_level_t level, const char *message);

/**
 * Send log messages of at most `level` to `callback`.
 * [local] Since 0.2.
 *
 * The listener is added for the whole process, beside all others. By itself the library prints
 * nothing, unless SYMM_LOG=error|warning|info|debug names a level: then messages go to stderr
 * as well. A forked child has no listeners.
 *
 * @param callback     receives the messages.
 * @param user         passed to `callback` as it is.
 * @param level        least severe messages to receive.
 * @param[out] out_id  number for symm_log_remove_listener().
 * @retval SYMM_ERR_INVALID_ARGUMENT  callback is NULL, or level is negative.
 * @retval SYMM_ERR_UNSUPPORTED       level is not known.
 */
SYMM_API symm_status_t symm_log_add_listener(symm_log_callback_t callback, void *user,
                                             symm_log_level_t level, uint64_t *out_id);

/**
 * Send log messages of at most `level` to a descriptor, for languages whose code must not run
 * on threads of the library.
 * [local] Since 0.2.
 *
 * Each message is a line that begins with "error: ", "warning: ", "info: " or "debug: ", has at
 * most 4096 bytes and is written at once. A pipe or socket that is full, because nobody reads
 * it, loses lines and never holds up the library.
 *
 * @param fd           duplicated; the caller may close it.
 * @param level        least severe messages to receive.
 * @param[out] out_id  number for symm_log_remove_listener(), which closes the duplicate.
 * @retval SYMM_ERR_INVALID_ARGUMENT  fd is not open, or level is negative.
 * @retval SYMM_ERR_UNSUPPORTED       level is not known.
 * @retval SYMM_ERR_SYSTEM            the descriptor cannot be duplicated.
 */
SYMM_API symm_status_t symm_log_to_fd(int32_t fd, symm_log_level_t level, uint64_t *out_id);

/**
 * End a listener.
 * [local] Since 0.2.
 *
 * When the call returns, the callback is not running and will not run again. A callback may end
 * itself, and then goes on to its end. The call waits up to 60 seconds for a callback that is
 * running.
 *
 * @param id  as symm_log_add_listener() or symm_log_to_fd() gave it.
 * @retval SYMM_ERR_NOT_FOUND  there is no such listener.
 * @retval SYMM_ERR_TIMEOUT    the callback has not returned within 60 seconds.
 */
SYMM_API symm_status_t symm_log_remove_listener(uint64_t id);

/**
 * Says whether the call that the thread is in shall end: 0 if it shall go on. The callback is
 * asked inside of the call, so it must not make calls that wait.
 */
typedef int32_t (*symm_interrupt_callback_t)(void *user);

/**
 * Set the callback that the calls of this thread ask while they wait on the host, so that
 * Ctrl-C or another signal ends them soon.
 * [local] Since 0.2.
 *
 * It is asked five times a second, and at once when a signal has interrupted the sleep of the
 * thread. A handler that was installed with SA_RESTART, or that runs on another thread, does
 * not interrupt it: then the callback is asked up to 200 ms later. As soon as it has returned
 * another number than 0, the call and all later ones of the thread end with ABORTED where they
 * would wait, until this function is called again.
 * - A wait for signals or values has then taken nothing, has revoked nothing, and may be
 *   repeated. So may a send or a receive, unless a message of the call has begun.
 * - A call that all ranks make cannot be repeated: the group is revoked, all ranks report
 *   ABORTED and blame this one, and symm_group_shrink() makes a new group of them. A call that
 *   makes a group fails, as it would at its deadline.
 * - What waits for the driver, as for a stream's end inside of CUDA, goes on.
 *
 * @param callback  NULL means that the calls of this thread wait to their end.
 * @param user      passed to `callback` as it is.
 */
SYMM_API symm_status_t symm_thread_interrupt(symm_interrupt_callback_t callback, void *user);

/**
 * Size of one element in bytes.
 * [local] [capturable] Since 0.2.
 *
 * @param dtype           data type.
 * @param[out] out_bytes  bytes of an element.
 * @retval SYMM_ERR_INVALID_ARGUMENT  dtype is negative, or has no bits.
 * @retval SYMM_ERR_UNSUPPORTED       this library does not know dtype.
 */
SYMM_API symm_status_t symm_dtype_bytes(symm_dtype_t dtype, size_t *out_bytes);

/* ---- devices --------------------------------------------------------------------------- */

/*
 * What devices a back end has on this machine. SYMM_BACKEND_AUTO resolves as it does for
 * symm_group_create(). None of these calls needs a group.
 */

/**
 * Number of devices of a back end.
 * [local] [capturable] Since 0.2.
 *
 * The host back end has one device.
 *
 * @param backend         back end; AUTO resolves as symm_group_create() would.
 * @param[out] out_count  number of devices.
 * @retval SYMM_ERR_UNAVAILABLE       the back end cannot be used here; the message says why.
 * @retval SYMM_ERR_INVALID_ARGUMENT  backend is negative, or AUTO and $SYMM_BACKEND is neither
 *                                    "host" nor "cuda".
 * @retval SYMM_ERR_UNSUPPORTED       this library does not know the back end.
 */
SYMM_API symm_status_t symm_device_count(symm_backend_t backend, int32_t *out_count);

/** Facts about one device. Filled by symm_device_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  int32_t device;
  /** Total memory in bytes. */
  uint64_t memory_bytes;
  /** Processors that this process may use, or multiprocessors. */
  int32_t compute_units;
  /** 1 if multicast addresses can be had by asking for them (SYMM_GROUP_MULTICAST). */
  int32_t multicast;
  /**
   * 1 if memory can be had by fabric handles, which was tried. Ranks of one host share it by
   * them, and so do hosts in one NVLink domain, which are one machine (docs/machines.md).
   */
  int32_t fabric;
  /** 1 if memory can be exported as DMA-BUF. */
  int32_t dmabuf;
  /** Product name. */
  char name[128];
  /** UUID of the GPU; for the host, the boot id. */
  char uuid[64];
  /** Why multicast is 0, else "". */
  char multicast_reason[128];
  /** Why fabric is 0, else "". */
  char fabric_reason[128];
  /** Why dmabuf is 0, else "". */
  char dmabuf_reason[128];
  /** 1 if SYMM_ALLOC_HOST can be had. */
  int32_t host_memory;
  /** NUMA node of the host nearest to the device; -1 if unknown, and for the host itself. */
  int32_t numa_node;
  /** Why host_memory is 0, else "". */
  char host_memory_reason[128];
} symm_device_info_t;

/**
 * Describe device `device` of `backend`.
 * [local] [capturable] Since 0.2.
 *
 * @param backend   back end; AUTO resolves as symm_group_create() would.
 * @param device    0 .. device count - 1.
 * @param[out] out  the facts.
 * @retval SYMM_ERR_UNAVAILABLE       the back end cannot be used here; the message says why.
 * @retval SYMM_ERR_INVALID_ARGUMENT  device is out of range, backend is negative, or it is AUTO
 *                                    and $SYMM_BACKEND is neither "host" nor "cuda".
 * @retval SYMM_ERR_UNSUPPORTED       this library does not know the back end.
 */
SYMM_API symm_status_t symm_device_info(symm_backend_t backend, int32_t device,
                                        symm_device_info_t *out);

/**
 * Links between the devices of a back end.
 * [local] [capturable] Since 0.2.
 *
 * @param backend         back end; AUTO resolves as symm_group_create() would.
 * @param[out] out_class  class of the whole.
 * @param[out] out_links  row-major matrix [device_count][device_count] of the number of direct
 *                        links; the diagonal is 0. NULL with capacity 0: not asked for.
 * @param capacity        elements that out_links holds, at least device_count * device_count.
 * @param[out] out_count  elements of the matrix, device_count * device_count; may be NULL.
 * @retval SYMM_ERR_UNAVAILABLE       the back end cannot be used here, or NVML does not tell of
 *                                    links.
 * @retval SYMM_ERR_INVALID_ARGUMENT  capacity is too small, or out_links is NULL and capacity
 *                                    is not 0; backend is negative, or it is AUTO and
 *                                    $SYMM_BACKEND is neither "host" nor "cuda".
 * @retval SYMM_ERR_UNSUPPORTED       this library does not know the back end.
 */
SYMM_API symm_status_t symm_topology(symm_backend_t backend, symm_topology_class_t *out_class,
                                     int32_t *out_links, size_t capacity, size_t *out_count);

/* ---- groups ---------------------------------------------------------------------------- */

/*
 * A group is made by symm_group_create() from a configuration, or from another group: by
 * symm_group_split(), symm_group_create_from_ranks(), symm_group_local() and, after a failure,
 * symm_group_shrink(). symm_group_grow() makes one of the living ranks of a group and of
 * processes that join it. Groups made from one another may overlap; their signals never meet.
 *
 * A rank leaves a group with its last reference, or when its process exits, which need not
 * release anything. A rank that still waits for one that has left gets PEER_FAILED, so call
 * symm_group_finalize() first where ranks may come to their end at different times. A process
 * that ends without exit(), as by a signal, has died, which revokes the group.
 *
 * Creation is all or nothing: all ranks succeed, or all fail with the same status, and a
 * failure leaves nothing behind but a note in the directory for ranks that come late, which
 * goes when they have read it, or with a later creation. What goes wrong after all ranks have
 * agreed is a failure of the new group: a rank that has the group already finds it revoked, and
 * a rank that has not returned yet may get the failure instead of the group.
 *
 * With SYMM_GROUP_SHARED_SCRATCH, groups that are made by symm_group_split() and
 * symm_group_create_from_ranks() of a group, and of those in turn, work in the scratch memory
 * of the first and keep it alive. Each still has a part of its own, which symm_group_info()
 * shows. Collectives of all these groups then count as those of one group:
 * - There is one order of them, in which every rank makes those of its groups. Another order
 *   ends in TIMEOUT.
 * - The library orders them between streams, outside of captures and within one capture. A
 *   graph must be replayed on a stream that is ordered with everything else that these groups
 *   do, or results are undefined.
 * - When one of the groups fails, calls of the others that use the scratch end with ABORTED, as
 *   after a failure on a stream. The group that symm_group_shrink() makes has scratch of its
 *   own.
 */

/**
 * Key-value store of the caller's, by which ranks find each other. The functions are called
 * only on the thread that is inside symm_group_create(). They return SYMM_OK or an error other
 * than SYMM_ERR_NOT_FOUND, which then fails the creation.
 *
 * A key is set once. It begins with symm/ and the name of the group, so a store that serves
 * several creations of one name must keep them apart itself. A value has at most 65536 bytes.
 */
typedef struct {
  size_t struct_size;
  /** Passed to every function. */
  void *user;
  /** Store `bytes` bytes under `key`, within timeout_ms milliseconds. */
  symm_status_t (*set)(void *user, const char *key, const void *value, size_t bytes,
                       uint64_t timeout_ms);
  /**
   * Wait until `key` is there, at most timeout_ms milliseconds (then SYMM_ERR_TIMEOUT), and
   * copy its value to `value`. If that is longer than `capacity`, return
   * SYMM_ERR_INVALID_ARGUMENT. *out_bytes receives its length.
   */
  symm_status_t (*get)(void *user, const char *key, void *value, size_t capacity,
                       size_t *out_bytes, uint64_t timeout_ms);
} symm_store_t;

/** A symm_store_t without functions; `set` and `get` must be set. */
#define SYMM_STORE_INIT {sizeof(symm_store_t), NULL, NULL, NULL}

/** No unique id has more bytes, so that it fits where an ncclUniqueId travels. */
#define SYMM_UNIQUE_ID_MAX_BYTES 128

/**
 * Make an id by which the ranks of one group meet.
 * [local] Since 0.2.
 *
 * Any process calls this, which need not be a rank, and sends the bytes to all ranks by any
 * means: MPI_Bcast, a file, a queue, an argument. Each rank then passes them as `id` and
 * `id_bytes` of symm_group_config_t. The id is no secret: who has it cannot join without the
 * secret file, or without being this user on this machine.
 *
 * - Several machines: where libsodium, the secret file and an address can be had, this process
 *   listens on a free port from its first id to its end, and the ranks may be on any machine
 *   that reaches it and has the same secret file. It must live until the group is formed: if
 *   it ends before, creation is PEER_FAILED.
 * - One machine: else, or with SYMM_ID_ADDRESS=machine, the ranks must be processes of this
 *   user on this machine. This process may end at once. An id that nobody uses is good for a
 *   day.
 * - SYMM_ID_ADDRESS=host or host:port is the address to put into the id, where the one that
 *   symm finds is not reached from the other machines.
 *
 * An id serves for one group. If creation fails, make a new one.
 *
 * @param options         NULL means the defaults; the call does not wait.
 * @param[out] out_id     the id.
 * @param capacity        bytes that out_id holds; SYMM_UNIQUE_ID_MAX_BYTES suffices.
 * @param[out] out_bytes  bytes of the id; not NULL.
 * @retval SYMM_ERR_INVALID_ARGUMENT  capacity is too small, or $SYMM_ID_ADDRESS is wrong.
 * @retval SYMM_ERR_UNAVAILABLE       there is no directory that is private to this user, or
 *                                    $SYMM_ID_ADDRESS is not an address.
 * @retval SYMM_ERR_SYSTEM            a system call failed; the port of $SYMM_ID_ADDRESS may be
 *                                    in use.
 */
SYMM_API symm_status_t symm_unique_id(const symm_call_options_t *options, void *out_id,
                                      size_t capacity, size_t *out_bytes);

/* Flags of symm_group_config_t and symm_group_options_t, and of symm_group_info_t. */

/** Several ranks may use one CUDA device. */
#define SYMM_GROUP_OVERLAPPING_DEVICES UINT64_C(1)
/** Compare the arguments of every collective on all ranks. As SYMM_CHECK=1. */
#define SYMM_GROUP_CHECK UINT64_C(2)
/**
 * Give the group's memories multicast addresses where they can be had. As SYMM_MULTICAST=1. All
 * ranks must ask; see symm_memory_multicast_pointer().
 */
#define SYMM_GROUP_MULTICAST UINT64_C(4)
/**
 * Groups that are made of this one work in its scratch memory, which they keep alive. The
 * introduction of this chapter says what this demands of the order of their calls. All ranks
 * must ask. UNSUPPORTED on the host, where ranks read each other's scratch after a call.
 */
#define SYMM_GROUP_SHARED_SCRATCH UINT64_C(8)
/**
 * All-reduces may combine floats in an order of their own: between machines HIERARCHICAL is
 * chosen where it is faster. All ranks still get the same result, and a group of the same
 * layout gets it again. As SYMM_ORDER=any. All ranks must ask.
 */
#define SYMM_GROUP_ANY_ORDER UINT64_C(16)
/**
 * A promise by the caller: in each all-reduce, all-gather, all-to-all and broadcast the recvs
 * of all ranks are private, or lie at the same offset of the same memory, and all ranks are in
 * place or none is. Large calls then go by SYMM_ALGORITHM_COPY_ENGINE with CUDA. All ranks must
 * ask.
 */
#define SYMM_GROUP_SAME_OFFSETS UINT64_C(32)
/**
 * symm_group_config_t.device is the device to use. With SYMM_BACKEND_AUTO the back end is CUDA
 * then. Not for symm_group_options_t: a group that is made of another uses the device of that.
 */
#define SYMM_GROUP_ON_DEVICE UINT64_C(64)
/**
 * Combine floats in the order of the ranks, whatever SYMM_ORDER says. The opposite of
 * SYMM_GROUP_ANY_ORDER and SYMM_GROUP_TREE_ORDER.
 */
#define SYMM_GROUP_RANK_ORDER UINT64_C(128)
/**
 * Do not compare the arguments of collectives beyond need, whatever SYMM_CHECK says. The
 * opposite of SYMM_GROUP_CHECK.
 */
#define SYMM_GROUP_NO_CHECK UINT64_C(256)
/**
 * Give the group's memories no multicast addresses, whatever SYMM_MULTICAST says. The opposite
 * of SYMM_GROUP_MULTICAST.
 */
#define SYMM_GROUP_NO_MULTICAST UINT64_C(512)
/**
 * Combine floats as a balanced binary tree of the ranks, so that a sum has the same bits
 * however many ranks share the work; "Order" in the chapter on collectives says how. As
 * SYMM_ORDER=tree. All ranks must ask.
 */
#define SYMM_GROUP_TREE_ORDER UINT64_C(1024)
/**
 * The environment variables for this call are those that the library found when it was loaded.
 * For a group that a thread of another library's own makes, beside which the program may call
 * setenv(). Not for symm_group_options_t, and not told by symm_group_info().
 */
#define SYMM_GROUP_VARIABLES_AT_LOAD UINT64_C(2048)

/** How to make a group. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** This rank; read only if size > 0. */
  int32_t rank;
  /** Number of ranks; 0: rank and size come from the bootstrap. */
  int32_t size;
  /** Must be the same on all ranks. */
  symm_backend_t backend;
  /**
   * CUDA ordinal, with SYMM_GROUP_ON_DEVICE. Without that flag it must be 0, and the device is
   * the local rank's share: device (local rank modulo device count). The host back end has one
   * device, 0.
   */
  int32_t device;
  /**
   * Flags SYMM_GROUP_*. All but SYMM_GROUP_ON_DEVICE and SYMM_GROUP_VARIABLES_AT_LOAD must be
   * the same on all ranks.
   */
  uint64_t flags;
  /**
   * Where the ranks meet. NULL: $SYMM_BOOTSTRAP, else "env://".
   * - "env://": rank and size come from the launcher (SYMM_*, Open MPI, PMI-1 as of MPICH,
   *   torchrun, Slurm, or a single process). Sources that disagree are an error. torchrun may
   *   run inside another launcher. A rank of a launcher that is not read is UNAVAILABLE.
   * - "tcp://host:port": rank 0 listens on that port of `host`, its machine. Ranks may be on
   *   several machines, whose user has the same secret file: see docs/machines.md. UNAVAILABLE
   *   without libsodium.
   * - "dir:///path": a directory of mode 0700 owned by this user, made if missing; the ranks
   *   are on one machine.
   * - "thread://name": the ranks are threads of this process; `name` is any string.
   */
  const char *bootstrap;
  /** If not NULL, used instead of `bootstrap`; needs size > 0. */
  const symm_store_t *store;
  /**
   * NULL, or the bytes that symm_unique_id() made on one rank, the same on all ranks. Needs
   * size > 0, and excludes `bootstrap` and `store`.
   */
  const void *id;
  /** Number of bytes of `id`, as symm_unique_id() gave it. */
  size_t id_bytes;
  /**
   * Deadline of create, split and rendezvous; 0: $SYMM_CREATE_TIMEOUT_MS, else 300,000. Not
   * SYMM_TIMEOUT_NOW.
   */
  uint64_t create_timeout_ms;
  /** Deadline of every other wait; 0: $SYMM_TIMEOUT_MS, else 60,000. Not SYMM_TIMEOUT_NOW. */
  uint64_t timeout_ms;
  /**
   * Tells apart concurrent groups with the same bootstrap, and is shown in messages; NULL: "".
   */
  const char *name;
  /**
   * Most bytes for the scratch of the group on each rank, and for that of each group made of
   * this one; the same on all ranks; 0: what is fastest. With less, large messages take longer.
   */
  uint64_t scratch_bytes;
  /**
   * Barrier channels, and signal channels of a memory that asks for no other number; the same
   * on all ranks; 0: 64.
   */
  int32_t channels;
  /** NULL, or receives the failure of symm_group_create(). */
  symm_failure_t *failure;
} symm_group_config_t;

/** The defaults of symm_group_config_t. */
#define SYMM_GROUP_CONFIG_INIT  \
  {sizeof(symm_group_config_t), \
   0,                           \
   0,                           \
   SYMM_BACKEND_AUTO,           \
   0,                           \
   0,                           \
   NULL,                        \
   NULL,                        \
   NULL,                        \
   0,                           \
   0,                           \
   0,                           \
   NULL,                        \
   0,                           \
   0,                           \
   NULL}

/**
 * Form a group.
 * [collective] [blocking, create_timeout_ms] Since 0.2.
 *
 * All ranks succeed, or all fail with the same status, also those that come too late for the
 * others: in a directory (env:// on one machine, dir://) while the deadline of the others runs,
 * by tcp:// half a second later. A rank that nobody is left to tell ends with
 * SYMM_ERR_TIMEOUT, as do ranks that were given different ids. The first group of a process
 * starts the threads that notice deaths.
 *
 * @param config    NULL means the defaults; read during the call only.
 * @param[out] out  one reference, for symm_group_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  a field of config, what the launcher says, or an
 *                                    environment variable is wrong; config.device is not 0
 *                                    without SYMM_GROUP_ON_DEVICE; ranks share a CUDA device
 *                                    without SYMM_GROUP_OVERLAPPING_DEVICES; there are more
 *                                    than 32767 ranks; scratch_bytes is too small for the
 *                                    ranks; or `id` is not an id, was cut or changed, or its
 *                                    group was formed already.
 * @retval SYMM_ERR_UNSUPPORTED       a flag or a back end is not known, there are more than 256
 *                                    channels, a CUDA group has more than 72 ranks, or a host
 *                                    group has SYMM_GROUP_SHARED_SCRATCH.
 * @retval SYMM_ERR_UNAVAILABLE       the back end, the launcher, a directory that is private to
 *                                    this user, the engine between machines, or libsodium
 *                                    cannot be had; or `id` is for the ranks of another machine
 *                                    or user.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died meanwhile, or the process that made `id`.
 * @retval SYMM_ERR_MISMATCH          ranks disagree about the back end, the number of ranks or
 *                                    channels, scratch_bytes, a flag, the version of the
 *                                    library or of the engine, or the plan table.
 * @retval SYMM_ERR_ABORTED           another rank had the group already and aborted it.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank, which may have run out of
 *                                    descriptors.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory, of the host or of its
 *                                    device.
 */
SYMM_API symm_status_t symm_group_create(const symm_group_config_t *config, symm_group_t **out);

/**
 * How to make a group of another: by symm_group_split(), symm_group_create_from_ranks(),
 * symm_group_local() and symm_group_shrink(). NULL means the defaults.
 *
 * The new group inherits the back end and the device, the flags that are in force
 * (symm_group_info_t.flags), scratch_bytes, channels and both deadlines of the group that it is
 * made of. The environment is not asked again. All fields but timeout_ms and failure must be
 * the same on all ranks of the new group; a difference is MISMATCH.
 */
typedef struct {
  size_t struct_size;
  /** Deadline of this call in milliseconds; 0: create_timeout_ms of the group. */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
  /**
   * Name of the new group, shown in messages, cut to 63 bytes. NULL: that of the group, to
   * which all calls but symm_group_shrink() add the color or the ranks.
   */
  const char *name;
  /**
   * Flags SYMM_GROUP_* that the new group has beside those that it inherits. A flag takes the
   * place of its opposite.
   */
  uint64_t flags;
  /** Inherited flags SYMM_GROUP_* that the new group does not have. */
  uint64_t remove_flags;
  /** As symm_group_config_t.scratch_bytes, of the new group; 0: as the group. */
  uint64_t scratch_bytes;
  /** As symm_group_config_t.create_timeout_ms, of the new group; 0: as the group. */
  uint64_t create_timeout_ms;
  /** As symm_group_config_t.timeout_ms, of the new group; 0: as the group. */
  uint64_t group_timeout_ms;
  /** As symm_group_config_t.channels, of the new group; 0: as the group. */
  int32_t channels;
} symm_group_options_t;

/** The defaults of symm_group_options_t. */
#define SYMM_GROUP_OPTIONS_INIT {sizeof(symm_group_options_t), 0, NULL, NULL, 0, 0, 0, 0, 0, 0}

/**
 * Divide a group: ranks that pass the same color form a new group.
 * [collective over `group`] [blocking, options.timeout_ms] Since 0.2.
 *
 * The ranks of a new group are ordered by key, then by rank. The new group inherits the
 * configuration of `group`, as symm_group_options_t says. A rank that dies or does not come
 * revokes `group`.
 *
 * @param group     group to divide.
 * @param color     >= 0; negative: this rank is in no new group, and *out becomes NULL.
 * @param key       order among the ranks of a color.
 * @param options   NULL means the defaults. Ranks of different colors may differ.
 * @param[out] out  one reference, for symm_group_release(); none for a negative color.
 * @retval SYMM_ERR_INVALID_ARGUMENT  a field of options is wrong, a flag is in flags and in
 *                                    remove_flags, or beside its opposite, or is
 *                                    SYMM_GROUP_ON_DEVICE; or a deadline is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       a flag is not known or the back end does not have it, or
 *                                    there are more than 256 channels.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died meanwhile.
 * @retval SYMM_ERR_ABORTED           a rank aborted `group` or the new group.
 * @retval SYMM_ERR_UNAVAILABLE       the new group needs an engine between machines, and there
 *                                    is none.
 * @retval SYMM_ERR_MISMATCH          ranks disagree, as for symm_group_create().
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory, of the host or of its
 *                                    device.
 */
SYMM_API symm_status_t symm_group_split(symm_group_t *group, int32_t color, int32_t key,
                                        const symm_group_options_t *options,
                                        symm_group_t **out);

/**
 * Form a group of some ranks of another.
 * [collective over `ranks`] [blocking, options.timeout_ms] Since 0.2.
 *
 * The other ranks take no part. The new group inherits the configuration of `group`, as
 * symm_group_options_t says.
 *
 * @param group     group that the ranks belong to.
 * @param ranks     distinct ranks of `group`, this one among them, the same in the same order
 *                  on all of these: ranks[i] becomes rank i. Ranks that wait for each other
 *                  with different ranks get MISMATCH after a second.
 * @param count     1 .. size of `group`.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_group_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  ranks is NULL, names a rank twice or one that is not in
 *                                    `group`, or lacks this rank; count is out of range; or
 *                                    options are wrong, as for symm_group_split().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_group_split().
 * @retval SYMM_ERR_MISMATCH          the order of ranks differs, or ranks disagree as for
 *                                    symm_group_create().
 * @retval SYMM_ERR_TIMEOUT           not all of `ranks` came; the message names the missing
 *                                    ones.
 * @retval SYMM_ERR_PEER_FAILED       one of `ranks` died meanwhile.
 * @retval SYMM_ERR_ABORTED           a rank aborted `group` or the new group.
 * @retval SYMM_ERR_UNAVAILABLE       the new group needs an engine between machines, and there
 *                                    is none.
 * @retval SYMM_ERR_SYSTEM            a system call failed on one of `ranks`.
 * @retval SYMM_ERR_OUT_OF_MEMORY     one of `ranks` has too little memory, of the host or of
 *                                    its device.
 */
SYMM_API symm_status_t symm_group_create_from_ranks(symm_group_t *group, const int32_t *ranks,
                                                    size_t count,
                                                    const symm_group_options_t *options,
                                                    symm_group_t **out);

/**
 * Form a group of the ranks on this rank's machine, in the order of their ranks.
 * [collective over the ranks of a machine] [blocking, options.timeout_ms] Since 0.2.
 *
 * These are the ranks whose memory is mapped here (`machine` of symm_group_info()). The new
 * group needs no engine, and what fails on other machines leaves it as it is. It inherits the
 * configuration of `group`, as symm_group_options_t says.
 *
 * @param group     group that the ranks belong to.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_group_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  options are wrong, as for symm_group_split().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_group_split().
 * @retval SYMM_ERR_TIMEOUT           not all ranks of the machine came; the message names the
 *                                    missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank of the machine died meanwhile.
 * @retval SYMM_ERR_ABORTED           a rank aborted `group` or the new group.
 * @retval SYMM_ERR_MISMATCH          ranks disagree, as for symm_group_create().
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank of the machine.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank of the machine has too little memory, of the host
 *                                    or of its device.
 */
SYMM_API symm_status_t symm_group_local(symm_group_t *group,
                                        const symm_group_options_t *options,
                                        symm_group_t **out);

/**
 * Form a group of those ranks of `group` that are alive and have not released it, in their old
 * order.
 * [collective over these] [blocking, options.timeout_ms] Since 0.2.
 *
 * The call is meant for the time after a failure: `group` may be revoked, and stays as it is.
 * Ranks that die meanwhile are left out. All others get the same group, or the same failure.
 * Ranks that wait for this one in other calls get MISMATCH, which revokes `group`; this one
 * waits until they shrink it, too.
 * symm_group_translate_rank() tells who became who. The new group inherits the configuration of
 * `group`, as symm_group_options_t says, and its name.
 *
 * @param group     group to shrink; may be revoked, but not finalized.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_group_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  options are wrong, as for symm_group_split().
 * @retval SYMM_ERR_TIMEOUT           a rank lives and did not come. When it has been killed, or
 *                                    has released the group, the call can be made again.
 * @retval SYMM_ERR_PEER_FAILED       the other ranks take this one for dead.
 * @retval SYMM_ERR_UNSUPPORTED       `group` has more than 8192 ranks; or as for
 *                                    symm_group_split().
 * @retval SYMM_ERR_ABORTED           another rank had the new group already and aborted it.
 * @retval SYMM_ERR_UNAVAILABLE       the new group needs an engine between machines, and there
 *                                    is none.
 * @retval SYMM_ERR_MISMATCH          ranks disagree, as for symm_group_create().
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory, of the host or of its
 *                                    device.
 */
SYMM_API symm_status_t symm_group_shrink(symm_group_t *group,
                                         const symm_group_options_t *options,
                                         symm_group_t **out);

/** No ticket has more bytes. */
#define SYMM_TICKET_MAX_BYTES 512

/** For symm_group_invite(). */
typedef struct {
  size_t struct_size;
  /** For how long the ticket is good, in milliseconds; 0: until the machine is started anew. */
  uint64_t lifetime_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_invite_options_t;

/** The defaults of symm_invite_options_t. */
#define SYMM_INVITE_OPTIONS_INIT {sizeof(symm_invite_options_t), 0, NULL}

/**
 * Make a ticket, by which other processes join `group` when it grows.
 * [local] Since 0.2.
 *
 * Any rank calls this, before or after a failure, and sends the bytes by any means; a ticket
 * serves for any number of processes, one after the other or at once. It is good for `group`,
 * and for the groups that symm_group_shrink() and symm_group_grow() make of it, whether the
 * rank that made it lives or not. It is no secret: who has it cannot join without being this
 * user on this machine.
 *
 * @param group            group that is to grow; may be revoked, but not finalized.
 * @param options          NULL means the defaults.
 * @param[out] out_ticket  receives the ticket.
 * @param capacity         bytes that out_ticket holds; SYMM_TICKET_MAX_BYTES suffices.
 * @param[out] out_bytes   bytes of the ticket; not NULL.
 * @retval SYMM_ERR_INVALID_ARGUMENT  capacity is too small, or the lifetime is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       `group` is on several machines.
 * @retval SYMM_ERR_UNAVAILABLE       there is no directory that is private to this user, or its
 *                                    path is too long for a ticket.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_group_invite(symm_group_t *group,
                                         const symm_invite_options_t *options, void *out_ticket,
                                         size_t capacity, size_t *out_bytes);

/**
 * Wait, as a newcomer, until the group of a ticket grows, and become a rank of what it becomes.
 * [local] [blocking, config.create_timeout_ms] Since 0.2.
 *
 * A newcomer costs the ranks of the group nothing while it waits, so a process that is ready
 * for work waits here until a rank has died. Those that have waited for longest are taken
 * first; spares, which SYMM_GROW_SPARE has connected with the ranks, before others. The call
 * returns on all newcomers that are taken, and on the ranks of the group, when all of them have
 * the new group. If that fails, because of a death or another rank's failure, this process goes
 * on waiting for the next call of symm_group_grow().
 *
 * The newcomer has the group's back end, name, flags, channels, scratch_bytes and both
 * deadlines. On CUDA it has the device that config names, or the share of its rank. A spare
 * whose config names its device loads the kernels there while it waits.
 *
 * @param ticket        the bytes that symm_group_invite() made.
 * @param ticket_bytes  their number.
 * @param config        NULL means the defaults. Its create_timeout_ms is the deadline of this
 *                      call. The flags that may differ between ranks count for this rank:
 *                      SYMM_GROUP_ON_DEVICE with config.device, OVERLAPPING_DEVICES, CHECK,
 *                      NO_CHECK, MULTICAST and NO_MULTICAST. The back end may be that of the
 *                      group. All other fields must be as in SYMM_GROUP_CONFIG_INIT.
 * @param[out] out      one reference, for symm_group_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  the bytes are no ticket, or the ticket has expired; or a
 *                                    field of config is given that the group decides on.
 * @retval SYMM_ERR_UNSUPPORTED       another version of symm has made the ticket.
 * @retval SYMM_ERR_UNAVAILABLE       the ticket is for another machine or another user, or this
 *                                    process cannot have the group's back end.
 * @retval SYMM_ERR_TIMEOUT           no rank took this process before the deadline. The message
 *                                    tells of the last time that the group failed to grow.
 * @retval SYMM_ERR_MISMATCH          config asks for another back end than the group's, or this
 *                                    process disagrees with the ranks of the group, as for
 *                                    symm_group_create().
 * @retval SYMM_ERR_SYSTEM            a system call failed in this process.
 * @retval SYMM_ERR_OUT_OF_MEMORY     this process has too little memory.
 */
SYMM_API symm_status_t symm_group_join(const void *ticket, size_t ticket_bytes,
                                       const symm_group_config_t *config, symm_group_t **out);

/** The places that newcomers take in a group that grows. */
typedef int32_t symm_grow_mode_t;
enum symm_grow_mode_values {
  /**
   * Newcomers take the numbers of the ranks that have died or released the group; all others
   * keep theirs. As many newcomers are taken as ranks are gone. Where none is gone, the new
   * group has the same ranks, which helps after a failure that nobody died of.
   */
  SYMM_GROW_FILL_DEAD = 0,
  /** The living keep their order, as in symm_group_shrink(), and newcomers follow them. */
  SYMM_GROW_APPEND = 1,
  /**
   * No group is made, and `*out` becomes NULL: newcomers are connected with the living ranks of
   * `group`, and stay outside of it as its spares, in symm_group_join(). A later call without
   * this mode takes spares first, if as many answer as are wanted, and is faster then, because
   * they and the ranks need not meet. Spares cost the ranks no time while they wait, and a
   * connection each. Groups that symm_group_shrink() and symm_group_grow() make keep those that
   * are left. This call replaces the spares that the group had, who become newcomers again, and
   * may be among those that it admits.
   */
  SYMM_GROW_SPARE = 2
};

/** For symm_group_grow(). */
typedef struct {
  size_t struct_size;
  /** Deadline of this call in milliseconds; 0: create_timeout_ms of the group. */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
  /** Where newcomers are placed; the same on all ranks. */
  symm_grow_mode_t mode;
  /**
   * With SYMM_GROW_APPEND the number of newcomers, at least 1, the same on all ranks; with
   * SYMM_GROW_SPARE that of the spares that the group has then, 1 to 256; else 0.
   */
  int32_t count;
} symm_grow_options_t;

/** The defaults of symm_grow_options_t. */
#define SYMM_GROW_OPTIONS_INIT {sizeof(symm_grow_options_t), 0, NULL, SYMM_GROW_FILL_DEAD, 0}

/**
 * Form a group of those ranks of `group` that are alive and have not released it, and of
 * newcomers, which wait in symm_group_join().
 * [collective over these] [blocking, options.timeout_ms] Since 0.2.
 *
 * `group` may be revoked, and stays as it is. All ranks that live get the same group, or the
 * same failure, and a failure changes nothing: the call can be made again, and newcomers go on
 * waiting. A newcomer that does not answer, or has died, keeps no other one out. The call waits
 * for newcomers until its deadline. Ranks that wait for this one in other calls get MISMATCH,
 * which revokes `group`; this one waits until they grow it, too.
 * symm_group_translate_rank() tells who became who. The new group has the configuration of
 * `group`, and its name. Memory comes to the new group by symm_memory_move() and
 * symm_heap_move(), or by symm_rendezvous().
 *
 * @param group     group to grow; may be revoked, but not finalized.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_group_release(); NULL with SYMM_GROW_SPARE.
 * @retval SYMM_ERR_INVALID_ARGUMENT  options.mode is negative, options.count is wrong, or the
 *                                    deadline is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_TIMEOUT           there were too few newcomers, or a rank or a newcomer
 *                                    lives and did not come.
 * @retval SYMM_ERR_PEER_FAILED       a newcomer that was taken died, or a rank did when
 *                                    newcomers had been taken; or the other ranks take this one
 *                                    for dead.
 * @retval SYMM_ERR_UNSUPPORTED       `group` is on several machines, or has more than 8192
 *                                    ranks; or options.mode is not known.
 * @retval SYMM_ERR_ABORTED           another rank had the new group already and aborted it.
 * @retval SYMM_ERR_UNAVAILABLE       there is no directory that is private to this user.
 * @retval SYMM_ERR_MISMATCH          options differ between ranks, or ranks disagree as for
 *                                    symm_group_create().
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank or a newcomer.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank or a newcomer has too little memory.
 */
SYMM_API symm_status_t symm_group_grow(symm_group_t *group, const symm_grow_options_t *options,
                                       symm_group_t **out);

/**
 * Tell which rank of `group` is rank `rank` of `other`.
 * [local] [capturable] Since 0.2.
 *
 * The answer is always known for groups that were made of one another, by split, shrink and the
 * like. For other groups it is known as long as a process is one rank of each.
 *
 * @param group          group whose rank is asked for.
 * @param other          group that numbers `rank`.
 * @param rank           rank of `other`.
 * @param[out] out_rank  rank of `group`.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank is not one of `other`.
 * @retval SYMM_ERR_NOT_FOUND         the rank is not in `group`.
 */
SYMM_API symm_status_t symm_group_translate_rank(symm_group_t *group, symm_group_t *other,
                                                 int32_t rank, int32_t *out_rank);

/* ---- state of a group ------------------------------------------------------------------ */

/*
 * Who is in a group, how it is, and how it ends. The queries work on a group that was revoked
 * or finalized, too.
 */

/**
 * Rank of this process in the group.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_group_rank(symm_group_t *group, int32_t *out_rank);

/**
 * Number of ranks.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_group_size(symm_group_t *group, int32_t *out_size);

/** Facts about a group. Filled by symm_group_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  int32_t size;
  symm_backend_t backend;
  int32_t device;
  /** The same on all ranks, different for every group. */
  uint64_t id;
  /**
   * Flags SYMM_GROUP_* in force: those that the group was made with, those that it has
   * inherited, and what the environment has added. SYMM_GROUP_MULTICAST says that it was asked
   * for, `multicast` whether there is any.
   */
  uint64_t flags;
  /** Deadline of create, split and rendezvous, in milliseconds; never 0. */
  uint64_t create_timeout_ms;
  /** Deadline of every other wait, in milliseconds; never 0. */
  uint64_t timeout_ms;
  /** Barrier channels, and signal channels of a memory by default: 0 .. channels-1. */
  int32_t channels;
  /** Peers whose death is noticed by their closed socket only, for want of a pidfd. */
  int32_t unwatched_peers;
  /** Connection attempts that were refused during creation: wrong user or wrong group. */
  uint64_t rejected_connections;
  /** How the ranks found each other, for instance "env:// (Open MPI)". */
  char bootstrap[64];
  /** Name from the configuration, cut to 63 bytes. */
  char name[64];
  /** 1 if its memories are given multicast addresses. */
  int32_t multicast;
  /** Why multicast is 0, else ""; the same on all ranks. */
  char multicast_reason[192];
  /** Bytes of scratch that the group takes on this rank, of memory of its own. */
  uint64_t scratch_bytes;
  /** Most ranks of a group of this back end. */
  int32_t max_ranks;
  /** Most memories of a group; 0: no limit. */
  int32_t max_memories;
  /** Most channels of a group or memory. */
  int32_t max_channels;
  /** Most handles of each kind in a process. */
  int32_t max_handles;
  /** Most bytes of a name that are kept. */
  int32_t max_name_bytes;
  /**
   * Bytes of scratch that it works in and that belong to the group it was made of:
   * SYMM_GROUP_SHARED_SCRATCH; else 0.
   */
  uint64_t shared_scratch_bytes;
  /**
   * Machines that its ranks are on; ranks of one machine map each other's memory.
   */
  int32_t machines;
  /**
   * Machine of this rank; machines are counted in the order of their lowest ranks.
   */
  int32_t machine;
  /** This rank among the ranks of its machine, which keep their order. */
  int32_t local_rank;
  /** Number of ranks on this rank's machine. */
  int32_t local_size;
  /** Number of spares that wait, as far as this rank knows (SYMM_GROW_SPARE). */
  int32_t spares;
  /** What carries bytes between machines, as "ucx 1.22.0"; "" on one machine. */
  char engine[64];
} symm_group_info_t;

/**
 * Describe a group.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_group_info(symm_group_t *group, symm_group_info_t *out);

/**
 * Ask whether the group was revoked, and why.
 * [local] [capturable] Since 0.2.
 *
 * Never waits. With CUDA this is also one of the calls that find what failed on a stream. What
 * it tells is not a failure of this call: symm_last_failure() stays as it is.
 *
 * @param[out] out  why the group was revoked, and who is to blame; its status is SYMM_OK while
 *                  the group works.
 */
SYMM_API symm_status_t symm_group_status(symm_group_t *group, symm_failure_t *out);

/**
 * List the ranks that this rank knows to be dead, or to have released the group.
 * [local] [capturable] Since 0.2.
 *
 * Never waits.
 *
 * @param[out] out_ranks  receives the first `capacity` of them, in ascending order; NULL with
 *                        capacity 0 asks for the count only.
 * @param capacity        ranks that out_ranks holds.
 * @param[out] out_count  how many there are; not NULL.
 * @retval SYMM_ERR_INVALID_ARGUMENT  out_ranks is NULL and capacity is not 0.
 */
SYMM_API symm_status_t symm_group_failed_ranks(symm_group_t *group, int32_t *out_ranks,
                                               size_t capacity, size_t *out_count);

/**
 * Get a descriptor for event loops, which becomes readable, and stays so, when the group is
 * revoked.
 * [local] [capturable] Since 0.2.
 *
 * Then ask symm_group_status(). The descriptor belongs to the group and is valid as long as the
 * group. It must not be read, written or closed, and is not there in a forked child. What fails
 * on a CUDA stream revokes the group only when a call on the group, symm_group_status() for
 * one, finds it.
 *
 * @param[out] out_fd  the descriptor, the same at every call.
 * @retval SYMM_ERR_SYSTEM  no descriptor can be made.
 */
SYMM_API symm_status_t symm_group_failure_fd(symm_group_t *group, int32_t *out_fd);

/** Facts about one rank of a group. Filled by symm_group_peer_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  symm_backend_t backend;
  /** Device, as that rank's process numbers it. */
  int32_t device;
  /** 0 once its death or departure was noticed. */
  int32_t alive;
  /** Process id as seen from here; 0 if the process is in another pid namespace. */
  int64_t pid;
  /** Host name of its machine. */
  char host[64];
  /** $SYMM_MACHINE there, or the boot id of its kernel. */
  char machine_name[64];
  /** UUID of its GPU; for the host back end, the boot id. */
  char uuid[64];
  /** Its machine, counted as symm_group_info_t.machine. */
  int32_t machine;
  /**
   * 1: its memory is mapped here; 0: it is reached by symm_put(), symm_get() and the like only.
   */
  int32_t mapped;
  /**
   * NUMA node of its machine: the nearest to its GPU, or for the host back end the one to which
   * its process was bound when the group was made; -1 if unknown.
   */
  int32_t numa_node;
  /**
   * Links between its GPU and this rank's, as symm_group_topology() has them; -1 if unknown.
   */
  int32_t links;
  /** Where its memory is, as seen from this rank. */
  symm_locality_t locality;
} symm_group_peer_info_t;

/**
 * Describe rank `rank` of a group, this one or another.
 * [local] [capturable] Since 0.2.
 *
 * @param rank      0 .. size-1.
 * @param[out] out  the facts.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank is out of range.
 */
SYMM_API symm_status_t symm_group_peer_info(symm_group_t *group, int32_t rank,
                                            symm_group_peer_info_t *out);

/**
 * Links between the devices of the ranks of a group.
 * [local] [capturable] Since 0.2.
 *
 * NVML tells the links of all GPUs of this machine, also of those that this process does not
 * see, as where CUDA_VISIBLE_DEVICES gives each rank one. The answer is found by the first call
 * and kept with the group.
 *
 * The ranks of a host group on one machine share its memory: there are no links, and the class
 * is FULLY_CONNECTED, as that of the one device of the host.
 *
 * @param group           group, or one that was revoked.
 * @param[out] out_class  class of the whole; ranks on one GPU count as linked. UNKNOWN where
 *                        ranks are on several machines.
 * @param[out] out_links  row-major matrix [size][size] of the number of direct links, and of
 *                        those that two ranks have to switches; 0 on the diagonal and between
 *                        ranks on one GPU; -1 where one of two ranks is on another machine than
 *                        this one. NULL with capacity 0 asks for the class only.
 * @param capacity        elements that out_links holds, at least size * size.
 * @param[out] out_count  elements of the matrix, size * size; may be NULL.
 * @retval SYMM_ERR_UNAVAILABLE       NVML does not tell of links, or does not see the GPU of a
 *                                    rank of this machine.
 * @retval SYMM_ERR_INVALID_ARGUMENT  capacity is too small, or out_links is NULL and capacity
 *                                    is not 0.
 */
SYMM_API symm_status_t symm_group_topology(symm_group_t *group,
                                           symm_topology_class_t *out_class, int32_t *out_links,
                                           size_t capacity, size_t *out_count);

/**
 * Counts of what this rank has done on a group so far. Calls that succeeded are counted, unless
 * a field says otherwise. Filled by symm_group_stats().
 */
typedef struct {
  size_t struct_size;
  /** Barriers. */
  uint64_t barriers;
  /** Signals sent. */
  uint64_t signals_sent;
  /** Signals taken. */
  uint64_t signals_taken;
  /** Collectives, barriers and waits that failed. */
  uint64_t failures;
  /** Waits on the host that did not end while they spun. */
  uint64_t sleeps;
  /** Nanoseconds that those waits took in sum. */
  uint64_t slept_ns;
  /**
   * Calls of symm_wait_signal_value(), symm_wait_signals(), symm_wait_value32() and
   * symm_wait_value64().
   */
  uint64_t waits;
} symm_group_stats_t;

/**
 * Ask what was done on a group.
 * [local] [capturable] Since 0.2.
 *
 * Never waits.
 */
SYMM_API symm_status_t symm_group_stats(symm_group_t *group, symm_group_stats_t *out);

/**
 * Counts of one collective on a group, of calls that succeeded. Filled by
 * symm_group_collective_stats().
 */
typedef struct {
  size_t struct_size;
  /** Calls. */
  uint64_t calls;
  /**
   * Bytes: count times the size of an element, of each call. Calls with counts for each rank
   * add this rank's own block, or all that it sends to others and itself; calls with counts in
   * device memory add nothing.
   */
  uint64_t bytes;
} symm_collective_stats_t;

/**
 * Ask how often this rank has made a collective on a group.
 * [local] [capturable] Since 0.2.
 *
 * Never waits.
 *
 * @param collective  which one.
 * @param[out] out    the counts.
 * @retval SYMM_ERR_INVALID_ARGUMENT  collective is negative.
 * @retval SYMM_ERR_UNSUPPORTED       collective is not known.
 */
SYMM_API symm_status_t symm_group_collective_stats(symm_group_t *group,
                                                   symm_collective_t collective,
                                                   symm_collective_stats_t *out);

/**
 * Counts of one algorithm on a group, of calls that succeeded. Filled by
 * symm_group_algorithm_stats().
 */
typedef struct {
  size_t struct_size;
  /** Calls of any collective that went by the algorithm. */
  uint64_t calls;
} symm_algorithm_stats_t;

/**
 * Ask how often collectives of this rank on a group went by an algorithm.
 * [local] [capturable] Since 0.2.
 *
 * Never waits.
 *
 * @param algorithm  which one. SYMM_ALGORITHM_AUTO: calls that needed none, as those of one
 *                   rank.
 * @param[out] out   the counts.
 * @retval SYMM_ERR_INVALID_ARGUMENT  algorithm is negative.
 * @retval SYMM_ERR_UNSUPPORTED       algorithm is not known.
 */
SYMM_API symm_status_t symm_group_algorithm_stats(symm_group_t *group,
                                                  symm_algorithm_t algorithm,
                                                  symm_algorithm_stats_t *out);

/**
 * Revoke the group on all ranks: pending and later calls return ABORTED.
 * [local] Since 0.2.
 *
 * Never waits. Any thread may call, also while other calls on the group are under way, but no
 * signal handler. A second call does nothing.
 *
 * @param reason  shown in the messages, which are cut to 512 bytes; NULL: none.
 */
SYMM_API symm_status_t symm_group_abort(symm_group_t *group, const char *reason);

/**
 * End a group in good order: wait until all ranks have arrived here, so that none sees another
 * leave early.
 * [collective] [blocking, options.timeout_ms] Since 0.2.
 *
 * The call is optional. Afterwards only queries and release are allowed: everything else on the
 * group and its memories is INVALID_HANDLE. So are requests that it leaves pending; the chapter
 * on requests has the rule.
 *
 * @param options  NULL means the defaults.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the group is ended all the same.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is ended all the same.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group; it is ended all the same.
 * @retval SYMM_ERR_INVALID_ARGUMENT  options.timeout_ms is SYMM_TIMEOUT_NOW.
 */
SYMM_API symm_status_t symm_group_finalize(symm_group_t *group,
                                           const symm_call_options_t *options);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_group_retain(symm_group_t *group);

/**
 * Drop a reference.
 * [local] Since 0.2.
 *
 * NULL is accepted. Memories of the group keep it alive. When it goes, this rank leaves the
 * group, and peers that still wait for it get PEER_FAILED.
 */
SYMM_API void symm_group_release(symm_group_t *group);

/* ---- buffers --------------------------------------------------------------------------- */

/*
 * A buffer is this rank's block, allocated by symm_alloc() or adopted from another library by
 * symm_buffer_adopt(). It becomes a memory by symm_rendezvous(), on as many groups of its
 * device as it is wanted on.
 */

/* Flags of symm_alloc_options_t and symm_heap_options_t. */

/** Pinned memory of the host, which devices and the host reach alike. */
#define SYMM_ALLOC_HOST UINT64_C(1)
/**
 * numa_node is the node that the memory is on. Goes with SYMM_ALLOC_HOST, and alone with the
 * host back end.
 */
#define SYMM_ALLOC_ON_NODE UINT64_C(2)

/** How to allocate. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** Flags SYMM_ALLOC_*. */
  uint64_t flags;
  /**
   * NUMA node, with SYMM_ALLOC_ON_NODE. Without that flag it must be 0, and memory of the host
   * is on the node nearest to the device, with the host back end to the calling thread.
   */
  int32_t numa_node;
  /**
   * Alignment of the address of this rank's block here, a power of two; 0: as
   * symm_buffer_pointer() says.
   */
  uint64_t alignment;
  /**
   * Least size of its pages, a power of two; 0: the system's, of which the kernel may join
   * some. On the host larger pages are huge pages (2 MiB and 1 GiB on x86-64), which an
   * administrator has set aside.
   */
  uint64_t page_bytes;
  /** Shown in messages, cut to 63 bytes; NULL: "". */
  const char *name;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_alloc_options_t;

/** The defaults of symm_alloc_options_t. */
#define SYMM_ALLOC_OPTIONS_INIT {sizeof(symm_alloc_options_t), 0, 0, 0, 0, NULL, NULL}

/**
 * Gives memory back when symm_alloc() is short of it, from a cache of the program's or the
 * like. `bytes` is what is wanted on `device` of `backend`. Returns the bytes that it gave
 * back; 0: none.
 *
 * It is called inside of the call that allocates, on its thread, on several threads at once if
 * several allocate. It may call the library to release handles, to collect and to ask, and must
 * not wait for other ranks. What it allocates itself asks no callback.
 */
typedef uint64_t (*symm_memory_pressure_callback_t)(void *user, symm_backend_t backend,
                                                    int32_t device, uint64_t bytes);

/**
 * Add a callback that symm asks to give memory back.
 * [local] Since 0.2.
 *
 * It is added for the whole process, beside all others. When an allocation finds too little
 * memory, the library first gives back what nobody uses, as symm_ipc_collect() does. Then the
 * callbacks are asked in the order in which they were added, and after each that has given
 * something back the allocation is tried again. It fails when all have been asked. A forked
 * child has no callbacks.
 *
 * @param callback     gives memory back.
 * @param user         passed to `callback` as it is.
 * @param[out] out_id  number for symm_memory_pressure_remove_listener().
 * @retval SYMM_ERR_INVALID_ARGUMENT  callback is NULL.
 */
SYMM_API symm_status_t symm_memory_pressure_add_listener(
    symm_memory_pressure_callback_t callback, void *user, uint64_t *out_id);

/**
 * End a callback.
 * [local] Since 0.2.
 *
 * When the call returns, the callback is not running and will not run again. A callback may end
 * itself, and then goes on to its end. The call waits up to 60 seconds for a callback that is
 * running.
 *
 * @param id  as symm_memory_pressure_add_listener() gave it.
 * @retval SYMM_ERR_NOT_FOUND  there is no such callback.
 * @retval SYMM_ERR_TIMEOUT    the callback has not returned within 60 seconds.
 */
SYMM_API symm_status_t symm_memory_pressure_remove_listener(uint64_t id);

/**
 * Allocate this rank's block on the group's device, zeroed.
 * [local] [blocking] Since 0.2.
 *
 * The buffer may be rendezvoused on this group and on any other group of the same device.
 *
 * With SYMM_ALLOC_HOST the block lies in memory of the host. On a CUDA group the devices of all
 * ranks reach it, and after a rendezvous so does the host in each rank's process, by the same
 * address; so do the importer's device and host after an import by a token. symm_device_info()
 * says whether it can be had. On a host group, where all memory is the host's, the flag changes
 * nothing. With SYMM_ALLOC_ON_NODE all pages are on that node, whoever touches them first, or
 * the call fails.
 *
 * @param group     group whose device the block is on.
 * @param bytes     > 0.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_buffer_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  bytes is 0; there is no such node; numa_node is not 0
 *                                    without SYMM_ALLOC_ON_NODE; SYMM_ALLOC_ON_NODE without
 *                                    SYMM_ALLOC_HOST with CUDA; alignment or page_bytes is not
 *                                    a power of two.
 * @retval SYMM_ERR_OUT_OF_MEMORY     the message names the limit that was hit; or there is no
 *                                    room for the alignment, or too few huge pages are free.
 * @retval SYMM_ERR_UNAVAILABLE       SYMM_ALLOC_HOST, its node or pages of this size cannot be
 *                                    had; the message says why.
 * @retval SYMM_ERR_UNSUPPORTED       this library does not know a flag.
 * @retval SYMM_ERR_SYSTEM            a system call failed; the process may have run out of
 *                                    descriptors.
 */
SYMM_API symm_status_t symm_alloc(symm_group_t *group, size_t bytes,
                                  const symm_alloc_options_t *options, symm_buffer_t **out);

/* Flags of symm_adopt_options_t. */

/** The memory is a piece of a memfd, which `fd` and `offset` name. */
#define SYMM_ADOPT_FD UINT64_C(1)

/** How to adopt. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** Flags SYMM_ADOPT_*. */
  uint64_t flags;
  /** Offset of the piece in the memfd, a multiple of 16, with SYMM_ADOPT_FD; else 0. */
  uint64_t offset;
  /** The memfd, with SYMM_ADOPT_FD and the host back end, where `pointer` is NULL; else 0. */
  int32_t fd;
  /** Shown in messages, cut to 63 bytes; NULL: "". */
  const char *name;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_adopt_options_t;

/** The defaults of symm_adopt_options_t. */
#define SYMM_ADOPT_OPTIONS_INIT {sizeof(symm_adopt_options_t), 0, 0, 0, NULL, NULL}

/**
 * Make a buffer of memory that another library has allocated, to be rendezvoused like one of
 * symm_alloc().
 * [local] [blocking] Since 0.2.
 *
 * - Host back end: the memory is a piece of a memfd (SYMM_ADOPT_FD), open for reading and
 *   writing and sealed against shrinking (F_SEAL_SHRINK), since a rank that touched what the
 *   owner has cut off would be killed. The descriptor stays its owner's, to be closed at any
 *   time. Pages that it has none for yet are allocated now.
 * - CUDA: the memory was made by cuMemCreate on the group's device and for a POSIX file
 *   descriptor (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), and mapped by cuMemMap. Memory of
 *   cudaMalloc cannot be shared so.
 *
 * The buffer refers to the physical memory and maps it once more: symm_buffer_pointer() is a
 * new address of the same bytes, which stay as they are. The owner's mapping is never touched,
 * and the owner may unmap it and free the memory at any time. While that mapping is there, its
 * addresses count as symmetric ones too, as operands and for symm_memory_find(). Peers map the
 * whole allocations that the piece lies in. Ranks may mix adopted and allocated buffers.
 *
 * With CUDA the piece may go on in the allocations that are mapped behind the first one, if
 * they have its size and lie on its device: allocators that grow in place map memory so
 * (PyTorch's expandable segments). All of that has to be the caller's, as with any range of
 * addresses. Such a buffer has no multicast address; a token and a DMA-BUF are of one
 * allocation.
 *
 * @param group     group whose device the memory is on.
 * @param pointer   anywhere inside a mapped allocation, a multiple of 16; NULL for a
 *                  descriptor.
 * @param bytes     > 0, at most to the end of the allocation that `pointer` lies in, of the
 *                  511 that may follow it, or of the memfd.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_buffer_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  the memory or the descriptor cannot be shared, or does not
 *                                    hold the piece; fd or offset is not 0 without
 *                                    SYMM_ADOPT_FD; or pointer is not NULL with it.
 * @retval SYMM_ERR_UNSUPPORTED       an address with the host back end, which no other process
 *                                    could map; or a descriptor with CUDA.
 * @retval SYMM_ERR_OUT_OF_MEMORY     the pages of the memfd, or address space, cannot be had.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_buffer_adopt(symm_group_t *group, const void *pointer, size_t bytes,
                                         const symm_adopt_options_t *options,
                                         symm_buffer_t **out);

/* Flags of symm_buffer_info_t. */

/** Allocated by SYMM_ALLOC_HOST, or for a host group. */
#define SYMM_BUFFER_HOST UINT64_C(1)
/** Made by symm_buffer_adopt(). */
#define SYMM_BUFFER_ADOPTED UINT64_C(2)
/** It has an address and no memory: symm_buffer_suspend(). */
#define SYMM_BUFFER_SUSPENDED UINT64_C(4)

/** Facts about a buffer. Filled by symm_buffer_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  /** 0 with the host back end. */
  int32_t device;
  /** Bytes that were asked for. */
  uint64_t bytes;
  /** Bytes of address space, and of memory unless it was adopted. */
  uint64_t mapped_bytes;
  /** Flags SYMM_BUFFER_*. */
  uint64_t flags;
  /** Node that was asked for; -1: none was. */
  int32_t numa_node;
  /** Living memories that it has become. */
  int32_t memories;
  /** Its address, as symm_buffer_pointer() gives it. */
  void *pointer;
  /** Size of the pages that its memory is made of; 0: adopted from a device, not known. */
  uint64_t page_bytes;
  /** Name from the options, cut to 63 bytes. */
  char name[64];
} symm_buffer_info_t;

/**
 * Describe a buffer.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_buffer_info(symm_buffer_t *buffer, symm_buffer_info_t *out);

/**
 * Find the buffer of this process that contains `address`.
 * [local] [capturable] Since 0.2.
 *
 * The address may lie anywhere inside the block. An adopted buffer is found by the addresses of
 * its owner too, as long as the owner has it mapped there. Any thread may call. Where there is
 * no buffer, nothing is allocated or formatted.
 *
 * @param address          address to look up.
 * @param options          NULL means the defaults; the call does not wait.
 * @param[out] out         one reference, for symm_buffer_release().
 * @param[out] out_offset  bytes from the start of the block; may be NULL.
 * @retval SYMM_ERR_NOT_FOUND  no buffer contains the address.
 */
SYMM_API symm_status_t symm_buffer_find(const void *address, const symm_call_options_t *options,
                                        symm_buffer_t **out, size_t *out_offset);

/**
 * Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card, say) to
 * map.
 * [local] Since 0.2.
 *
 * symm_device_info() says whether that can be had. What such a device writes is ordered with
 * kernels by its own means, not by symm.
 *
 * @param offset       bytes from the start of the buffer; the address there must be a multiple
 *                     of the host's page size.
 * @param bytes        > 0, within the buffer. The descriptor covers whole pages, and so
 *                     may reach beyond the piece by less than a page.
 * @param options      NULL means the defaults; the call does not wait.
 * @param[out] out_fd  a descriptor of this piece, which starts at offset 0 of it and is closed
 *                     on exec. The caller closes it, and uses it only while the buffer or a
 *                     memory of it lives.
 * @retval SYMM_ERR_INVALID_ARGUMENT  offset or bytes is wrong.
 * @retval SYMM_ERR_UNAVAILABLE       always on the host back end; else the message says why.
 * @retval SYMM_ERR_SYSTEM            the descriptor cannot be closed on exec.
 */
SYMM_API symm_status_t symm_buffer_export_dmabuf(symm_buffer_t *buffer, size_t offset,
                                                 size_t bytes,
                                                 const symm_call_options_t *options,
                                                 int32_t *out_fd);

/**
 * Address of the block.
 * [local] [capturable] Since 0.2.
 *
 * It is aligned to at least 4096 bytes and as asked for, that of an adopted block to 16 bytes.
 * It is valid while the buffer or a memory of it lives.
 */
SYMM_API symm_status_t symm_buffer_pointer(symm_buffer_t *buffer, void **out_pointer);

/**
 * Bytes that were asked for.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_buffer_bytes(symm_buffer_t *buffer, size_t *out_bytes);

/**
 * Get the group that a buffer was made for.
 * [local] [capturable] Since 0.2.
 *
 * A buffer does not keep its group alive.
 *
 * @param[out] out  one reference, for symm_group_release().
 * @retval SYMM_ERR_NOT_FOUND  the group is gone.
 */
SYMM_API symm_status_t symm_buffer_group(symm_buffer_t *buffer, symm_group_t **out);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_buffer_retain(symm_buffer_t *buffer);

/**
 * Drop a reference.
 * [local] Since 0.2.
 *
 * NULL is accepted. The chapter on streams says when memory of a device is given back.
 */
SYMM_API void symm_buffer_release(symm_buffer_t *buffer);

/* ---- memories -------------------------------------------------------------------------- */

/*
 * A memory is a buffer after rendezvous: the blocks of all ranks are mapped here, and beside
 * each block lies a signal pad. The blocks stay mapped while the memory lives, even after a
 * rank has died or has released its own handle.
 */

/** How to meet. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** Calls with equal tags meet, in the order in which they are made; 0 is as good as any. */
  uint64_t tag;
  /** Deadline in milliseconds; 0: the group's create_timeout_ms. */
  uint64_t timeout_ms;
  /** Signal channels of the memory, the same on all ranks; 0: as many as the group has. */
  int32_t channels;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_rendezvous_options_t;

/** The defaults of symm_rendezvous_options_t. */
#define SYMM_RENDEZVOUS_OPTIONS_INIT {sizeof(symm_rendezvous_options_t), 0, 0, 0, NULL}

/**
 * Exchange blocks: after the call every rank's block is mapped here.
 * [collective] [blocking, options.timeout_ms] Since 0.2.
 *
 * All or nothing: the call succeeds on all ranks, or fails on all with the same status. A
 * failure that all ranks agreed on leaves the group usable, as when sizes differ or a rank has
 * too little memory. When a rank was late, died or aborted, the group is revoked.
 *
 * - Several calls may run at once from several threads: on distinct groups freely, on one group
 *   with distinct tags. Two ranks that wait with different tags, for which the other has not
 *   come, get MISMATCH after 2 seconds; so where several threads call at once, their calls must
 *   be close together in time.
 * - A buffer meets once on a group. While the handles of both live, the memory is kept: a
 *   second call is [local] and [capturable], looks at no option but its struct_size, and gives
 *   the same memory with one more reference.
 * - A rank that was stopped in a call of a group that failed goes on with the call when it is
 *   resumed. A buffer that it has mapped meets on no other group until its process is dead, has
 *   released that group, or has made another group when it knew of the failure.
 *
 * @param group     group to meet on.
 * @param buffer    buffer of the group's device, of the same size on all ranks. Threads that
 *                  share one must agree on who calls first.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_memory_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  the buffer is on another device, options.channels is
 *                                    negative, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       more than 256 channels.
 * @retval SYMM_ERR_MISMATCH          sizes, channels or tags differ. After different tags the
 *                                    group is revoked.
 * @retval SYMM_ERR_UNAVAILABLE       a process may still write to the buffer; the message names
 *                                    it.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory or address space, or a CUDA
 *                                    group has 256 memories already.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 * @retval SYMM_ERR_CUDA              a call of the driver failed on a rank.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_rendezvous(symm_group_t *group, symm_buffer_t *buffer,
                                       const symm_rendezvous_options_t *options,
                                       symm_memory_t **out);

/**
 * Get the memory that a buffer has become on a group.
 * [local] [capturable] Since 0.2.
 *
 * @param buffer    buffer that has met.
 * @param group     group that it met on.
 * @param options   NULL means the defaults; the call does not wait.
 * @param[out] out  one reference, for symm_memory_release().
 * @retval SYMM_ERR_NOT_FOUND  symm_rendezvous() was not called for them.
 */
SYMM_API symm_status_t symm_buffer_memory(symm_buffer_t *buffer, symm_group_t *group,
                                          const symm_call_options_t *options,
                                          symm_memory_t **out);

/**
 * Move a memory to another group: the ranks that have it bring it, and newcomers get a block.
 * [collective over `new_group`] [blocking, options.timeout_ms] Since 0.2.
 *
 * For groups that symm_group_grow() and symm_group_shrink() make. Ranks that have the memory on
 * the group before pass it, all others pass NULL and get a block of the same size, of zeros.
 * All or nothing, as symm_rendezvous(), and a failure changes nothing.
 *
 * - The blocks that a rank has mapped stay at their addresses, with what is in them. A block of
 *   a rank that is gone stays at its address as long as `memory` lives, and newcomers' blocks
 *   are mapped elsewhere.
 * - If `new_group` has as many ranks as the group before, and all that bring the memory have
 *   the numbers that they had (SYMM_GROW_FILL_DEAD), its tables stay where they are and show
 *   the newcomers' blocks, and all signal pads stay at their addresses. Otherwise there are new
 *   tables and pads.
 * - All words of all pads are zero and no signal is on its way, as after symm_rendezvous(). The
 *   number of channels stays.
 * - `memory` stays valid for what its group is still good for, but calls with its signals fail
 *   with INVALID_HANDLE: pads and tables belong to what it has become, and must not be used
 *   when that was released. No thread may use its signals during the call.
 * - The memory is kept as after symm_rendezvous(): by the buffer that symm_memory_buffer()
 *   gives.
 * - CUDA: where pads stay, the call waits until the device has done what this process has
 *   issued, and no thread may issue or capture work meanwhile. Graphs of your own kernels that
 *   use the tables or a symm_memory_view_t stay right. A graph of symm's calls belongs to the
 *   group and the memory with which it was captured, which must live: when that group has
 *   failed, a replay sends and takes no signal, ends, and symm_group_status() of the group
 *   tells why. If a newcomer has the place of a rank that had left the group, the group fails
 *   in this call. A multicast address is a new one.
 *
 * @param memory     memory to move; NULL on a newcomer.
 * @param new_group  the group that it moves to.
 * @param options    NULL means the defaults; a deadline of 0 is create_timeout_ms of the group.
 * @param[out] out   one reference, for symm_memory_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  `memory` is NULL on all ranks; or it is on `new_group`
 *                                    already; or the deadline is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_INVALID_HANDLE    `memory` has moved already.
 * @retval SYMM_ERR_MISMATCH          ranks bring different memories, or make different calls.
 * @retval SYMM_ERR_UNSUPPORTED       `new_group` is on several machines.
 * @retval SYMM_ERR_UNAVAILABLE       a process may still write to a block; it is named.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory or address space.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 *                                    CUDA: a rank's device was at work, or a stream captured.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_memory_move(symm_memory_t *memory, symm_group_t *new_group,
                                        const symm_call_options_t *options,
                                        symm_memory_t **out);

/** Facts about a memory. Filled by symm_memory_info(). */
typedef struct {
  size_t struct_size;
  int32_t rank;
  /** Number of ranks. */
  int32_t size;
  /** Bytes of each block. */
  uint64_t bytes;
  /** The same on all ranks. */
  uint64_t id;
  /** Number of signal channels. */
  int32_t channels;
  /** 1 if it has a multicast address, then on all ranks. */
  int32_t multicast;
  /** Bytes of each pad: channels * size * 8. */
  uint64_t signal_pad_bytes;
  /** Why multicast is 0, else ""; the same on all ranks. */
  char multicast_reason[192];
} symm_memory_info_t;

/**
 * Describe a memory.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_memory_info(symm_memory_t *memory, symm_memory_info_t *out);

/**
 * Get the group of a memory.
 * [local] [capturable] Since 0.2.
 *
 * @param[out] out  one reference, for symm_group_release().
 */
SYMM_API symm_status_t symm_memory_group(symm_memory_t *memory, symm_group_t **out);

/**
 * Get the buffer that has become a memory: this rank's block.
 * [local] [capturable] Since 0.2.
 *
 * @param[out] out  one reference, for symm_buffer_release().
 */
SYMM_API symm_status_t symm_memory_buffer(symm_memory_t *memory, symm_buffer_t **out);

/**
 * Address at which rank `rank`'s block is mapped here.
 * [local] [capturable] Since 0.2.
 *
 * Valid while the memory lives, even after that rank died.
 *
 * @param rank              0 .. size-1.
 * @param[out] out_pointer  the address.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank is out of range.
 * @retval SYMM_ERR_UNAVAILABLE       the rank is on another machine; symm_put() and symm_get()
 *                                    reach it.
 */
SYMM_API symm_status_t symm_memory_pointer(symm_memory_t *memory, int32_t rank,
                                           void **out_pointer);

/**
 * Address of rank `rank`'s signal pad: uint64_t pad[channel][source rank], zero at first.
 * [local] [capturable] Since 0.2.
 *
 * A word is written by its source rank only. Use a channel either through the calls for signals
 * or by code of your own; symm/device.cuh does as those calls do. Valid while the memory lives.
 *
 * @param rank          0 .. size-1.
 * @param[out] out_pad  the address.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank is out of range.
 * @retval SYMM_ERR_UNAVAILABLE       the rank is on another machine.
 */
SYMM_API symm_status_t symm_memory_signal_pad(symm_memory_t *memory, int32_t rank,
                                              void **out_pad);

/**
 * Table of the `size` block addresses, readable by the group's device, for the host back end by
 * the host.
 * [local] [capturable] Since 0.2.
 *
 * Valid while the memory lives. The entries of ranks on other machines are NULL.
 */
SYMM_API symm_status_t symm_memory_pointer_table(symm_memory_t *memory,
                                                 void *const **out_table);

/**
 * Table of the `size` pad addresses, readable by the group's device, for the host back end by
 * the host.
 * [local] [capturable] Since 0.2.
 *
 * Valid while the memory lives. The entries of ranks on other machines are NULL.
 */
SYMM_API symm_status_t symm_memory_signal_pad_table(symm_memory_t *memory,
                                                    void *const **out_table);

/**
 * Layout of pads and counts in a symm_memory_view_t: uint64_t[channel][source]. Another number
 * is another layout.
 */
#define SYMM_MEMORY_VIEW_LAYOUT 1

/**
 * Memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All
 * pointers are device addresses. symm_memory_device_view() fills it.
 */
typedef struct {
  size_t struct_size;
  /**
   * SYMM_MEMORY_VIEW_LAYOUT of the library. A kernel that knows another must not use the pads.
   */
  uint32_t layout;
  /** This rank. */
  int32_t rank;
  /** Number of ranks. */
  int32_t size;
  /** Number of signal channels. */
  int32_t channels;
  /** Table of symm_memory_pointer_table(). */
  void *const *blocks;
  /** Table of symm_memory_signal_pad_table(). */
  uint64_t *const *pads;
  /** Counts of signals that this rank has taken. */
  uint64_t *taken;
  /** Deadline of each wait in nanoseconds; UINT64_MAX: none. */
  uint64_t timeout_ns;
  /** A word that ends all waits when it becomes other than 0; NULL: none. */
  const uint32_t *stop;
} symm_memory_view_t;

/**
 * Describe a memory for kernels of your own, to which the struct is passed by value.
 * [local] [capturable] Since 0.2.
 *
 * Valid while the memory lives.
 *
 * @param memory    memory to describe.
 * @param stop      device address of a uint32_t that ends all waits (pinned host memory, say),
 *                  or NULL.
 * @param options   NULL means the defaults; options.timeout_ms is the deadline of each wait in
 *                  a kernel.
 * @param[out] out  the view.
 * @retval SYMM_ERR_UNSUPPORTED       the host back end, which has no kernels.
 * @retval SYMM_ERR_INVALID_ARGUMENT  options.timeout_ms is SYMM_TIMEOUT_NOW.
 */
SYMM_API symm_status_t symm_memory_device_view(symm_memory_t *memory, const void *stop,
                                               const symm_call_options_t *options,
                                               symm_memory_view_t *out);

/**
 * Multicast address of the memory.
 * [local] [capturable] Since 0.2.
 *
 * What is stored there reaches the blocks of all ranks, and a reducing load combines them, by
 * the multimem instructions of the device (compute capability 9.0). Any other access is
 * undefined. The address is valid while the memory lives.
 *
 * Only a group that asked for it, by SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1 on all ranks, has
 * such addresses. There is none if any of these holds; everything else works without:
 * - SYMM_MULTICAST=0, NCCL_NVLS_ENABLE=0, NVSHMEM_DISABLE_NVLS=1 or
 *   TORCH_SYMM_MEM_DISABLE_MULTICAST=1 is set on any rank.
 * - The driver or a device has no multicast.
 * - Ranks share a device.
 * - Setting it up fails.
 *
 * @param memory            memory that has it.
 * @param options           NULL means the defaults; the call does not wait.
 * @param[out] out_pointer  the address.
 * @retval SYMM_ERR_UNAVAILABLE  there is none; the message says why, as symm_memory_info()
 *                               does.
 */
SYMM_API symm_status_t symm_memory_multicast_pointer(symm_memory_t *memory,
                                                     const symm_call_options_t *options,
                                                     void **out_pointer);

/**
 * Find the memory of `group` that maps `address`.
 * [local] [capturable] Since 0.2.
 *
 * The address may lie anywhere inside any rank's block that is mapped here. An adopted block of
 * this rank is found by the addresses of its owner too, as long as the owner has it mapped
 * there.
 *
 * @param group            group whose memories are searched.
 * @param address          address to look up.
 * @param options          NULL means the defaults; the call does not wait.
 * @param[out] out         one reference, for symm_memory_release().
 * @param[out] out_rank    whose block it is; may be NULL.
 * @param[out] out_offset  bytes from the start of the block; may be NULL.
 * @retval SYMM_ERR_NOT_FOUND  no memory of the group maps the address.
 */
SYMM_API symm_status_t symm_memory_find(symm_group_t *group, const void *address,
                                        const symm_call_options_t *options, symm_memory_t **out,
                                        int32_t *out_rank, size_t *out_offset);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_memory_retain(symm_memory_t *memory);

/**
 * Drop a reference.
 * [local] Since 0.2.
 *
 * NULL is accepted. Other ranks keep their mappings of this block.
 */
SYMM_API void symm_memory_release(symm_memory_t *memory);

/* ---- streams --------------------------------------------------------------------------- */

/*
 * A stream is a CUstream of the primary context of the group's device. A call uses a handle of
 * a stream and does not keep it, so a stream may be destroyed at any time. What went wrong in
 * the work that calls have issued is known when the stream has come to its end:
 * symm_group_synchronize() tells.
 *
 * Releasing memory asks the driver about the whole device, which would invalidate captures. So
 * the library puts a release off while it knows of a capture:
 * - one in which a call of symm was made, until the same thread makes a call outside of a
 *   capture;
 * - or one on a blocking stream.
 *
 * During other captures, release nothing whose uses were not recorded by
 * symm_buffer_record_use().
 *
 * Kernels of up to three groups may wait for other ranks on a device at a time, in any order.
 * More groups at once, and kernels of others that wait for ranks, must be ordered by the
 * caller, alike on all ranks.
 */

/** All streams. Accepted where a parameter says so, cast to void * by way of uintptr_t. */
#define SYMM_ALL_STREAMS UINT64_MAX

/**
 * Order streams: what is issued on `stream` next runs after what was issued on `after_stream`.
 * [local] [stream] [capturable] Since 0.2.
 *
 * With the host back end the call does nothing.
 *
 * @param stream        stream that waits.
 * @param after_stream  stream that it waits for. SYMM_ALL_STREAMS: all streams that calls on
 *                      this group were issued on, in a capture those of the capture.
 * @param options       NULL means the defaults; the call does not wait.
 * @retval SYMM_ERR_INVALID_ARGUMENT  stream is SYMM_ALL_STREAMS, or its capture was
 *                                    invalidated; with the host back end, stream or
 *                                    after_stream is a stream.
 */
SYMM_API symm_status_t symm_stream_wait(symm_group_t *group, void *stream, void *after_stream,
                                        const symm_call_options_t *options);

/**
 * Ask whether everything that was issued on `stream` is over.
 * [local] [capturable] Since 0.2.
 *
 * Never waits. The answer is always 1 on the host.
 *
 * @param stream         stream to ask about.
 * @param options        NULL means the defaults; the call does not wait.
 * @param[out] out_done  1: over; 0: not yet.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the stream is being captured, which this call leaves as it
 *                                    is.
 * @retval SYMM_ERR_CUDA              work on the stream has failed.
 */
SYMM_API symm_status_t symm_stream_query(symm_group_t *group, void *stream,
                                         const symm_call_options_t *options, int32_t *out_done);

/**
 * Wait until everything that was issued on `stream` is over, and say what went wrong with the
 * group.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * @param options  NULL means the defaults.
 * @retval SYMM_ERR_TIMEOUT           the stream has not come to its end; the group stays
 *                                    usable.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the stream is being captured.
 * @retval SYMM_ERR_CUDA              work on the stream has failed.
 */
SYMM_API symm_status_t symm_group_synchronize(symm_group_t *group, void *stream,
                                              const symm_call_options_t *options);

/**
 * Say that what was issued on `stream` so far uses the buffer.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Call it behind the last such work. As record_stream() of PyTorch, it is about the release,
 * which never waits: the memory is given back later. With the host back end the call does
 * nothing.
 * - If no use was recorded, memory is given back when everything that the device had to do at
 *   the time of the release is over.
 * - If uses were recorded, it is given back when those and symm's own calls are over. Work on
 *   streams that were not recorded must then be over before the release.
 * - If a use was recorded in a capture, the first rule holds again, since a graph may be
 *   replayed anywhere.
 *
 * @param buffer   buffer that is used.
 * @param options  NULL means the defaults; the call does not wait.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the capture of the stream was invalidated; with the host
 *                                    back end, stream is a stream.
 */
SYMM_API symm_status_t symm_buffer_record_use(symm_buffer_t *buffer,
                                              const symm_call_options_t *options, void *stream);

/** Keep the contents in memory of the host: for symm_buffer_suspend(). */
#define SYMM_SUSPEND_KEEP UINT64_C(1)

/**
 * Give the memory of a buffer back to the system, and keep its address: for an engine that
 * sleeps. symm_buffer_resume() brings memory back to the same address, so pointers, and graphs
 * that were captured with them, are right again.
 * [local] [stream] Since 0.2.
 *
 * The call waits for what was issued on `stream`, and for no other process; nothing else may be
 * using the memory. Until it is resumed, an access faults, and the buffer can neither meet, nor
 * be exported. The tokens of the buffer end as by symm_ipc_withdraw(), without waiting: those
 * who have imported it keep what they have, and the memory is free when they let go.
 *
 * Memory of the host that keeps its contents stays where it is. Other contents are kept in
 * pinned memory of the host.
 *
 * @param buffer   made by symm_alloc(). It has met on no group that is still there, since other
 *                 ranks have such a buffer mapped.
 * @param flags    SYMM_SUSPEND_KEEP, or 0: the contents are lost.
 * @param options  NULL means the defaults; the call has no deadline.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  it is suspended, or has met on a group; this process has
 *                                    imported a piece of it; or the stream is being captured.
 * @retval SYMM_ERR_UNSUPPORTED       the buffer was adopted.
 * @retval SYMM_ERR_OUT_OF_MEMORY     there is no memory of the host for the contents; nothing
 *                                    has changed but that tokens have ended.
 */
SYMM_API symm_status_t symm_buffer_suspend(symm_buffer_t *buffer, uint64_t flags,
                                           const symm_call_options_t *options, void *stream);

/**
 * Bring memory back to the address of a suspended buffer: with the contents that were kept, or
 * zeroed.
 * [local] [stream] Since 0.2.
 *
 * When memory is short, the call does what symm_alloc() does then. If it fails, the buffer
 * stays suspended, and can be resumed later.
 *
 * @param buffer   suspended by symm_buffer_suspend().
 * @param options  NULL means the defaults; the call has no deadline.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  it is not suspended, or the stream is being captured.
 * @retval SYMM_ERR_OUT_OF_MEMORY     there is not as much memory.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_buffer_resume(symm_buffer_t *buffer,
                                          const symm_call_options_t *options, void *stream);

/**
 * Say that what was issued on `stream` so far uses the memory.
 * [local] [stream] [capturable] Since 0.2.
 *
 * As symm_buffer_record_use(), for the blocks and pads of all ranks that are mapped here.
 *
 * @param memory   memory that is used.
 * @param options  NULL means the defaults; the call does not wait.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as for symm_buffer_record_use().
 */
SYMM_API symm_status_t symm_memory_record_use(symm_memory_t *memory,
                                              const symm_call_options_t *options, void *stream);

/* ---- heap ------------------------------------------------------------------------------ */

/*
 * A heap is one memory, handed out in pieces. Creation is one allocation and one rendezvous.
 * After it no call of a heap says a word to other ranks or makes a system call.
 *
 * - Offsets: what a call answers follows from the earlier calls on the heap, and from nothing
 *   else. Ranks that make the same calls, with the same sizes and alignments in the same order,
 *   get the same offsets, so a piece here is the piece at the same offset there. Threads of one
 *   rank must therefore take turns in an order that all ranks share. With SYMM_CHECK=1 (or
 *   SYMM_GROUP_CHECK) a hash of the calls is compared in every collective of the group: ranks
 *   that went apart get MISMATCH, with two of them named, and heap calls must come in the same
 *   order as collectives.
 * - Pieces: a piece is symmetric memory. Tokens, put and get, signals, collectives without a
 *   copy, and multicast work at its offset in symm_heap_memory(). A new piece is not zeroed.
 * - Freeing: never waits, and the next symm_heap_alloc() may hand the bytes out again, since
 *   what depends on time would differ from rank to rank. So the caller orders re-use. Free a
 *   piece when no other rank writes or reads it any more (a barrier says so) and its tokens are
 *   withdrawn. On CUDA, work that uses the piece may still be under way if what uses the next
 *   one comes after it: on the same stream, or on one that waits for it.
 */

/** How to make a heap. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** Flags SYMM_ALLOC_*. */
  uint64_t flags;
  /** NUMA node, as in symm_alloc_options_t. */
  int32_t numa_node;
  /**
   * Alignment of the block, as in symm_alloc_options_t, and so the most that a piece can have;
   * 0: 4096.
   */
  uint64_t alignment;
  /** Least size of its pages, as in symm_alloc_options_t. */
  uint64_t page_bytes;
  /** Shown in messages, cut to 63 bytes; NULL: "". */
  const char *name;
  /** Deadline in milliseconds; 0: the group's create_timeout_ms. */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_heap_options_t;

/** The defaults of symm_heap_options_t. */
#define SYMM_HEAP_OPTIONS_INIT {sizeof(symm_heap_options_t), 0, 0, 0, 0, NULL, 0, NULL}

/**
 * Make a heap of `bytes` on every rank.
 * [collective] [blocking, options.timeout_ms] Since 0.2.
 *
 * All or nothing: what fails on one rank fails on all. The group stays usable or is revoked as
 * after symm_rendezvous(). Not to be called during stream capture.
 *
 * @param bytes     > 0, the same on all ranks; rounded up to a multiple of 256.
 * @param options   NULL means the defaults.
 * @param[out] out  one reference, for symm_heap_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  bytes is 0, options.timeout_ms is SYMM_TIMEOUT_NOW, or
 *                                    another option is wrong, as for symm_alloc().
 * @retval SYMM_ERR_UNSUPPORTED       1 TiB and more, or a flag is not known.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory, or a CUDA group has 256
 *                                    memories already.
 * @retval SYMM_ERR_UNAVAILABLE       a rank cannot have SYMM_ALLOC_HOST, its node or pages of
 *                                    this size.
 * @retval SYMM_ERR_MISMATCH          sizes differ.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 */
SYMM_API symm_status_t symm_heap_create(symm_group_t *group, size_t bytes,
                                        const symm_heap_options_t *options, symm_heap_t **out);

/**
 * Move a heap to another group, with all its pieces.
 * [collective over `new_group`] [blocking, options.timeout_ms] Since 0.2.
 *
 * As symm_memory_move() for the memory of the heap. Pieces in use stay in use, at their
 * offsets, on newcomers too, which pass NULL: their block is of zeros, and the next calls have
 * the same offsets on all ranks. From then on pieces are taken from the new heap only;
 * symm_heap_free() and symm_heap_find() of `heap` are those of the new one. A newcomer's heap
 * has no name.
 *
 * @param heap       heap to move; NULL on a newcomer.
 * @param new_group  the group that it moves to.
 * @param options    NULL means the defaults; a deadline of 0 is create_timeout_ms of the group.
 * @param[out] out   one reference, for symm_heap_release().
 * @retval SYMM_ERR_INVALID_ARGUMENT  `heap` is NULL on all ranks; or it is on `new_group`
 *                                    already; or the deadline is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_INVALID_HANDLE    `heap` has moved already.
 * @retval SYMM_ERR_MISMATCH          ranks bring different heaps, or have made different calls
 *                                    of the heap, or make different calls now.
 * @retval SYMM_ERR_UNSUPPORTED       `new_group` is on several machines, or the heap has more
 *                                    than 1,300,000 pieces.
 * @retval SYMM_ERR_UNAVAILABLE       as for symm_memory_move().
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory or address space.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_heap_move(symm_heap_t *heap, symm_group_t *new_group,
                                      const symm_call_options_t *options, symm_heap_t **out);

/**
 * Take a piece of this rank's block.
 * [local] [capturable] Since 0.2.
 *
 * Any thread may call.
 *
 * @param heap              heap to take from.
 * @param bytes             > 0; what is taken is a multiple of 256.
 * @param alignment         a power of two, at most that of the block; 0: 256, and never less.
 * @param options           NULL means the defaults; the call does not wait.
 * @param[out] out_pointer  where the piece lies in this rank's block.
 * @param[out] out_offset   bytes from the start of the block; may be NULL.
 * @retval SYMM_ERR_OUT_OF_MEMORY     the message has what was asked for, what is free, and the
 *                                    largest free piece; nothing has changed.
 * @retval SYMM_ERR_INVALID_ARGUMENT  bytes is 0, or alignment is not a power of two or too
 *                                    large.
 */
SYMM_API symm_status_t symm_heap_alloc(symm_heap_t *heap, size_t bytes, size_t alignment,
                                       const symm_call_options_t *options, void **out_pointer,
                                       size_t *out_offset);

/**
 * Give a piece back.
 * [local] [capturable] Since 0.2.
 *
 * Never waits. Any thread may call, also after the group has failed. The introduction of this
 * chapter says when a piece may be freed.
 *
 * @param heap     heap that it was taken from.
 * @param pointer  as symm_heap_alloc() gave it; NULL does nothing.
 * @param options  NULL means the defaults; the call does not wait.
 * @retval SYMM_ERR_INVALID_ARGUMENT  pointer was freed already, lies inside a piece, or is not
 *                                    of this heap; nothing has changed.
 */
SYMM_API symm_status_t symm_heap_free(symm_heap_t *heap, void *pointer,
                                      const symm_call_options_t *options);

/**
 * Find the piece that contains `address`, anywhere between its first and its last byte in this
 * rank's block.
 * [local] [capturable] Since 0.2.
 *
 * @param heap              heap that is searched.
 * @param address           address to look up.
 * @param options           NULL means the defaults; the call does not wait.
 * @param[out] out_pointer  start of the piece.
 * @param[out] out_bytes    bytes that were asked for; may be NULL.
 * @retval SYMM_ERR_NOT_FOUND  no piece that is in use contains it.
 */
SYMM_API symm_status_t symm_heap_find(symm_heap_t *heap, const void *address,
                                      const symm_call_options_t *options, void **out_pointer,
                                      size_t *out_bytes);

/**
 * Get the memory that the pieces lie in.
 * [local] [capturable] Since 0.2.
 *
 * @param[out] out  one reference, for symm_memory_release(); it keeps the pieces mapped, also
 *                  when the heap is gone.
 */
SYMM_API symm_status_t symm_heap_memory(symm_heap_t *heap, symm_memory_t **out);

/**
 * Get the group of a heap.
 * [local] [capturable] Since 0.2.
 *
 * @param[out] out  one reference, for symm_group_release().
 */
SYMM_API symm_status_t symm_heap_group(symm_heap_t *heap, symm_group_t **out);

/** Facts about a heap. Filled by symm_heap_info(). */
typedef struct {
  size_t struct_size;
  /** Bytes of each rank's block. */
  uint64_t bytes;
  /** Bytes in pieces, each a multiple of 256. */
  uint64_t used_bytes;
  /** The most bytes that were ever used at once. */
  uint64_t peak_bytes;
  /** Bytes that are free. */
  uint64_t free_bytes;
  /** Bytes of the largest free piece: more cannot be had at once. */
  uint64_t largest_free_bytes;
  /** Pieces in use. */
  uint64_t pieces;
  /** Pieces that the free bytes lie in. */
  uint64_t free_pieces;
  /** Calls of symm_heap_alloc() and symm_heap_free() that went well. */
  uint64_t calls;
  /** How many of 1000 free bytes are not in the largest free piece. */
  uint64_t fragmentation_permille;
  /** Name from the options, cut to 63 bytes. */
  char name[64];
} symm_heap_info_t;

/**
 * Describe a heap.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_heap_info(symm_heap_t *heap, symm_heap_info_t *out);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_heap_retain(symm_heap_t *heap);

/**
 * Drop a reference.
 * [local] Since 0.2.
 *
 * NULL is accepted. With the last reference all pieces go, once nobody holds the memory.
 */
SYMM_API void symm_heap_release(symm_heap_t *heap);

/* ---- barriers and signals -------------------------------------------------------------- */

/*
 * A barrier makes ranks meet. A signal goes from one rank to one other: it is a word of 64
 * bits, one for each channel, source and destination of a memory, zero at first. Channels of
 * barriers belong to the group, channels of signals to the memory.
 *
 * A signal is either counted (symm_signal(), symm_wait_signal()) or carries values
 * (symm_signal_value(), symm_wait_signal_value()). Use a channel for one of the two.
 *
 * Any number of streams, and of threads of one rank, may share a channel, whether or not they
 * are ordered with each other, and in captured graphs: each barrier and each signal counts
 * exactly once.
 * - A barrier ends when every rank of its set has begun as many barriers on its channel as this
 *   rank had when it began, itself included.
 * - A wait that takes a signal takes one that no other takes.
 * - Where streams are not ordered, which of a rank's barriers meets which of another's, and who
 *   takes which signal, is as they happen to run. Give each a channel of its own where one is
 *   to meet its like.
 *
 * With the CUDA back end a wait that fails revokes the group, because what follows on the
 * stream would run without it. With the host back end a wait for a signal or a word that fails
 * has taken nothing, and the group stays usable.
 *
 * Between GPUs of several machines, NCCL carries barriers. Signals to and from a rank on
 * another machine need UCX, and those to it cannot be captured; both are UNSUPPORTED otherwise.
 */

/**
 * Wait until all ranks of a set are here.
 * [collective over the set] [stream] [capturable] Since 0.2.
 *
 * What the ranks wrote before the barrier is visible after it. Barriers on different channels
 * are independent.
 *
 * Two ranks that are in several sets must come to the barriers of these sets on one channel in
 * the same order, since they count what they have had of each other.
 * - Host back end: another order is MISMATCH, and a thread in a barrier keeps others of its
 *   rank from that channel.
 * - CUDA: streams that are not ordered with each other need a channel for each such set, or a
 *   barrier may end early. Between GPUs of several machines, barriers of ranks on several
 *   machines are one sequence, whatever their channels.
 *
 * @param ranks    distinct ranks, this one among them, in any order; NULL with count 0: the
 *                 whole group.
 * @param count    number of ranks.
 * @param channel  0 .. channels-1 of the group.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come. The message names the first missing
 *                                    one, and the group is revoked, unless options.timeout_ms
 *                                    is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_MISMATCH          host back end: ranks came to different sets, not in one
 *                                    order, or to another call; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank of the set died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  ranks names a rank twice or one that is not in the group,
 *                                    or lacks this rank; count does not go with ranks; channel
 *                                    is out of range; or SYMM_TIMEOUT_NOW with CUDA.
 */
SYMM_API symm_status_t symm_barrier(symm_group_t *group, const int32_t *ranks, size_t count,
                                    int32_t channel, const symm_call_options_t *options,
                                    void *stream);

/**
 * Add one to the signals that this rank has sent to `rank` on `channel`.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Does not wait, except for the network where `rank` is on another machine. Any number of
 * signals may be outstanding. What this rank wrote before is visible to whoever waited for the
 * signal.
 *
 * @param memory   memory whose signals are meant.
 * @param rank     destination, 0 .. size-1.
 * @param channel  0 .. channels-1 of the memory.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, or options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and is lost.
 * @retval SYMM_ERR_TIMEOUT           the rank is on another machine and has not taken what was
 *                                    sent before the deadline; the group is revoked.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine, and UCX is missing
 *                                    or the stream is being captured.
 */
SYMM_API symm_status_t symm_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                   const symm_call_options_t *options, void *stream);

/**
 * Add a value to the word that this rank has at `rank` on `channel`, or set the word to it.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Does not wait, except for the network where `rank` is on another machine. What this rank
 * wrote before is visible to whoever waited for the value.
 *
 * @param memory   memory whose signals are meant.
 * @param rank     destination, 0 .. size-1.
 * @param channel  0 .. channels-1 of the memory.
 * @param op       SYMM_SIGNAL_ADD or SYMM_SIGNAL_SET.
 * @param value    any number; sums wrap.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, op is negative, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and is lost.
 * @retval SYMM_ERR_TIMEOUT           as for symm_signal().
 * @retval SYMM_ERR_UNSUPPORTED       op is not known. CUDA: the rank is on another machine, and
 *                                    UCX is missing or the stream is being captured.
 */
SYMM_API symm_status_t symm_signal_value(symm_memory_t *memory, int32_t rank, int32_t channel,
                                         symm_signal_op_t op, uint64_t value,
                                         const symm_call_options_t *options, void *stream);

/**
 * Take one signal from `rank` on `channel`, waiting for it if need be.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose signals are meant.
 * @param rank     source, 0 .. size-1.
 * @param channel  0 .. channels-1 of the memory.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           there was no signal before the deadline; blames `rank`.
 * @retval SYMM_ERR_PEER_FAILED       `rank` died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, or SYMM_TIMEOUT_NOW with
 *                                    CUDA.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine, and UCX is missing.
 */
SYMM_API symm_status_t symm_wait_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                        const symm_call_options_t *options, void *stream);

/**
 * Wait until the word from `rank` on `channel` compares with `value` as `compare` says.
 * [local] [stream] [capturable] Since 0.2.
 *
 * The word stays as it is: no signal is consumed.
 *
 * @param memory         memory whose signals are meant.
 * @param rank           source, 0 .. size-1.
 * @param channel        0 .. channels-1 of the memory.
 * @param compare        word compare value.
 * @param value          right side of the comparison.
 * @param options        NULL means the defaults.
 * @param[out] out_seen  the word when it compared so; may be NULL, and must be with the CUDA
 *                       back end, where the call does not wait.
 * @param stream         orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           the word did not compare so before the deadline; blames
 *                                    `rank`.
 * @retval SYMM_ERR_PEER_FAILED       `rank` died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, compare is negative, or
 *                                    with CUDA out_seen is not NULL or the deadline is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       compare is not known. CUDA: the rank is on another
 *                                    machine, and UCX is missing.
 */
SYMM_API symm_status_t symm_wait_signal_value(symm_memory_t *memory, int32_t rank,
                                              int32_t channel, symm_compare_t compare,
                                              uint64_t value,
                                              const symm_call_options_t *options,
                                              uint64_t *out_seen, void *stream);

/**
 * One of the signals that symm_wait_signals() waits for, as the arguments of
 * symm_wait_signal_value().
 */
typedef struct {
  size_t struct_size;
  /** Source, 0 .. size-1. */
  int32_t rank;
  /** 0 .. channels-1 of the memory. */
  int32_t channel;
  /** How the word compares with `value`. */
  symm_compare_t compare;
  /** Right side of the comparison. */
  uint64_t value;
} symm_signal_wait_t;

/** The zeroed symm_signal_wait_t: the word from rank 0 on channel 0 is 0. */
#define SYMM_SIGNAL_WAIT_INIT {sizeof(symm_signal_wait_t), 0, 0, SYMM_COMPARE_EQ, 0}

/**
 * Wait for several signals.
 * [local] [stream] [capturable] Since 0.2.
 *
 * The words stay as they are: no signal is consumed.
 *
 * @param memory          memory whose signals are meant.
 * @param waits           `count` of them, with equal struct_size.
 * @param count           1 .. 64.
 * @param mode            whether all or any of them are awaited.
 * @param options         NULL means the defaults.
 * @param[out] out_index  with WAIT_ANY the first that was as awaited, else 0; may be NULL, and
 *                        must be with the CUDA back end.
 * @param stream          orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           the deadline passed; blames a rank if it alone was
 *                                    awaited.
 * @retval SYMM_ERR_PEER_FAILED       an awaited rank died or left; with WAIT_ANY: all of them.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  count, a rank or a channel is out of range, mode or a
 *                                    compare is negative, struct_sizes differ, or with CUDA
 *                                    out_index is not NULL or the deadline is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       mode or a compare is not known. CUDA: a rank is on another
 *                                    machine, and UCX is missing.
 */
SYMM_API symm_status_t symm_wait_signals(symm_memory_t *memory, const symm_signal_wait_t *waits,
                                         size_t count, symm_wait_mode_t mode,
                                         const symm_call_options_t *options, size_t *out_index,
                                         void *stream);

/**
 * Count the signals from `rank` on `channel` that are there and not taken.
 * [local] Since 0.2.
 *
 * Never waits for a rank or a stream. What was written before the signals is visible, with CUDA
 * to what is issued from now on. Not to be captured.
 *
 * @param memory            memory whose signals are meant.
 * @param rank              source, 0 .. size-1.
 * @param channel           0 .. channels-1 of the memory.
 * @param options           NULL means the defaults; the call does not wait.
 * @param[out] out_pending  number of signals.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range.
 */
SYMM_API symm_status_t symm_test_signal(symm_memory_t *memory, int32_t rank, int32_t channel,
                                        const symm_call_options_t *options,
                                        uint64_t *out_pending);

/**
 * Read the word from `rank` on `channel`.
 * [local] Since 0.2.
 *
 * Never waits for a rank or a stream. What was written before the word is visible, with CUDA to
 * what is issued from now on. Not to be captured.
 *
 * @param memory          memory whose signals are meant.
 * @param rank            source, 0 .. size-1.
 * @param channel         0 .. channels-1 of the memory.
 * @param options         NULL means the defaults; the call does not wait.
 * @param[out] out_value  the word.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range.
 */
SYMM_API symm_status_t symm_test_signal_value(symm_memory_t *memory, int32_t rank,
                                              int32_t channel,
                                              const symm_call_options_t *options,
                                              uint64_t *out_value);

/* ---- one-sided copies ------------------------------------------------------------------ */

/*
 * These calls copy and store bytes in the block of one rank, change words in it, and wait for
 * words in this rank's own block. The other rank does nothing for them. What a put, a fill, a
 * store or an atomic has written is visible to the other rank after a signal or a barrier.
 *
 * A rank on another machine is reached as well. What it has released is not written any more,
 * and cannot be read. These calls then wait for the network, for at most options.timeout_ms;
 * a deadline that passes revokes the group. Otherwise they do not wait.
 */

/**
 * Copy `bytes` bytes to `offset` in rank `rank`'s block.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Visible to that rank after a signal or barrier.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block.
 * @param source   any memory of this process that the group's device reaches (with CUDA
 *                 pageable memory of the host only where the driver copies it). It may be
 *                 symmetric, but must not overlap the destination, which is not checked. NULL
 *                 with bytes 0.
 * @param bytes    offset + bytes is within the block.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or bytes is out of range, source is NULL, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and is lost.
 * @retval SYMM_ERR_TIMEOUT           the rank is on another machine and has not taken what was
 *                                    sent before the deadline; the group is revoked.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine, and UCX is missing
 *                                    or the stream is being captured.
 */
SYMM_API symm_status_t symm_put(symm_memory_t *memory, int32_t rank, size_t offset,
                                const void *source, size_t bytes,
                                const symm_call_options_t *options, void *stream);

/**
 * Copy `bytes` bytes from `offset` in rank `rank`'s block to `destination`.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory       memory whose block is read.
 * @param rank         source, 0 .. size-1.
 * @param offset       bytes from the start of the block.
 * @param destination  any memory of this process that the group's device reaches, as for
 *                     symm_put(). NULL with bytes 0.
 * @param bytes        offset + bytes is within the block.
 * @param options      NULL means the defaults.
 * @param stream       orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or bytes is out of range, destination is
 *                                    NULL, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNAVAILABLE       the rank is on another machine and has released the
 *                                    memory.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and has died or left.
 * @retval SYMM_ERR_TIMEOUT           the rank is on another machine and has not answered before
 *                                    the deadline; the group is revoked.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine, and UCX is missing
 *                                    or the stream is being captured.
 */
SYMM_API symm_status_t symm_get(symm_memory_t *memory, int32_t rank, size_t offset,
                                void *destination, size_t bytes,
                                const symm_call_options_t *options, void *stream);

/**
 * Copy as symm_put() does, then signal as symm_signal() does, in one call.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block.
 * @param source   as for symm_put().
 * @param bytes    offset + bytes is within the block.
 * @param channel  0 .. channels-1 of the memory.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset, bytes or channel is out of range, source is
 *                                    NULL, or options.timeout_ms is SYMM_TIMEOUT_NOW; nothing
 *                                    was written.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_put_signal(symm_memory_t *memory, int32_t rank, size_t offset,
                                       const void *source, size_t bytes, int32_t channel,
                                       const symm_call_options_t *options, void *stream);

/**
 * Copy as symm_put() does, then signal as symm_signal_value() does, in one call.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block.
 * @param source   as for symm_put().
 * @param bytes    offset + bytes is within the block.
 * @param channel  0 .. channels-1 of the memory.
 * @param op       SYMM_SIGNAL_ADD or SYMM_SIGNAL_SET.
 * @param value    any number; sums wrap.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as for symm_put_signal(), or op is negative; nothing was
 *                                    written.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       op is not known, and nothing was written; or as for
 *                                    symm_put().
 */
SYMM_API symm_status_t symm_put_signal_value(symm_memory_t *memory, int32_t rank, size_t offset,
                                             const void *source, size_t bytes, int32_t channel,
                                             symm_signal_op_t op, uint64_t value,
                                             const symm_call_options_t *options, void *stream);

/* Flags of symm_pieces_call_t. */

/** A signal follows the last piece: channel, op and value count. */
#define SYMM_PIECES_SIGNAL UINT64_C(1)
/**
 * The list or the tables, and device_count, lie in memory that the device (host back end: the
 * host) can read, and are read when the call runs, not before. So kernels may write them, and a
 * captured call takes new ones at each replay. They stay as they are until the call has run.
 */
#define SYMM_PIECES_ON_DEVICE UINT64_C(2)

/**
 * A piece of symm_put_pieces() and symm_get_pieces(): rows of equal length, at equal distances.
 * One side is memory of this process, the other one a block from `offset` on. A piece has no
 * struct_size and never changes, so that programs can write long lists quickly.
 */
typedef struct {
  /** Where the first row is read: bytes from the start of the side that is read. */
  uint64_t from;
  /** Where the first row goes: bytes from the start of the side that is written. */
  uint64_t to;
  /** Bytes of a row. 0: there is nothing to copy, and nothing of the piece is looked at. */
  uint64_t bytes;
  /** Number of rows; 0 is 1. */
  uint64_t rows;
  /**
   * Bytes from the start of a row to that of the next where they are read. Rows may overlap
   * there: with 0 one row is read again and again. Without meaning for one row.
   */
  uint64_t from_stride;
  /** The same where they go, at least `bytes`. Without meaning for one row. */
  uint64_t to_stride;
} symm_piece_t;

/**
 * What symm_put_pieces() and symm_get_pieces() copy: the pieces of a list, or pages of one
 * size, by their numbers. Page n begins n * page_bytes bytes behind the start of its side.
 */
typedef struct {
  size_t struct_size;
  /** `count` pieces; NULL with page_bytes, and where count is 0. */
  const symm_piece_t *pieces;
  /** Number of pieces or of pages; 0: nothing is copied. With device_count: the most. */
  size_t count;
  /** Bytes of a page; 0: `pieces` counts, and both tables are NULL. */
  size_t page_bytes;
  /** Numbers of the pages that are read, `count` of them; NULL: 0, 1, 2 and so on. */
  const uint64_t *from_table;
  /** Numbers of the pages where they go, `count` of them; NULL: 0, 1, 2 and so on. */
  const uint64_t *to_table;
  /** 0, or bits: SYMM_PIECES_SIGNAL, SYMM_PIECES_ON_DEVICE. */
  uint64_t flags;
  /** Channel of the signal, 0 .. channels-1 of the memory. */
  int32_t channel;
  /** What the signal does with `value`, as in symm_signal_value(). */
  symm_signal_op_t op;
  /** Any number; sums wrap. 1 with SYMM_SIGNAL_ADD is a signal for symm_wait_signal(). */
  uint64_t value;
  /** With SYMM_PIECES_ON_DEVICE: where the number of pieces or of pages is; NULL: `count`. */
  const uint64_t *device_count;
} symm_pieces_call_t;

/** The zeroed symm_pieces_call_t: no pieces, and no signal. */
#define SYMM_PIECES_CALL_INIT \
  {sizeof(symm_pieces_call_t), NULL, 0, 0, NULL, NULL, 0, 0, SYMM_SIGNAL_ADD, 0, NULL}

/**
 * Copy many pieces to rank `rank`'s block in one call, and signal when all are there.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Visible to that rank after the signal of the call, or any later signal or barrier. In which
 * order the pieces are copied is not said. Where two pieces go to the same bytes, which is not
 * checked, these bytes are those of either. Lists and tables are read during the call only,
 * unless they are on the device.
 *
 * With CUDA, while a stream is being captured, a list has at most 48 pieces, and tables have at
 * most 288 numbers together, unless they are on the device. Pieces of a list there are checked
 * when the call runs: one that breaks a rule is not copied, no signal follows, and the group
 * fails with INVALID_ARGUMENT, which names it.
 *
 * @param memory        memory whose block is written.
 * @param rank          destination, 0 .. size-1.
 * @param offset        from where the pieces count in the block, bytes from its start.
 * @param source        as for symm_put(), but with CUDA no pageable memory: a kernel reads it.
 *                      Its pieces may overlap each other. NULL where nothing is copied.
 * @param source_bytes  size of `source`, which no piece may exceed; SIZE_MAX: not known.
 * @param call          the pieces and the signal.
 * @param options       NULL means the defaults.
 * @param stream        orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or channel is out of range; a piece reaches
 *                                    beyond source or the block, or its rows overlap where they
 *                                    go (the message names the piece); a field does not go with
 *                                    another; source is NULL, op is negative, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW. Nothing was
 *                                    written.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       op or a flag is not known. CUDA: the rank is on another
 *                                    machine, or the stream is being captured and the list on
 *                                    the host is too long. Nothing was written.
 */
SYMM_API symm_status_t symm_put_pieces(symm_memory_t *memory, int32_t rank, size_t offset,
                                       const void *source, size_t source_bytes,
                                       const symm_pieces_call_t *call,
                                       const symm_call_options_t *options, void *stream);

/**
 * Copy many pieces from rank `rank`'s block in one call, and signal when all are here.
 * [local] [stream] [capturable] Since 0.2.
 *
 * The signal goes to that rank, which may then write these pieces of its block anew. All else
 * is as for symm_put_pieces().
 *
 * @param memory             memory whose block is read.
 * @param rank               source, 0 .. size-1.
 * @param offset             from where the pieces count in the block, bytes from its start.
 * @param destination        as the source of symm_put_pieces(). NULL where nothing is copied.
 * @param destination_bytes  size of `destination`, which no piece may exceed; SIZE_MAX: not
 *                           known.
 * @param call               the pieces and the signal.
 * @param options            NULL means the defaults.
 * @param stream             orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or channel is out of range; a piece reaches
 *                                    beyond the block or destination, or its rows overlap where
 *                                    they go (the message names the piece); a field does not go
 *                                    with another; destination is NULL, op is negative, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW. Nothing was
 *                                    written.
 * @retval SYMM_ERR_UNAVAILABLE       as for symm_get().
 * @retval SYMM_ERR_PEER_FAILED       as for symm_get().
 * @retval SYMM_ERR_TIMEOUT           as for symm_get().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put_pieces().
 */
SYMM_API symm_status_t symm_get_pieces(symm_memory_t *memory, int32_t rank, size_t offset,
                                       void *destination, size_t destination_bytes,
                                       const symm_pieces_call_t *call,
                                       const symm_call_options_t *options, void *stream);

/**
 * Store `count` copies of a 32-bit value at `offset` in rank `rank`'s block.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 4.
 * @param value    what to store.
 * @param count    number of copies, which end within the block.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or count is out of range, offset is not a
 *                                    multiple of 4, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_fill32(symm_memory_t *memory, int32_t rank, size_t offset,
                                   uint32_t value, size_t count,
                                   const symm_call_options_t *options, void *stream);

/**
 * Store `count` copies of an 8-bit value at `offset` in rank `rank`'s block.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block.
 * @param value    what to store.
 * @param count    number of copies, which end within the block.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or count is out of range, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_fill8(symm_memory_t *memory, int32_t rank, size_t offset,
                                  uint8_t value, size_t count,
                                  const symm_call_options_t *options, void *stream);

/**
 * Store `count` copies of a 16-bit value at `offset` in rank `rank`'s block.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 2.
 * @param value    what to store.
 * @param count    number of copies, which end within the block.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or count is out of range, offset is not a
 *                                    multiple of 2, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_fill16(symm_memory_t *memory, int32_t rank, size_t offset,
                                   uint16_t value, size_t count,
                                   const symm_call_options_t *options, void *stream);

/**
 * Store `count` copies of a 64-bit value at `offset` in rank `rank`'s block.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 8.
 * @param value    what to store.
 * @param count    number of copies, which end within the block.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank, offset or count is out of range, offset is not a
 *                                    multiple of 8, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_fill64(symm_memory_t *memory, int32_t rank, size_t offset,
                                   uint64_t value, size_t count,
                                   const symm_call_options_t *options, void *stream);

/**
 * Store one 32-bit value at `offset` in rank `rank`'s block, after everything that this rank
 * wrote before (release order).
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 4.
 * @param value    what to store.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 4, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_write_value32(symm_memory_t *memory, int32_t rank, size_t offset,
                                          uint32_t value, const symm_call_options_t *options,
                                          void *stream);

/**
 * Store one 64-bit value at `offset` in rank `rank`'s block, after everything that this rank
 * wrote before (release order).
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param memory   memory whose block is written.
 * @param rank     destination, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 8.
 * @param value    what to store.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 8, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_PEER_FAILED       as for symm_put().
 * @retval SYMM_ERR_TIMEOUT           as for symm_put().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_put().
 */
SYMM_API symm_status_t symm_write_value64(symm_memory_t *memory, int32_t rank, size_t offset,
                                          uint64_t value, const symm_call_options_t *options,
                                          void *stream);

/**
 * Read a 32-bit word at `offset` in rank `rank`'s block.
 * [local] Since 0.2.
 *
 * Never waits for a stream. What was written before the word in release order is visible, with
 * CUDA to what is issued from now on. A rank on another machine answers by the network, for
 * which the call waits. symm_atomic32() with SYMM_ATOMIC_FETCH reads a word in the order of a
 * stream. Not to be captured.
 *
 * @param memory          memory whose block is read.
 * @param rank            source, 0 .. size-1.
 * @param offset          bytes from the start of the block, a multiple of 4.
 * @param options         NULL means the defaults.
 * @param[out] out_value  the word.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 4, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNAVAILABLE       as for symm_get().
 * @retval SYMM_ERR_PEER_FAILED       as for symm_get().
 * @retval SYMM_ERR_TIMEOUT           as for symm_get().
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine.
 */
SYMM_API symm_status_t symm_read_value32(symm_memory_t *memory, int32_t rank, size_t offset,
                                         const symm_call_options_t *options,
                                         uint32_t *out_value);

/**
 * Read a 64-bit word at `offset` in rank `rank`'s block.
 * [local] Since 0.2.
 *
 * All else is as for symm_read_value32().
 *
 * @param memory          memory whose block is read.
 * @param rank            source, 0 .. size-1.
 * @param offset          bytes from the start of the block, a multiple of 8.
 * @param options         NULL means the defaults.
 * @param[out] out_value  the word.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 8, or options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNAVAILABLE       as for symm_get().
 * @retval SYMM_ERR_PEER_FAILED       as for symm_get().
 * @retval SYMM_ERR_TIMEOUT           as for symm_get().
 * @retval SYMM_ERR_UNSUPPORTED       CUDA: the rank is on another machine.
 */
SYMM_API symm_status_t symm_read_value64(symm_memory_t *memory, int32_t rank, size_t offset,
                                         const symm_call_options_t *options,
                                         uint64_t *out_value);

/**
 * Change a 32-bit word at `offset` in rank `rank`'s block in one step, and fetch what it was.
 * [local] [stream] [capturable] Since 0.2.
 *
 * - Atomic: with all other calls of this kind, with symm_write_value32() and
 *   symm_wait_value32(), and with atomic operations of programs and kernels on that word
 *   (kernels: of the scope of the system), by whichever rank. Copies, fills and collectives are
 *   not atomic.
 * - Order: what this rank wrote before is visible to whoever sees what the call has made of the
 *   word, and what was written before the word that is fetched, in release order, is visible
 *   here.
 * - Fetching: `fetched` becomes the word as it was before. With CUDA that happens when the call
 *   runs, so a captured call fetches anew at each replay.
 * - Waiting: a rank on another machine answers by the network, for which the call, with CUDA
 *   the stream, waits if there is a `fetched`. Without one the word changes before a signal or
 *   barrier that this rank issues later. A symm_wait_value32() of the rank for that word wakes.
 * - Links: with CUDA a kernel changes the word, in one step where the link to it carries atomic
 *   operations. NVLink does, also between a GPU and a CPU; PCIe does not, and the call is
 *   refused there for blocks of other GPUs and of the host. Words of a rank on another machine
 *   are changed by that rank's GPU; where its block is memory of the host and the link between
 *   them is PCIe, the group fails.
 *
 * @param memory   memory whose block has the word.
 * @param rank     whose block, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 4.
 * @param op       what to do.
 * @param value    right operand; 0 for SYMM_ATOMIC_FETCH.
 * @param compare  what the word is compared with; 0 unless op is SYMM_ATOMIC_COMPARE_SWAP.
 * @param options  NULL means the defaults.
 * @param fetched  memory of 4 bytes, aligned as the word, that receives what the word was: with
 *                 CUDA any that the group's device writes. NULL: that is not wanted; it is with
 *                 SYMM_ATOMIC_FETCH.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 4, op is negative, value or compare does not go with
 *                                    op, fetched is missing, or options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNAVAILABLE       the rank is on another machine and has released the
 *                                    memory; only with a `fetched`.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and is lost.
 * @retval SYMM_ERR_TIMEOUT           the rank is on another machine and has not answered before
 *                                    the deadline; the group is revoked.
 * @retval SYMM_ERR_UNSUPPORTED       op is not known. CUDA: the link from this rank's GPU to
 *                                    the block carries no atomic operations; or as for
 *                                    symm_put().
 */
SYMM_API symm_status_t symm_atomic32(symm_memory_t *memory, int32_t rank, size_t offset,
                                     symm_atomic_op_t op, uint32_t value, uint32_t compare,
                                     const symm_call_options_t *options, void *fetched,
                                     void *stream);

/**
 * Change a 64-bit word at `offset` in rank `rank`'s block in one step, and fetch what it was.
 * [local] [stream] [capturable] Since 0.2.
 *
 * All else is as for symm_atomic32().
 *
 * @param memory   memory whose block has the word.
 * @param rank     whose block, 0 .. size-1.
 * @param offset   bytes from the start of the block, a multiple of 8.
 * @param op       what to do.
 * @param value    right operand; 0 for SYMM_ATOMIC_FETCH.
 * @param compare  what the word is compared with; 0 unless op is SYMM_ATOMIC_COMPARE_SWAP.
 * @param options  NULL means the defaults.
 * @param fetched  memory of 8 bytes, aligned as the word, that receives what the word was: with
 *                 CUDA any that the group's device writes. NULL: that is not wanted; it is with
 *                 SYMM_ATOMIC_FETCH.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or offset is out of range, offset is not a multiple
 *                                    of 8, op is negative, value or compare does not go with
 *                                    op, fetched is missing, or options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNAVAILABLE       the rank is on another machine and has released the
 *                                    memory; only with a `fetched`.
 * @retval SYMM_ERR_PEER_FAILED       the rank is on another machine and is lost.
 * @retval SYMM_ERR_TIMEOUT           the rank is on another machine and has not answered before
 *                                    the deadline; the group is revoked.
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_atomic32().
 */
SYMM_API symm_status_t symm_atomic64(symm_memory_t *memory, int32_t rank, size_t offset,
                                     symm_atomic_op_t op, uint64_t value, uint64_t compare,
                                     const symm_call_options_t *options, void *fetched,
                                     void *stream);

/**
 * Wait until a 32-bit word of this rank's own block compares with `value` as `compare` says.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Anybody may write the word, by whatever means. What was written before it in release order is
 * visible after the wait. With the host back end a word that is not written by
 * symm_write_value32(), symm_atomic32() or their 64-bit forms is looked at every millisecond
 * once the wait sleeps.
 *
 * @param memory   memory whose block holds the word.
 * @param offset   of the word, bytes from the start of the block, a multiple of 4.
 * @param compare  word compare value.
 * @param value    right side of the comparison.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           the word did not compare so before the deadline; blames
 *                                    nobody.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  offset is out of range or not a multiple of 4, compare is
 *                                    negative, or SYMM_TIMEOUT_NOW with CUDA.
 * @retval SYMM_ERR_UNSUPPORTED       compare is not known.
 */
SYMM_API symm_status_t symm_wait_value32(symm_memory_t *memory, size_t offset,
                                         symm_compare_t compare, uint32_t value,
                                         const symm_call_options_t *options, void *stream);

/**
 * Wait until a 64-bit word of this rank's own block compares with `value` as `compare` says.
 * [local] [stream] [capturable] Since 0.2.
 *
 * All else is as for symm_wait_value32().
 *
 * @param memory   memory whose block holds the word.
 * @param offset   of the word, bytes from the start of the block, a multiple of 8.
 * @param compare  word compare value.
 * @param value    right side of the comparison.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           the word did not compare so before the deadline; blames
 *                                    nobody.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  offset is out of range or not a multiple of 8, compare is
 *                                    negative, or SYMM_TIMEOUT_NOW with CUDA.
 * @retval SYMM_ERR_UNSUPPORTED       compare is not known.
 */
SYMM_API symm_status_t symm_wait_value64(symm_memory_t *memory, size_t offset,
                                         symm_compare_t compare, uint64_t value,
                                         const symm_call_options_t *options, void *stream);

/* ---- messages -------------------------------------------------------------------------- */

/*
 * A message goes from one rank to one other, which may be itself: the one sends it, the other
 * one receives it. Both may use any memory of their process.
 *
 * - Order: the messages from one rank to another on one channel are received in the order in
 *   which they were sent. Channels are independent of each other, and have nothing to do with
 *   those of barriers and signals: what is to be received in another order goes on a channel of
 *   its own. Threads of a rank that send to one rank on one channel do so in some order.
 * - Lengths: a receive has room for `bytes` bytes, and tells how many came. A message that is
 *   longer than the room for it is MISMATCH, which names both lengths: the group is revoked,
 *   and nothing is cut.
 * - Waiting: a receive waits until its message is there. A send of up to a few KB leaves a copy
 *   and returns, unless about 60 of them are not yet received, or fewer if there are many
 *   ranks. A send of more returns when all of it is received. So no program may count on a send
 *   that returns before its receive.
 * - Progress: all messages of one symm_messages() progress together, whatever their order. So
 *   ranks that pass messages round a ring, or all to all, each put their sends and receives in
 *   one call, and never wait for each other in a circle. Messages progress in the calls that
 *   send and receive on either side; between machines also on the library's thread that carries
 *   data there, which sleeps while nothing comes.
 * - Copies: a message of more than a few KB is copied once, straight to where it is received,
 *   if one of its two ends is in symmetric memory of the group, or if both ranks are threads of
 *   one process. Else it passes through memory of the group, piece by piece. From another
 *   machine it always goes straight to where it is received, by RDMA if UCX has it.
 * - Between machines a message that was left may be on its way when its send returns. It has
 *   arrived when a later barrier, or symm_group_finalize(), is over. A process that ends before
 *   may take it along.
 * - Failures: when a deadline passes, or the other rank leaves, before any message of the call
 *   has begun, then nothing was sent or received and the group stays usable. Once one has
 *   begun, the group is revoked, and what was received is undefined. A message has begun when
 *   it was received in part, or when a send has told the other rank of it.
 *
 * With CUDA a call is one kernel on the stream, whatever it lists, and returns at once. In a
 * group on several machines it is UNSUPPORTED.
 * - Memory is any that the device reaches. A message is stored straight to where it is received
 *   if that is symmetric memory of the group. Else it passes through the group's scratch.
 * - Lengths: the call does not know what will come, so a message that is shorter than the room
 *   for it is MISMATCH, too. The lengths that are given back are those that were asked for.
 * - Order: calls that send or receive run in their order, one after the other, on whatever
 *   streams, as collectives do and together with these. So what has to go on at a time goes
 *   into one call, or through two groups that share no scratch. What a rank sends to itself is
 *   received in the same call.
 * - Graphs: calls may be captured, and captured and other calls mixed. The device counts the
 *   messages.
 * - Failures: a deadline that passes, or a rank that leaves, revokes the group, and the record
 *   names the side; a refused call has issued nothing.
 */

/**
 * Send `bytes` bytes to rank `rank`.
 * [local] [stream] [capturable] Since 0.2.
 *
 * @param rank     destination, 0 .. size-1.
 * @param channel  0 .. channels-1 of the group.
 * @param source   any memory of this process; the caller may change it when the call returns,
 *                 or with CUDA when the stream has passed it. NULL with bytes 0.
 * @param bytes    length of the message, which may be 0.
 * @param options  NULL means the defaults.
 * @param stream   NULL on the host.
 * @retval SYMM_ERR_TIMEOUT           the rank has not received before the deadline; blames
 *                                    `rank`, or where the group is revoked, the one that keeps
 *                                    it from going on.
 * @retval SYMM_ERR_MISMATCH          the message is longer than the room for it, or the ranks
 *                                    wait for each other in different calls; the group is
 *                                    revoked.
 * @retval SYMM_ERR_PEER_FAILED       the rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, source is NULL, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW; with CUDA, `rank`
 *                                    is this rank.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA, in a group on several machines.
 */
SYMM_API symm_status_t symm_send(symm_group_t *group, int32_t rank, int32_t channel,
                                 const void *source, size_t bytes,
                                 const symm_call_options_t *options, void *stream);

/**
 * Receive the next message from rank `rank`.
 * [local] [stream] [capturable] Since 0.2.
 *
 * On the host, with SYMM_TIMEOUT_NOW, the call looks whether a message has come: if not, it is
 * TIMEOUT, and else the message is received, for which the call may wait until the default
 * deadline of the group.
 *
 * @param rank            source, 0 .. size-1.
 * @param channel         0 .. channels-1 of the group.
 * @param destination     any memory of this process. NULL with bytes 0.
 * @param bytes           room for the message.
 * @param options         NULL means the defaults.
 * @param[out] out_bytes  bytes that came, with CUDA `bytes`; may be NULL.
 * @param stream          NULL on the host.
 * @retval SYMM_ERR_TIMEOUT           no message has come before the deadline, and the group
 *                                    stays usable; or one has come in part, and the group is
 *                                    revoked, even if both ranks are well, and every later call
 *                                    fails with this status. symm_group_status() tells which of
 *                                    the two it is. Blames `rank`, or in a revoked group the
 *                                    rank that keeps it from going on.
 * @retval SYMM_ERR_MISMATCH          the message is longer than the room for it, with CUDA also
 *                                    shorter, or the ranks wait for each other in different
 *                                    calls; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       the rank left, and has sent nothing before that is not
 *                                    received; or it died, which may take along what it had
 *                                    sent.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  rank or channel is out of range, or destination is NULL;
 *                                    with CUDA, `rank` is this rank; with CUDA or a request,
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA, in a group on several machines.
 */
SYMM_API symm_status_t symm_recv(symm_group_t *group, int32_t rank, int32_t channel,
                                 void *destination, size_t bytes,
                                 const symm_call_options_t *options, size_t *out_bytes,
                                 void *stream);

/** One side of a message, as the arguments of symm_send() or symm_recv(). */
typedef struct {
  size_t struct_size;
  /** SYMM_MESSAGE_SEND or SYMM_MESSAGE_RECV. */
  symm_message_kind_t kind;
  /** The other rank, 0 .. size-1. */
  int32_t rank;
  /** 0 .. channels-1 of the group. */
  int32_t channel;
  /** What is sent; NULL with SYMM_MESSAGE_RECV. */
  const void *source;
  /** Where it is received; NULL with SYMM_MESSAGE_SEND. */
  void *destination;
  /** Length of what is sent, or room for what is received. */
  size_t bytes;
} symm_message_t;

/** The zeroed symm_message_t: no bytes are sent to rank 0 on channel 0. */
#define SYMM_MESSAGE_INIT {sizeof(symm_message_t), SYMM_MESSAGE_SEND, 0, 0, NULL, NULL, 0}

/**
 * Send and receive any number of messages, which progress together.
 * [local] [stream] [capturable] Since 0.2.
 *
 * Messages to one rank on one channel are sent in the order of the array, and receives from one
 * rank on one channel are filled in the order of the array. Else the order does not matter. The
 * call returns when all are sent and received. Where there are several, the text of an error
 * begins with the place of the side that it is about, as in "messages[2]: recv: rank 1 ...".
 *
 * @param messages          the sides, `count` structs of one struct_size; read during the call
 *                          only. What is received overlaps no other source or destination,
 *                          which is not checked.
 * @param count             number of sides, at most 2^20, with CUDA 1024; 0 is nothing to do.
 * @param options           NULL means the defaults; the deadline is that of all together.
 * @param[out] out_lengths  `count` lengths: bytes that came, or that were sent, with CUDA those
 *                          that were asked for; may be NULL.
 * @param stream            NULL on the host.
 * @retval SYMM_ERR_TIMEOUT           a rank has not sent or received before the deadline.
 * @retval SYMM_ERR_MISMATCH          a message is longer than the room for it, or the ranks
 *                                    wait for each other in different calls; the group is
 *                                    revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank of a side that is not done died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as symm_send() or symm_recv() would answer; or count is
 *                                    too large, kind is negative, struct_sizes differ, or a
 *                                    side has both a source and a destination.
 * @retval SYMM_ERR_UNSUPPORTED       kind is not known; or, with CUDA, the group is on several
 *                                    machines, or count is more than 1024.
 */
SYMM_API symm_status_t symm_messages(symm_group_t *group, const symm_message_t *messages,
                                     size_t count, const symm_call_options_t *options,
                                     size_t *out_lengths, void *stream);

/* ---- neighbours ------------------------------------------------------------------------ */

/*
 * In many programs each rank passes data to the same few ranks again and again: the faces of a
 * grid, say, into the halos of its neighbours. An exchange keeps the lists of what goes where.
 * They are checked and compared once, and each round is two calls:
 *
 *     symm_exchange_create(group, neighbors, 2, NULL, &exchange);
 *     for (...) {
 *       symm_exchange_start(exchange, NULL, NULL);    what is at the edge goes
 *       ...                                           work on all but the edge
 *       symm_exchange_finish(exchange, NULL, NULL);   what the neighbours sent is here
 *       ...                                           work on the edge
 *     }
 *
 * - What came may be read from when symm_exchange_finish() returns until this rank calls
 *   symm_exchange_start() again. No neighbour writes there meanwhile: a rank that is ahead
 *   waits. So one halo is enough.
 * - What goes must not change from when symm_exchange_start() is called until
 *   symm_exchange_finish() returns, and what comes must not be read or written.
 * - Waiting: symm_exchange_start() waits for no rank. Both calls put to neighbours that have
 *   started the round, and symm_exchange_finish() waits for the others. Between machines a put
 *   that has begun is not left half done: it has the time-out of the group.
 * - Rounds: all ranks of the group may be in different rounds, neighbours at most in two that
 *   follow each other. A rank without neighbours need make no rounds.
 * - Failures: when the deadline of symm_exchange_finish() passes, or a neighbour leaves, the
 *   group stays usable, and the call may be made again. What came is undefined until it has
 *   succeeded. A failed symm_exchange_start() has begun the round all the same.
 *
 * With CUDA each of the two calls is one kernel on the stream, which stores straight into the
 * blocks of the neighbours, and returns at once. In a group on several machines an exchange is
 * UNSUPPORTED.
 * - What is said of returning holds for the stream: what came may be read by what is issued
 *   behind symm_exchange_finish(), and sources are free then. The calls of one exchange run in
 *   their order, on whatever streams.
 * - Waiting: the kernel of symm_exchange_start() waits for no rank, but looks a few times. To
 *   overlap with work on the same stream is to have less to do in symm_exchange_finish().
 * - Graphs: both calls may be captured, and captured and other calls mixed. The device counts
 *   the rounds. A start without a finish, or the reverse, as by a graph that has one of them,
 *   is found on the device: INVALID_ARGUMENT, and the group is revoked.
 * - Failures: a deadline that passes in symm_exchange_finish(), or a neighbour that has left,
 *   revokes the group; the record names the round and the neighbour.
 */

/**
 * What a rank puts to one neighbour in every round. For several memories or sources a neighbour
 * may have several; it is told once, when all are there.
 */
typedef struct {
  size_t struct_size;
  /** The neighbour, 0 .. size-1; may be this rank. */
  int32_t rank;
  /** Memory of the group, whose block of `rank` is written. NULL where count is 0. */
  symm_memory_t *memory;
  /** From where the pieces count in the block, bytes from its start. */
  size_t offset;
  /** As for symm_put_pieces(). It must stay for as long as the exchange. */
  const void *source;
  /** Size of `source`, which no piece may exceed; SIZE_MAX: not known. */
  size_t source_bytes;
  /** `count` pieces, read by symm_exchange_create() only; NULL where count is 0. */
  const symm_piece_t *pieces;
  /** Number of pieces; 0: nothing is put, as to a rank that only sends. */
  size_t count;
  /**
   * Bytes that `rank` puts here in a round. Where a rank has several of these structs, their
   * sum counts.
   */
  size_t expected_bytes;
} symm_neighbor_t;

/** The zeroed symm_neighbor_t: nothing goes to rank 0, and nothing comes from it. */
#define SYMM_NEIGHBOR_INIT {sizeof(symm_neighbor_t), 0, NULL, 0, NULL, 0, NULL, 0, 0}

/**
 * Agree with the neighbours on what is put in every round.
 * [collective] [blocking, options.timeout_ms] Since 0.2.
 *
 * All ranks of the group call, also those without neighbours. Two ranks that name each other
 * must expect what the other one puts. All or nothing: what fails on one rank fails on all. The
 * group stays usable or is revoked as after symm_rendezvous(). Rounds use no channels of the
 * group or of a memory.
 *
 * @param neighbors  `count` structs of one struct_size, read during the call only.
 * @param count      number of structs, at most 2^20; 0: this rank has no neighbours.
 * @param options    NULL means the defaults; the default of the deadline is the group's
 *                   create_timeout_ms.
 * @param[out] out   one reference, for symm_exchange_release(). It keeps the memories.
 * @retval SYMM_ERR_INVALID_ARGUMENT  a rank or an offset is out of range, memory is one of
 *                                    another group, or a piece is wrong, as for
 *                                    symm_put_pieces(): the message names rank, neighbour and
 *                                    piece; count is too large, struct_sizes differ, or
 *                                    options.timeout_ms is SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_INVALID_HANDLE    a memory is not valid, or is NULL where there are pieces.
 * @retval SYMM_ERR_MISMATCH          a rank names one that does not name it, or puts more or
 *                                    less than is expected; the message names both.
 * @retval SYMM_ERR_UNSUPPORTED       CUDA, in a group on several machines.
 * @retval SYMM_ERR_OUT_OF_MEMORY     a rank has too little memory.
 * @retval SYMM_ERR_TIMEOUT           not all ranks came; the message names the missing ones.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 * @retval SYMM_ERR_SYSTEM            a system call failed on a rank.
 */
SYMM_API symm_status_t symm_exchange_create(symm_group_t *group,
                                            const symm_neighbor_t *neighbors, size_t count,
                                            const symm_call_options_t *options,
                                            symm_exchange_t **out);

/**
 * Begin a round: put to all neighbours that are ready for it.
 * [local] [stream] [capturable] Since 0.2.
 *
 * From here on neighbours may write what this rank expects. One thread at a time may be in a
 * call on an exchange.
 *
 * @param options  NULL means the defaults. The deadline bounds nothing, since the call waits
 *                 for no rank.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the last round is not finished, another thread is in a
 *                                    call on the exchange, or options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_TIMEOUT           a rank on another machine does not take what is sent, and
 *                                    the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died, or a neighbour on another machine left.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_exchange_start(symm_exchange_t *exchange,
                                           const symm_call_options_t *options, void *stream);

/**
 * End a round: put what is left, and wait until all neighbours have put.
 * [local] [stream] [capturable] Since 0.2.
 *
 * On the host, with SYMM_TIMEOUT_NOW, the call puts where a neighbour is ready and looks once.
 *
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  no round was started, or another thread is in a call on
 *                                    the exchange; with CUDA, options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_TIMEOUT           a neighbour has not started the round, or has not put its
 *                                    pieces before the deadline; blames that rank. The call may
 *                                    be made again, but not with CUDA.
 * @retval SYMM_ERR_PEER_FAILED       a rank died, and the group is revoked; or a neighbour that
 *                                    has not put its pieces left the group; or a rank released
 *                                    the exchange in a round. Blames that rank.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_exchange_finish(symm_exchange_t *exchange,
                                            const symm_call_options_t *options, void *stream);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_exchange_retain(symm_exchange_t *exchange);

/**
 * Drop a reference.
 * [local] Since 0.2.
 *
 * NULL is accepted. A rank may do so once it has finished its last round, whatever its
 * neighbours do. With the host back end, if it does so between start and finish, neighbours that
 * it has not put to, and whoever waits for these, get PEER_FAILED from symm_exchange_finish(),
 * which blames this rank; the exchange goes no further. With CUDA they wait until their deadline.
 */
SYMM_API void symm_exchange_release(symm_exchange_t *exchange);

/**
 * Send a block of its own length to each neighbour and receive one from each.
 * [local] [stream] Since 0.2.
 *
 * Does what symm_messages() does with these blocks, in any memory, and waits like it. Blocks
 * of a pair of ranks meet in the order of their lists: a rank that is twice in recv_ranks gets
 * from it first what it sends first. In errors of symm_messages() the receives come first, then
 * the sends.
 *
 * @param send_ranks          ranks to which a block goes; NULL where there are none.
 * @param send_count          number of these ranks, at most 2^20.
 * @param send                blocks for them.
 * @param send_counts         number of elements that go to each.
 * @param send_displacements  where each block begins in send; NULL: one behind the other.
 * @param recv_ranks          ranks from which a block comes; NULL where there are none.
 * @param recv_count          number of these ranks, at most 2^20.
 * @param recv                blocks from them, which overlap neither each other nor those of
 *                            send.
 * @param recv_counts         number of elements that come from each.
 * @param recv_displacements  where each block begins in recv; NULL: one behind the other.
 * @param dtype               type of an element.
 * @param channel             0 .. channels-1 of the group, that of the messages.
 * @param options             NULL means the defaults; the deadline is that of all together.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  a rank or the channel is out of range, an argument that is
 *                                    needed is NULL, a count is too large, a block of recv
 *                                    overlaps another one, or options.timeout_ms is
 *                                    SYMM_TIMEOUT_NOW.
 * @retval SYMM_ERR_UNSUPPORTED       dtype is not known, or as for symm_messages().
 * @retval SYMM_ERR_MISMATCH          a rank sends more or less than is expected: the message
 *                                    has both lengths, and the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           as for symm_messages().
 * @retval SYMM_ERR_PEER_FAILED       as for symm_messages().
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_neighbor_alltoallv(
    symm_group_t *group, const int32_t *send_ranks, size_t send_count, const void *send,
    const size_t *send_counts, const size_t *send_displacements, const int32_t *recv_ranks,
    size_t recv_count, void *recv, const size_t *recv_counts, const size_t *recv_displacements,
    symm_dtype_t dtype, int32_t channel, const symm_call_options_t *options, void *stream);

/* ---- collectives ----------------------------------------------------------------------- */

/*
 * A collective reads the operand `send` of the ranks and writes their operand `recv`. In the
 * formulas send_r is the send of rank r, `rank` is this rank, and `size` is the number of
 * ranks.
 *
 * Operands
 * - send and recv may be any memory of this process, with any alignment. Memory of
 *   symm_rendezvous() on the same group is used without a copy.
 * - They may be equal where "in place" is described, and must not overlap otherwise.
 * - A count of 0 is allowed, also with NULL pointers.
 * - After an error other than INVALID_ARGUMENT the contents of recv are undefined. send is
 *   unharmed, unless in place.
 *
 * Agreement
 * - Arguments must agree on all ranks, except that some ranks may pass symmetric memory and
 *   others not, and at different offsets.
 * - A disagreement in operation, dtype, op, root or count is MISMATCH and names two ranks that
 *   differ.
 * - SYMM_CHECK=1 (or SYMM_GROUP_CHECK) makes every rank compare with every other in every call.
 *   Otherwise ranks compare only with those that they wait for anyway; "Back ends" above says
 *   what that means with CUDA.
 *
 * Order
 * - Floats are combined in the order of the ranks: ((send_0 + send_1) + send_2) + ... Narrow
 *   ones are combined in f32. The result is rounded once.
 * - With SYMM_GROUP_TREE_ORDER, or options.order, ranks are combined as a balanced binary tree:
 *   n ranks are the first p and the others, with p the largest power of two below n, each
 *   combined in the same way, and then one with the other. Of 8 ranks that is
 *   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), and of up to 3 it is the order of the ranks.
 *   Partial results are f32 (F64: f64), and the result is rounded once.
 * - So if each of n ranks, a power of two, has combined its part of some values as such a tree,
 *   without rounding, their sum has the bits that one rank alone would get.
 * - Every algorithm gives these bits, but those of multicast, and HIERARCHICAL in the order of
 *   the ranks.
 * - There is no tree of more than 3 ranks by multicast, nor by CHAIN and HIERARCHICAL between
 *   GPUs of several machines. Elsewhere HIERARCHICAL needs a power of two of ranks on each
 *   machine for it.
 *
 * Algorithms that can be forced
 * - SYMM_ALGORITHM_MULTIMEM_ONE_SHOT and _TWO_SHOT do the sum of F32, F16 and BF16 by
 *   all-reduce. send, and recv of the latter, must lie in memory with a multicast address: the
 *   same memory at the same offset on all ranks, a multiple of 16.
 * - SYMM_ALGORITHM_HYBRID_CUBE_MESH does all-reduce in a group of 8 ranks on one machine. If
 *   their devices are not such a mesh, 0-3 and 4-7 count as quads, r and r + 4 as partners.
 * - SYMM_ALGORITHM_COPY_ENGINE does all-gather, broadcast, all-to-all that is not in place,
 *   and, as a reduce-scatter and an all-gather, an all-reduce whose count is a multiple of the
 *   ranks. recv must lie in the same memory at the same offset on all ranks. If it does not,
 *   that is MISMATCH, and the memory is undefined where any of the recvs lies.
 * - An algorithm that cannot do a call is INVALID_ARGUMENT, and the message says why.
 *
 * Factor and result type
 *
 * symm_allreduce(), symm_reduce_scatter() and symm_reduce() of floats can multiply by a factor,
 * and can leave the sum of narrow floats unrounded, or round that of F32 to a narrow float
 * (result_dtype). Then operands are
 * 1. converted to f32 (F64: f64),
 * 2. multiplied (SYMM_SCALE_BEFORE),
 * 3. combined in the order of the call,
 * 4. divided (SYMM_OP_AVG),
 * 5. multiplied (SYMM_SCALE_AFTER),
 * 6. and rounded once to the type of the result.
 *
 * The factor is rounded to f32 (F64: f64) first. Every algorithm but those of multicast gives
 * the same bits; its limits on bytes count f32 (F64: f64). What f32 cannot hold in step 2 or 5,
 * or in a sum of step 3, is infinite, and step 6 does not saturate it: F8E4M3, which has no
 * infinity, gets NaN for it.
 * - With a scale_position one of scale and scale_pointer, and not both, is other than 0.
 *   Without one, both are 0.
 * - All of this must agree on all ranks, except what scale_pointer points to: each rank's
 *   factor is for its own operand (BEFORE) or result (AFTER).
 * - INVALID_ARGUMENT: a factor with other types than floats, another result_dtype than F32 for
 *   F16, BF16 and F8 and than one of these for F32, or either of them with a call that does not
 *   reduce.
 * - With a result_dtype other than dtype no form is in place.
 *
 * A quantised wire
 *
 * SYMM_OP_SUM and SYMM_OP_AVG of F32, F16 and BF16 by symm_allreduce(),
 * symm_reduce_scatter() and symm_reduce() can send 8 bits an element (wire_dtype: F8E4M3,
 * F8E5M2 or I8), with one scale for each `wire_group` elements. On every rank, and also if
 * there is only one,
 * 1. operands are converted to f32 and encoded,
 * 2. decoded again, and combined in the order of the call (SYMM_ORDER_ANY: that of the ranks),
 * 3. divided (SYMM_OP_AVG),
 * 4. the result is encoded, once, by one rank,
 * 5. and decoded, and rounded to dtype, by every rank that gets it, the rank that encoded it
 *    too.
 *
 * - A group is `wire_group` consecutive elements, counted from the start of the operand, or of
 *   a rank's block in symm_reduce_scatter(); the last one may be shorter. With amax its largest
 *   magnitude and M = 448 (F8E4M3), 57344 (F8E5M2) or 127 (I8), its scale is
 *   max(amax / M, 2^-100); x is encoded as x * (1 / scale), rounded to nearest even, and
 *   decoded as code * scale. All of this is f32, each operation rounded to nearest even.
 * - Encoding and decoding changes a number x of a group by at most amax / 2^22, and
 *     I8      amax / 254
 *     F8E4M3  the larger of |x| / 16 and amax / 2^18
 *     F8E5M2  the larger of |x| / 8 and amax / 2^32
 *   (where amax is below M * 2^-100: as if it were that). A result differs from the exact sum
 *   by at most the changes of the operands (SYMM_OP_AVG: divided by the ranks), the change of
 *   the result, and the rounding of f32 and dtype.
 * - A group with an infinity or a NaN is NaN as a whole. Magnitudes above 2^127, of operands or
 *   sums, may become infinite.
 * - Results are the same bits on all ranks, on the host and on GPUs, on one machine and between
 *   machines, and by either algorithm: SYMM_ALGORITHM_ONE_SHOT, which sends all codes to all
 *   ranks (all-reduce and reduce), and SYMM_ALGORITHM_TWO_SHOT. There are no others.
 * - wire_dtype and wire_group must agree on all ranks. There is no factor and no other
 *   result_dtype beside them.
 *
 * Chunks, with words of progress and words that say what is ready
 *
 * symm_allgather(), symm_allreduce() and symm_reduce_scatter() can be made in chunks of
 * `chunk_bytes` bytes, so that what makes an operand, or uses a result, runs beside the call.
 * A block is an operand of symm_allreduce(), and one rank's part of recv in symm_allgather()
 * or of send in symm_reduce_scatter(). Chunk c of a block begins at its byte c * chunk_bytes,
 * and the last one may be shorter: there are chunks = ceil(bytes of a block / chunk_bytes) of
 * them. The word of chunk c of rank b's block is word b * chunks + c (symm_allreduce(): word
 * c).
 * - `progress` is written by symm_allgather(): a word becomes the call's value once its chunk
 *   is in this rank's recv. This rank's own chunks come first, then those of rank + 1, rank +
 *   2, ..., each rank's from its first to its last. A chunk that has come changes no more
 *   until the next call that writes recv.
 * - `ready` is waited for by symm_allreduce() and symm_reduce_scatter(): a chunk of send is
 *   read only when its word has reached the call's value. They wait for chunk 0 (of all
 *   blocks) first, then for chunk 1, and so on, and a chunk of recv is written before the next
 *   one is waited for. The deadline of the call holds for these waits.
 * - The value is word_value, or what word_pointer points to when the call runs: then a
 *   captured call has a new one at each replay. Words are never reset: values count on from
 *   call to call. A word has reached a value if (int32_t)(word - value) >= 0, so they may
 *   wrap.
 * - Words are aligned and in memory of this process that the device (host back end: the host)
 *   reads and writes, symmetric or not. Words of progress have one writer, this call, which
 *   stores them with release order: whoever loads the value with acquire order, another thread
 *   or another process that has the words mapped, may read the chunk. Words that say what is
 *   ready are only read, with acquire order: whoever writes a chunk stores its word with
 *   release order afterwards. A word that is stored plainly rings nobody: a rank that has
 *   waited for long looks each millisecond.
 * - Words may overlap neither recv nor, if they are written, send. After a failure, words of
 *   chunks that have not come are as before.
 * - A rank may leave out the words, which then are NULL: it takes part without. chunk_bytes
 *   must agree on all ranks, or that is MISMATCH.
 * - Results have the bits of the same call in one piece. More and smaller chunks take longer:
 *   each is a step of all ranks.
 * - There is no factor, other result_dtype or wire beside chunks. In symm_allreduce() an
 *   algorithm is that of each chunk. With CUDA SYMM_ALGORITHM_COPY_ENGINE makes an all-gather
 *   of copies alone. There is no other algorithm to ask for.
 * - With CUDA words are written and awaited on the stream, each wait has the deadline to
 *   itself, and a kernel that polls words of progress, or makes what is awaited, runs on
 *   another stream. It must leave multiprocessors to the kernels of the call, or never wait
 *   for them: a kernel that fills the device and polls keeps the call from beginning, until
 *   its own deadline.
 */

/**
 * Options of one collective call. NULL means the defaults. The introduction of the chapter on
 * collectives explains the factor, result_dtype, the wire and chunks.
 */
typedef struct {
  size_t struct_size;
  /** Force an algorithm; must be the same on all ranks. */
  symm_algorithm_t algorithm;
  /** Deadline in milliseconds; 0: the group's. */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
  /** Whether, and where, there is a factor. */
  symm_scale_t scale_position;
  /** Type of recv; 0: dtype. */
  symm_dtype_t result_dtype;
  /** The factor, finite. */
  double scale;
  /**
   * The factor as one aligned f32 in memory that the device (host back end: the host) reads
   * when the call runs, so that a captured call takes a new one at each replay.
   */
  const void *scale_pointer;
  /**
   * Shown where the call is shown: in ranges of NVTX, traces, `symm top`, and messages of
   * failures that this rank finds in the call. Cut to 63 bytes at the end of a character. Read
   * during the call only; each rank's own. NULL, "": none.
   */
  const char *tag;
  /**
   * Most multiprocessors that a kernel of the call may use: no more blocks than that are
   * launched. 0: as many as the plan says; numbers from 255 on are alike. Must be the same on
   * all ranks, or that is MISMATCH. Copies by engines use none, and kernels of NCCL, which
   * moves data between machines, are not counted. The host back end only compares it.
   */
  int32_t max_blocks;
  /**
   * The order in which floats are combined; must be the same on all ranks, or that is MISMATCH.
   */
  symm_order_t order;
  /** NULL, or receives a request: the call does not block. See the chapter on requests. */
  symm_request_t **request;
  /**
   * F8E4M3, F8E5M2 or I8: operands and sums travel as codes of this type, with the error that
   * "A quantised wire" in the introduction states. 0: they travel as they are.
   */
  symm_dtype_t wire_dtype;
  /** Elements that have a scale in common: 32 or 128; 0: 128. Without a wire_dtype 0. */
  int32_t wire_group;
  /** 0, or the bytes of a chunk, a multiple of 16: see "Chunks" in the introduction. */
  uint64_t chunk_bytes;
  /** NULL, or in an all-gather: a word for each chunk of each rank, which says that it came. */
  uint32_t *progress;
  /**
   * NULL, or in an all-reduce or reduce-scatter: a word for each chunk of send, which says that
   * it is there.
   */
  const uint32_t *ready;
  /** What words become, or must have reached. 0 with a word_pointer. */
  uint32_t word_value;
  /** NULL, or an aligned word that has the value when the call runs. */
  const uint32_t *word_pointer;
} symm_collective_options_t;

/** The defaults of symm_collective_options_t. */
#define SYMM_COLLECTIVE_OPTIONS_INIT  \
  {sizeof(symm_collective_options_t), \
   SYMM_ALGORITHM_AUTO,               \
   0,                                 \
   NULL,                              \
   SYMM_SCALE_NONE,                   \
   0,                                 \
   0,                                 \
   NULL,                              \
   NULL,                              \
   0,                                 \
   SYMM_ORDER_GROUP,                  \
   NULL,                              \
   0,                                 \
   0,                                 \
   0,                                 \
   NULL,                              \
   NULL,                              \
   0,                                 \
   NULL}

/**
 * Combine the operands of all ranks, with the result on every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[i]                              i < count
 *
 * In place: send == recv.
 *
 * @param send     `count` elements.
 * @param recv     `count` elements, of options.result_dtype.
 * @param count    number of elements.
 * @param dtype    type of an element.
 * @param op       how to combine.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, dtype has no
 *                                    such op, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_allreduce(symm_group_t *group, const void *send, void *recv,
                                      size_t count, symm_dtype_t dtype, symm_op_t op,
                                      const symm_collective_options_t *options, void *stream);

/**
 * Combine the operands of all ranks, with a block of the result on each rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[rank * recv_count + i]          i < recv_count
 *
 * In place: recv == send + rank * recv_count elements.
 *
 * @param send        size * recv_count elements.
 * @param recv        recv_count elements, of options.result_dtype.
 * @param recv_count  number of elements of a block.
 * @param dtype       type of an element.
 * @param op          how to combine.
 * @param options     NULL means the defaults.
 * @param stream      orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, dtype has no
 *                                    such op, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_reduce_scatter(symm_group_t *group, const void *send, void *recv,
                                           size_t recv_count, symm_dtype_t dtype, symm_op_t op,
                                           const symm_collective_options_t *options,
                                           void *stream);

/**
 * Gather the operands of all ranks on every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[r * send_count + i] = send_r[i]                                i < send_count
 *
 * In place: send == recv + rank * send_count elements.
 *
 * @param send        send_count elements.
 * @param recv        size * send_count elements.
 * @param send_count  number of elements of a block.
 * @param dtype       type of an element.
 * @param options     NULL means the defaults.
 * @param stream      orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, or the options
 *                                    do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_allgather(symm_group_t *group, const void *send, void *recv,
                                      size_t send_count, symm_dtype_t dtype,
                                      const symm_collective_options_t *options, void *stream);

/**
 * Copy the operand of the root to every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = send_root[i]                                              i < count
 *
 * send is read on the root only. In place: send == recv.
 *
 * @param send     on the root `count` elements; elsewhere it is not looked at, and may be NULL.
 * @param recv     `count` elements.
 * @param count    number of elements.
 * @param dtype    type of an element.
 * @param root     rank whose operand it is, 0 .. size-1.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_broadcast(symm_group_t *group, const void *send, void *recv,
                                      size_t count, symm_dtype_t dtype, int32_t root,
                                      const symm_collective_options_t *options, void *stream);

/**
 * Combine the operands of all ranks, with the result on the root.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[i]                            i < count, on the root
 *
 * recv is written on the root only. In place: send == recv.
 *
 * @param send     `count` elements.
 * @param recv     on the root `count` elements, of options.result_dtype; elsewhere it is not
 *                 looked at, and may be NULL.
 * @param count    number of elements.
 * @param dtype    type of an element.
 * @param op       how to combine.
 * @param root     rank that gets the result, 0 .. size-1.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, dtype has no such op, or the options do not fit the
 *                                    call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_reduce(symm_group_t *group, const void *send, void *recv,
                                   size_t count, symm_dtype_t dtype, symm_op_t op, int32_t root,
                                   const symm_collective_options_t *options, void *stream);

/**
 * Combine the operands of the ranks up to this one.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[i]                              r <= rank, i < count
 *
 * Ranks are combined in their order, also in a group with SYMM_GROUP_TREE_ORDER, and the result
 * is rounded once: of the last rank it has the bits of symm_allreduce() in that order. In
 * place: send == recv.
 *
 * @param send     `count` elements.
 * @param recv     `count` elements.
 * @param count    number of elements.
 * @param dtype    type of an element.
 * @param op       how to combine; not AVG.
 * @param options  NULL means the defaults. There is no factor, no result_dtype and no order
 *                 SYMM_ORDER_TREE.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, op is AVG or
 *                                    dtype has no such op, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_scan(symm_group_t *group, const void *send, void *recv,
                                 size_t count, symm_dtype_t dtype, symm_op_t op,
                                 const symm_collective_options_t *options, void *stream);

/**
 * Combine the operands of the ranks before this one.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[i]                              r < rank, i < count
 *
 * Rank 0, before which there is none, gets the neutral element: 0 of SUM, BOR and BXOR, 1 of
 * PROD, ones in all bits of BAND; of MIN infinity, or the largest number of a type without one,
 * and of MAX the same with the other sign, or the smallest number. So the exclusive sum of
 * lengths is where each rank's part begins. Of BOOL it is false of SUM and MAX, and true of
 * PROD and MIN. A pair has the value of MIN or MAX, and the largest index.
 *
 * All else is as for symm_scan(). In place: send == recv.
 *
 * @param send     `count` elements. Those of the last rank are not used.
 * @param recv     `count` elements.
 * @param count    number of elements.
 * @param dtype    type of an element.
 * @param op       how to combine; not AVG.
 * @param options  NULL means the defaults; as for symm_scan().
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as for symm_scan().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_scan().
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_exscan(symm_group_t *group, const void *send, void *recv,
                                   size_t count, symm_dtype_t dtype, symm_op_t op,
                                   const symm_collective_options_t *options, void *stream);

/**
 * Combines operands for symm_reduce_by(): into[i] = into[i] op other[i] for i < count, where
 * `into` is of lower ranks than `other`. They do not overlap, and are aligned as the elements
 * are in an array that begins at a multiple of 64 bytes. It returns 0, or a number that says
 * what has gone wrong: then the group is aborted. It must not leave by an exception or a jump,
 * and must not make calls of symm.
 */
typedef int32_t (*symm_combine_callback_t)(void *user, void *into, const void *other,
                                           size_t count);

/**
 * Combine the operands of all ranks by a function of the caller's.
 * [collective] [blocking, options.timeout_ms] Since 0.2.
 *
 * `collective` says who gets what, as in the call of that name:
 *
 *     SYMM_COLLECTIVE_ALLREDUCE        every rank the combination of all ranks
 *     SYMM_COLLECTIVE_REDUCE           the root alone
 *     SYMM_COLLECTIVE_REDUCE_SCATTER   rank r part r of it; send has `size` parts of `count`
 *     SYMM_COLLECTIVE_SCAN             rank r the combination of ranks 0 .. r
 *     SYMM_COLLECTIVE_EXSCAN           of ranks 0 .. r-1; on rank 0 recv stays as it is
 *
 * Ranks are combined one after the other in their order, ((0 op 1) op 2) op 3, so nothing is
 * expected of the operation: it need not commute, nor be associative. All ranks receive the
 * same bytes if the function gives the same on all.
 *
 * The function is called on this thread, with any number of elements at a time. The call is
 * made of all-to-alls, all-gathers and gathers of bytes, which is how statistics and traces
 * show it. Ranks that differ in `collective`, `root`, `count` or element_bytes are told so: the
 * message shows their steps with the collective and a hash of the rest. Host back end, also
 * between machines: a function of the host's cannot combine memory of GPUs.
 *
 * In place: as for the call of `collective`.
 *
 * @param send           as for the call of `collective`, in elements of element_bytes.
 * @param recv           as for the call of `collective`.
 * @param count          number of elements, of a part for SYMM_COLLECTIVE_REDUCE_SCATTER.
 * @param element_bytes  size of an element, 1 to 2^20.
 * @param combine        the operation.
 * @param user           passed to `combine`.
 * @param root           the rank that receives, of SYMM_COLLECTIVE_REDUCE; else 0.
 * @param options        NULL means the defaults. There is no request.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand or `combine` is NULL, an operand is too large
 *                                    or overlaps, element_bytes or root is out of range, or
 *                                    `collective` combines nothing.
 * @retval SYMM_ERR_UNSUPPORTED       the group is of GPUs, `collective` is not known, or a
 *                                    request.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           `combine` has not returned 0 on a rank, which the message
 *                                    names, or a rank aborted the group.
 * @retval SYMM_ERR_OUT_OF_MEMORY     no memory for the operands of other ranks.
 */
SYMM_API symm_status_t symm_reduce_by(symm_group_t *group, symm_collective_t collective,
                                      const void *send, void *recv, size_t count,
                                      size_t element_bytes, symm_combine_callback_t combine,
                                      void *user, int32_t root,
                                      const symm_call_options_t *options);

/**
 * Send a block to every rank and receive one from every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[r * count + i] = send_r[rank * count + i]                      i < count
 *
 * In place: send == recv.
 *
 * @param send     size * count elements.
 * @param recv     size * count elements.
 * @param count    number of elements of a block.
 * @param dtype    type of an element.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, or the options
 *                                    do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_alltoall(symm_group_t *group, const void *send, void *recv,
                                     size_t count, symm_dtype_t dtype,
                                     const symm_collective_options_t *options, void *stream);

/* ---- collectives with counts ----------------------------------------------------------- */

/*
 * In symm_allgatherv(), symm_reduce_scatterv(), symm_alltoallv(), symm_gatherv() and
 * symm_scatterv() each rank has a block of its own length. What the chapter on collectives says
 * holds for them, and for gather, scatter, all-gather and reduce-scatter of rows, too.
 * - Counts: `*_counts` has `size` numbers of elements, by rank, any of which may be 0.
 * - Displacements: `*_displacements` says how many elements from the start of the operand each
 *   block begins, in any order; NULL: one behind the other.
 * - Both are read before the call returns. Blocks of recv must not overlap. Those of send may,
 *   unless in place.
 * - What rank i sends to rank j must be what j expects from i. Else that is MISMATCH, which
 *   names both.
 * - No rank leaves before all have entered.
 *
 * For all calls of this chapter SYMM_ALGORITHM_TWO_SHOT_STAGED can be forced, on the host also
 * _TWO_SHOT. By itself the host reads each rank's send where it lies if it is symmetric memory;
 * CUDA stores straight into each rank's recv if that is symmetric (and not that of an
 * all-to-all in place). What is private, and everything that is reduced with CUDA, goes through
 * the group's scratch. There is no factor, and no result_dtype.
 */

/**
 * Gather blocks of different lengths on every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[recv_displacements[r] + i] = send_r[i]                         i < recv_counts[r]
 *
 * The counts are the same on all ranks; the displacements need not be. In place: send == recv +
 * recv_displacements[rank] elements.
 *
 * @param send                recv_counts[rank] elements.
 * @param recv                all blocks.
 * @param recv_counts         number of elements of each rank's block.
 * @param recv_displacements  where each block begins in recv; NULL: one behind the other.
 * @param dtype               type of an element.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, counts are
 *                                    NULL, blocks of recv overlap, or the options do not fit
 *                                    the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_allgatherv(symm_group_t *group, const void *send, void *recv,
                                       const size_t *recv_counts,
                                       const size_t *recv_displacements, symm_dtype_t dtype,
                                       const symm_collective_options_t *options, void *stream);

/**
 * Combine the operands of all ranks, with a block of its own length of the result on each rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = op over ranks r of send_r[send_displacements_r[rank] + i] i < send_counts[rank]
 *
 * The counts are the same on all ranks; the displacements need not be. In place: recv == send +
 * send_displacements[rank] elements.
 *
 * @param send                all blocks.
 * @param send_counts         number of elements of each rank's block.
 * @param send_displacements  where each block begins in send; NULL: one behind the other.
 * @param recv                send_counts[rank] elements.
 * @param dtype               type of an element.
 * @param op                  how to combine.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, counts are
 *                                    NULL, there is no average of BOOL, or the options do not
 *                                    fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_reduce_scatterv(symm_group_t *group, const void *send,
                                            const size_t *send_counts,
                                            const size_t *send_displacements, void *recv,
                                            symm_dtype_t dtype, symm_op_t op,
                                            const symm_collective_options_t *options,
                                            void *stream);

/**
 * Send a block of its own length to every rank and receive one from every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[recv_displacements[r] + i] = send_r[send_displacements_r[rank] + i]
 *                                       i < recv_counts[r], which is send_counts_r[rank]
 *
 * In place: send == recv, with equal counts and displacements of both.
 *
 * @param send                blocks for all ranks.
 * @param send_counts         number of elements that go to each rank.
 * @param send_displacements  where each block begins in send; NULL: one behind the other.
 * @param recv                blocks of all ranks.
 * @param recv_counts         number of elements that come from each rank.
 * @param recv_displacements  where each block begins in recv; NULL: one behind the other.
 * @param dtype               type of an element.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, counts are
 *                                    NULL, blocks of recv overlap, or the options do not fit
 *                                    the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_alltoallv(symm_group_t *group, const void *send,
                                      const size_t *send_counts,
                                      const size_t *send_displacements, void *recv,
                                      const size_t *recv_counts,
                                      const size_t *recv_displacements, symm_dtype_t dtype,
                                      const symm_collective_options_t *options, void *stream);

/**
 * Do as symm_alltoallv() with counts and displacements that are read when the call runs.
 * [collective] [stream] [capturable] Since 0.2.
 *
 * Counts and displacements lie in memory that the device (host back end: the host) can read, so
 * a captured call takes new ones at each replay. Other ranks may be in symm_alltoallv(). Never
 * in place. Blocks of recv that overlap make it undefined.
 *
 * Between GPUs of several machines all ranks are in this call, with the same send_capacity, and
 * so much goes to each of them.
 *
 * @param send                blocks for all ranks.
 * @param send_capacity       elements that send has room for, whatever the counts say.
 * @param send_counts         number of elements that go to each rank.
 * @param send_displacements  where each block begins in send; NULL: one behind the other.
 * @param recv                blocks of all ranks.
 * @param recv_capacity       elements that recv has room for, whatever the counts say.
 * @param recv_counts         number of elements that come from each rank.
 * @param recv_displacements  where each block begins in recv; NULL: one behind the other.
 * @param dtype               type of an element.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  a block does not lie within its capacity: the message
 *                                    names the count, and nothing is stored. With CUDA the
 *                                    group fails with this when the call runs. Otherwise as for
 *                                    symm_alltoallv().
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_alltoallv().
 * @retval SYMM_ERR_MISMATCH          as for symm_alltoallv().
 * @retval SYMM_ERR_TIMEOUT           as for symm_alltoallv().
 * @retval SYMM_ERR_PEER_FAILED       as for symm_alltoallv().
 * @retval SYMM_ERR_ABORTED           as for symm_alltoallv().
 */
SYMM_API symm_status_t symm_alltoallv_device(
    symm_group_t *group, const void *send, size_t send_capacity, const uint64_t *send_counts,
    const uint64_t *send_displacements, void *recv, size_t recv_capacity,
    const uint64_t *recv_counts, const uint64_t *recv_displacements, symm_dtype_t dtype,
    const symm_collective_options_t *options, void *stream);

/**
 * Gather the operands of all ranks on the root.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[r * count + i] = send_r[i]                                   i < count, on the root
 *
 * recv is written on the root only. In place, on the root: send == recv + root * count
 * elements.
 *
 * @param send     `count` elements.
 * @param recv     on the root size * count elements; elsewhere it is not looked at, and may be
 *                 NULL.
 * @param count    number of elements of a block.
 * @param dtype    type of an element.
 * @param root     rank that gathers, 0 .. size-1.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_gather(symm_group_t *group, const void *send, void *recv,
                                   size_t count, symm_dtype_t dtype, int32_t root,
                                   const symm_collective_options_t *options, void *stream);

/**
 * Send a block of the root's operand to each rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = send_root[rank * count + i]                               i < count
 *
 * send is read on the root only. In place, on the root: recv == send + root * count elements.
 *
 * @param send     on the root size * count elements; elsewhere it is not looked at, and may be
 *                 NULL.
 * @param recv     `count` elements.
 * @param count    number of elements of a block.
 * @param dtype    type of an element.
 * @param root     rank whose operand it is, 0 .. size-1.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_scatter(symm_group_t *group, const void *send, void *recv,
                                    size_t count, symm_dtype_t dtype, int32_t root,
                                    const symm_collective_options_t *options, void *stream);

/**
 * Gather blocks of different lengths on the root.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[recv_displacements[r] + i] = send_r[i]           i < recv_counts[r], on the root
 *
 * Each rank gives the length of its own block, and the root those of all; the two must agree.
 * recv is written on the root only. In place, on the root: send == recv +
 * recv_displacements[root] elements.
 *
 * @param send                send_count elements.
 * @param send_count          number of elements of this rank's block; on the root
 *                            recv_counts[root].
 * @param recv                on the root all blocks; elsewhere it is not looked at, and may be
 *                            NULL.
 * @param recv_counts         on the root the number of elements of each rank's block; elsewhere
 *                            it is not looked at, and may be NULL.
 * @param recv_displacements  on the root where each block begins in recv; NULL: one behind the
 *                            other. Elsewhere it is not looked at.
 * @param dtype               type of an element.
 * @param root                rank that gathers, 0 .. size-1.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, counts are NULL on the root or differ there from
 *                                    send_count, blocks of recv overlap, or the options do not
 *                                    fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_gatherv(symm_group_t *group, const void *send, size_t send_count,
                                    void *recv, const size_t *recv_counts,
                                    const size_t *recv_displacements, symm_dtype_t dtype,
                                    int32_t root, const symm_collective_options_t *options,
                                    void *stream);

/**
 * Send a block of its own length of the root's operand to each rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[i] = send_root[send_displacements_root[rank] + i]              i < recv_count
 *
 * Each rank gives the length of its own block, and the root those of all; the two must agree.
 * send is read on the root only. In place, on the root: recv == send +
 * send_displacements[root] elements.
 *
 * @param send                on the root all blocks; elsewhere it is not looked at, and may be
 *                            NULL.
 * @param send_counts         on the root the number of elements that go to each rank; elsewhere
 *                            it is not looked at, and may be NULL.
 * @param send_displacements  on the root where each block begins in send; NULL: one behind the
 *                            other. Elsewhere it is not looked at.
 * @param recv                recv_count elements.
 * @param recv_count          number of elements of this rank's block; on the root
 *                            send_counts[root].
 * @param dtype               type of an element.
 * @param root                rank whose operand it is, 0 .. size-1.
 * @param options             NULL means the defaults.
 * @param stream              orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, root is out of
 *                                    range, counts are NULL on the root or differ there from
 *                                    recv_count, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_scatterv(symm_group_t *group, const void *send,
                                     const size_t *send_counts,
                                     const size_t *send_displacements, void *recv,
                                     size_t recv_count, symm_dtype_t dtype, int32_t root,
                                     const symm_collective_options_t *options, void *stream);

/**
 * Send bytes of the root to all other ranks, which need not know how many there are.
 * [collective] [stream] Since 0.2.
 *
 *     recv[i] = send_root[i]                     i < *out_bytes, on all ranks but the root
 *
 * If one rank has too little room, nothing is written to any recv, and the call fails alike on
 * all ranks, whose messages name the length, the room and the rank. The group stays usable, so
 * that all can make the call again with more room: out_bytes has the length also then. A
 * request that fails tells it in the message only.
 *
 * With CUDA it is UNSUPPORTED: a call returns there before the length has come. Nor is it a
 * call of symm_collective() or symm_batch(), which have no output.
 *
 * @param send            on the root send_bytes bytes; elsewhere it is not looked at, and may
 *                        be NULL.
 * @param send_bytes      on the root how many bytes there are, also 0; elsewhere it is not
 *                        looked at.
 * @param recv            recv_capacity bytes; on the root it is not looked at, and may be NULL.
 * @param recv_capacity   bytes that recv has room for; on the root it is not looked at.
 * @param root            rank whose bytes they are, 0 .. size-1.
 * @param options         NULL means the defaults.
 * @param[out] out_bytes  the number of bytes that the root sends, also if a rank has too little
 *                        room for them; not written if the call fails otherwise. May be NULL.
 * @param stream          NULL.
 * @retval SYMM_ERR_INVALID_ARGUMENT  a rank has too little room, an operand is NULL, root is
 *                                    out of range, or the options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       the group is of GPUs, or the algorithm or another option
 *                                    is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_broadcast_bytes(symm_group_t *group, const void *send,
                                            size_t send_bytes, void *recv, size_t recv_capacity,
                                            int32_t root,
                                            const symm_collective_options_t *options,
                                            size_t *out_bytes, void *stream);

/**
 * Gather matrices along the last dimension on every rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[row * recv_stride + r * row_count + i] = send_r[row * row_count + i]
 *                                                   row < rows, i < row_count
 *
 * @param send         rows * row_count elements.
 * @param recv         `rows` rows, recv_stride elements apart.
 * @param rows         rows of send and recv.
 * @param row_count    elements of a row of send.
 * @param recv_stride  elements from one row of recv to the next, >= size * row_count; what lies
 *                     between is left alone. It need not be the same on all ranks.
 * @param dtype        type of an element.
 * @param options      NULL means the defaults.
 * @param stream       orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, recv_stride is
 *                                    less than size * row_count, or the options do not fit the
 *                                    call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_allgather_rows(symm_group_t *group, const void *send, void *recv,
                                           size_t rows, size_t row_count, size_t recv_stride,
                                           symm_dtype_t dtype,
                                           const symm_collective_options_t *options,
                                           void *stream);

/**
 * Combine matrices of all ranks, with a block of columns of the result on each rank.
 * [collective] [stream] [capturable] Since 0.2.
 *
 *     recv[row * row_count + i] = op over ranks r of
 *                                 send_r[row * send_stride_r + rank * row_count + i]
 *                                 row < rows, i < row_count
 *
 * It is symm_reduce_scatter() along the last dimension, where symm_allgather_rows() gathers.
 * `rows` and row_count are the same on all ranks; send_stride need not be.
 *
 * @param send         `rows` rows, send_stride elements apart.
 * @param recv         rows * row_count elements.
 * @param rows         rows of send and recv.
 * @param row_count    elements of a row of recv.
 * @param send_stride  elements from one row of send to the next, >= size * row_count.
 * @param dtype        type of an element.
 * @param op           how to combine.
 * @param options      NULL means the defaults.
 * @param stream       orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  an operand is NULL, too large or overlaps, send_stride is
 *                                    less than size * row_count, dtype has no such op, or the
 *                                    options do not fit the call.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, op, the algorithm or another option is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_reduce_scatter_rows(symm_group_t *group, const void *send,
                                                void *recv, size_t rows, size_t row_count,
                                                size_t send_stride, symm_dtype_t dtype,
                                                symm_op_t op,
                                                const symm_collective_options_t *options,
                                                void *stream);

/* ---- any collective, and batches -------------------------------------------------------- */

/*
 * A call of any collective as a struct, for programs that choose the collective when they run,
 * for bindings, and for batches. A batch is many calls in one submission, as NCCL has them
 * between ncclGroupStart() and ncclGroupEnd(); here it is one call that takes an array.
 */

/* Flags of symm_collective_call_t. */
/**
 * An all-to-all with counts is that of symm_alltoallv_device(): send_capacity and recv_capacity
 * count, and counts and displacements are arrays of uint64_t that are read when the call runs.
 */
#define SYMM_CALL_DEVICE_COUNTS UINT64_C(1)

/**
 * One call of a collective. Fields that the collective has no argument for are ignored, except
 * flags and the fields that count only with them.
 */
typedef struct {
  size_t struct_size;
  symm_collective_t collective;
  const void *send;
  void *recv;
  /**
   * Count argument of the collective: row_count of an all-gather or reduce-scatter of rows,
   * hidden of an all-reduce with RMSNorm, send_count or recv_count of a gather or scatter with
   * counts, send_bytes or recv_capacity of a broadcast of bytes that is planned.
   */
  size_t count;
  /** 0: SYMM_DTYPE_F32. */
  symm_dtype_t dtype;
  symm_op_t op;
  int32_t root;
  const size_t *send_counts;
  const size_t *send_displacements;
  const size_t *recv_counts;
  const size_t *recv_displacements;
  /** Rows of an all-gather or reduce-scatter of rows, tokens of an all-reduce with RMSNorm. */
  size_t rows;
  size_t recv_stride;
  /** Bits SYMM_CALL_*. */
  uint64_t flags;
  /** Elements that send has room for; counts with SYMM_CALL_DEVICE_COUNTS. */
  size_t send_capacity;
  /** Elements that recv has room for; counts with SYMM_CALL_DEVICE_COUNTS. */
  size_t recv_capacity;
  /**
   * What a collective of fused.h does: for ALLREDUCE_RMSNORM a symm_rmsnorm_call_t. A plan
   * needs none. The struct belongs to that header, and may change with it.
   */
  const void *fused;
  /**
   * SYMM_FUSED_VERSION of the header that `fused` was made with. A library with another major
   * version of that header answers UNSUPPORTED.
   */
  uint32_t fused_version;
  /**
   * Options of the call in a batch, whose timeout_ms, failure and tag are those of the batch,
   * and 0 here. NULL: the defaults. Elsewhere NULL: there the call comes with its options.
   */
  const symm_collective_options_t *options;
  /** Elements from one row of send to the next in a reduce-scatter of rows. */
  size_t send_stride;
} symm_collective_call_t;

/** The defaults of symm_collective_call_t: an all-reduce of no elements of F32. */
#define SYMM_COLLECTIVE_CALL_INIT  \
  {sizeof(symm_collective_call_t), \
   SYMM_COLLECTIVE_ALLREDUCE,      \
   NULL,                           \
   NULL,                           \
   0,                              \
   0,                              \
   SYMM_OP_SUM,                    \
   0,                              \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   0,                              \
   0,                              \
   0,                              \
   0,                              \
   0,                              \
   NULL,                           \
   0,                              \
   NULL,                           \
   0}

/**
 * Make the call that a struct describes.
 * [collective] [stream] [capturable] Since 0.2.
 *
 * It is the call of the function that call.collective names, with the same results and errors.
 * Some ranks may call that function, and others this one.
 *
 * @param call     the arguments; read during the call only.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as the collective would answer; or call.collective is
 *                                    negative or that of broadcast_bytes, or a flag or a field
 *                                    of call does not fit it.
 * @retval SYMM_ERR_UNSUPPORTED       as the collective would answer; or call.collective or a
 *                                    flag is not known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_collective(symm_group_t *group, const symm_collective_call_t *call,
                                       const symm_collective_options_t *options, void *stream);

/** Options of symm_batch(). NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** Deadline in milliseconds, of all calls together with the host back end; 0: the group's. */
  uint64_t timeout_ms;
  /** NULL, or receives the failure of the batch. */
  symm_failure_t *failure;
  /** The tag of all calls, as in symm_collective_options_t. */
  const char *tag;
  /** NULL, or receives a request: the batch does not block. See the chapter on requests. */
  symm_request_t **request;
} symm_batch_options_t;

/** The defaults of symm_batch_options_t. */
#define SYMM_BATCH_OPTIONS_INIT {sizeof(symm_batch_options_t), 0, NULL, NULL, NULL}

/**
 * Make several calls of collectives in one submission.
 * [collective] [stream] [capturable] Since 0.2.
 *
 * - Order: the calls are independent, and which of them runs first is not said. So what one of
 *   them writes overlaps no operand of another one. Any of them may be in place. All have run
 *   when the batch has, and what is issued on `stream` behind the batch sees all results. Each
 *   has the same bits as alone.
 * - Agreement: all ranks pass the same number of calls, with arguments that agree call by call.
 *   The message of a mismatch names the first call that differs, "as calls[2] of a batch". A
 *   batch of one call is that call, which other ranks may make without a batch.
 * - Refusals: all arguments of all calls are checked before anything starts. A message begins
 *   with the call, as in "calls[2]: recv: is NULL", and nothing of the batch has happened.
 * - Failures: after any other error the group is revoked, or an operation of CUDA has failed.
 *   Which of the calls have run is not known, and the contents of all recvs are undefined.
 * - Threads: no call of another thread on the group comes between the calls, with the exception
 *   of groups of GPUs on several machines.
 * - Host: calls of the same kind whose larger operand has up to 8 KB are done together, up to
 *   64 of them and 256 KB, with one synchronisation of the ranks. The others follow each other.
 * - CUDA: one turn of the group for all calls, whose kernels follow each other on `stream`. A
 *   graph records them as they are.
 *
 * @param calls    the calls, `count` structs of one struct_size; read during the call only.
 * @param count    number of calls, at most 2^20; 0 is nothing to do.
 * @param options  NULL means the defaults.
 * @param stream   orders the batch; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as the collective of a call would answer; or operands of
 *                                    two calls overlap, or options of a call have what the
 *                                    batch has.
 * @retval SYMM_ERR_UNSUPPORTED       as the collective of a call would answer.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_batch(symm_group_t *group, const symm_collective_call_t *calls,
                                  size_t count, const symm_batch_options_t *options,
                                  void *stream);

/* ---- requests -------------------------------------------------------------------------- */

/*
 * A call whose options have a place for a request does not block: it returns when it has begun,
 * and the request tells when it is over. Threads of the library make the call meanwhile.
 *
 * Calls
 * - Collectives, symm_batch() and symm_barrier(); symm_send(), symm_recv(), symm_messages() and
 *   symm_neighbor_alltoallv(); signals and waits for them; copies to and from blocks, with and
 *   without pieces; words, atomics and waits for words; symm_exchange_start() and _finish().
 *   The field is UNSUPPORTED in all other calls that have it.
 * - Host back end only, on one machine or several. With CUDA the field is UNSUPPORTED: calls
 *   are ordered on streams there, and return when their work is enqueued.
 *
 * Arguments
 * - Read before the call returns, and free then: structs, texts, and lists of ranks, counts,
 *   displacements, waits, messages, neighbours, calls, pieces and pages.
 * - Left alone until the request is done: all other memory that the call reads or writes. That
 *   is operands, the factor at scale_pointer, and lists and counts that are read when the call
 *   runs, as those with SYMM_PIECES_ON_DEVICE.
 * - Not written: out_bytes, out_seen, out_index, out_value, out_lengths and `fetched`, which
 *   may be NULL. symm_request_info() has the number.
 * - Handles may be released; the request keeps what they name.
 * - Refusals: arguments of collectives and messages are checked before the call returns. Those
 *   of other calls may be refused by the request, with the same status and message.
 *
 * Order
 * - Collectives, batches, barriers and exchanges of a group run one after another, in the order
 *   of the calls. A blocking one waits for those that were begun before it.
 * - So do copies, signals, and words that are written or read. They keep no order with calls of
 *   all ranks: before a barrier, wait for the requests of what the other ranks are to see.
 * - Messages keep their order on a channel with all other messages, blocking or not. They, and
 *   waits for signals and words, hold up nothing else and nobody. At most 256 requests of these
 *   kinds are pending in a group, the next one is OUT_OF_MEMORY; symm_messages() makes one
 *   request of up to 2^20 messages.
 *
 * Ends
 * - A call has the deadline of its options, which counts from when it gets its turn. What ends
 *   a blocking call ends its request, with the same message: a rank that dies, a deadline, or
 *   symm_group_abort(), by which requests are cancelled. A group that fails ends all of them.
 * - A released request goes on. The memory of its call is free when a later call shows that it
 *   is over, as one of the same order does.
 * - A released group stays until its requests are done: only then does this rank leave it. On
 *   other ranks a request that waits for a rank that has left is PEER_FAILED, which names it.
 * - symm_group_finalize() waits for requests of all kinds but messages and waits. One of these
 *   that is pending when its rank calls is a fault of the program. It ends when the call does:
 *   well, if what it waits for comes until then, or else with INVALID_HANDLE, which blames this
 *   rank. So it is on every rank, whichever leaves first and whatever the request's deadline.
 *   If the group is revoked, the request has that failure.
 *
 * Threads
 * - A group has no thread for this before its first request. It has one for collectives, one
 *   for copies and signals, and one for each pending message call or wait. All of them sleep
 *   while they wait, block all signals, and end when there was no work for a second.
 * - After fork() the child has no requests, and its handles of them are refused.
 */

/** Facts about a request. Filled by symm_request_info(). */
typedef struct {
  size_t struct_size;
  /** 1 if the call is over, however it ended; else 0. */
  int32_t done;
  /** What the call returned; SYMM_OK while it is not over. */
  symm_status_t status;
  /**
   * The number that a blocking call would have had for its output: the bytes received, by
   * symm_messages() in all, the word or the index seen, or the word read or fetched. Else 0.
   */
  uint64_t value;
  /** Name of the call, as in "allreduce". */
  char call[64];
} symm_request_info_t;

/** A symm_request_info_t that is ready to be filled. */
#define SYMM_REQUEST_INFO_INIT {sizeof(symm_request_info_t), 0, SYMM_OK, 0, ""}

/**
 * Look whether the call of a request is over.
 * [local] Since 0.2.
 *
 * Never waits. A call that failed returns its failure here, as often as it is asked.
 *
 * @param request        request that is looked at.
 * @param options        NULL means the defaults; the call does not wait.
 * @param[out] out_done  1 if the call is over and has succeeded, 0 if it is not over.
 */
SYMM_API symm_status_t symm_request_test(symm_request_t *request,
                                         const symm_call_options_t *options, int32_t *out_done);

/**
 * Wait until the call of a request is over, and return what it returned.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * Any number of threads may wait, and a request that is over returns the same again.
 *
 * @param request  request that is awaited.
 * @param options  NULL means the defaults. Here a deadline of 0 means as long as it takes: the
 *                 call has a deadline of its own.
 * @retval SYMM_ERR_TIMEOUT  the call was not over before the deadline. It goes on, and so may
 *                           waits for it; or the call itself missed its deadline.
 */
SYMM_API symm_status_t symm_request_wait(symm_request_t *request,
                                         const symm_call_options_t *options);

/**
 * Wait until the call of one of several requests is over.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * The requests may be of several groups. The call succeeds also if the call of the request
 * failed, which symm_request_wait() then returns.
 *
 * @param requests        `count` of them; a NULL is left out, but one must be given.
 * @param count           1 .. 2^20.
 * @param options         NULL means the defaults. Here a deadline of 0 means as long as it
 *                        takes.
 * @param[out] out_index  place of the first request that is over.
 * @retval SYMM_ERR_TIMEOUT           none was over before the deadline.
 * @retval SYMM_ERR_INVALID_ARGUMENT  no request is given, or count is out of range.
 */
SYMM_API symm_status_t symm_request_wait_any(symm_request_t *const *requests, size_t count,
                                             const symm_call_options_t *options,
                                             size_t *out_index);

/**
 * Tell what is known of a request.
 * [local] Since 0.2.
 *
 * @param request   request that is asked for.
 * @param[out] out  the facts.
 */
SYMM_API symm_status_t symm_request_info(symm_request_t *request, symm_request_info_t *out);

/**
 * Get a descriptor that becomes readable when the call of a request is over, for event loops.
 * [local] Since 0.2.
 *
 * It stays readable. Do not read, write or close it; it is closed with the last reference to
 * the request. The same descriptor is returned each time.
 *
 * @param request      request that is asked for.
 * @param[out] out_fd  descriptor, for poll() and the like.
 * @retval SYMM_ERR_SYSTEM  no descriptor could be made.
 */
SYMM_API symm_status_t symm_request_fd(symm_request_t *request, int32_t *out_fd);

/**
 * Add a reference to a request.
 * [local] Since 0.2.
 *
 * @param request  request that gets one more reference.
 */
SYMM_API symm_status_t symm_request_retain(symm_request_t *request);

/**
 * Drop a reference to a request. The call goes on if it is not over.
 * [local] Since 0.2.
 *
 * @param request  may be NULL.
 */
SYMM_API void symm_request_release(symm_request_t *request);

/* ---- plans ----------------------------------------------------------------------------- */

/*
 * A plan is the algorithm that the library chooses for a call, and why.
 */

/** Plan of a collective call. Filled by symm_collective_plan(). */
typedef struct {
  size_t struct_size;
  symm_algorithm_t algorithm;
  /** Bytes moved per step and rank when staged, else 0. */
  uint64_t chunk_bytes;
  /** Why, for people. */
  char reason[192];
  /**
   * Whether NCCL was measured to be faster than symm for this call, on this machine and with
   * this number of ranks: by the plan table's column of NCCL, which symm bench --tune --nccl
   * writes. It is equal on all ranks, and changes nothing of what symm does.
   * SYMM_ADVICE_UNMEASURED if it was not measured.
   */
  symm_advice_t advice;
  /** Nanoseconds that symm took, read between the sizes that were measured; 0: not measured. */
  uint64_t symm_ns;
  /** Nanoseconds that NCCL took; 0: not measured. */
  uint64_t nccl_ns;
  /** The reason for `advice`, or why nothing was measured, for people. */
  char advice_reason[192];
} symm_plan_info_t;

/**
 * Tell which algorithm a collective would use if every rank passed memory like this rank's.
 * [local] [capturable] Since 0.2.
 *
 * @param call      arguments of the collective, as it takes them on this rank.
 * @param options   options of the collective; NULL means the defaults.
 * @param[out] out  the plan.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as the collective would answer; or call.collective is
 *                                    negative.
 * @retval SYMM_ERR_UNSUPPORTED       as the collective would answer; or call.collective is not
 *                                    known.
 */
SYMM_API symm_status_t symm_collective_plan(symm_group_t *group,
                                            const symm_collective_call_t *call,
                                            const symm_collective_options_t *options,
                                            symm_plan_info_t *out);

/* ---- sharing by tokens ----------------------------------------------------------------- */

/*
 * Memory can be shared with any process of this user on this machine, outside of any group. The
 * owner makes a token, which is plain bytes and may travel by any means (queue, socket, file,
 * standard input). Whoever imports it gets the same physical memory. docs/ipc.md says how it
 * works.
 *
 * - Lease: each import is a lease on the piece of memory that the token names. It ends with the
 *   last symm_ipc_release(), or with the death of the process that holds it. A token may be
 *   imported any number of times, by any number of processes, also in the process that made it,
 *   or never.
 * - Lifetime: memory lives as long as anybody maps it. Releasing the buffer ends its tokens:
 *   what was imported before stays as it is, and is in limbo (counted by symm_ipc_stats())
 *   until the last lease is over. When the process that made a token dies, those that imported
 *   it keep the data.
 * - Re-use: to write new data where others may still read, call symm_ipc_withdraw() first. It
 *   ends the tokens of that piece and waits for their leases.
 * - Ordering: what was written before symm_ipc_export() (with CUDA: issued on its stream) is
 *   there after symm_ipc_import() (on its stream). What the importer issued on the stream of
 *   symm_ipc_release() is over when its lease is.
 * - Place: the importer connects to a socket in a private directory: $SYMM_IPC_DIRECTORY, else
 *   $XDG_RUNTIME_DIR/symm, else /tmp/symm-<uid>. Processes in different PID, network or IPC
 *   namespaces need only share that directory.
 * - Threads: the first export or import starts threads that serve importers and notice deaths.
 *   After fork() the child starts afresh: buffers and imports of its parent are none of its
 *   own.
 *
 * symm_ipc_export(), symm_ipc_import() and symm_ipc_stream_wait() refuse a stream that is being
 * captured: a token stands for one point in time, not for one of each replay.
 */

/** Longest token in bytes. */
#define SYMM_IPC_TOKEN_MAX_BYTES 512

/* Flags of symm_ipc_export_options_t. */

/** Do not keep the memory for this token, whatever $SYMM_IPC_HOLD_MS says. */
#define SYMM_IPC_NO_HOLD UINT64_C(1)

/** How to export. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** 0 or SYMM_IPC_NO_HOLD. */
  uint64_t flags;
  /**
   * Milliseconds from now for which the memory is kept for this token, though its buffer is
   * released; 0: $SYMM_IPC_HOLD_MS, else it is not kept.
   */
  uint64_t hold_ms;
  /**
   * Imports of this token after which the memory is not kept any more; 0: only hold_ms ends it.
   * Needs hold_ms, or $SYMM_IPC_HOLD_MS; without one of them it is INVALID_ARGUMENT.
   */
  uint64_t hold_imports;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
  /**
   * Words of 64 bits, zero at first, by which those who import this token signal its maker:
   * 0 .. SYMM_IPC_CHANNELS_MAX. Such a token takes a descriptor, and memory for its words,
   * until it ends; it is not held, and hold_ms and hold_imports are 0. Memory of the host back
   * end that this process made; otherwise UNSUPPORTED.
   */
  int32_t channels;
  /**
   * Bytes of a part of the piece that symm_ipc_fence() can close by itself, such as a page of a
   * cache; 0: the whole piece. Needs channels. Each part takes 8 bytes.
   */
  uint64_t fence_bytes;
} symm_ipc_export_options_t;

/** Most channels of a token. */
#define SYMM_IPC_CHANNELS_MAX 4096

/** The defaults of symm_ipc_export_options_t. */
#define SYMM_IPC_EXPORT_OPTIONS_INIT {sizeof(symm_ipc_export_options_t), 0, 0, 0, NULL, 0, 0}

/**
 * Make a token for `bytes` bytes at `pointer`.
 * [local] [stream] Since 0.2.
 *
 * Costs no system call after the first for a buffer.
 *
 * @param pointer         anywhere inside a buffer of symm_alloc() or an import of
 *                        symm_ipc_import(); with CUDA also inside any allocation that the
 *                        driver can export (cuMemCreate with a POSIX file descriptor), which
 *                        then is kept until symm_ipc_withdraw(); and inside memory of
 *                        cudaMalloc, which is not kept (SYMM_IPC_DIES_WITH_MAKER). A token for
 *                        imported memory names the process that made that memory, or this one
 *                        if that one is dead.
 * @param bytes           length of the piece; the whole buffer is mapped by the importer,
 *                        whatever it is. With 0 bytes `pointer` may be NULL or anything: the
 *                        token stays good, and its import has no memory and no owner, but the
 *                        device of `pointer`.
 * @param options         NULL means the defaults.
 * @param[out] out_token  receives the token.
 * @param capacity        bytes that out_token holds; SYMM_IPC_TOKEN_MAX_BYTES is always enough.
 * @param[out] out_bytes  receives the length of the token; not NULL.
 * @param stream          orders the call; NULL with memory of the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the memory cannot be exported, does not hold the piece, or
 *                                    capacity is too small; hold_imports is set and the memory
 *                                    is not kept; hold_ms or hold_imports beside
 *                                    SYMM_IPC_NO_HOLD or channels; channels is negative, or
 *                                    fence_bytes without channels; or the stream is being
 *                                    captured.
 * @retval SYMM_ERR_UNSUPPORTED       hold_ms for imported memory, which only its owner can
 *                                    hold, or for memory of cudaMalloc; channels for a token of
 *                                    no bytes, imported memory or memory of a GPU, or more than
 *                                    SYMM_IPC_CHANNELS_MAX.
 * @retval SYMM_ERR_UNAVAILABLE       the directory is not private or its path is too long, this
 *                                    process is ending, or a rank of a group that failed may
 *                                    still write to the memory.
 * @retval SYMM_ERR_PEER_FAILED       the process that made imported memory is gone.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_ipc_export(const void *pointer, size_t bytes,
                                       const symm_ipc_export_options_t *options,
                                       void *out_token, size_t capacity, size_t *out_bytes,
                                       void *stream);

/**
 * A piece of memory in a bundle: a tensor of a model, for one. An input of
 * symm_ipc_export_bundle(), and filled by symm_ipc_bundle_piece().
 */
typedef struct {
  size_t struct_size;
  /** Where it is; of an import, where it is mapped here. NULL if it has 0 bytes. */
  void *pointer;
  /** Bytes of the piece; 0: of no memory, such as an empty tensor. */
  uint64_t bytes;
  /**
   * Its name, a line of UTF-8 of at most SYMM_IPC_NAME_MAX_BYTES bytes, of no other piece of
   * the bundle; or NULL: the piece has an index only. Of an import, the library's, which is
   * there until the last symm_ipc_release().
   */
  const char *name;
  /**
   * What the piece is, for those who import it: `about_bytes` bytes, which the library does
   * not look at; NULL if there are none. Of an import as `name`, at a multiple of 16.
   */
  const void *about;
  /** At most SYMM_IPC_ABOUT_MAX_BYTES. */
  uint64_t about_bytes;
} symm_ipc_piece_t;

/** The zeroed symm_ipc_piece_t: a piece of no memory, without a name. */
#define SYMM_IPC_PIECE_INIT {sizeof(symm_ipc_piece_t), NULL, 0, NULL, NULL, 0}

/** Longest name of a piece, or of a version, in bytes. */
#define SYMM_IPC_NAME_MAX_BYTES 1000
/** Most bytes that say what a piece is. */
#define SYMM_IPC_ABOUT_MAX_BYTES 4096
/** Most pieces of a bundle. */
#define SYMM_IPC_BUNDLE_MAX_PIECES 1048576

/**
 * Make one token for many pieces of memory, each with a name and with what it is: a bundle.
 * [local] [stream] Since 0.2.
 *
 * The pieces may lie in any number of blocks. An import maps each block once, at the cost of
 * one answer of the exporter for up to 252 blocks, and holds one lease, which counts for all
 * pieces: symm_ipc_holders() and symm_ipc_withdraw() of any part of any piece know it. The
 * token ends as soon as a buffer of a piece is released, or a part of a piece withdrawn, so
 * who imports a bundle gets all of it or nothing. What the pieces are lies in memory that this
 * process keeps until then, and that nobody can write. To export the same pieces again takes no
 * more of it.
 *
 * @param pieces          the pieces, which may overlap. All lie in memory of one back end
 *                        and device, each as the piece of symm_ipc_export(). Memory that was
 *                        imported from a process that lives belongs to no bundle but that
 *                        process's.
 * @param count           how many; at least one of them has bytes.
 * @param options         NULL means the defaults; hold_ms and hold_imports keep all the blocks.
 * @param[out] out_token  receives the token, for symm_ipc_import().
 * @param capacity        bytes that out_token holds; SYMM_IPC_TOKEN_MAX_BYTES is always enough.
 * @param[out] out_bytes  receives the length of the token; not NULL.
 * @param stream          orders the call; NULL with memory of the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as symm_ipc_export(), of a piece, which the message has;
 *                                    count is 0 or more than SYMM_IPC_BUNDLE_MAX_PIECES, or no
 *                                    piece has bytes; a name is too long, is not one line of
 *                                    UTF-8, or is that of two pieces; about_bytes is too large;
 *                                    or the pieces lie in memory of several devices.
 * @retval SYMM_ERR_UNSUPPORTED       hold_ms, and some of the memory is of cudaMalloc.
 * @retval SYMM_ERR_UNAVAILABLE       as symm_ipc_export().
 * @retval SYMM_ERR_PEER_FAILED       as symm_ipc_export().
 * @retval SYMM_ERR_OUT_OF_MEMORY     there is no memory for what the pieces are.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_ipc_export_bundle(const symm_ipc_piece_t *pieces, size_t count,
                                              const symm_ipc_export_options_t *options,
                                              void *out_token, size_t capacity,
                                              size_t *out_bytes, void *stream);

/* Flags of symm_ipc_import_options_t. */

/** symm_ipc_import_options_t.device is the device for which to map. */
#define SYMM_IPC_ON_DEVICE UINT64_C(1)
/**
 * Map the memory for reading only. A store to it faults as one to any memory that may not be
 * written: by a signal (SIGSEGV) on the host, by an error of the kernel on a GPU. The memory
 * stays writable for its owner, and for those that import it without this flag.
 */
#define SYMM_IPC_READ_ONLY UINT64_C(2)
/**
 * In symm_ipc_info_t.flags alone: the exporter lives and has released the memory, or some of
 * the bundle's, without withdrawing it. The import keeps it.
 */
#define SYMM_IPC_RELEASED UINT64_C(4)
/** In symm_ipc_info_t.flags alone: it has its addresses and no memory: symm_ipc_suspend(). */
#define SYMM_IPC_SUSPENDED UINT64_C(8)
/**
 * In symm_ipc_info_t.flags alone: the memory, or some of the bundle's, is of cudaMalloc, and
 * symm cannot keep it. It goes when its owner frees it, and when the exporter ends: what is
 * read there afterwards is undefined. symm_ipc_info_t.exporter_alive tells of the end.
 */
#define SYMM_IPC_DIES_WITH_MAKER UINT64_C(16)

/** How to import. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /** SYMM_IPC_ON_DEVICE, SYMM_IPC_READ_ONLY, or both; or 0. */
  uint64_t flags;
  /** Deadline for the exporter's answer in milliseconds; 0: $SYMM_TIMEOUT_MS, else 60,000. */
  uint64_t timeout_ms;
  /** Where the exporter's $SYMM_IPC_DIRECTORY is seen here; NULL: under the same path. */
  const char *directory;
  /**
   * CUDA ordinal for which to map, with SYMM_IPC_ON_DEVICE. Without that flag it must be 0, and
   * the memory is mapped for the GPU that has it.
   */
  int32_t device;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_ipc_import_options_t;

/** The defaults of symm_ipc_import_options_t. */
#define SYMM_IPC_IMPORT_OPTIONS_INIT {sizeof(symm_ipc_import_options_t), 0, 0, NULL, 0, NULL}

/**
 * Map the memory that a token names.
 * [local] [blocking, options.timeout_ms] [stream] Since 0.2.
 *
 * Imports of one buffer in one process share one mapping, and one more if some are for reading
 * only. After the first, importing another piece of it is local.
 *
 * @param token        as made by symm_ipc_export() or symm_ipc_export_bundle().
 * @param token_bytes  exactly the length of the token.
 * @param options      NULL means the defaults.
 * @param[out] out     one reference, for symm_ipc_release().
 * @param stream       orders the call; NULL with memory of the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  this is not a token, or it was cut short, damaged or
 *                                    forged; options.device is out of range, or not 0 without
 *                                    SYMM_IPC_ON_DEVICE; or the stream is being captured.
 * @retval SYMM_ERR_UNSUPPORTED       the token was made by a version of symm whose tokens this
 *                                    one cannot read; the message names both versions. Or
 *                                    SYMM_IPC_READ_ONLY, for memory of cudaMalloc.
 * @retval SYMM_ERR_UNAVAILABLE       the token was made on another machine or by another user,
 *                                    or its GPU or directory is not visible here; or it has
 *                                    channels, and 64 imports of it are there already.
 * @retval SYMM_ERR_INVALID_HANDLE    the memory was released or withdrawn.
 * @retval SYMM_ERR_PEER_FAILED       the exporter is gone.
 * @retval SYMM_ERR_TIMEOUT           the exporter does not answer.
 * @retval SYMM_ERR_OUT_OF_MEMORY     memory or address space has run out, here or at the
 *                                    exporter.
 * @retval SYMM_ERR_SYSTEM            a system call failed, here or at the exporter, which may
 *                                    have run out of descriptors.
 */
SYMM_API symm_status_t symm_ipc_import(const void *token, size_t token_bytes,
                                       const symm_ipc_import_options_t *options,
                                       symm_ipc_t **out, void *stream);

/**
 * Address of the imported piece; NULL if it has 0 bytes, or if it is a bundle, whose pieces
 * symm_ipc_bundle_piece() tells.
 * [local] [capturable] Since 0.2.
 *
 * Valid until the last symm_ipc_release(), even after the exporter died.
 */
SYMM_API symm_status_t symm_ipc_pointer(symm_ipc_t *ipc, void **out_pointer);

/**
 * Bytes of the imported piece; of a bundle, those of all its pieces.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_ipc_bytes(symm_ipc_t *ipc, size_t *out_bytes);

/** Facts about an import. Filled by symm_ipc_info(). */
typedef struct {
  size_t struct_size;
  symm_backend_t backend;
  /** Device for which it is mapped here; 0 with the host back end. */
  int32_t device;
  /** Bytes of the piece; of a bundle, those of all its pieces. */
  uint64_t bytes;
  /** Offset of the piece in the exporter's block; 0 of a bundle. */
  uint64_t offset;
  /** Bytes of that block; of a bundle, those of all its blocks. */
  uint64_t block_bytes;
  /** Process id of the exporter, as it knows itself. */
  int64_t exporter_pid;
  /** 0 once its death or departure was noticed, and while the import is suspended. */
  int32_t exporter_alive;
  /** 1 if the host may touch it: memory of the host back end, or of SYMM_ALLOC_HOST. */
  int32_t host_memory;
  /**
   * SYMM_IPC_READ_ONLY if it is mapped for reading only, SYMM_IPC_RELEASED,
   * SYMM_IPC_SUSPENDED and SYMM_IPC_DIES_WITH_MAKER; or 0.
   */
  uint64_t flags;
} symm_ipc_info_t;

/**
 * Describe an import.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_ipc_info(symm_ipc_t *ipc, symm_ipc_info_t *out);

/**
 * How many pieces an imported bundle has.
 * [local] [capturable] Since 0.2.
 *
 * @param[out] out_count  the pieces.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the token was not that of a bundle.
 */
SYMM_API symm_status_t symm_ipc_bundle_size(symm_ipc_t *ipc, size_t *out_count);

/**
 * Describe a piece of an imported bundle: where it is mapped, its name, and what it is.
 * [local] [capturable] Since 0.2.
 *
 * Name and `about` lie in memory that nobody can write, not even the exporter. They are there
 * until the import ends, or is resumed.
 *
 * @param index     its place in the list of which the bundle was made, from 0.
 * @param[out] out  the piece.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the token was not that of a bundle, or index is too large
 *                                    for its size.
 * @retval SYMM_ERR_PEER_FAILED       what the exporter says of the piece is impossible.
 */
SYMM_API symm_status_t symm_ipc_bundle_piece(symm_ipc_t *ipc, size_t index,
                                             symm_ipc_piece_t *out);

/**
 * Find a piece of an imported bundle by its name, at the same cost for any number of pieces.
 * [local] [capturable] Since 0.2.
 *
 * @param name            its name.
 * @param[out] out_index  its place in the list of which the bundle was made.
 * @retval SYMM_ERR_NOT_FOUND         no piece has the name; INVALID_ARGUMENT: it is no bundle.
 * @retval SYMM_ERR_PEER_FAILED       what the exporter says of its pieces is impossible.
 */
SYMM_API symm_status_t symm_ipc_bundle_find(symm_ipc_t *ipc, const char *name,
                                            size_t *out_index);

/**
 * Let another stream wait for the export: what is issued on `stream` next runs after what the
 * exporter had issued before it, too.
 * [local] [stream] Since 0.2.
 *
 * @param ipc      import.
 * @param options  NULL means the defaults; the call does not wait.
 * @param stream   stream that waits.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the stream is being captured.
 * @retval SYMM_ERR_PEER_FAILED       the exporter is gone, and the memory is of cudaMalloc.
 */
SYMM_API symm_status_t symm_ipc_stream_wait(symm_ipc_t *ipc, const symm_call_options_t *options,
                                            void *stream);

/**
 * Say that what was issued on `stream` so far uses the import: its lease does not end before
 * that is over.
 * [local] [stream] Since 0.2.
 *
 * In a capture this counts as a use by all streams, since a graph may be replayed anywhere.
 *
 * @param ipc      import that is used.
 * @param options  NULL means the defaults; the call does not wait.
 * @param stream   orders the call; NULL with memory of the host back end.
 */
SYMM_API symm_status_t symm_ipc_record_use(symm_ipc_t *ipc, const symm_call_options_t *options,
                                           void *stream);

/**
 * Give an import's memory up, and keep its addresses: for a reader that sleeps, or that goes on
 * with another version. symm_ipc_resume() maps memory at the same addresses, so pointers, and
 * graphs that were captured with them, are right again.
 * [local] [stream] Since 0.2.
 *
 * The call waits for what was issued on `stream` and for recorded uses, and for no other
 * process; nothing else may be using the memory. The lease ends. Until the import is resumed,
 * an access faults, and nobody can export its memory from here.
 *
 * An import of memory of this very process gives its lease up alone: that memory stays where
 * it is.
 *
 * @param ipc      import. No other import, group or token of this process uses its blocks.
 * @param options  NULL means the defaults; the call has no deadline.
 * @param stream   orders the call; NULL with memory of the host back end. SYMM_ALL_STREAMS:
 *                 all that the device has to do.
 * @retval SYMM_ERR_INVALID_ARGUMENT  it is suspended; this process uses the memory otherwise;
 *                                    or the stream is being captured.
 * @retval SYMM_ERR_UNSUPPORTED       the memory is this process's own, and was imported for
 *                                    reading only; or it is of cudaMalloc.
 * @retval SYMM_ERR_SYSTEM            a system call failed. The import is suspended, and some of
 *                                    its memory stays until it is resumed or released.
 */
SYMM_API symm_status_t symm_ipc_suspend(symm_ipc_t *ipc, const symm_call_options_t *options,
                                        void *stream);

/**
 * Map memory at the addresses of a suspended import: the same, or what another token names,
 * such as that of another version.
 * [local] [blocking, options.timeout_ms] [stream] Since 0.2.
 *
 * As symm_ipc_import(), but device and access stay those of the import. Another token may be
 * that of another process. What it names must lie as what was imported: a piece of the same
 * size and place, in a block of the same size; or a bundle whose pieces have the same names,
 * sizes and places. What a piece is (`about`) is not compared. If the call fails, the import
 * stays suspended, and can be resumed later.
 *
 * @param ipc          suspended by symm_ipc_suspend().
 * @param token        as made by symm_ipc_export() or symm_ipc_export_bundle(); NULL, with
 *                     token_bytes 0: the one that it was imported or resumed by.
 * @param token_bytes  exactly the length of the token.
 * @param options      NULL means the defaults; flags and device are 0.
 * @param stream       orders the call; NULL with memory of the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  it is not suspended; what the token names lies otherwise,
 *                                    or is memory of this process, which stays at its own
 *                                    address; and as symm_ipc_import().
 * @retval SYMM_ERR_UNSUPPORTED       as symm_ipc_import(); or the memory is of cudaMalloc.
 * @retval SYMM_ERR_UNAVAILABLE       as symm_ipc_import().
 * @retval SYMM_ERR_INVALID_HANDLE    the memory was released or withdrawn.
 * @retval SYMM_ERR_PEER_FAILED       the exporter is gone.
 * @retval SYMM_ERR_TIMEOUT           the exporter does not answer.
 * @retval SYMM_ERR_OUT_OF_MEMORY     memory has run out, here or at the exporter.
 * @retval SYMM_ERR_SYSTEM            a system call failed, here or at the exporter.
 */
SYMM_API symm_status_t symm_ipc_resume(symm_ipc_t *ipc, const void *token, size_t token_bytes,
                                       const symm_ipc_import_options_t *options, void *stream);

/**
 * Add a reference.
 * [local] [capturable] Since 0.2.
 */
SYMM_API symm_status_t symm_ipc_retain(symm_ipc_t *ipc);

/**
 * Drop a reference to an import, which ends with the last.
 * [local] [stream] Since 0.2.
 *
 * NULL is accepted. Never waits. With CUDA the lease ends when what was issued before on the
 * `stream` of each release is over, and what was recorded.
 *
 * @param ipc     import, or NULL.
 * @param stream  stream whose work uses the import. SYMM_ALL_STREAMS: all that the device has
 *                to do. In a capture, or with a driver before 12.5, the end of that may be
 *                noticed no sooner than by the next allocation, release or symm_ipc_collect().
 */
SYMM_API void symm_ipc_release(symm_ipc_t *ipc, void *stream);

/**
 * End the tokens made so far for any part of a piece of memory, and wait until nobody holds a
 * lease on any part of it.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * Afterwards the memory may be written anew and exported again. Tokens of other pieces stay
 * valid.
 *
 * @param pointer  inside memory that this process can export.
 * @param bytes    length of the piece; with 0 there is nothing to do.
 * @param options  NULL means the defaults.
 * @retval SYMM_ERR_TIMEOUT           the message names a holder; its tokens have ended all the
 *                                    same.
 * @retval SYMM_ERR_PEER_FAILED       a holder is gone, but may still write: a GPU may be
 *                                    finishing its work, or its death cannot be confirmed.
 *                                    Release the buffer, and do not use it again.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the piece is not in memory that this process can export,
 *                                    or another process owns it.
 */
SYMM_API symm_status_t symm_ipc_withdraw(const void *pointer, size_t bytes,
                                         const symm_call_options_t *options);

/* ---- puts and signals by tokens -------------------------------------------------------- */

/*
 * Puts and signals between processes that are in no group. The maker of a token gives it
 * channels; a process that imports it copies pieces into the memory and signals, and the maker
 * waits. An engine that computes a cache for another puts its pages so, for one.
 *
 * A put has an epoch, such as the number of a request. When a request is given up, the owner
 * raises the fence of its pages beyond the epoch, and may then give the pages to another
 * request: what the writer of the former sends late does not land.
 *
 * All of this is for memory of the host back end. For memory of a GPU it is UNSUPPORTED.
 */

/**
 * Copy many pieces into imported memory in one call, and signal when all are there.
 * [local] [stream] Since 0.2.
 *
 * Visible to the owner after the signal of the call, or any later signal. All that
 * symm_put_pieces() says of pieces holds. Puts of several threads through one import take
 * turns. A put that fails has written nothing.
 *
 * @param ipc           import of one piece, for reading and writing.
 * @param offset        from where the pieces count, bytes from the start of the import.
 * @param source        as for symm_put_pieces().
 * @param source_bytes  size of `source`, which no piece may exceed; SIZE_MAX: not known.
 * @param call          the pieces and the signal; its channel is one of the token's.
 * @param epoch         of the put, below UINT64_MAX; 0 if the token has no channels.
 * @param options       NULL means the defaults. timeout_ms bounds the wait for the turn;
 *                      0: $SYMM_TIMEOUT_MS, else 60,000.
 * @param stream        NULL with the host back end.
 * @retval SYMM_ERR_ABORTED           the epoch is lower than the fence of a part that a piece
 *                                    goes to; the message names the part and its fence.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as for symm_put_pieces(); or ipc is a bundle, suspended,
 *                                    or imported for reading only; or the token has no
 *                                    channels, and there is a signal or an epoch.
 * @retval SYMM_ERR_PEER_FAILED       the process that made the memory is gone.
 * @retval SYMM_ERR_TIMEOUT           another thread's put through this import did not end.
 * @retval SYMM_ERR_UNSUPPORTED       op or a flag is not known, a request is asked for, or the
 *                                    memory is a GPU's.
 */
SYMM_API symm_status_t symm_ipc_put_pieces(symm_ipc_t *ipc, size_t offset, const void *source,
                                           size_t source_bytes, const symm_pieces_call_t *call,
                                           uint64_t epoch, const symm_call_options_t *options,
                                           void *stream);

/**
 * Copy many pieces from imported memory in one call, and signal when all are here.
 * [local] [stream] Since 0.2.
 *
 * The owner that waits for the signal may then write these pieces anew. No fence keeps a get
 * off.
 *
 * @param ipc                import of one piece.
 * @param offset             from where the pieces count, bytes from the start of the import.
 * @param destination        as for symm_get_pieces().
 * @param destination_bytes  size of `destination`, which no piece may exceed; SIZE_MAX: not
 *                           known.
 * @param call               the pieces and the signal; its channel is one of the token's.
 * @param options            NULL means the defaults; the call does not wait.
 * @param stream             NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  as for symm_get_pieces(); or ipc is a bundle or suspended;
 *                                    or there is a signal, and the token has no channels.
 * @retval SYMM_ERR_PEER_FAILED       the process that made the memory is gone.
 * @retval SYMM_ERR_UNSUPPORTED       as for symm_ipc_put_pieces().
 */
SYMM_API symm_status_t symm_ipc_get_pieces(symm_ipc_t *ipc, size_t offset, void *destination,
                                           size_t destination_bytes,
                                           const symm_pieces_call_t *call,
                                           const symm_call_options_t *options, void *stream);

/**
 * Add a value to a word of the token that was imported, or set the word to it.
 * [local] [stream] Since 0.2.
 *
 * Never waits. What this process wrote before is visible to the owner once it has waited for
 * the value. All who import one token change the same words.
 *
 * @param ipc      import of a token with channels, also one for reading only.
 * @param channel  0 .. channels-1 of the token.
 * @param op       SYMM_SIGNAL_ADD or SYMM_SIGNAL_SET.
 * @param value    any number; sums wrap.
 * @param options  NULL means the defaults; the call does not wait.
 * @param stream   NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  channel is out of range, op is negative, the token has no
 *                                    channels, or the import is suspended.
 * @retval SYMM_ERR_PEER_FAILED       the process that made the memory is gone.
 * @retval SYMM_ERR_UNSUPPORTED       op is not known, or a request is asked for.
 */
SYMM_API symm_status_t symm_ipc_signal_value(symm_ipc_t *ipc, int32_t channel,
                                             symm_signal_op_t op, uint64_t value,
                                             const symm_call_options_t *options, void *stream);

/**
 * Wait until a word of a token of this process compares with `value` as `compare` says.
 * [local] [blocking, options.timeout_ms] [stream] Since 0.2.
 *
 * The word stays as it is. Give each writer a token of its own where the message shall name the
 * one that was awaited.
 *
 * @param token          made by this process, with channels.
 * @param token_bytes    exactly the length of the token.
 * @param channel        0 .. channels-1 of the token.
 * @param compare        word compare value.
 * @param value          right side of the comparison.
 * @param options        NULL means the defaults.
 * @param[out] out_seen  the word when it compared so; may be NULL.
 * @param stream         NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           the word did not compare so before the deadline; names who
 *                                    has imported the token, and says if it is stopped.
 * @retval SYMM_ERR_PEER_FAILED       a process that had imported the token died, and none is
 *                                    left that has; names the last one. A process that imports
 *                                    the token later can be waited for again.
 * @retval SYMM_ERR_INVALID_HANDLE    the memory was released or withdrawn, also during the
 *                                    wait.
 * @retval SYMM_ERR_INVALID_ARGUMENT  this is not a token of this process with channels, channel
 *                                    is out of range, or compare is negative.
 * @retval SYMM_ERR_UNSUPPORTED       compare is not known, or a request is asked for.
 */
SYMM_API symm_status_t symm_ipc_wait_value(const void *token, size_t token_bytes,
                                           int32_t channel, symm_compare_t compare,
                                           uint64_t value, const symm_call_options_t *options,
                                           uint64_t *out_seen, void *stream);

/**
 * Keep late puts off a piece of memory: when the call returns, no put of an epoch below `epoch`
 * stores there any more, and no signal of such a put comes.
 * [local] [blocking, options.timeout_ms] [stream] Since 0.2.
 *
 * Such a put is refused with ABORTED from now on. The call waits for those under way, anywhere
 * in the memory of the same tokens. Fences only rise: a lower epoch changes nothing, and waits
 * all the same. Those who have imported the memory by a token without channels are not kept
 * off; symm_ipc_withdraw() waits for these, too.
 *
 * @param pointer  inside memory that this process can export.
 * @param bytes    length of the piece: whole parts (fence_bytes) of each token with channels
 *                 that names some of it; with 0 there is nothing to do.
 * @param epoch    the lowest that may still land.
 * @param options  NULL means the defaults.
 * @param stream   NULL with the host back end.
 * @retval SYMM_ERR_TIMEOUT           a put of a lower epoch is not over; names its process, and
 *                                    says if it is stopped. The fence stands all the same.
 * @retval SYMM_ERR_PEER_FAILED       a process is gone in the middle of such a put, and its
 *                                    death cannot be confirmed. Release the buffer, and do not
 *                                    use it again.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the piece is not in memory that this process can export,
 *                                    another process owns it, or it has some bytes only of a
 *                                    part. No fence was raised.
 * @retval SYMM_ERR_UNSUPPORTED       a request is asked for.
 */
SYMM_API symm_status_t symm_ipc_fence(const void *pointer, size_t bytes, uint64_t epoch,
                                      const symm_call_options_t *options, void *stream);

/* ---- versions and holders of shared memory --------------------------------------------- */

/** How to publish. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /**
   * The versions of this name that stay published by this process, the new one among them: the
   * tokens of those with the lowest numbers end, and nobody waits for their leases. 0: all.
   */
  uint64_t keep;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_ipc_publish_options_t;

/** The defaults of symm_ipc_publish_options_t. */
#define SYMM_IPC_PUBLISH_OPTIONS_INIT {sizeof(symm_ipc_publish_options_t), 0, NULL}

/**
 * Publish a token under a name and the number of a version, for symm_ipc_lookup().
 * [local] Since 0.2.
 *
 * Versions of a name coexist: readers keep the one that they have imported, and a new one takes
 * nothing away from them. Version and token become known in one step. They are in the directory
 * of the tokens, and end with this process, or with symm_ipc_withdraw_version().
 *
 * @param name         one line of UTF-8, of 1 to SYMM_IPC_NAME_MAX_BYTES bytes. Processes may
 *                     publish under one name.
 * @param version      its number, which this process has not published under this name; larger
 *                     is newer.
 * @param token        made by symm_ipc_export() or symm_ipc_export_bundle() in this process.
 * @param token_bytes  exactly the length of the token.
 * @param options      NULL means the defaults.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the name is empty, too long or not one line of UTF-8; this
 *                                    process has published this version, or a newer one beside
 *                                    `keep` others; or the bytes are no token of this process.
 * @retval SYMM_ERR_INVALID_HANDLE    the memory of the token was released or withdrawn.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_ipc_publish(const char *name, uint64_t version, const void *token,
                                        size_t token_bytes,
                                        const symm_ipc_publish_options_t *options);

/** How to look a version up. NULL means the defaults. */
typedef struct {
  size_t struct_size;
  /**
   * How long to wait for such a version, in milliseconds; 0: $SYMM_TIMEOUT_MS, else 60,000;
   * SYMM_TIMEOUT_NOW: only look.
   */
  uint64_t timeout_ms;
  /** Where the publisher's $SYMM_IPC_DIRECTORY is seen here; NULL: $SYMM_IPC_DIRECTORY. */
  const char *directory;
  /** NULL, or receives the failure of this call. */
  symm_failure_t *failure;
} symm_ipc_lookup_options_t;

/** The defaults of symm_ipc_lookup_options_t. */
#define SYMM_IPC_LOOKUP_OPTIONS_INIT {sizeof(symm_ipc_lookup_options_t), 0, NULL, NULL}

/**
 * Find the newest published version of a name that compares with a number, and wait for one if
 * there is none.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * What processes that are gone have published is passed over. A version may be withdrawn when
 * its token is imported; then the import is INVALID_HANDLE or PEER_FAILED, and one looks again.
 *
 * @param name              as it was published.
 * @param compare           SYMM_COMPARE_*, with the version on its left: SYMM_COMPARE_GT finds
 *                          the newest that is newer than `version`, and SYMM_COMPARE_GE with 0
 *                          the newest of all.
 * @param version           the number to compare with.
 * @param options           NULL means the defaults.
 * @param[out] out_token    receives the token, for symm_ipc_import().
 * @param capacity          bytes that out_token holds, such as SYMM_IPC_TOKEN_MAX_BYTES.
 * @param[out] out_bytes    receives the length of the token; not NULL.
 * @param[out] out_version  receives the version; not NULL.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the name is impossible, compare is negative, or capacity
 *                                    is too small.
 * @retval SYMM_ERR_UNSUPPORTED       compare is not known.
 * @retval SYMM_ERR_TIMEOUT           no process has published such a version; the message tells
 *                                    which versions there are.
 * @retval SYMM_ERR_UNAVAILABLE       the directory is not private.
 * @retval SYMM_ERR_SYSTEM            a system call failed.
 */
SYMM_API symm_status_t symm_ipc_lookup(const char *name, symm_compare_t compare,
                                       uint64_t version,
                                       const symm_ipc_lookup_options_t *options,
                                       void *out_token, size_t capacity, size_t *out_bytes,
                                       uint64_t *out_version);

/**
 * Withdraw a version that this process has published: end its token, and wait until nobody
 * holds a lease on it.
 * [local] [blocking, options.timeout_ms] Since 0.2.
 *
 * Other versions stay, also those in the same blocks that have bundles of their own. Afterwards
 * the memory of the version may be written anew.
 *
 * @param name     as it was published.
 * @param version  its number.
 * @param options  NULL means the defaults.
 * @retval SYMM_ERR_INVALID_ARGUMENT  this process has not published this version, or it is
 *                                    withdrawn, and nobody holds it.
 * @retval SYMM_ERR_TIMEOUT           as symm_ipc_withdraw(). The version is not published any
 *                                    more; the same call again waits on for its leases, as for
 *                                    those of a version that `keep` has ended.
 * @retval SYMM_ERR_PEER_FAILED       as symm_ipc_withdraw().
 */
SYMM_API symm_status_t symm_ipc_withdraw_version(const char *name, uint64_t version,
                                                 const symm_call_options_t *options);

/** Holders of leases on a piece of memory. Filled by symm_ipc_holders(). */
typedef struct {
  size_t struct_size;
  /** Leases on any part of the piece; 0: nobody holds it now. */
  uint64_t leases;
  /** Processes that hold them. */
  uint64_t processes;
  /** One of these processes; 0 if there is none or its pid is not visible here. */
  int64_t pid;
  /** 1 if a process that held the block is gone, but may still write to it. */
  int32_t quarantined;
} symm_ipc_holders_t;

/**
 * Ask who holds a piece of memory, without ending its tokens.
 * [local] Since 0.2.
 *
 * Never waits. Looks at all leases. Those who have a token may import it at any time.
 *
 * @param pointer   inside memory that this process can export.
 * @param bytes     length of the piece.
 * @param options   NULL means the defaults; the call does not wait.
 * @param[out] out  the holders.
 * @retval SYMM_ERR_INVALID_ARGUMENT  the piece is not in memory that this process can export,
 *                                    or another process owns it.
 */
SYMM_API symm_status_t symm_ipc_holders(const void *pointer, size_t bytes,
                                        const symm_call_options_t *options,
                                        symm_ipc_holders_t *out);

/**
 * Totals of what collections have done since the process began, those of symm_ipc_collect() and
 * the library's own. The difference of two of them is what happened in between.
 * Filled by symm_ipc_collect().
 */
typedef struct {
  size_t struct_size;
  /** Leases that were found released by their holders. */
  uint64_t ended_leases;
  /** Leases of holders that died. */
  uint64_t written_off_leases;
  /** Released buffers that nobody holds any more. */
  uint64_t freed_blocks;
  /** Bytes of these buffers. */
  uint64_t freed_bytes;
  /** Mappings of other processes' memory that were kept here for the next import. */
  uint64_t dropped_mappings;
  /** Released buffers that somebody still holds now. */
  uint64_t limbo_blocks;
  /** Bytes of these buffers. */
  uint64_t limbo_bytes;
} symm_ipc_collect_stats_t;

/**
 * Free what is provably free.
 * [local] Since 0.2.
 *
 * Never waits. Looks only at consumers that have released something, never at all leases.
 * symm_ipc_export() does the exporter's half of it, symm_alloc() all of it when memory is
 * short.
 *
 * @param options   NULL means the defaults; the call does not wait.
 * @param[out] out  totals, this collection's included; NULL: not asked for.
 */
SYMM_API symm_status_t symm_ipc_collect(const symm_call_options_t *options,
                                        symm_ipc_collect_stats_t *out);

/** State of sharing in this process. Filled by symm_ipc_stats(). */
typedef struct {
  size_t struct_size;
  /** Tokens made so far. */
  uint64_t tokens;
  /** Blocks that can be imported now. */
  uint64_t exported_blocks;
  /** Bytes of these blocks. */
  uint64_t exported_bytes;
  /** Leases granted so far. */
  uint64_t granted_leases;
  /** Leases that others, and this process, hold on memory of this process. */
  uint64_t leases;
  /** Blocks on which there are leases. */
  uint64_t leased_blocks;
  /** Blocks that are released, but still held. */
  uint64_t limbo_blocks;
  /** Bytes of these blocks. */
  uint64_t limbo_bytes;
  /** Blocks to which a holder that is gone may still write; never to be used again. */
  uint64_t quarantined_blocks;
  /** Bytes of these blocks. */
  uint64_t quarantined_bytes;
  /** Leases of dead holders so far. */
  uint64_t written_off_leases;
  /** Imports that were refused so far: forged, stale. */
  uint64_t refused_imports;
  /** Connections of other users, or that broke the protocol. */
  uint64_t rejected_connections;
  /** Processes that are connected to this one. */
  uint64_t consumers;
  /** Imports from other processes that are not released; those of its own count in `leases`. */
  uint64_t imports;
  /** Blocks that are mapped here for them, or kept for the next. */
  uint64_t imported_blocks;
  /** Bytes of these blocks. */
  uint64_t imported_bytes;
  /** Processes to which this one is connected. */
  uint64_t exporters;
  /** Collections run so far. */
  uint64_t collections;
  /** Age of the oldest lease in milliseconds, 0 if there is none. */
  uint64_t oldest_lease_ms;
  /** Holder of the oldest lease, 0 if the pid is not visible here. */
  int64_t oldest_lease_pid;
  /**
   * Start of that holder in clock ticks since boot (field 22 of its stat in /proc), 0 if
   * unknown.
   */
  uint64_t oldest_lease_start_time;
} symm_ipc_stats_t;

/**
 * Ask for the state of sharing.
 * [local] Since 0.2.
 */
SYMM_API symm_status_t symm_ipc_stats(symm_ipc_stats_t *out);

#ifdef __cplusplus
}
#endif

#endif /* SYMM_SYMM_H */
