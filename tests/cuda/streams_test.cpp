// Streams of the caller on the fake driver: memory is not unmapped while any kernel may use it,
// captures are not disturbed, and streams are known by identity, not by handle.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backends.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
void* handle(uintptr_t number) { return reinterpret_cast<void*>(number); }

void* const kPerThread = handle(2);

// One rank with a memory. symm is not told of the streams that use the memory.
struct OneRank {
  std::shared_ptr<Group> group = Group::create(config_of(0, 1, unique(), 0));
  std::shared_ptr<Buffer> buffer = Buffer::allocate(*group, 4096);
  std::shared_ptr<Memory> memory = Memory::rendezvous(group, buffer, 0);
  const long mappings = mapped();

  static long mapped() { return fake_cuda::live()["mapping"]; }

  void release() {
    memory.reset();
    buffer.reset();
  }

  // Reclaims released memory first, as the next allocation would.
  bool is_mapped() const {
    cuda::Device::reclaim();
    return mapped() == mappings;
  }
};

// A kernel that runs until it is told to end.
class Kernel {
 public:
  explicit Kernel(void* stream) {
    fake_cuda::enqueue(stream, [done = done_] { return done->load(); });
  }

  ~Kernel() { end(); }

  Kernel(Kernel&&) = delete;

  void end() { *done_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
};

// Memory that is released stays mapped until the kernel ends.
void expect_kept_by(Kernel& kernel, OneRank& one) {
  one.release();
  EXPECT_TRUE(one.is_mapped());
  kernel.end();
  EXPECT_FALSE(one.is_mapped());
}

using Waits = std::vector<std::pair<void*, void*>>;

class CudaStreams : public testing::Test {
 protected:
  void SetUp() override { fake_cuda::waits(); }

