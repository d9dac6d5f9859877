// Verbs of collectives, whose operands have the type that the line names.
#include <algorithm>
#include <cctype>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "symm/fused.hpp"
#include "tests/bindings/behaviours/runner.hpp"

namespace behaviours {
// A type for each data type that C++ does not have.
template <symm_dtype_t dtype>
struct Narrow {
  std::byte bytes[(dtype & 0xff) / 8];
};
}  // namespace behaviours

template <symm_dtype_t dtype>
struct symm::Dtype<behaviours::Narrow<dtype>> {
  static constexpr symm_dtype_t value = dtype;
};

namespace behaviours {
namespace {
symm::Options options_of(Runner& runner, const Line& line) {
  line.integer("in_place", 0);  // C++ has no form of its own for operands that are one

  symm::Options options;
  options.algorithm = static_cast<symm_algorithm_t>(line.constant("algorithm", "AUTO"));
  options.scale_position = static_cast<symm_scale_t>(line.constant("position", "NONE"));
  options.scale = static_cast<double>(line.integer("scale", 0));
  if (line.has("scale_at")) options.scale_pointer = runner.address(line, "scale_at");
  if (line.has("tag")) {
    static std::string tag;
    tag = line.text("tag");
    options.tag = tag.c_str();
  }
  options.max_blocks = line.integer32("max_blocks", 0);
  options.order = static_cast<symm_order_t>(line.constant("order", "GROUP"));
  if (line.has("wire")) options.wire_dtype = constant("DTYPE", line.text("wire"));
  options.wire_group = line.integer32("wire_group", 0);
  options.chunk_bytes = line.size("chunk_bytes", 0);
  const auto words_at = [&](const char* key) {
    return line.has(key) ? reinterpret_cast<uint32_t*>(runner.address(line, key)) : nullptr;
  };
  options.progress = words_at("progress");
  options.ready = words_at("ready");
  options.word_value = static_cast<uint32_t>(line.size("word_value", 0));
  options.word_pointer = words_at("word_at");
  return options;
}

symm_op_t op_of(const Line& line) { return static_cast<symm_op_t>(line.constant("op", "SUM")); }

// A call whose operands are elements of type T.
template <class T>
struct Call {
  Runner& runner;
  const Line& line;
  const symm::Group& group = runner.group(line);
  const T* send = reinterpret_cast<const T*>(runner.address(line, "send"));

  T* recv() const { return reinterpret_cast<T*>(runner.address(line, "recv")); }

  size_t me() const { return static_cast<size_t>(group.rank()); }

  size_t count() const { return line.size("count"); }

  size_t count_of_all() const { return count() * static_cast<size_t>(group.size()); }

  int32_t root() const { return line.integer32("root", 0); }

  symm::Options options() const { return options_of(runner, line); }

  // The operands of the plain collectives: an element count, and one of all ranks.
  symm::Span<const T> from() const { return {send, count()}; }

  symm::Span<const T> from_all() const { return {send, count_of_all()}; }

  symm::Span<T> into() const { return {recv(), count()}; }

