// Kernels, and launches of them.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/host/words.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/piece_rows.hpp"
#include "symm/symm.h"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/fake_cuda/messages.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
using Work = std::function<bool()>;

template <class Word>
std::atomic<Word>& word_at(uint64_t address) {
  return *reinterpret_cast<std::atomic<Word>*>(address);
}

// Whether there is a word at this address, and it is not 0.
bool is_set(uint64_t address) { return address != 0 && word_at<uint32_t>(address) != 0; }

Work write_word(const void* arguments) {
  return [args = *static_cast<const WriteArgs*>(arguments)] {
    if (args.word == 0) return true;  // a launch that makes the kernel ready
    if (is_set(args.unless)) return true;
    if (args.value_at != 0) {
      word_at<uint32_t>(args.word) = word_at<uint32_t>(args.value_at).load();
      return true;
    }

    if (args.kind == WriteKind::add) {
      word_at<uint64_t>(args.word) += args.value;
      return true;
    }
    if (args.kind == WriteKind::store32) {
      word_at<uint32_t>(args.word) = static_cast<uint32_t>(args.value);
      return true;
    }
    word_at<uint64_t>(args.word) = args.value;
    return true;
  };
}

Work change_word(const void* arguments) {
  return [args = *static_cast<const AtomicArgs*>(arguments)] {
    if (args.word == 0) return true;
    const auto address = [](uint64_t at) {
      return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
    };
    const uint64_t before =
        symm::change(address(args.word), args.bytes, args.op, args.value, args.compare);
    if (args.fetched != 0) symm::store_word(address(args.fetched), before, args.bytes);
    return true;
  };
}

bool is_there(const WordWait& wait, uint64_t value) {
  const uint64_t seen =
      wait.bytes == 4 ? word_at<uint32_t>(wait.word).load() : word_at<uint64_t>(wait.word).load();
  return symm::holds(seen, wait.compare, value);
}

template <int kRanks>
Work wait_word(const void* arguments) {
  return [args = *static_cast<const WaitWordArgsOf<kRanks>*>(arguments),
             claimed = uint64_t{0}]() mutable {
    if (args.wait.word == 0 || is_set(args.unless)) return true;
    if (args.wraps != 0) {
      const uint64_t value =
          args.value_at != 0 ? word_at<uint32_t>(args.value_at).load() : args.wait.value;
      return symm::has_reached(word_at<uint32_t>(args.wait.word), static_cast<uint32_t>(value));
    }
    if (args.taken == 0) return is_there(args.wait, args.wait.value);
    if (claimed == 0) claimed = ++word_at<uint64_t>(args.taken);
    return is_there(args.wait, claimed);
  };
}

template <int kRanks>
Work wait_words(const void* arguments) {
  return [args = *static_cast<const WaitWordsArgsOf<kRanks>*>(arguments)] {
    const auto holds_now = [](const WordWait& wait) { return is_there(wait, wait.value); };
    const std::span waits(args.wait, args.count);
    return args.any != 0 ? std::any_of(waits.begin(), waits.end(), holds_now)
                         : std::all_of(waits.begin(), waits.end(), holds_now);
  };
}

// A list as the kernel of its copy is told it.
template <int kRanks>
symm::PieceList list_of(const CopyPiecesArgsOf<kRanks>& args) {
  const auto numbers = [&](uint64_t at, uint32_t bit) {
    if ((args.travels & bit) != 0) return args.listed + at;
    return reinterpret_cast<const uint64_t*>(at);  // NOLINT(performance-no-int-to-ptr)
  };
  symm::PieceList list;
  list.count = args.count_at != 0 ? word_at<uint64_t>(args.count_at).load() : args.count;
  list.page_bytes = args.page_bytes;
  list.from_table = numbers(args.from_table, kFromTableTravels);
  list.to_table = numbers(args.to_table, kToTableTravels);
  if (args.page_bytes == 0) {
    list.pieces = reinterpret_cast<const symm_piece_t*>(numbers(args.pieces, kPiecesTravel));
  }
  return list;
}

// The rule that a piece breaks, if any.
template <int kRanks>
std::optional<PieceRule> broken_rule(
    const CopyPiecesArgsOf<kRanks>& args, const symm_piece_t& piece) {
  if (piece.bytes == 0) return std::nullopt;
  if (!symm::lies_within(piece, symm::read_of(piece), args.from_bytes)) return PieceRule::from;
  if (!symm::lies_within(piece, symm::written_of(piece), args.to_bytes)) return PieceRule::to;
  if (symm::overlaps_itself(piece)) return PieceRule::to_stride;
  return std::nullopt;
}

