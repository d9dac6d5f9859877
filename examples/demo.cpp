// Several processes form a group, share one symmetric heap, write into each other's memory, signal each other and all-reduce the
// gradient of a least squares problem. Start it by: symm run -n 4 -- symm_demo
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <symm/symm.hpp>
#include <vector>

namespace {
constexpr size_t kHeap = size_t{4} << 20;  // bytes of heap

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("wrong result: ") + what);
}

// So that what the ranks print about one step comes before the next step. (Printing is not ordered by it: each rank has its own
// pipe; the launcher keeps lines whole, not the ranks in step.)
void step(const symm::Group& group, const char* title) {
  std::fflush(stdout);
  group.barrier();
  if (group.rank() == 0) std::printf("\n== %s\n", title);
  std::fflush(stdout);
  group.barrier();
}

void write_to_neighbours(const symm::Group& group, const symm::Memory& memory) {
  constexpr size_t kDirect = 128;  // bytes behind the greeting
  const int rank = group.rank();
  const int right = (rank + 1) % group.size();
  const int left = (rank + group.size() - 1) % group.size();
  const auto hello = [](int to, int from) {
    return "hello " + std::to_string(to) + ", this is " + std::to_string(from) + " (pid ";
  };

  // By a call: copy a greeting into the right neighbour's block and signal that it is there.
  const std::string greeting = hello(right, rank) + std::to_string(getpid()) + ")";
  memory.put_signal(right, 0, symm::Span(greeting.c_str(), greeting.size() + 1));
  memory.wait_signal(left);
  const char* const found = memory.span<char>().data();
  std::printf("rank %d found in its block: \"%s\"\n", rank, found);
  expect(std::string(found).rfind(hello(rank, left), 0) == 0, "the left neighbour's greeting");

  // By a plain store: the left neighbour's block is mapped here like any memory.
  memory.span<volatile uint64_t>(left)[kDirect / 8] = 1000 + static_cast<uint64_t>(rank);
  memory.signal(left);
  memory.wait_signal(right);
  const uint64_t number = memory.span<volatile uint64_t>()[kDirect / 8];
  std::printf("rank %d stored %d through a pointer into rank %d's block, and found %llu in its own\n", rank, 1000 + rank, left,
      static_cast<unsigned long long>(number));
  expect(number == 1000 + static_cast<uint64_t>(right), "the right neighbour's store");
  group.barrier();
}

// ---- all-reducing real data ---------------------------------------------------------------------------
//
// Fit y = w . x to rows that are dealt out to the ranks: each rank computes the gradient of its own rows, the all-reduce adds
// them up, by one algorithm after another, and every rank takes the same step.

constexpr size_t kFeatures = 64;
constexpr size_t kRows = 256;
constexpr int kSteps = 120;
constexpr symm_algorithm_values kAlgorithms[] = {
    SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED};

using Weights = std::array<float, kFeatures>;
using Gradient = std::array<float, kFeatures + 1>;  // the squared error is its last element

struct Row {
  Weights x;
  float y;
};

std::vector<Row> rows_of(int owner) {
  uint32_t state = 12345U + 777U * static_cast<uint32_t>(owner);
  const auto random_unit = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
  };
  std::vector<Row> rows(kRows);
  for (Row& row : rows) {
    row.y = 0.05F * random_unit();
    for (size_t i = 0; i < kFeatures; ++i) {
      row.x[i] = random_unit();
      row.y += row.x[i] * static_cast<float>(static_cast<int>(i % 7) - 3);  // the weights to be found
    }
  }
  return rows;
}

Gradient gradient_of(const Weights& w, const std::vector<Row>& rows) {
  Gradient gradient{};
  for (const Row& row : rows) {
    float error = -row.y;
    for (size_t i = 0; i < kFeatures; ++i) error += w[i] * row.x[i];
    for (size_t i = 0; i < kFeatures; ++i) gradient[i] += error * row.x[i];
    gradient[kFeatures] += error * error;
  }
  return gradient;
}

// What the all-reduce must give, bit for bit: everybody's gradient, added in the order of the ranks.
Gradient serial_sum(const Weights& w, int size) {
  Gradient sum = gradient_of(w, rows_of(0));
  for (int owner = 1; owner < size; ++owner) {
    const Gradient gradient = gradient_of(w, rows_of(owner));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  return sum;
}

void fit(const symm::Group& group, const symm::Memory& memory) {
  const std::vector<Row> rows = rows_of(group.rank());
  const symm::Span<float> sum = memory.span<float>().subspan(0, kFeatures + 1);
  Weights w{};
  float first_error = 0;
  for (int number = 0; number < kSteps; ++number) {
    const Gradient mine = gradient_of(w, rows);
    std::copy(mine.begin(), mine.end(), sum.begin());
    group.allreduce(sum, sum, SYMM_OP_SUM, {.algorithm = kAlgorithms[number % 3]});
    const Gradient expected = serial_sum(w, group.size());
    const auto same = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
    expect(std::equal(sum.begin(), sum.end(), expected.begin(), same), "the all-reduced gradient differs from the serial sum");
    if (number == 0) first_error = sum[kFeatures];
    for (size_t i = 0; i < kFeatures; ++i) w[i] -= 2.0F / static_cast<float>(kRows * static_cast<size_t>(group.size())) * sum[i];
  }
  const float last_error = sum[kFeatures];
  std::printf(
      "rank %d: %d steps, squared error %.1f -> %.3f, w = %.2f %.2f %.2f %.2f ...; all sums equal the serial ones, bit for bit\n",
      group.rank(), kSteps, static_cast<double>(first_error), static_cast<double>(last_error), static_cast<double>(w[0]),
      static_cast<double>(w[1]), static_cast<double>(w[2]), static_cast<double>(w[3]));
  expect(last_error < 0.01F * first_error, "the fit did not converge");
}

void demo() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 20000;
  config.timeout_ms = 10000;
  config.name = "demo";
  const auto group = symm::Group::create(config);
  const int rank = group.rank();

  step(group, "The group");
  std::printf(
      "rank %d of %d is process %d, found by %s\n", rank, group.size(), static_cast<int>(getpid()), group.info().bootstrap);

  step(group, "The symmetric heap");
  const auto memory = group.rendezvous(group.allocate(kHeap));
  std::printf("rank %d brought %zu MiB at %p and sees the blocks of all %d ranks\n", rank, kHeap >> 20,
      static_cast<void*>(memory.span().data()), group.size());

  step(group, "Writing into each other's memory, with signals");
  write_to_neighbours(group, memory);

  step(group, "All-reducing the gradient of a least squares problem, by three algorithms in turn");
  fit(group, memory);
  group.finalize();
}
}  // namespace

int main() {
  alarm(30);  // whatever happens, this ends
  try {
    demo();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
