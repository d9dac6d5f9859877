// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace symm::tool {

struct CudaDriver {
  bool usable = false;
  bool present = false;  // the library is there, although cuInit may have failed
  int devices = 0;
  int version = 0;     // as cuDriverGetVersion gives it: 12040 is 12.4
  std::string reason;  // why it is not usable
};

// Looks for the driver by itself, independently of what libsymm was built with.
CudaDriver find_cuda_driver();

}  // namespace symm::tool
