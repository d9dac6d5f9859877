// All-reduce, residual and RMSNorm of rows (kernels/rmsnorm.hpp): one shot (one_shot.cu), after
// which each rank has all of a row in the registers of a cluster of blocks, or of one block. With
// one rank: rows that are summed already. A thread carries the same packs through everything, so
// results may lie where operands do. Blocks wait for those of their numbers on other ranks only,
// so those that have come onto all devices end without the others.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"
#include "kernels/rmsnorm.hpp"

using namespace symm;
using namespace symm::cuda;

namespace {
struct Sum2 {
  static __device__ __forceinline__ float combine(float a, float b) { return __fadd_rn(a, b); }
};

// The larger number; of a number and a NaN, the number.
struct Max {
  static __device__ __forceinline__ float combine(float a, float b) { return fmaxf(a, b); }
};

// Combines the values of `width` neighbouring threads by pairs, pairs of pairs and so on. All get
// the same bits, since both operations commute.
template <class Operation>
__device__ __forceinline__ float combine_neighbours(float v, uint32_t width) {
#pragma unroll
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    if (step < width) {
      v = Operation::combine(v, __shfl_xor_sync(0xFFFFFFFFU, v, static_cast<int>(step)));
    }
  }
  return v;
}

// The number of blocks that have a row together.
__device__ __forceinline__ uint32_t blocks_of_row() {
  uint32_t blocks = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %cluster_nctaid.x;" : "=r"(blocks));
#endif
  return blocks;
}

// Combines the values of all threads of a row, in block `block` of its `blocks`. In every block
// `by_warp` has room for the value of each warp of the row; all threads have read these when they
// meet again.
template <class Operation>
__device__ __forceinline__ float combine_row(
    float v, float* by_warp, uint32_t block, uint32_t blocks) {
  v = combine_neighbours<Operation>(v, kWarp);
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t warps = blocks * blockDim.x / kWarp;
  if (warps == 1) return v;

  float* mine = by_warp + block * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (blocks == 1) {
    if (lane == 0) *mine = v;
    __syncthreads();
  }
#if __CUDA_ARCH__ >= 900
  else {
    if (lane < blocks) {
      uint32_t there;
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(there)
          : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))), "r"(lane));
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(v) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
  }
#endif
  return combine_neighbours<Operation>(lane < warps ? by_warp[lane] : 0, kWarp);
}

// Reads the weights of the elements of pack `q`.
template <class Weight, int kCount>
__device__ __forceinline__ void read_weights(
    float (&to)[kCount], uint64_t from, uint32_t q, float offset) {
  constexpr uint32_t kBytes = kCount * sizeof(typename Weight::Element);

  union {
    uint2 words[kBytes / sizeof(uint2)];
    typename Weight::Element at[kCount];
  } in;

#pragma unroll
  for (uint32_t w = 0; w < kBytes / sizeof(uint2); ++w) {
    in.words[w] = *(reinterpret_cast<const uint2*>(from + uint64_t{q} * kBytes) + w);
  }
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    to[e] = __fadd_rn(Weight::read(in.at[e]), offset);
  }
}

template <int kCount>
__device__ __forceinline__ void read_weights(
    float (&to)[kCount], const RmsNormArgs& args, uint32_t q) {
  switch (static_cast<DType>(args.weight_dtype)) {
    case DType::bf16: return read_weights<Bf16>(to, args.weight, q, args.weight_offset);
    case DType::f16: return read_weights<F16>(to, args.weight, q, args.weight_offset);
    default: return read_weights<NativeElement<float>>(to, args.weight, q, args.weight_offset);
  }
}

