// The thresholds at which one algorithm gives way to the next, by back end, number of ranks and
// machine. Three sources are read, each over the one before: core/backend/plan_table.txt, which is
// compiled in; a file of the user's; single values in the environment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/nccl_column.hpp"

namespace symm {
enum class PlanOrigin : uint8_t { built_in = 0, file = 1, variable = 2 };

struct PlanKey {
  const char* name;
  uint64_t least;     // smallest allowed value
  uint64_t most;      // largest allowed value
  uint64_t multiple;  // allowed values are multiples of this
};
inline constexpr size_t kMaxPlanKeys = 24;

// The keys of a back end, in the order of its values.
std::span<const PlanKey> plan_keys(BackendKind backend);

// One value for each key. Travels between ranks as it is.
struct PlanValues {
  std::array<uint64_t, kMaxPlanKeys> value{};
  std::array<PlanOrigin, kMaxPlanKeys> origin{};
  // The hash and the number of rows of the NCCL column; 0: the table has none. The column chooses
  // no algorithm, but ranks that are advised differently would wait in two libraries.
  uint64_t nccl_hash = 0;
  uint64_t nccl_rows = 0;

  uint64_t of(BackendKind backend, std::string_view key) const;
};

// The first key in which two ranks differ, as a sentence with both values and where
// they come from; "" if there is none.
std::string plan_difference(
    BackendKind backend, int rank, const PlanValues& mine, int peer, const PlanValues& theirs);

class PlanTable {
 public:
  // The table that is compiled in.
  static PlanTable built_in();
  // The built-in table, over it the file that SYMM_PLAN_FILE names, over both the values of
  // SYMM_HOST_TUNE or SYMM_CUDA_TUNE.
  static PlanTable from_environment(BackendKind backend);

  // Adds sections, which take precedence over those that are there. `name` is what errors call
  // the text. Throws Error(invalid_argument) with name, line and key for anything that is not
  // understood, whether it concerns this machine or not.
  void add(std::string_view text, const std::string& name, PlanOrigin origin);
  // Adds the sections of a file. Throws Error(system) if it cannot be read.
  void add_file(const std::string& path, const std::string& name);
  // Adds values such as "one_shot=64K,threads=256", for any number of ranks.
  void add_values(BackendKind backend, std::string_view text, const std::string& name);

  // The values for a group of `size` ranks. `machine` returns the name of the device; it is called
  // only if a section depends on the name.
  PlanValues values(
      BackendKind backend, int size, const std::function<std::string()>& machine) const;
  // The times of NCCL that were measured for a group of `size` ranks.
  NcclColumn nccl_column(
      BackendKind backend, int size, const std::function<std::string()>& machine) const;

 private:
  struct Entry {
    size_t key;
    uint64_t value;
    bool divided;  // by the number of ranks
    std::string where;
  };
  struct Section {
    BackendKind backend{};
    int first = 1;
    int last = 0;         // 0: no limit
    std::string machine;  // "": any
    PlanOrigin origin{};
    std::vector<Entry> entries;
    std::vector<NcclRow> nccl;

    bool fits(BackendKind of, int size, const std::function<std::string()>& on) const;
  };
  static Section section_of(std::string_view title, const std::string& where);
  static void add_entry(Section& section, std::string_view assignment, const std::string& where);

  std::vector<Section> sections_;
};
}  // namespace symm
