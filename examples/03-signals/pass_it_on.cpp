// A number goes once around all ranks, and each adds its own: docs/tutorial/03-signals.md
#include <cstdio>

#include <symm/symm.hpp>

int main() try {
  const symm::Group group = symm::Group::create();
  const symm::Memory memory = group.rendezvous(group.allocate(sizeof(int)));
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  const symm::Span<int> inbox = memory.span<int>();

  if (group.rank() > 0) memory.wait_signal(last);
  const int passed_on[] = {inbox[0] + group.rank()};
  memory.put_signal(next, 0, passed_on);
  if (group.rank() == 0) {
    memory.wait_signal(last);
    std::printf("around %d ranks: %d\n", group.size(), inbox[0]);
  }
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
