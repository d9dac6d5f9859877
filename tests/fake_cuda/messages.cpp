// The kernels of messages and of exchanges, compiled for the host: a launch is some threads of the
// host.
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
extern "C" void symm_exchange_round(symm::cuda::ExchangeArgsOf<symm::cuda::kSmallRanks> args);
extern "C" void symm_large_exchange_round(symm::cuda::ExchangeArgsOf<symm::cuda::kMaxRanks> args);

namespace fake_cuda {
namespace {
using namespace symm::cuda;
using Work = std::function<bool()>;

constexpr unsigned kThreads = 2;
// However many blocks a launch of messages has, so many do its work.
constexpr unsigned kBlocksOfMessages = kThreads;

struct Running {
  std::atomic<unsigned> left{kThreads};
  std::vector<std::jthread> threads;
};

// Is copied before it is called, so that each copy is a launch of its own. A thread runs its blocks
// one after the other.
template <class Args>
Work launch_of(const Args& args, void (*kernel)(Args), unsigned blocks = kBlocksOfMessages) {
  return [args, kernel, blocks, running = std::shared_ptr<Running>()]() mutable {
    if (running == nullptr) {
      running = std::make_shared<Running>();
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        running->threads.emplace_back([args, kernel, blocks, thread, state = running.get()] {
          host_form::grid_size.x = blocks;
          for (unsigned index = thread; index < blocks; index += kThreads) {
            host_form::block_index.x = index;
            kernel(args);
          }
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

std::function<bool()> exchange(const void* arguments) {
  const auto& args = *static_cast<const ExchangeArgsOf<kSmallRanks>*>(arguments);
  return launch_of(args, symm_exchange_round, args.blocks);
}

std::function<bool()> exchange_in_large(const void* arguments) {
  const auto& args = *static_cast<const ExchangeArgsOf<kMaxRanks>*>(arguments);
  return launch_of(args, symm_large_exchange_round, args.blocks);
}
}  // namespace fake_cuda
