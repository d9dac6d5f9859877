// Holds the newest versions of one name: imports what is published, and publishes it again when its
// maker is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
class Holder {
 public:
  using Say = std::function<void(const std::string&)>;
  Holder(std::string name, uint64_t keep, Say say);

  // Gives again what lost its maker, lets go what was withdrawn, and takes what is new. Waits for
  // no process longer than a second.
  void look();

 private:
  struct Held {
    uint64_t version;
    Token token;
    Import import;
    bool is_given = false;  // by this process, since its maker is gone
  };

  bool has_ended(const Held& held) const;
  void give(Held& held) const;
  void let_go(Held& held, const char* why) const;
  void look_after_those_held();
  // Takes those of the newest versions, as many as are kept, that are not held.
  void take_newest();
  std::string name_of(const Held& held) const;

  const std::string name_;
  const uint64_t keep_;
  const Say say_;
  std::vector<Held> held_;  // the oldest first
  std::string complaint_;   // the last one, which is not repeated
};
}  // namespace symm::tool