  void TearDown() override {
    EXPECT_EQ(left_in_the_end()["mapping"], 0);
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
  }
};

// This test is the first, because a process asks the driver for its calls only once.
TEST(CudaOldDriver, AThreadWaitsForTheDeviceInstead) {
  support::Process process([]() -> std::string {
    for (const char* call : {"cuCtxRecordEvent", "cuEventElapsedTime"}) {
      fake_cuda::settings().hidden.insert(call);
    }
    OneRank one;
    Kernel kernel(handle(77));
    one.release();
    if (!one.is_mapped()) return "was unmapped under the kernel";
    Kernel later(handle(78));
    kernel.end();
    later.end();
    if (!support::eventually([&] { return !one.is_mapped(); })) return "is still mapped";

    // A thread that waits for the device in vain, while a stream is captured, does no harm.
    OneRank two;
    fake_cuda::begin_capture(handle(79));
    two.group->transport().fill_here(two.buffer->data(), {1, 4, 1}, handle(79));
    two.release();
    if (!two.is_mapped()) return "was unmapped in a capture";
    fake_cuda::end_capture(handle(79));
    two.group->barrier({}, 0, 0, nullptr);
    if (!support::eventually([&] { return !two.is_mapped(); })) {
      return "is still mapped after the capture";
    }
    return fake_cuda::violations().empty() ? "" : fake_cuda::violations()[0];
  });
  EXPECT_EQ(process.result(), "");
}

TEST_F(CudaStreams, MemoryStaysWhileAnybodysKernelRuns) {
  OneRank one;
  Kernel kernel(handle(70));
  expect_kept_by(kernel, one);
}

TEST_F(CudaStreams, WorkThatNeverCeasesDoesNotKeepMemoryForEver) {
  OneRank one;
  auto kernel = std::make_unique<Kernel>(handle(70));
  OneRank two;
  one.release();
  for (int i = 0; i < 3; ++i) {
    auto next = std::make_unique<Kernel>(handle(71U + static_cast<unsigned>(i) % 2));
    two.group->barrier({}, 0, 0, handle(70));
    kernel = std::move(next);
    cuda::Device::reclaim();
  }
  EXPECT_LT(OneRank::mapped(), two.mappings);
}

TEST_F(CudaStreams, OnlyRecordedUsesCountOnceThereAreAny) {
  for (const bool by_memory : {false, true}) {
    OneRank one;
    Kernel others(handle(70));
    Kernel mine(handle(71));
    if (by_memory) {
      one.memory->record_use(handle(71));
    } else {
      one.buffer->record_use(handle(71));
    }
    // Only the block is kept: the pads belong to the memory.
    expect_kept_by(mine, one);
  }
}

// A call of symm counts as a use, too, and so does the replay of a graph, which nobody can see.
TEST_F(CudaStreams, RecordedUsesAreNotAllThatCounts) {
  OneRank one;
  Kernel before_fill(handle(71));
  one.memory->record_use(handle(70));
  one.memory->fill(0, 0, {1, 4, 1}, handle(71));
  expect_kept_by(before_fill, one);

  OneRank captured;
  fake_cuda::begin_capture(handle(72));
  captured.memory->record_use(handle(72));
  fake_cuda::end_capture(handle(72));
  captured.memory->record_use(handle(73));
  Kernel replay(handle(74));
  expect_kept_by(replay, captured);
}

// The driver invalidates every capture when it is asked about the whole device.
TEST_F(CudaStreams, ACaptureIsNotDisturbed) {
  OneRank one;
  OneRank other;
  const long all = OneRank::mapped();
  fake_cuda::begin_capture(handle(70));
  other.group->barrier({}, 0, 0, handle(70));
  one.release();
  cuda::Device::reclaim();
  EXPECT_EQ(OneRank::mapped(), all);

  // The thread that captures also works on another stream.
  other.group->barrier({}, 0, 0, nullptr);
  cuda::Device::reclaim();
  EXPECT_EQ(OneRank::mapped(), all);
  fake_cuda::end_capture(handle(70));
  cuda::Device::reclaim();
  EXPECT_LT(OneRank::mapped(), all);

  // Another capture is on a stream that symm does not know.
  OneRank third;
  fake_cuda::begin_capture(handle(75), true);
  third.release();
  EXPECT_TRUE(third.is_mapped());
  fake_cuda::end_capture(handle(75));
  EXPECT_FALSE(third.is_mapped());
}

CollectiveCall sum_of(const OneRank& one, void* stream) {
  CollectiveCall call = call_of(Collective::allreduce, one.memory->pointer(0), 8, DType::f32);
  call.stream = stream;
  return call;
}

TEST_F(CudaStreams, GroupsThatShareScratchTakeTurns) {
  for (const bool shared : {false, true}) {
    GroupConfig config = config_of(0, 1, unique(), 0);
    config.shared_scratch = shared;
    const auto whole = Group::create(config);
    const auto part = whole->split(0, 0);
    float operand[8] = {};
    CollectiveCall call = call_of(Collective::allreduce, operand, 8, DType::f32);

    call.stream = handle(70);
    Kernel kernel(call.stream);
    run_collective(*part, call);
    call.stream = handle(71);
    run_collective(*whole, call);
    call.stream = handle(72);
    run_collective(*part->split(0, 0), call);

    EXPECT_EQ(fake_cuda::waits(),
        shared ? (Waits{{handle(71), handle(70)}, {handle(72), handle(71)}}) : Waits{});
  }
}

TEST_F(CudaStreams, CapturesThatAlternateEachKeepTheirOrder) {
  OneRank one;
  Transport& transport = one.group->transport();
  for (const uintptr_t first : {70, 80}) {
    fake_cuda::begin_capture(handle(first));
    transport.stream_wait(handle(first + 1), handle(first));
  }

  fake_cuda::waits();
  for (const uintptr_t stream : {70, 80, 71, 81, 70}) {
    run_collective(*one.group, sum_of(one, handle(stream)));
  }
  EXPECT_EQ(fake_cuda::waits(),
      (Waits{{handle(71), handle(70)}, {handle(81), handle(80)}, {handle(70), handle(71)}}));

  one.group->barrier({}, 0, 0, handle(71));
  run_collective(*one.group, sum_of(one, handle(80)));
  fake_cuda::waits();
  transport.stream_wait(handle(70), kAllStreams);

  EXPECT_EQ(fake_cuda::waits(), (Waits{{handle(70), handle(71)}}));
  for (const uintptr_t first : {70, 80}) {
    fake_cuda::end_capture(handle(first));
  }

  one.group->barrier({}, 0, 0, nullptr);
}

// A batch has one place in the order of the group's calls, eagerly and in a capture.
TEST_F(CudaStreams, ABatchTakesOneTurn) {
  OneRank one;
  const auto batch_on = [&](uintptr_t stream) {
    std::vector<CollectiveCall> calls(3, sum_of(one, handle(stream)));
    for (size_t i = 0; i < calls.size(); ++i) {
      std::byte* const operand = one.memory->pointer(0) + 1024 * i;
      calls[i].send = operand;
      calls[i].recv = operand;
    }
    run_batch(*one.group, calls);
  };

  {
    const Kernel kernel(handle(70));
    run_collective(*one.group, sum_of(one, handle(70)));
    fake_cuda::waits();
    batch_on(71);
    EXPECT_EQ(fake_cuda::waits(), (Waits{{handle(71), handle(70)}}));
  }
  one.group->barrier({}, 0, 0, nullptr);

  fake_cuda::begin_capture(handle(80));
  one.group->transport().stream_wait(handle(81), handle(80));
  fake_cuda::waits();
  run_collective(*one.group, sum_of(one, handle(80)));
  batch_on(81);
  run_collective(*one.group, sum_of(one, handle(80)));
  EXPECT_EQ(fake_cuda::waits(), (Waits{{handle(81), handle(80)}, {handle(80), handle(81)}}));
  fake_cuda::end_capture(handle(80));
  one.group->barrier({}, 0, 0, nullptr);
}

TEST_F(CudaStreams, OneHandleIsAnotherStreamInEachThread) {
  OneRank one;
  Kernel kernel(kPerThread);
  run_collective(*one.group, sum_of(one, kPerThread));
  std::thread([&] { run_collective(*one.group, sum_of(one, kPerThread)); }).join();
  EXPECT_EQ(fake_cuda::waits(), (Waits{{kPerThread, kPerThread}}));
  kernel.end();
}

TEST_F(CudaStreams, AHandleThatIsGivenAgainIsAnotherStream) {
  fake_cuda::settings().reuses_streams = true;
  OneRank one;
  cuda::CUstream former = nullptr;
  cuda::CUstream next = nullptr;
  cuda::driver().cuStreamCreate(&former, 0);
  Kernel kernel(former);
  run_collective(*one.group, sum_of(one, former));
  // The stream is destroyed while its work is under way.
  cuda::driver().cuStreamDestroy(former);
  cuda::driver().cuStreamCreate(&next, 0);
  ASSERT_EQ(next, former);
  run_collective(*one.group, sum_of(one, next));
  EXPECT_EQ(fake_cuda::waits().size(), 1U);

  // A use on the new stream does not replace the work of the former stream.
  one.memory->record_use(next);
  expect_kept_by(kernel, one);
  cuda::driver().cuStreamDestroy(next);
  fake_cuda::settings().reuses_streams = false;
}

TEST_F(CudaStreams, ManyStreamsAreForgotten) {
  OneRank one;
  const long events = fake_cuda::live()["event"];
  for (uintptr_t i = 0; i < 500; ++i) {
    one.memory->fill(0, 0, {1, 4, 1}, handle(1000 + i));
  }
  EXPECT_LT(fake_cuda::live()["event"], events + 80);
}

TEST_F(CudaStreams, OneWaitsForAnother) {
  OneRank one;
  Transport& transport = one.group->transport();
  Kernel first(handle(70));
  transport.stream_wait(handle(71), handle(70));
  EXPECT_FALSE(transport.stream_done(handle(71)));
  transport.stream_wait(handle(70), handle(70));
  EXPECT_TRUE(transport.stream_done(handle(72)));
  const Failure late = support::failure_of([&] { one.group->synchronize(handle(71), 20); });
  EXPECT_EQ(late.status, Status::timeout);
  EXPECT_FALSE(one.group->revocation().revoked());

  // A look does not wait for what a kernel may still record, which takes up to 500 ms.
  const uint64_t before = now_ns();
  const Failure looked =
      support::failure_of([&] { one.group->synchronize(handle(71), Deadline::kNow); });
  EXPECT_EQ(looked.status, Status::timeout);
  EXPECT_LT(now_ns() - before, 400 * kMillisecondNs);

  // A stream that is not over in time is reported with the last collective that was issued.
  CollectiveCall call = call_of(Collective::allreduce, one.memory->pointer(0), 64, DType::f32);
  call.op = Op::sum;
  call.timeout_ms = 1000;
  call.stream = handle(71);
  run_collective(*one.group, call);
  support::expect_failure(Status::timeout,
      {"not over by the deadline",
          "last collective that this rank issued is allreduce of 256 bytes"},
      [&] { one.group->synchronize(handle(71), 20); });
  first.end();
  one.group->synchronize(handle(71), 0);
  EXPECT_TRUE(transport.stream_done(handle(71)));

  // A stream waits for all streams of the group, but not for streams that symm does not know.
  Kernel second(handle(73));
  Kernel strange(handle(74));
  one.memory->fill(0, 0, {1, 4, 1}, handle(73));
  transport.stream_wait(handle(75), kAllStreams);
  EXPECT_FALSE(transport.stream_done(handle(75)));
  second.end();
  EXPECT_TRUE(transport.stream_done(handle(75)));

  fake_cuda::begin_capture(handle(76));
  EXPECT_EQ(support::failure_of([&] { transport.stream_done(handle(76)); }).status,
      Status::invalid_argument);
  fake_cuda::end_capture(handle(76));
  EXPECT_TRUE(transport.stream_done(handle(76)));
  EXPECT_EQ(support::failure_of([&] { one.group->barrier({}, 0, 0, kAllStreams); }).status,
      Status::invalid_argument);
}
}  // namespace
}  // namespace symm
