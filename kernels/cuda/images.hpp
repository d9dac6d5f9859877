#pragma once

#include <span>

namespace symm::cuda {
// A fatbin, with code for several architectures.
struct Image {
  const char* name;
  const void* data;
  bool eager;  // loaded with the first kernel that anybody asks for; the others with the first that is found in none of these
};

// One for each .cu file; none in a build without nvcc.
std::span<const Image> images();
int newest_architecture();  // that they have code for: 90 is compute capability 9.0
}  // namespace symm::cuda
