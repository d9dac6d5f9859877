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
}  // namespace symm::cuda
