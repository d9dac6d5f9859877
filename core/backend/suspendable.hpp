// Blocks that can give their memory back and get some again at the same address.
#pragma once

namespace symm {
class Suspendable {
 public:
  virtual ~Suspendable() = default;
  // Gives the memory back when what was issued on `stream` is over. With `keep` the contents come
  // back by resume(); otherwise the memory is zeroed then. If one of the two throws, nothing has
  // changed.
  virtual void suspend(bool keep, void* stream) = 0;
  virtual void resume(void* stream) = 0;
};
}  // namespace symm