// Long, since a kernel is not divided: what a thread knows of a row stays in registers from the
// first step to the last.
template <class Type, int kRanks>
__device__ __forceinline__ void run(const RmsNormArgs& args) {
  begin();
  if (args.call.comm.size == 0) return;  // a launch to make it ready

  using Pack = Elements<Type>;
  constexpr int kCount = Pack::kCount;
  // Packs that a chain of squares takes at a time.
  constexpr uint32_t kUnit = kNormUnit / kCount;
  // Whether there are registers for a pack of weights that waits for sums.
  constexpr bool kEarly = kRanks <= 2 && kUnit == 1;

  struct ByWarp {
    // The sums of rows take turns.
    float sums[2][kWarp];
    float most[kWarp];
  };

  SYMM_SHARED(ByWarp, by_warp);
  const DeviceComm& comm = args.call.comm;
  const int me = comm.rank;
  const uint32_t hidden = args.hidden;
  const uint32_t row_packs = hidden / kCount;
  const uint32_t epoch = kRanks > 1 ? current_epoch(comm) : 0;
  const uint64_t slot = comm.one_shot_slot;
  const uint64_t half = comm.one_shot + static_cast<uint64_t>(epoch & 1U) * (kRanks - 1) * slot;
  auto* slots = reinterpret_cast<char*>(comm.control[me] + half);
  const uint32_t blocks = blocks_of_row();
  const uint32_t block = blockIdx.x % blocks;
  const uint32_t stride = gridDim.x / blocks;
  const uint32_t thread = block * blockDim.x + threadIdx.x;
  const auto pack_of = [&](uint32_t i) {
    return (thread + i / kUnit * blocks * blockDim.x) * kUnit + i % kUnit;
  };
  const auto at = [&](uint64_t matrix, uint32_t row, uint32_t q) {
    return reinterpret_cast<uint4*>(matrix) + static_cast<uint64_t>(row) * row_packs + q;
  };

  const auto push = [&](uint32_t row) {
#pragma unroll
    for (uint32_t i = 0; i < kRowPacks; ++i) {
      const uint32_t q = pack_of(i);
      if (q >= row_packs) continue;
      const uint4 v = sendable(*at(args.call.send, row, q));
#pragma unroll
      for (int d = 1; d < kRanks; ++d) {
        const int p = me + d < kRanks ? me + d : me + d - kRanks;
        store_relaxed(at(comm.control[p] + half + slot_among<kRanks>(p, me) * slot, row, q), v);
      }
    }
  };

  float weights[kRowPacks][kCount];
  const uint32_t others = ((1U << kRanks) - 1U) & ~(1U << me);
  // If not, threads still go on to where they meet.
  bool ok = true;
  uint32_t turn = 0;

  // A row is sent ahead of each that is received, so that links have work while one is normalised.
  const uint32_t first_row = blockIdx.x / blocks;
  if (kRanks > 1) push(first_row);
  if (kEarly && pack_of(0) < row_packs) read_weights(weights[0], args, pack_of(0));
  for (uint32_t row = first_row; row < args.rows; row += stride, turn ^= 1U) {
    const uint32_t next = row + stride;
    if (kRanks > 1 && next < args.rows) push(next);

    // Receive, sum, and add the residual.
    Pack kept[kRowPacks];
    float squares = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowPacks; ++i) {
      const uint32_t q = pack_of(i);
      kept[i].pack = {0, 0, 0, 0};
      if (q >= row_packs) continue;
      Pack residual;
      if (args.residual_in != 0) residual.pack = *at(args.residual_in, row, q);
      const uint4 mine = *at(args.call.send, row, q);
      uint4 v[kRanks];
      if constexpr (kRanks > 1) {
        ok = ok && receive<kRanks>(comm, v, others, slots, slot, row * row_packs + q, epoch);
      }
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        // The rank's own words go through sendable() as well, so that a NaN has the bits here that
        // it has on the other ranks.
        if (r == me || kRanks == 1) v[r] = sendable(mine);
      }

      kept[i].pack = combine<Type, Sum, kRanks>(v, kRanks, false, args.call.in_tree != 0);
      if constexpr (kRanks > 1) free_cells<kRanks>(me, others, slots, slot, row * row_packs + q);
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (args.residual_in != 0) {
          kept[i].at[e] =
              Type::write(__fadd_rn(Type::read(kept[i].at[e]), Type::read(residual.at[e])));
        }
        const float x = Type::read(kept[i].at[e]);
        squares = __fadd_rn(squares, __fmul_rn(x, x));
      }
      if (args.residual_out != 0) *at(args.residual_out, row, q) = kept[i].pack;
    }
    // This thread has heard from all ranks.
    if (kRanks > 1 && threadIdx.x == 0 && next >= args.rows) let_next_launch();

    // Normalise.
    const float mean = __fdiv_rn(
        combine_row<Sum2>(squares, by_warp.sums[turn], block, blocks), static_cast<float>(hidden));
    const float inverse = __fdiv_rn(1, __fsqrt_rn(__fadd_rn(mean, args.epsilon)));
    float most[kRowPacks / kUnit] = {};
