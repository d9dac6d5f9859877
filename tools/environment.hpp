// The environment, as the tools read it.
#pragma once

#include <stdlib.h>

namespace symm::tool {
// The one reader of the environment in tools; never null. Names in the code stand in
// docs/environment.md, as a lint knows.
inline const char* environment(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr ? value : "";
}
}  // namespace symm::tool