// Writes the error record as a kernel that gives up does, once in a group.
template <int kRanks>
void report(const CopyPiecesArgsOf<kRanks>& args, PieceRule rule, const uint64_t (&numbers)[4]) {
  auto& words =
      *reinterpret_cast<ControlWordsOf<kRanks>*>(args.comm.control[args.comm.rank]);  // NOLINT
  if (std::exchange(words.failed, 1U) != 0) return;

  auto& record = *reinterpret_cast<ErrorRecord*>(args.comm.record);  // NOLINT
  record.trouble = static_cast<uint32_t>(WaitError::bad_piece);
  record.operation = args.comm.operation;
  record.peer = args.peer;
  record.expected = static_cast<uint32_t>(rule);
  const uint64_t table = rule == PieceRule::from ? args.from_table : args.to_table;
  const uint32_t of_pages = table != 0 ? 2 : 1;
  record.seen = args.page_bytes == 0 ? 0 : of_pages;
  record.my_detail = numbers[0];
  record.my_count = numbers[1];
  record.peer_detail = numbers[2];
  record.peer_count = numbers[3];
  std::atomic_ref(record.state).store(1, std::memory_order_release);
  std::atomic_ref(words.abort).store(1);
}

template <int kRanks>
void report_piece(
    const CopyPiecesArgsOf<kRanks>& args, PieceRule rule, size_t i, const symm_piece_t& piece) {
  if (rule == PieceRule::to_stride) {
    return report(args, rule, {i, piece.to_stride, piece.bytes, args.to_bytes});
  }
  const bool reads = rule == PieceRule::from;
  const symm::RowPlaces rows = reads ? symm::read_of(piece) : symm::written_of(piece);
  report(args, rule,
      {i, rows.at, symm::reach_of(piece, rows), reads ? args.from_bytes : args.to_bytes});
}

// What kernels/cuda/copy_pieces.cu does, by memcpy.
template <int kRanks>
Work copy_pieces(const void* arguments) {
  return [args = *static_cast<const CopyPiecesArgsOf<kRanks>*>(arguments)] {
    symm::PieceList list = list_of(args);
    if (list.count > args.count) {
      report(args, PieceRule::count, {list.count, 0, args.count, 0});
      list.count = 0;
    }

    for (size_t i = 0; i < list.count; ++i) {
      const symm_piece_t piece = list[i];
      const std::optional<PieceRule> rule = broken_rule(args, piece);
      if (rule) {
        report_piece(args, *rule, i, piece);
        continue;
      }
      symm::each_stretch(piece, [&](uint64_t to, uint64_t from, uint64_t bytes) {
        std::memcpy(reinterpret_cast<void*>(args.to + to),            // NOLINT
            reinterpret_cast<const void*>(args.from + from), bytes);  // NOLINT
      });
    }

    const auto& words =
        *reinterpret_cast<ControlWordsOf<kRanks>*>(args.comm.control[args.comm.rank]);  // NOLINT
    if (args.signal == 0 || words.abort != 0) return true;
    if (args.kind == WriteKind::add) {
      word_at<uint64_t>(args.signal) += args.value;
    } else {
      word_at<uint64_t>(args.signal) = args.value;
    }
    return true;
  };
}

using CarriedOut = std::map<std::string, std::function<Work(const void* arguments)>>;

CarriedOut carried_out_at_first() {
  return {{"symm_write_word", write_word}, {"symm_change_word", change_word},
      {"symm_wait_word", wait_word<kSmallRanks>}, {"symm_wait_words", wait_words<kSmallRanks>},
      {"symm_large_wait_word", wait_word<kMaxRanks>},
      {"symm_large_wait_words", wait_words<kMaxRanks>}, {"symm_pass_messages", pass_messages},
      {"symm_large_pass_messages", pass_large_messages}, {"symm_list_messages", list_messages},
      {"symm_exchange_round", exchange}, {"symm_large_exchange_round", exchange_in_large},
      {"symm_copy_pieces", copy_pieces<kSmallRanks>},
      {"symm_large_copy_pieces", copy_pieces<kMaxRanks>}};
}

// The kernels whose launches are carried out, so that other work can wait for them. All other
// launches are only recorded.
CarriedOut& carried_out() {
  static auto& all = *new CarriedOut(carried_out_at_first());
  return all;
}

