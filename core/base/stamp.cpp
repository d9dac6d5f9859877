// Compares what two libraries say of themselves.
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/base/layouts.hpp"

namespace symm {
std::string version_text(uint32_t library) {
  return format("%u.%u.%u", library >> 24, library >> 12 & 0xFFFU, library & 0xFFFU);
}

std::string both_stamps(
    const Layout& layout, const Stamp& theirs, const std::string& they, const std::string& we) {
  return format(
      "%s has symm %s (number %u), %s has symm %s (number %u); load one version of symm on both "
      "sides",
      they.c_str(), version_text(theirs.library).c_str(), theirs.number, we.c_str(),
      version_text(layouts::library).c_str(), layout.number);
}

std::string stamp_difference(
    const Layout& layout, const Stamp& theirs, const std::string& they, const std::string& we) {
  if (theirs.number == layout.number) return "";
  return std::string(layout.what) + ": " + both_stamps(layout, theirs, they, we);
}
}  // namespace symm
