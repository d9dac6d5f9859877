/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symm: calls that do a collective and what a model does next to it in one, and that may still
 * change.
 *
 * symm.h is promised for as long as the library has the same name. This header is not: models
 * change, and what is worth doing in one call changes with them. It has a version of its own
 * instead. What symm.h says in its conventions holds here, too.
 *
 * Version
 *   The version of this header is SYMM_FUSED_VERSION, and that of the library is what
 *   symm_fused_version() of symm.h returns. Both are major << 16 | minor.
 *   - Equal major versions: what symm.h promises of itself holds. Functions, values and fields
 *     stay, and the minor version counts what was added.
 *   - Other major versions: a function may be gone, or have other parameters, other fields or
 *     another meaning. A program must not call any function of this header then.
 *
 * How a program checks
 *   - A program that is linked with the shared library need not do anything. The functions of
 *     this header carry the major version in their symbol version (SYMM_FUSED_1), so that the
 *     loader refuses a library of another one, and names the version that is missing. Python's
 *     extension is such a program.
 *   - A program that finds functions by dlsym() or links statically compares
 *     symm_fused_version() >> 16 with SYMM_FUSED_VERSION_MAJOR before the first call. Rust and
 *     Julia do so in each call.
 *   - A program that passes a struct of this header to symm_collective() or symm_batch() says
 *     in call.fused_version which version the struct has: SYMM_FUSED_VERSION. A library of
 *     another major version answers UNSUPPORTED.
 *
 * How it changes
 *   A change that breaks comes with a minor version of symm at the earliest, never with a patch
 *   version, and CHANGELOG.md says what to write instead. What has proved itself moves to
 *   symm.h with a minor version of symm, and its name stays here for the rest of this major
 *   version.
 */
#ifndef SYMM_FUSED_H
#define SYMM_FUSED_H

#include <stddef.h>
#include <stdint.h>

#include <symm/symm.h>

/** Major version of this header. It changes where a compiled program would no longer work. */
#define SYMM_FUSED_VERSION_MAJOR 1
/** Minor version of this header. It changes where something was added. */
#define SYMM_FUSED_VERSION_MINOR 0
/** Version of this header, major << 16 | minor. Compare it with symm_fused_version(). */
#define SYMM_FUSED_VERSION ((SYMM_FUSED_VERSION_MAJOR << 16) | SYMM_FUSED_VERSION_MINOR)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- all-reduce with RMSNorm ----------------------------------------------------------- */

/*
 * All-reduce, residual and RMSNorm in one call: what a transformer does behind each
 * row-parallel product. The results have the same bits on every back end, for any number of
 * tokens, by any algorithm.
 */

/** Which elements share a scale of symm_rmsnorm_call_t. */
typedef int32_t symm_quant_scale_t;
enum symm_quant_scale_values {
  /** All elements; the caller gives the scale. */
  SYMM_QUANT_SCALE_TENSOR = 0,
  /** The elements of a row; the scale follows from the largest of them. */
  SYMM_QUANT_SCALE_TOKEN = 1,
  /** Each 128 elements of a row; the scale follows from the largest of them. */
  SYMM_QUANT_SCALE_GROUP = 2
};

/**
 * What symm_allreduce_rmsnorm() adds to the sum, how it normalises, and where results go.
 * Matrices are [tokens][hidden], rows one behind the other. weight, matrices and send begin at
 * multiples of 16 bytes. A NULL input does not exist, and a NULL output is not wanted.
 */
typedef struct {
  size_t struct_size;
  /** Added to the sum; of dtype. */
  const void *residual_in;
  /** Sum + residual, of dtype. */
  void *residual_out;
  /** The normalised rows, of dtype. */
  void *norm_out;
  /** [hidden] weights; not NULL. */
  const void *weight;
  /** F32, F16 or BF16; 0: dtype. */
  symm_dtype_t weight_dtype;
  /**
   * Rounded to f32; finite and not negative; 0: 1e-6. For none, a number that f32 rounds to 0.
   */
  double epsilon;
  /** Added to each weight: 1 for Gemma's, else 0. Rounded to f32; finite. */
  double weight_offset;
  /** Which elements share a scale. */
  symm_quant_scale_t scale_kind;
  /** The normalised rows divided by their scale, of F8E4M3. */
  void *quant_out;
  /** TENSOR: the scale as one aligned f32, read when the call runs. */
  const void *scale_in;
  /** Scales of f32. TOKEN: [tokens]; GROUP: [tokens][hidden / 128]. */
  void *scale_out;
} symm_rmsnorm_call_t;

