// Makes symm's own engine over NCCL, whose log says which library it has.
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "core/base/revocation.hpp"
#include "core/engine/nccl.hpp"

int main() {
  const std::array<int64_t, 1> pids{1};
  try {
    const symm::engine::StreamEngine engine(
        {0, 1, pids, std::make_shared<symm::Revocation>(1), [](const symm::Failure&) {}});
    std::printf("%s\n", engine.name().c_str());
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
  }
}
