// Work on what has come from other machines, by whatever carries it between them: operands, which
// may also lie mapped on this rank's own machine, are combined in the order of the call; pieces are
// brought to slots and from them; and the calls of all ranks are compared.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pieces.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Stands for the length of a piece whose counts do not lie within its operand.
constexpr uint64_t kFailed = ~uint64_t{0};

template <class Pack>
__device__ __forceinline__ void for_packs(uint64_t packs, const Pack& pack) {
  for (uint64_t q = blockIdx.x * blockDim.x + threadIdx.x; q < packs; q += gridDim.x * blockDim.x) {
    pack(q);
  }
}

__device__ __forceinline__ uint4 operand(const CombineArgs& args, int number, uint64_t q) {
  return load_pack(reinterpret_cast<const char*>(args.operand[number]), args.call.unit, q);
}

template <class Arithmetic, bool kMayBeTree>
__device__ __forceinline__ void whole(const CombineArgs& args) {
  for_packs(packs_of(args.call.unit), [&](uint64_t q) {
    const auto load = [&](int rank) { return operand(args, rank, q); };
    store_pack(reinterpret_cast<char*>(args.call.recv), args.call.unit, q,
        Arithmetic::template run_loaded<kMayBeTree>(load, args.operands, args.call));
  });
}

// Combines a part of all operands. Its sums are as wide as they are added, unless they are rounded
// at the end; only rounded sums need not be a whole number of packs.
template <class Type, class Operation>
__device__ void part(const CombineArgs& args) {
  using Wide = typename Type::Wide;
  constexpr int kCount = Elements<Type>::kCount;
  constexpr int kWider = sizeof(Wide) / sizeof(typename Type::Element);
  for_packs(packs_of(args.call.unit), [&](uint64_t q) {
    union {
      Wide at[kCount];
      uint4 pack[kWider];
    } sums;
    Elements<Type> in;

    if (args.before == 0) {
      in.pack = operand(args, 0, q);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums.at[i] = Type::read(in.at[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWider; ++i) {
        sums.pack[i] = reinterpret_cast<const uint4*>(args.before)[q * kWider + i];
      }
    }

#pragma unroll 1
    for (int rank = args.before == 0 ? 1 : 0; rank < args.operands; ++rank) {
      in.pack = operand(args, rank, q);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums.at[i] = Operation::combine(sums.at[i], Type::read(in.at[i]));
      }
    }

    if (args.unrounded != 0) {
#pragma unroll
      for (int i = 0; i < kWider; ++i) {
        reinterpret_cast<uint4*>(args.call.recv)[q * kWider + i] = sums.pack[i];
      }
      return;
    }

#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool is_average = static_cast<Op>(args.call.op) == Op::avg;
      in.at[i] = Type::write(is_average ? over(sums.at[i], args.call.comm.size) : sums.at[i]);
    }
    store_pack(reinterpret_cast<char*>(args.call.recv), args.call.unit, q, in.pack);
  });
}

template <class Type>
__device__ __forceinline__ void part(const CombineArgs& args) {
  if (static_cast<Op>(args.call.op) == Op::prod) {
    part<Type, typename ProductOf<Type>::Is>(args);
  } else {
    part<Type, Sum>(args);
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    SYMM_KERNEL(combine)(const __grid_constant__ CombineArgs args) {
  begin();
  if (args.operands == 0) return;

  const auto dtype = static_cast<DType>(args.call.dtype);
  const bool is_average = static_cast<Op>(args.call.op) == Op::avg;
  const bool is_sum = static_cast<Op>(args.call.op) == Op::sum;
  if (args.before != 0 || args.unrounded != 0 ||
      (is_average && args.operands != args.call.comm.size)) {
    switch (dtype) {
      case DType::f32: return part<NativeElement<float>>(args);
      case DType::f64: return part<NativeElement<double>>(args);
      case DType::f16: return part<F16>(args);
      case DType::bf16: return part<Bf16>(args);
      case DType::f8e4m3: return part<F8e4m3>(args);
      case DType::f8e5m2: return part<F8e5m2>(args);
      default: return;  // integers are no sums of floats
    }
  }

  const bool hot = (is_sum || is_average) && args.call.in_tree == 0;
  if (hot && dtype == DType::bf16) return whole<SumOrAverage<Bf16>, false>(args);
  if (hot && dtype == DType::f16) return whole<SumOrAverage<F16>, false>(args);
  if (hot && dtype == DType::f32) return whole<SumOrAverage<NativeElement<float>>, false>(args);
  whole<Any, true>(args);
}

extern "C" __global__ void __launch_bounds__(256)
    SYMM_KERNEL(stage)(const __grid_constant__ StageArgs args) {
  begin();
  const PiecesArgs& all = args.pieces;
  const bool counted = all.counts[0].counts != 0;
  const bool takes = args.takes != 0;
  const uint64_t head = counted ? kPack : 0;

  const auto slot_of = [&](int p) { return reinterpret_cast<char*>(args.slots + p * args.slot); };
  const auto length_in = [&](int p) -> uint64_t& {
    return *reinterpret_cast<uint64_t*>(slot_of(p));
  };
  const auto find = [&](int p, PiecesArgs::Range& piece) {
    piece = takes ? all.recv[p] : all.send[p];
    if (!counted) return true;
    if (!read_counts(all, p, args.takes, piece, 0)) return false;
    if (!takes || length_in(p) == piece.bytes) return true;
    if (length_in(p) == kFailed) return false;
    report(all.call.comm, WaitError::other_length, p, 0, 2, 0, piece.bytes / all.element, 0,
        length_in(p) / all.element);
    return false;
  };

  const bool tells = counted && !takes && blockIdx.x == 0 && threadIdx.x == 0;
  PiecesArgs::Range piece;
  bool ok = true;
  // All pieces are found before anything is stored.
  for (int p = 0; p < all.call.comm.size; ++p) {
    ok = ok && find(p, piece);
  }
  for (int p = 0; tells && !ok && p < all.call.comm.size; ++p) {
    length_in(p) = kFailed;
  }

  for (int p = 0; ok && p < all.call.comm.size; ++p) {
    find(p, piece);
    const uint64_t left = piece.bytes > args.at ? piece.bytes - args.at : 0;
    const uint64_t most = args.slot - head;
    const Rows rows(all, left < most ? left : most);
    char* operand =
        reinterpret_cast<char*>(takes ? all.call.recv : all.call.send) + piece.at + args.at;
    char* slot = slot_of(p) + head;
    for_packs(rows.all, [&](uint64_t q) {
      if (takes) {
        rows.store(operand, all.row_stride, q, rows.load(slot, rows.bytes, q));
      } else {
        rows.store(slot, rows.bytes, q, rows.load(operand, all.row_stride, q));
      }
    });
    if (tells) length_in(p) = piece.bytes;
  }
}

extern "C" __global__ void __launch_bounds__(32)
    SYMM_KERNEL(compare)(const __grid_constant__ ComparisonArgs args) {
  begin();
  if (threadIdx.x != 0) return;

  auto* said = reinterpret_cast<uint64_t*>(args.said);
  if (args.tells != 0) {
    said[2 * args.comm.rank] = args.detail;
    said[2 * args.comm.rank + 1] = args.count;
    return;
  }

  for (int rank = 0; rank < args.comm.size; ++rank) {
    const uint64_t detail = said[2 * rank];
    const uint64_t count = said[2 * rank + 1];
    if (detail != args.detail || count != args.count) {
      return report(
          args.comm, WaitError::mismatch, rank, 0, 0, 0, detail, count, args.detail, args.count);
    }
  }
}
