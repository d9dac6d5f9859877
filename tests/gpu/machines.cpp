// Groups of two machines, which are pretended on the GPUs of one. Ranks are processes, each
// of which sees one GPU as its only one, and NCCL carries everything between the machines
// over sockets. In the case two_by_two every GPU serves a rank of each machine, so that a
// machine has two ranks or more.
//
// Results have the bits of a group on one machine of the same processes. In other cases a
// rank is killed or stopped, or aborts, and the contexts of the others still work.
//
// The tests need libnccl.so.2 ($SYMM_NCCL, or where the loader finds it).
#include <dlfcn.h>

#include "tests/gpu/world.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/options.hpp"

namespace {
using gpu::cuda;
using gpu::expect;
using Bytes = std::vector<std::byte>;

struct Device : gpu::Rank {
  static constexpr size_t kBytes = kBlock / 2;

  Device() {
    set_up();
    send = ordinary;
    recv = ordinary + kBytes;
  }

  void* send = nullptr;
  void* recv = nullptr;
};

// The bytes that a collective of `count` elements leaves in recv.
Bytes result_of(const symm::Group& group, const Device& device, symm_collective_t collective,
    symm::DType dtype, symm::Op op, size_t count, int32_t algorithm = SYMM_ALGORITHM_AUTO) {
  const auto n = static_cast<size_t>(group.size());
  const symm::CollectiveTraits kind = symm::traits(static_cast<symm::Collective>(collective));
  const Bytes operand = symm::testing::Values(dtype, op, static_cast<unsigned>(group.rank()))
                            .make(count * (kind.send_per_rank ? n : 1));
  device.upload(device.send, operand);
  cuda(cudaMemsetAsync(device.recv, 0x5A, Device::kBytes, device.stream), "cudaMemset");

  const auto call = support::call_of(collective, device.send, device.recv, count,
      static_cast<symm_dtype_t>(dtype), static_cast<symm_op_t>(op), 1);
  gpu::symm(
      support::run(group.get(), call, support::forced(algorithm), device.stream), "collective");

  return device.download<std::byte>(
      device.recv, count * symm::size_of(dtype) * (kind.recv_per_rank ? n : 1));
}

// One group of two machines and one of a single machine, of the same processes.
struct Both {
  const symm::Group& multinode;
  const symm::Group& single;
  const Device& device;

  void compare(symm_collective_t collective, symm::DType dtype, symm::Op op, size_t count,
      int32_t algorithm = SYMM_ALGORITHM_AUTO) const {
    const Bytes got = result_of(multinode, device, collective, dtype, op, count, algorithm);
    const Bytes right = result_of(single, device, collective, dtype, op, count);
    const std::string wrong = symm::reference::difference(
        dtype, got.data(), right.data(), got.size() / symm::size_of(dtype));
    expect(wrong.empty(), "bits of collective " + std::to_string(collective) + " of " +
                              std::to_string(count) + " " + symm::dtype_name(dtype) + ", " +
                              symm::op_name(op) + " by algorithm " + std::to_string(algorithm) +
                              ": " + wrong);
  }

