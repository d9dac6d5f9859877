#pragma once

#include <span>

namespace symm::cuda {
// A fatbin, with code for several architectures.
struct Image {
  const char* name;
  const void* data;
  // loaded with the first kernel that anybody asks for; the
  // others with the first that is found in none of these
  bool eager;
};

struct Images {
  std::span<const Image> all;  // one for each .cu file
  int newest_architecture;     // that they have code for: 90 is compute capability 9.0
  const char* why_none;        // if there are none
};

// The library exports its own, for the tool of the same build alone.
extern "C" __attribute__((visibility("default"))) const Images* symm_images();
}  // namespace symm::cuda