#pragma unroll
    for (uint32_t i = 0; i < kRowPacks; ++i) {
      if (pack_of(i) >= row_packs) continue;
      if (!kEarly || i > 0) read_weights(weights[i], args, pack_of(i));
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        kept[i].at[e] =
            Type::write(__fmul_rn(__fmul_rn(Type::read(kept[i].at[e]), inverse), weights[i][e]));
        most[i / kUnit] = Max::combine(most[i / kUnit], fabsf(Type::read(kept[i].at[e])));
      }
      if (args.norm_out != 0) *at(args.norm_out, row, pack_of(i)) = kept[i].pack;
    }

    // Quantise.
    const auto kind = static_cast<QuantScale>(args.scale_kind);
    if (args.quant_out == 0) continue;

    float most_of_row = 0;
    if (kind == QuantScale::token) {
#pragma unroll
      for (const float one : most) {
        most_of_row = Max::combine(most_of_row, one);
      }
      most_of_row = combine_row<Max>(most_of_row, by_warp.most, block, blocks);
    }
    auto* scales = reinterpret_cast<float*>(args.scale_out);
#pragma unroll
    for (uint32_t u = 0; u < kRowPacks / kUnit; ++u) {
      const uint32_t unit = pack_of(u * kUnit) / kUnit;
      constexpr uint32_t kNeighbours = kNormGroup / kNormUnit;
      float scale = most_of_row;
      if (kind == QuantScale::group) scale = combine_neighbours<Max>(most[u], kNeighbours);
      scale = kind == QuantScale::tensor ? *reinterpret_cast<const float*>(args.scale_in)
                                         : fmaxf(__fdiv_rn(scale, kMostF8), kLeastScale);
      if (unit * kUnit >= row_packs) continue;
      if (kind == QuantScale::group && unit % kNeighbours == 0) {
        scales[uint64_t{row} * (hidden / kNormGroup) + unit / kNeighbours] = scale;
      }
      if (kind == QuantScale::token && unit == 0) scales[row] = scale;

      union {
        uint2 words;
        uint8_t code[kNormUnit];
      } out;

#pragma unroll
      for (uint32_t e = 0; e < kNormUnit; ++e) {
        out.code[e] = F8e4m3::write(
            __fdiv_rn(Type::read(kept[u * kUnit + e / kCount].at[e % kCount]), scale));
      }
      *(reinterpret_cast<uint2*>(args.quant_out) + uint64_t{row} * (hidden / kNormUnit) + unit) =
          out.words;
    }
  }
  if (kRanks > 1) end_epoch(comm, epoch);
}
}  // namespace

// Bounds are those of the largest blocks that are launched, as shape_of_rows() has it: with more
// ranks there are no registers for more threads.
#define SYMM_RMSNORM(name, type, ranks)                                      \
  extern "C" __global__ void __launch_bounds__(ranks <= 2 ? 1024 : 512, 1)   \
      symm_rmsnorm_##name##_##ranks(const __grid_constant__ RmsNormArgs a) { \
    run<type, ranks>(a);                                                     \
  }
#define SYMM_RMSNORM_OF(name, type) \
  SYMM_RMSNORM(name, type, 1) SYMM_FOR_RANKS(SYMM_RMSNORM, name, type)
SYMM_RMSNORM_OF(bf16, Bf16)
SYMM_RMSNORM_OF(f16, F16)
SYMM_RMSNORM_OF(f32, NativeElement<float>)