  void every_collective(symm::DType dtype, symm::Op op) const {
    for (const symm_collective_t collective :
        {SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_REDUCE,
            SYMM_COLLECTIVE_ALLGATHER, SYMM_COLLECTIVE_BROADCAST, SYMM_COLLECTIVE_ALLTOALL}) {
      for (const size_t count : {size_t{1}, size_t{333}, size_t{100'001}}) {
        compare(collective, dtype, op, count);
      }
    }
  }

  void everything() const {
    for (const symm::DType dtype : symm::reference::kDTypes) {
      for (const symm::Op op : symm::reference::kOps) {
        if (!symm::reference::has_op(dtype, op)) continue;
        every_collective(dtype, op);
      }
    }

    // This is more than the scratch holds at once.
    compare(SYMM_COLLECTIVE_ALLREDUCE, symm::DType::bf16, symm::Op::sum, size_t{16} << 20);
  }

  // Rows with a gap between them, and an all-to-all from a graph, whose replays read counts
  // that were not known when it was captured.
  void in_pieces() const {
    constexpr size_t kRows = 20'001;
    constexpr size_t kRow = 5;
    constexpr size_t kMost = 300'000;
    const auto n = static_cast<size_t>(single.size());
    const auto me = static_cast<size_t>(single.rank());
    const Bytes operand =
        symm::testing::Values(symm::DType::i32, symm::Op::sum, static_cast<unsigned>(me))
            .make(n * kMost);
    auto* const counts =
        static_cast<uint64_t*>(device.send) + (Device::kBytes - 1024) / sizeof(uint64_t);

    std::vector<Bytes> got[2];
    for (const symm::Group* group : {&multinode, &single}) {
      std::vector<Bytes>& all = got[group == &single ? 1 : 0];

      device.upload(device.send, operand);
      cuda(cudaMemsetAsync(device.recv, 0x5A, Device::kBytes, device.stream), "cudaMemset");
      gpu::symm(symm_allgather_rows(group->get(), device.send, device.recv, kRows, kRow,
                    n * kRow + 3, SYMM_DTYPE_I32, nullptr, device.stream),
          "symm_allgather_rows");
      all.push_back(
          device.download<std::byte>(device.recv, kRows * (n * kRow + 3) * sizeof(int32_t)));

      const gpu::Graph graph(device, [&] {
        gpu::symm(symm_alltoallv_device(group->get(), device.send, n * kMost, counts, nullptr,
                      device.recv, n * kMost, counts + n, nullptr, SYMM_DTYPE_I32, nullptr,
                      device.stream),
            "symm_alltoallv_device");
      });

      for (const size_t each : {size_t{0}, size_t{7}, kMost / 3}) {
        // Rank r sends (r + p) % 4 * each elements to rank p.
        std::vector<uint64_t> now(2 * n);
        for (size_t p = 0; p < n; ++p) {
          now[p] = (me + p) % 4 * each;
          now[n + p] = now[p];
        }
        cuda(cudaMemcpyAsync(counts, now.data(), now.size() * sizeof(uint64_t),
                 cudaMemcpyHostToDevice, device.stream),
            "counts");
        graph.replay();
        all.push_back(device.download<std::byte>(device.recv, n * kMost * sizeof(int32_t)));
      }
    }

    expect(got[0] == got[1], "pieces");
  }

  // Algorithms for machines with several ranks: sums by the chain, which combines in rank
  // order, and operations whose order does not matter by the hierarchical one.
  void by_machines() const {
    for (const size_t count : {size_t{333}, size_t{100'001}, size_t{4} << 20}) {
      for (const symm::DType dtype :
          {symm::DType::f8e4m3, symm::DType::bf16, symm::DType::f32, symm::DType::f64}) {
        for (const symm::Op op : {symm::Op::sum, symm::Op::avg}) {
          if (count * symm::size_of(dtype) <= Device::kBytes) {
            compare(SYMM_COLLECTIVE_ALLREDUCE, dtype, op, count, SYMM_ALGORITHM_CHAIN);
          }
        }
      }

      for (const symm::DType dtype : {symm::DType::i16, symm::DType::bf16, symm::DType::f32}) {
        compare(
            SYMM_COLLECTIVE_ALLREDUCE, dtype, symm::Op::max, count, SYMM_ALGORITHM_HIERARCHICAL);
        if (count < 1'000'000) {
          compare(SYMM_COLLECTIVE_REDUCE_SCATTER, dtype, symm::Op::min, count,
              SYMM_ALGORITHM_HIERARCHICAL);
        }
      }

      compare(SYMM_COLLECTIVE_ALLREDUCE, symm::DType::bf16, symm::Op::sum, count);
      compare(SYMM_COLLECTIVE_ALLGATHER, symm::DType::i32, symm::Op::sum,
          std::min(count, size_t{1'000'000}));
    }
  }
};

symm_status_t sum(const symm::Group& group, const Device& device, size_t count) {
  return symm_allreduce(group.get(), device.send, device.send, count, SYMM_DTYPE_F32, SYMM_OP_SUM,
      nullptr, device.stream);
}

// Each replay of the graph multiplies the operand by the number of ranks.
void replay(const symm::Group& multinode, const Device& device) {
  const std::vector<float> ones(70'001, 1.0F);
  device.upload(device.send, ones);

  const gpu::Graph graph(device, [&] {
    gpu::symm(sum(multinode, device, ones.size()), "all-reduce in a capture");
    multinode.barrier({}, 0, 0, device.stream);
  });

  float expected = 1;
  for (int i = 0; i < 5; ++i, expected *= static_cast<float>(multinode.size())) {
    graph.replay();
  }
  expect(
      device.download<float>(device.send, ones.size()) == std::vector<float>(ones.size(), expected),
      "sums of a graph's replays");
}

// One-sided calls to the next rank, which for some ranks is on the other machine. Where
// there is no UCX, the calls are refused and the reason is printed.
void one_sided(const symm::Group& multinode, const Device& device) {
  constexpr size_t kBytes = size_t{30} << 20;
  constexpr size_t kPart = 4096;
  const symm::Buffer buffer = multinode.allocate(2 * kBytes);
  const symm::Memory memory = multinode.rendezvous(buffer, 77);
  auto* const block = static_cast<std::byte*>(buffer.span().data());

  const int me = multinode.rank();
  const int next = (me + 1) % multinode.size();
  const int last = (me + multinode.size() - 1) % multinode.size();

  const auto of = [](int rank, size_t bytes) { return Bytes(bytes, std::byte(rank + 1)); };
  auto* const mine = static_cast<std::byte*>(device.send);
  const symm::Span all(mine, kBytes);

  if (symm_put(memory.get(), next, 0, device.send, kPart, nullptr, device.stream) ==
      SYMM_ERR_UNSUPPORTED) {
    std::printf("one-sided calls: SKIPPED: %s\n", symm_last_error());
    return;
  }

  device.upload(device.send, of(me, kBytes));
  for (int round = 0; round < 4; ++round) {
    multinode.barrier({}, 0, 0, device.stream);
    cuda(cudaStreamSynchronize(device.stream), "synchronise");
    const auto start = std::chrono::steady_clock::now();
    memory.put_signal(next, 64, all, 1, {}, device.stream);
    memory.wait_signal(last, 1, 0, device.stream);
    cuda(cudaStreamSynchronize(device.stream), "synchronise");

    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (me == 0) std::printf("put of 30 MB: %.2f GB/s\n", kBytes / took.count() / 1e9);
    expect(device.download<std::byte>(block + 64, kBytes) == of(last, kBytes), "what was put");

    gpu::symm(
        symm_get(memory.get(), next, 64, device.recv, kBytes, nullptr, device.stream), "symm_get");
    expect(device.download<std::byte>(device.recv, kBytes) == of(me, kBytes), "what was fetched");

    memory.fill32(next, kBytes + 64, 0x01010101U * static_cast<uint32_t>(me + 1), kPart / 4, {},
        device.stream);
    memory.write_value64(next, 0, static_cast<uint64_t>(round) << 40, {}, device.stream);
    memory.write_value32(next, 8, static_cast<uint32_t>(round), {}, device.stream);

    multinode.barrier({}, 0, 0, device.stream);
    expect(device.download<std::byte>(block + kBytes + 64, kPart) == of(last, kPart),
        "what was filled");
    const auto words = device.download<uint32_t>(block, 3);
    const auto number = static_cast<uint32_t>(round);
    expect(words == std::vector{0U, number << 8, number}, "words");

    for (int i = 0; i < 100; ++i) {
      memory.signal(next, 2, {}, device.stream);
      memory.wait_signal(last, 2, 0, device.stream);
    }
    cuda(cudaStreamSynchronize(device.stream), "synchronise");
  }

  multinode.barrier({}, 0, 0, device.stream);
  cuda(cudaStreamSynchronize(device.stream), "synchronise");
}

// Compares the group with one of a single machine, of the same processes.
void compare_with_one_machine(const symm::Group& multinode, const Device& device,
    const std::string& how, const std::string& bootstrap, uint64_t flags) {
  setenv("SYMM_MACHINE", "one", 1);
  const symm::Group single =
      gpu::form(multinode.rank(), multinode.size(), 0, bootstrap, 60'000, flags, "one");
  expect(single.info().machines == 1, "one machine");

  const Both both{multinode, single, device};
  if (how == "bits") {
    both.everything();
  } else {
    both.by_machines();
  }

  both.in_pieces();
  replay(multinode, device);
  one_sided(multinode, device);
}

int role_main(int rank, int size, const std::string& how, const std::string& bootstrap) {
  const Device device;
  const std::string machine = std::to_string(rank * 2 / size);
  setenv("SYMM_MACHINE", machine.c_str(), 1);

  const uint64_t flags = how == "two_by_two" ? SYMM_GROUP_OVERLAPPING_DEVICES : 0;
  symm::Group multinode =
      gpu::form(rank, size, 0, bootstrap, how == "stop" ? 3'000 : 60'000, flags, "multinode");
  expect(
      multinode.info().machines == 2 && std::string(multinode.info().engine).rfind("nccl ", 0) == 0,
      multinode.info().engine);

  if (how == "bits" || how == "two_by_two") {
    compare_with_one_machine(multinode, device, how, bootstrap, flags);
    multinode.finalize();
    return gpu::role_result();
  }

  for (int i = 0; i < 3; ++i) {
    gpu::symm(sum(multinode, device, 1000), "all-reduce");
  }
  cuda(cudaStreamSynchronize(device.stream), "synchronise");

  if (rank == size - 1) {
    std::fflush(stdout);
    if (how == "kill") raise(SIGKILL);
    if (how == "stop") raise(SIGSTOP);
    if (how == "abort") gpu::symm(symm_group_abort(multinode.get(), "enough"), "abort");
    std::_Exit(how == "abort" ? gpu::role_result() : 0);
  }

  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return gpu::seconds_since(start); };
  while (multinode.status().status == SYMM_OK && seconds() < 60) {
    static_cast<void>(sum(multinode, device, 100'000));
    // The stream runs empty once NCCL has aborted the communicator, which ends its kernel.
    cudaStreamSynchronize(device.stream);
  }

  const symm_failure_t health = multinode.status();
  symm_status_t wanted = SYMM_ERR_ABORTED;
  if (how == "kill") wanted = SYMM_ERR_PEER_FAILED;
  if (how == "stop") wanted = SYMM_ERR_TIMEOUT;
  expect(health.status == wanted,
      how + ": " + symm_status_string(health.status) + ": " + health.message);
  if (how == "kill") {
    expect(health.rank == size - 1, "names the rank: " + std::string(health.message));
  }
  if (rank == 0) {
    std::printf("%s: evident after %.2f ms: %s\n", how.c_str(), seconds() * 1e3, health.message);
  }

  multinode.reset();

  const std::vector<float> data(1000, 3.0F);
  device.upload(device.send, data);
  expect(device.download<float>(device.send, data.size()) == data,
      how + ": the context and its stream stay usable");
  return gpu::role_result();
}

class Machines : public testing::TestWithParam<const char*> {};

TEST_P(Machines, AreCarriedByNccl) {
  const int devices = gpu::machine().ranks;
  if (devices > gpu::machine().devices || devices < 2 || devices % 2 != 0) {
    GTEST_SKIP() << devices << " ranks of a GPU each on " << gpu::machine().devices << " GPUs";
  }

  const char* const named = getenv("SYMM_NCCL");
  void* const library = dlopen(named != nullptr ? named : "libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << dlerror();
  dlclose(library);

  const support::TemporaryDirectory directory;
  const std::string how = GetParam();
  // With two_by_two each GPU belongs to both machines.
  const int size = how == "two_by_two" ? 2 * devices : devices;

  const auto prepare = [&](int rank) {
    const std::string machine = std::to_string(rank * 2 / size);
    for (const auto& [name, value] :
        {std::pair("CUDA_VISIBLE_DEVICES", std::to_string(rank % devices)),
            std::pair("NCCL_HOSTID", "m" + machine),
            std::pair("NCCL_SOCKET_IFNAME", std::string("lo")),
            std::pair("NCCL_P2P_DISABLE", std::string("1")),
            std::pair("NCCL_SHM_DISABLE", std::string("1")),
            std::pair("NCCL_IB_DISABLE", std::string("1")),
            std::pair("NCCL_NVLS_ENABLE", std::string("0"))}) {
      setenv(name, value.c_str(), 1);
    }
    return std::vector<std::string>{
        std::to_string(rank), std::to_string(size), how, "dir://" + directory.path()};
  };

  gpu::run_roles(size, prepare, how == "kill" || how == "stop" ? size - 1 : -1,
      how == "stop" ? SIGSTOP : SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Ways, Machines,
    testing::Values("bits", "two_by_two", "kill", "stop", "abort"),
    [](const auto& one) { return std::string(one.param); });
}  // namespace

int gpu::role(const std::vector<std::string>& words) {
  return role_main(std::stoi(words[0]), std::stoi(words[1]), words[2], words[3]);
}
