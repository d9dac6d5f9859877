// The compiled kernels, one image for each .cu file.
#pragma once

#include <span>

namespace symm::cuda {
// A fatbin, with code for several architectures.
struct Image {
  const char* name;
  const void* data;
  // Eager images are loaded with the first kernel that is asked for, the others with the first
  // kernel that is in none of the eager ones.
  bool eager;
};

struct Images {
  std::span<const Image> all;
  // The oldest and the newest architecture for which there is code: 90 is compute capability 9.0.
  int oldest_architecture;
  int newest_architecture;
  // Why there are no images, if there are none.
  const char* why_none;
};

// The library exports its images only for the tool of the same build.
extern "C" __attribute__((visibility("default"))) const Images* symm_images();
}  // namespace symm::cuda