/** The defaults of symm_rmsnorm_call_t. weight and one output must be set. */
#define SYMM_RMSNORM_CALL_INIT                                   \
  {sizeof(symm_rmsnorm_call_t), NULL, NULL, NULL, NULL, 0, 0, 0, \
   SYMM_QUANT_SCALE_TENSOR,     NULL, NULL, NULL}

/**
 * Combine, add a residual and normalise.
 * [collective] [stream] [capturable] Since 0.2.
 *
 * s is the sum over ranks of send, combined as by symm_allreduce() and rounded to dtype. All
 * else is in f32, each operation rounded once, none fused; round() is to dtype:
 *
 *     h = round(s + residual_in)
 *     y = round((h * (1 / sqrt(mean(h^2) + epsilon))) * (weight_offset + weight))
 *     q = f8e4m3(y / scale)         saturating; NaN where the quotient is infinite
 *
 * residual_out gets h, norm_out gets y, and quant_out gets q. scale is *scale_in for TENSOR.
 * For TOKEN and GROUP it is what scale_out gets:
 *
 *     scale = max(largest |y| / 448, 1 / (448 * 512))                     NaN do not count
 *
 * The squares are added in one order: element i belongs to chain (i / 8) mod 1024, in which
 * elements follow each other; then chains 2k and 2k + 1 are added, then pairs of those, and so
 * on.
 *
 * - Memory: residual_in, weight and all outputs may be any memory of this process, and each
 *   rank's own. An output may be residual_in; norm_out or residual_out may be send; otherwise
 *   nothing that is written overlaps anything.
 * - Types: dtype is F32, F16 or BF16. hidden is a multiple of 8 (GROUP: of 128), at most 32 KB
 *   of dtype. options have no factor and no result_dtype.
 * - CUDA: SYMM_ALGORITHM_ONE_SHOT is one kernel; others are the all-reduce and a kernel behind
 *   it.
 *
 * @param send     tokens * hidden elements.
 * @param tokens   rows, 0 also with NULL pointers; must agree on all ranks, as hidden and dtype
 *                 must.
 * @param hidden   elements of a row.
 * @param dtype    type of an element.
 * @param norm     what to do and where results go; not NULL, read during the call only.
 * @param options  NULL means the defaults.
 * @param stream   orders the call; NULL with the host back end.
 * @retval SYMM_ERR_INVALID_ARGUMENT  hidden, dtype, an alignment or a field of norm is not as
 *                                    above, there is no output, memory overlaps, or options has
 *                                    a factor, a result_dtype or an algorithm that cannot do
 *                                    it.
 * @retval SYMM_ERR_UNSUPPORTED       dtype, weight_dtype, scale_kind or the algorithm is not
 *                                    known.
 * @retval SYMM_ERR_MISMATCH          ranks make different calls; the group is revoked.
 * @retval SYMM_ERR_TIMEOUT           a rank did not come; the group is revoked.
 * @retval SYMM_ERR_PEER_FAILED       a rank died or left; the group is revoked.
 * @retval SYMM_ERR_ABORTED           a rank aborted the group.
 */
SYMM_API symm_status_t symm_allreduce_rmsnorm(symm_group_t *group, const void *send,
                                              size_t tokens, size_t hidden, symm_dtype_t dtype,
                                              const symm_rmsnorm_call_t *norm,
                                              const symm_collective_options_t *options,
                                              void *stream);

#ifdef __cplusplus
}
#endif

#endif /* SYMM_FUSED_H */