// Whether the kernel combines. Then its arguments begin with those of the collective.
bool combines(const std::string& name) {
  constexpr const char* kForms[] = {"one_shot", "two_shot", "ll_reduce", "pipeline_",
      "pieces_reduce", "rmsnorm", "hybrid_cube_mesh", "combine"};
  return name.find("_move") == std::string::npos &&
         std::ranges::any_of(
             kForms, [&](const char* form) { return name.find(form) != std::string::npos; });
}

// What a test may ask of a launch, from the arguments of the kernel.
template <int kRanks>
void describe(Launch& launch, const void* arguments) {
  const std::string& name = launch.kernel;
  if (name.ends_with("_check")) {
    launch.detail = static_cast<const CheckArgsOf<kRanks>*>(arguments)->detail;
  }
  if (combines(name)) {
    launch.in_tree = static_cast<const CollectiveArgsOf<kRanks>*>(arguments)->in_tree != 0;
  }

  const bool in_pieces = name.starts_with("symm_pieces_") || name.starts_with("symm_large_pieces_");
  const bool in_chunks =
      name.starts_with("symm_pipeline_") || name.starts_with("symm_large_pipeline_");
  if (!in_pieces && !in_chunks) return;
  const CollectiveArgsOf<kRanks>& args =
      in_pieces ? static_cast<const PiecesArgsOf<kRanks>*>(arguments)->call
                : *static_cast<const CollectiveArgsOf<kRanks>*>(arguments);
  launch.memory = args.recv_memory;
  std::copy_n(args.comm.stages, std::size(launch.stages), launch.stages);
}

// The graph into which this thread captures, or null.
thread_local Graph* captured = nullptr;

bool is_early(const CUlaunchConfig& config) {
  return std::any_of(
      config.attrs, config.attrs + config.numAttrs, [](const CUlaunchAttribute& one) {
        return one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
               one.value.allowed != 0;
      });
}
}  // namespace

Graph graph_of(void* stream, const std::function<void()>& body) {
  Graph made;
  begin_capture(stream);
  captured = &made;
  body();
  captured = nullptr;
  end_capture(stream);
  return made;
}

void replay(const Graph& graph, void* stream) {
  for (const Work& work : graph) {
    run(stream, work);
  }
}

std::vector<Launch> launches() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().launches, {});
}

void carry_out(
    const std::string& kernel, std::function<std::function<bool()>(const void* arguments)> make) {
  const std::lock_guard lock(state().mutex);
  if (make == nullptr) {
    make = carried_out_at_first()[kernel];
    if (make == nullptr) {
      carried_out().erase(kernel);
      return;
    }
  }
  carried_out()[kernel] = std::move(make);
}

API cuLibraryLoadData(
    CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  MAY_FAIL();
  *library = reinterpret_cast<CUlibrary>(const_cast<void*>(image));
  return CUDA_SUCCESS;
}

API cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  ENTER();
  void*& known = state().kernel_of[name];
  if (known == nullptr) known = fresh();
  state().kernels[known] = name;
  *kernel = static_cast<CUkernel>(known);
  return CUDA_SUCCESS;
}

API cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  MAY_FAIL();
  if (state().no_binary) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

API cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  MAY_FAIL();
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(state().mutex);
  state().shared[function] = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  MAY_FAIL();
  std::string name;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().kernels.find(function);
    if (found == state().kernels.end()) return CUDA_ERROR_INVALID_VALUE;

    name = found->second;
    constexpr unsigned kAnyKernel = 48 << 10;
    if (config->sharedMemBytes > std::max(kAnyKernel, state().shared[function])) {
      return CUDA_ERROR_INVALID_VALUE;
    }

    Launch launch{name, config->gridDimX, config->blockDimX, config->hStream, is_early(*config),
        config->sharedMemBytes};
    if (name.starts_with("symm_large_")) {
      describe<kMaxRanks>(launch, parameters[0]);
    } else {
      describe<kSmallRanks>(launch, parameters[0]);
    }

    if (name == "symm_hybrid_cube_mesh") {
      const auto& args = *static_cast<const CollectiveArgs*>(parameters[0]);
      launch.quad = args.quad;
      launch.partners = args.partners;
    }

    state().launches.push_back(launch);
  }

  const auto made = carried_out().find(name);
  if (made == carried_out().end()) return CUDA_SUCCESS;
  Work work = made->second(parameters[0]);
  if (captured == nullptr) return run(config->hStream, std::move(work));
  captured->push_back(std::move(work));
  return CUDA_SUCCESS;
}
}  // namespace fake_cuda
