// The main() of all programs of tests/gpu.
//
//   <program> [--ranks=N] [--trials=N] [--alone] [--fitting] [options of GoogleTest]
//
// --trials says how often gpu_nccl and gpu_growth kill a rank, and --alone that gpu_nccl runs
// without NCCL; other programs take no notice of them.
// With --fitting a number of ranks is skipped that does not fit: a machine with several GPUs
// takes a GPU for each rank, and one GPU, which any number of ranks may share, takes 1, 2, 3,
// 4 and 8 ranks.
#include "tests/gpu/world.hpp"

int main(int argc, char** argv) {
  if (gpu::role != nullptr && argc > 1 && std::string(argv[1]) == "role") {
    int result = 1;
    gpu::or_give_up([&] { result = gpu::role({argv + 2, argv + argc}); });
    return result;
  }

  testing::InitGoogleTest(&argc, argv);

  bool fitting = false;
  gpu::Machine& machine = gpu::machine();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--ranks=", 0) == 0) {
      machine.ranks = std::atoi(word.c_str() + 8);
    } else if (word.rfind("--trials=", 0) == 0) {
      machine.trials = std::atoi(word.c_str() + 9);
    } else if (word == "--alone") {
      machine.alone = true;
    } else if (word == "--fitting") {
      fitting = true;
    } else {
      std::printf("unknown argument %s\n", argv[i]);
      return 2;
    }
  }

  if (const cudaError_t result = cudaGetDeviceCount(&machine.devices);
      result != cudaSuccess || machine.devices == 0) {
    std::printf("SKIPPED: no GPU here: %s\n", cudaGetErrorString(result));
    return 77;
  }

  if (machine.ranks < 1) gpu::give_up("--ranks: must be 1 or more");
  if (machine.trials < 1) gpu::give_up("--trials: must be 1 or more");

  if (fitting && machine.devices == 1 && machine.ranks > 4 && machine.ranks < 8) {
    std::printf("SKIPPED: on one GPU, 1, 2, 3, 4 and 8 ranks stand for all\n");
    return 77;
  }

  if (fitting && machine.devices > 1 && (machine.ranks > machine.devices || machine.ranks == 1)) {
    std::printf("SKIPPED: %d ranks on %d GPUs\n", machine.ranks, machine.devices);
    return 77;
  }

  return RUN_ALL_TESTS();
}
