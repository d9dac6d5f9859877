// Factors as symm's kernels read them: each an f32 in memory of the host that the device reads,
// since each rank's factor is its own (symm.h, Factor and result type).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "bindings/nccl/call.hpp"
#include "bindings/nccl/driver.hpp"

namespace symm::nccl {
// The value of a float of one of the types that have factors (has_factors() in choice.hpp).
float value_of(const void* scalar, int type) noexcept;

// The factors of a device. What has a place keeps it, and places are never freed: work that is
// under way, and graphs, read them.
class Factors {
 public:
  static Factors& of(int device);

  // The address of the factor for a call that is issued on `stream`, which is in `capture` (0: in
  // none), next. Null: a call of the driver failed. If the program has the scalar on the device,
  // as another type than f32, it is converted on the stream.
  const void* find(const Driver& driver, const Scalar& scalar, void* stream, uint64_t capture);

 private:
  struct Place {
    float factor;
    int32_t type;
    uint64_t scalar;
  };
  struct Mapped {
    Place* host;
    const void* device;
  };

  bool make(const Driver& driver, Mapped& made);
  static void convert(void* place) noexcept;

  std::mutex mutex_;
  // The rest of the newest block.
  Mapped next_{};
  int left_ = 0;
  // By their bits.
  std::map<uint32_t, Mapped> values_;
  // For scalars that are converted outside of captures, by the stream's number, which no other
  // stream ever has. Work of a stream has its order, so one place is enough.
  std::map<unsigned long long, Mapped> streams_;
};
}  // namespace symm::nccl
