// The numbers of this library, in an object of their own: tests link a second library that has
// others (tests/versions).
#include "core/base/layouts.hpp"

#include <cstdint>

#include "symm/symm.h"

namespace symm::layouts {
const uint32_t library = SYMM_VERSION;
#define SYMM_DEFINED(name, number, what) const Layout name{what, number};
SYMM_LAYOUTS(SYMM_DEFINED)
#undef SYMM_DEFINED
}  // namespace symm::layouts
