// The kernels of messages, compiled for the host: a launch is some threads of the host.
#include "tests/fake_cuda/messages.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/host_form/kernels/cuda/memory.cuh"

extern "C" void symm_pass_messages(symm::cuda::MessagesArgsOf<symm::cuda::kSmallRanks> args);
extern "C" void symm_large_pass_messages(symm::cuda::MessagesArgsOf<symm::cuda::kMaxRanks> args);
extern "C" void symm_list_messages(symm::cuda::ListArgs args);

namespace fake_cuda {
namespace {
using namespace symm::cuda;
using Work = std::function<bool()>;

// However many blocks a launch has, so many do its work.
constexpr unsigned kBlocks = 2;

struct Running {
  std::atomic<unsigned> left{kBlocks};
  std::vector<std::jthread> blocks;
};

// Is copied before it is called, so that each copy is a launch of its own.
template <class Args>
Work launch_of(const Args& args, void (*kernel)(Args)) {
  return [args, kernel, running = std::shared_ptr<Running>()]() mutable {
    if (running == nullptr) {
      running = std::make_shared<Running>();
      for (unsigned index = 0; index < kBlocks; ++index) {
        running->blocks.emplace_back([args, kernel, index, state = running.get()] {
          host_form::grid_size.x = kBlocks;
          host_form::block_index.x = index;
          kernel(args);
          state->left.fetch_sub(1, std::memory_order_acq_rel);
        });
      }
    }
    return running->left.load(std::memory_order_acquire) == 0;
  };
}
}  // namespace

std::function<bool()> pass_messages(const void* arguments) {
  return launch_of(*static_cast<const MessagesArgsOf<kSmallRanks>*>(arguments), symm_pass_messages);
}

std::function<bool()> pass_large_messages(const void* arguments) {
  return launch_of(
      *static_cast<const MessagesArgsOf<kMaxRanks>*>(arguments), symm_large_pass_messages);
}

std::function<bool()> list_messages(const void* arguments) {
  return [args = *static_cast<const ListArgs*>(arguments)] {
    if (args.list != 0) symm_list_messages(args);
    return true;
  };
}
}  // namespace fake_cuda