  symm::Span<T> into_all() const { return {recv(), count_of_all()}; }
};

// Calls `reduce` with the place of the result: elements of T; or if the line says so of F32, where
// T is narrow, or of BF16, where T is F32.
template <class T, class Reduce>
void with_result(const Call<T>& call, const Reduce& reduce) {
  if constexpr (std::is_class_v<T>) {  // Narrow
    if (call.line.text("result", "") == "F32") {
      return reduce(symm::Span(reinterpret_cast<float*>(call.recv()), call.count()));
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    if (call.line.text("result", "") == "BF16") {
      using Element = Narrow<SYMM_DTYPE_BF16>;
      return reduce(symm::Span(reinterpret_cast<Element*>(call.recv()), call.count()));
    }
  }
  reduce(call.into());
}

// ---- the plain collectives

template <class T>
void allreduce(const Call<T>& call) {
  with_result(call, [&](const auto& into) {
    call.group.allreduce(call.from(), into, op_of(call.line), call.options());
  });
}

template <class T>
void reduce_scatter(const Call<T>& call) {
  with_result(call, [&](const auto& into) {
    call.group.reduce_scatter(call.from_all(), into, op_of(call.line), call.options());
  });
}

template <class T>
void reduce(const Call<T>& call) {
  with_result(call, [&](const auto& into) {
    call.group.reduce(call.from(), into, op_of(call.line), call.root(), call.options());
  });
}

template <class T>
void scan(const Call<T>& call) {
  call.group.scan(call.from(), call.into(), op_of(call.line), call.options());
}

template <class T>
void exscan(const Call<T>& call) {
  call.group.exscan(call.from(), call.into(), op_of(call.line), call.options());
}

template <class T>
void allgather(const Call<T>& call) {
  call.group.allgather(call.from(), call.into_all(), call.options());
}

template <class T>
void broadcast(const Call<T>& call) {
  call.group.broadcast(call.from(), call.into(), call.root(), call.options());
}

template <class T>
void gather(const Call<T>& call) {
  call.group.gather(call.from(), call.into_all(), call.root(), call.options());
}

template <class T>
void scatter(const Call<T>& call) {
  call.group.scatter(call.from_all(), call.into(), call.root(), call.options());
}

template <class T>
void alltoall(const Call<T>& call) {
  call.group.alltoall(call.from_all(), call.into_all(), call.options());
}

// ---- collectives of blocks that have lengths of their own

struct Layout {
  Layout(const Line& line, const std::string& operand)
      : counts(line.numbers<size_t>(operand + "_counts")),
        displacements(line.numbers<size_t>(operand + "_displacements")) {}

  symm::Blocks blocks() const { return {counts, displacements}; }

  std::vector<size_t> counts;
  std::vector<size_t> displacements;
};

template <class T>
void allgatherv(const Call<T>& call) {
  const Layout layout(call.line, "recv");
  const symm::Span from(call.send, layout.counts.at(call.me()));
  const symm::Span into(call.recv(), layout.blocks().end());
  call.group.allgatherv(from, into, layout.blocks());
}

template <class T>
void reduce_scatterv(const Call<T>& call) {
  const Layout layout(call.line, "send");
  const symm::Span from(call.send, layout.blocks().end());
  const symm::Span into(call.recv(), layout.counts.at(call.me()));
  call.group.reduce_scatterv(from, layout.blocks(), into, op_of(call.line));
}

template <class T>
void gatherv(const Call<T>& call) {
  const Layout layout(call.line, "recv");
  const symm::Span into(call.recv(), layout.blocks().end());
  call.group.gatherv(call.from(), into, layout.blocks(), call.root());
}

template <class T>
void scatterv(const Call<T>& call) {
  const Layout layout(call.line, "send");
  const symm::Span from(call.send, layout.blocks().end());
  call.group.scatterv(from, layout.blocks(), call.into(), call.root());
}

template <class T>
void alltoallv(const Call<T>& call) {
  const Layout sent(call.line, "send");
  const Layout received(call.line, "recv");
  const symm::Span from(call.send, sent.blocks().end());
  const symm::Span into(call.recv(), received.blocks().end());
  call.group.alltoallv(from, sent.blocks(), into, received.blocks());
}

template <class T>
void alltoallv_device(const Call<T>& call) {
  const Layout sent(call.line, "send");
  const Layout received(call.line, "recv");
  const symm::Span from(call.send, call.line.size("send_capacity"));
  const symm::Span into(call.recv(), call.line.size("recv_capacity"));
  call.group.alltoallv_device(
      from, {sent.counts, sent.displacements}, into, {received.counts, received.displacements});
}

template <class T>
void allgather_rows(const Call<T>& call) {
  const size_t rows = call.line.size("rows");
  const size_t stride = call.line.size("recv_stride");
  const symm::Span from(call.send, rows * call.count());
  const symm::Span into(call.recv(), rows * stride);
  call.group.allgather_rows(from, into, rows, stride);
}

template <class T>
void reduce_scatter_rows(const Call<T>& call) {
  const size_t rows = call.line.size("rows");
  const size_t stride = call.line.size("send_stride");
  const symm::Span from(call.send, rows * stride);
  const symm::Span into(call.recv(), rows * call.count());
  call.group.reduce_scatter_rows(from, into, rows, stride, op_of(call.line));
}

symm_rmsnorm_call_t norm_of(Runner& runner, const Line& line) {
  const auto at = [&](const char* key) -> void* {
    return line.has(key) ? runner.address(line, key) : nullptr;
  };

  symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;
  norm.residual_in = at("residual_in");
  norm.residual_out = at("residual_out");
  norm.norm_out = at("norm_out");
  norm.weight = at("weight");
  // f32 rounds the smallest double to 0, which itself means the default.
  norm.epsilon = std::numeric_limits<double>::denorm_min();
  norm.weight_offset = static_cast<double>(line.integer("weight_offset", 0));
  norm.scale_kind = line.constant("quant_scale", "TENSOR");
  norm.quant_out = at("quant_out");
  norm.scale_in = at("scale_in");
  norm.scale_out = at("scale_out");
  return norm;
}

template <class T>
void allreduce_rmsnorm(const Call<T>& call) {
  const Line& line = call.line;
  const symm_rmsnorm_call_t norm = norm_of(call.runner, line);
  const size_t hidden = line.size("hidden");
  const symm::Span from(call.send, line.size("tokens") * hidden);
  symm::allreduce_rmsnorm(call.group, from, hidden, norm);
}

template <class T>
void broadcast_bytes(const Call<T>& call) {
  const symm::Span into(call.recv(), call.line.size("capacity"));
  const size_t came = call.group.broadcast_bytes(call.from(), into, call.root());
  require(came, call.line.integer("expected", static_cast<int64_t>(came)), "the number of bytes");
}

// The last rank wins.
template <class T>
void reduce_by(const Call<T>& call) {
  static const std::map<std::string, symm_collective_t> collectives = {
      {"ALLREDUCE", SYMM_COLLECTIVE_ALLREDUCE}, {"REDUCE", SYMM_COLLECTIVE_REDUCE},
      {"REDUCE_SCATTER", SYMM_COLLECTIVE_REDUCE_SCATTER}, {"SCAN", SYMM_COLLECTIVE_SCAN},
      {"EXSCAN", SYMM_COLLECTIVE_EXSCAN}, {"ALLGATHER", SYMM_COLLECTIVE_ALLGATHER}};
  const std::string name = call.line.text("collective");
  const bool scatters = name == "REDUCE_SCATTER";
  const symm::Span<const T> from = scatters ? call.from_all() : call.from();
  const symm::Group& group = call.group;
  group.reduce_by<T>(
      collectives.at(name), from, call.into(), [](T& into, const T& other) { into = other; },
      call.root());
}

// ---- from the line to the call

template <class T>
void call_with(Runner& runner, const Line& line) {
  static const std::map<std::string, void (*)(const Call<T>&)> calls = {
      {"allgather", allgather<T>},
      {"allgather_rows", allgather_rows<T>},
      {"allgatherv", allgatherv<T>},
      {"allreduce", allreduce<T>},
      {"allreduce_rmsnorm", allreduce_rmsnorm<T>},
      {"alltoall", alltoall<T>},
      {"alltoallv", alltoallv<T>},
      {"alltoallv_device", alltoallv_device<T>},
      {"broadcast", broadcast<T>},
      {"broadcast_bytes", broadcast_bytes<T>},
      {"exscan", exscan<T>},
      {"gather", gather<T>},
      {"gatherv", gatherv<T>},
      {"reduce", reduce<T>},
      {"reduce_by", reduce_by<T>},
      {"reduce_scatter", reduce_scatter<T>},
      {"reduce_scatter_rows", reduce_scatter_rows<T>},
      {"reduce_scatterv", reduce_scatterv<T>},
      {"scan", scan<T>},
      {"scatter", scatter<T>},
      {"scatterv", scatterv<T>},
  };

  calls.at(line.verb)(Call<T>{runner, line});
}

template <class... T>
const std::map<int32_t, void (*)(Runner&, const Line&)>& calls_by_dtype() {
  static const std::map<int32_t, void (*)(Runner&, const Line&)> calls = {
      {symm::Dtype<T>::value, call_with<T>}...};
  return calls;
}

// A call of a batch, with what it refers to, which therefore stays where it is.
struct Noted {
  Noted(Runner& runner, const Line& line)
      : sent(line, "send"),
        received(line, "recv"),
        send_capacity(line.size("send_capacity", 0)),
        recv_capacity(line.size("recv_capacity", 0)) {
    const symm::Options chosen = options_of(runner, line);
    options.algorithm = chosen.algorithm;
    options.scale_position = chosen.scale_position;
    options.scale = chosen.scale;
    options.scale_pointer = chosen.scale_pointer;
    options.max_blocks = chosen.max_blocks;
    options.order = chosen.order;
    options.wire_dtype = chosen.wire_dtype;
    options.wire_group = chosen.wire_group;
    options.chunk_bytes = chosen.chunk_bytes;
    options.progress = chosen.progress;
    options.ready = chosen.ready;
    options.word_value = chosen.word_value;
    options.word_pointer = chosen.word_pointer;
    if (line.has("result")) options.result_dtype = constant("DTYPE", line.text("result"));

    const bool on_device = line.verb == "alltoallv_device";
    std::string name = on_device ? "alltoallv" : line.verb;
    std::transform(name.begin(), name.end(), name.begin(),
        [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    call.collective = constant("COLLECTIVE", name);
    call.send = runner.address(line, "send");
    if (line.has("recv")) call.recv = runner.address(line, "recv");
    call.count = line.size("count", 0);
    call.dtype = line.constant("dtype");
    call.op = op_of(line);
    call.root = line.integer32("root", 0);
    call.rows = line.size("rows", 0);
    call.recv_stride = line.size("recv_stride", 0);
    call.send_stride = line.size("send_stride", 0);
    call.send_counts = address_of(sent.counts);
    call.send_displacements = address_of(sent.displacements);
    call.recv_counts = address_of(received.counts);
    call.recv_displacements = address_of(received.displacements);
    call.options = &options;
    if (on_device) call.flags = SYMM_CALL_DEVICE_COUNTS;
    call.send_capacity = send_capacity;
    call.recv_capacity = recv_capacity;
    if (line.verb != "allreduce_rmsnorm") return;

    norm = norm_of(runner, line);
    call.count = line.size("hidden");
    call.rows = line.size("tokens");
    call.fused = &norm;
    call.fused_version = SYMM_FUSED_VERSION;
  }
  Noted(const Noted&) = delete;

  static const size_t* address_of(const std::vector<size_t>& list) {
    return list.empty() ? nullptr : list.data();
  }

  Layout sent;
  Layout received;
  size_t send_capacity;
  size_t recv_capacity;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;
  symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
};

void batch(Runner& runner, const Line& line) {
  const std::vector<Line> lines = std::move(runner.waiting[line.text("calls")]);
  std::deque<Noted> noted;
  std::vector<symm_collective_call_t> calls;
  for (const Line& one : lines) {
    one.text("into");
    calls.push_back(noted.emplace_back(runner, one).call);
    one.require_all_used();
  }

  const std::string tag = line.text("tag", "");
  symm::BatchOptions options;
  options.timeout_ms = timeout(line);
  if (!tag.empty()) options.tag = tag.c_str();
  runner.group(line).batch(calls, options);
}

void collective(Runner& runner, const Line& line) {
  if (line.has("into")) {
    runner.waiting[line.text("into")].push_back(line);
    line.use_all();
    return;
  }

  const auto& calls = calls_by_dtype<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
      uint64_t, bool, float, double, Narrow<SYMM_DTYPE_F16>, Narrow<SYMM_DTYPE_BF16>,
      Narrow<SYMM_DTYPE_F8E4M3>, Narrow<SYMM_DTYPE_F8E5M2>, std::complex<float>,
      std::complex<double>, symm::Pair<int32_t, int32_t>, symm::Pair<int64_t, int64_t>,
      symm::Pair<float, int32_t>, symm::Pair<double, int64_t>>();
  if (line.has("f")) write_elements(runner, line, "send");
  calls.at(line.constant("dtype"))(runner, line);
  if (line.has("f")) expect_elements(runner, line, "recv");
}
}  // namespace

const Verbs& verbs_of_collectives() {
  static const Verbs verbs = {
      {"allgather", collective},
      {"allgather_rows", collective},
      {"allgatherv", collective},
      {"allreduce", collective},
      {"allreduce_rmsnorm", collective},
      {"alltoall", collective},
      {"alltoallv", collective},
      {"alltoallv_device", collective},
      {"batch", batch},
      {"broadcast", collective},
      {"broadcast_bytes", collective},
      {"exscan", collective},
      {"gather", collective},
      {"gatherv", collective},
      {"reduce", collective},
      {"reduce_by", collective},
      {"reduce_scatter", collective},
      {"reduce_scatter_rows", collective},
      {"reduce_scatterv", collective},
      {"scan", collective},
      {"scatter", collective},
      {"scatterv", collective},
  };

  return verbs;
}
}  // namespace behaviours
