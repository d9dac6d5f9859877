// Every function of the installed device headers. This
// file is compiled for each architecture and never run.
#include <symm/exchange.cuh>
#include <symm/multimem.cuh>

using namespace symm::device;

extern "C" __global__ void every_call(
    const Memory memory, Grid* grid, int* codes, unsigned* words, unsigned long long* long_words) {
  const unsigned seen = load_relaxed(pointer<unsigned>(memory, 0, 16));
  store_relaxed(words, seen);
  add_release(long_words, 1);
  store_release(long_words + 1, load_relaxed(long_words + 2));
  words[2] = add_on_device(words + 3);
  long_words[3] = add_on_device(long_words + 4, 2) + exchange_on_device(long_words + 5, 6, 7);
  for (const AtomicOp op : {AtomicOp::fetch, AtomicOp::add, AtomicOp::bit_and, AtomicOp::bit_or,
           AtomicOp::bit_xor, AtomicOp::swap, AtomicOp::compare_swap}) {
    words[4] += change_value(memory, 1, 32, op, 5U, words[5]);
    long_words[7] += change_value(memory, 1, 40, op, 5ULL, long_words[8]);
  }
  fence_device();
  fence_system();
  signal(memory, 1, 0);
  signal_block(memory, 1, 1);
  codes[0] = await_signal(memory, 1, 2).code;
  codes[1] = await_signal_block(memory, 1, 3, 2).code;
  codes[2] = wait_signal(memory, 1, 4).code;
  const Outcome outcome = wait_signal_block(memory, 1, 5);
  if (!outcome) codes[3] = outcome.peer() + static_cast<int>(outcome.trouble());
  take_signals(memory, 1, 6);
  long_words[6] = test_signal(memory, 1, 6) + test_signal_value(memory, 1, 6);
  signal_value(memory, 1, 7, SignalOp::set, 5);
  codes[8] = wait_signal_value(memory, 1, 7, Compare::ge, 5).code;
  const SignalWait waits[] = {{0, 1, Compare::eq, 2}, {1, 7, Compare::ge, 5}};
  codes[9] = wait_signals(memory, waits, 2, true, codes + 10).code;
  codes[4] = barrier_thread(memory, 7).code;
  codes[5] = barrier_block(memory, 8).code;
  codes[6] = barrier_grid(memory, 9, grid, 3U).code;
  Patience patience;
  if (nanoseconds() != 0 && look_around(memory, patience) != Trouble::none) codes[7] = 1;
}

extern "C" __global__ void every_exchange(
    const __grid_constant__ Exchange given, uint4* packs, int* codes) {
  codes[0] = exchange::all_reduce_sum<exchange::bf16>(given, threadIdx.x, packs[0]).code;
  codes[1] = exchange::all_reduce_sum<exchange::f16>(given, threadIdx.x, packs[1]).code;
  codes[2] = exchange::all_reduce_sum<exchange::f32>(given, threadIdx.x, packs[2]).code;
}

#if SYMM_HAS_MULTIMEM
extern "C" __global__ void every_multimem(float4* floats, uint4* packs, unsigned* words,
    int* signed_words, unsigned long long* long_words) {
  namespace mm = symm::device::multimem;
  mm::store(floats, mm::load_add(floats));
  mm::add(floats, float4{1, 2, 3, 4});
  mm::store(packs, mm::load_add_f16(packs));
  mm::store(packs, mm::load_min_f16(packs + 1));
  mm::store(packs, mm::load_max_f16(packs + 2));
  mm::store(packs, mm::load_add_bf16(packs + 3));
  mm::store(packs, mm::load_min_bf16(packs + 4));
  mm::store(packs, mm::load_max_bf16(packs + 5));
  mm::add_f16(packs, uint4{1, 2, 3, 4});
  mm::add_bf16(packs, uint4{1, 2, 3, 4});
  mm::store(words, mm::load_add(words) + mm::load_min(words) + mm::load_max(words) +
                       mm::load_and(words) + mm::load_or(words));
  mm::add(words, 1);
  mm::add_release(words, 1);
  mm::store(words, static_cast<unsigned>(mm::load_min(signed_words) + mm::load_max(signed_words)));
  mm::store(words, static_cast<unsigned>(mm::load_add(long_words) + mm::load_min(long_words) +
                                         mm::load_max(long_words)));
}
#endif
