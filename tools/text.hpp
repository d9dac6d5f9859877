// Text for people: sizes, tables, colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace symm::tool {
std::string format_bytes(uint64_t bytes);  // 8 B, 4 KiB, 1.5 GiB
// 8, 4K, 4KiB, 1.5M, 2G (powers of 1024); throws std::invalid_argument
uint64_t parse_bytes(const std::string& text);
std::string version_text(uint32_t version);  // 0.2.0, of what symm_version() says
// Why a magic of symm/page.h is not `ours`, in words that name both versions, if it is that of
// another layout; "" if it is none. `version` is the word behind it.
std::string other_layout(uint64_t magic, uint64_t version, uint64_t ours);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// Levenshtein's: letters to add, take away or change
size_t distance(std::string_view a, std::string_view b);
std::string format_ranks(const std::vector<int>& ranks);  // "rank 3", "ranks 0, 2-5"
std::string signal_name(int signal);                      // SIGSEGV (Segmentation fault)

enum class Colour : uint8_t { plain, bold, red, green, yellow, blue, magenta, cyan };
bool wants_colour(int fd);  // a terminal, and neither NO_COLOR nor TERM=dumb is set
std::string paint(std::string_view text, Colour colour, bool enabled);
// A line on a terminal that the next one overwrites; symm run recognises it by its end.
void progress(const std::string& text);

// Columns as wide as their widest cell; numbers are the caller's to align by `right`.
class Table {
 public:
  explicit Table(std::vector<bool> right) : right_(std::move(right)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};
}  // namespace symm::tool
