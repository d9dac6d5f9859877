// The numbers of a second library, which is otherwise the one that is built here: a later version,
// and another number of the layouts that $SYMM_TEST_LAYOUTS names, "all" of them or none. It takes
// the place of core/base/layouts.cpp.
#include "core/base/layouts.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace symm::layouts {
namespace {
uint16_t other(const char* name, uint16_t number) {
  const char* const asked = std::getenv("SYMM_TEST_LAYOUTS");
  const std::string list = asked == nullptr ? "" : "," + std::string(asked) + ",";
  const bool differs =
      list == ",all," || list.find("," + std::string(name) + ",") != std::string::npos;
  return static_cast<uint16_t>(number + (differs ? 1 : 0));
}
}  // namespace

// 0.3.1
const uint32_t library = 3U << 12 | 1U;
#define SYMM_DEFINED(name, number, what) const Layout name{what, other(#name, number)};
SYMM_LAYOUTS(SYMM_DEFINED)
#undef SYMM_DEFINED
}  // namespace symm::layouts
