// Classifies links between devices. It computes with the table of links that a back end read
// and asks no driver.
#include "core/backend/topology.hpp"

namespace symm {
TopologyClass classify(const Links& links) {
  const auto linked = [&](int a, int b) {
    return links.between(a, b) > 0 && links.between(b, a) > 0;
  };
  bool all = links.devices > 0;
  for (int a = 0; a < links.devices; ++a) {
    for (int b = 0; b < a; ++b) {
      all = all && linked(a, b);
    }
  }
  return all ? TopologyClass::fully_connected : TopologyClass::unknown;
}
}  // namespace symm
