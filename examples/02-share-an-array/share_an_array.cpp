// Every rank writes its own array and reads everybody's: docs/tutorial/02-share-an-array.md
#include <cstdio>

#include <symm/symm.hpp>

int main() try {
  constexpr size_t kCount = 1000;
  const symm::Group group = symm::Group::create();

  const symm::Buffer buffer = group.allocate(kCount * sizeof(float));
  const symm::Memory memory = group.rendezvous(buffer);

  for (float& element : memory.span<float>()) {
    element = static_cast<float>(group.rank());
  }
  group.barrier();  // all have written

  float sum = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    sum += memory.span<float>(rank)[kCount - 1];
  }
  std::printf("rank %d: the last elements add up to %g\n", group.rank(), static_cast<double>(sum));

  group.finalize();  // all have read
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
