// The C ABI of collectives: each function makes one CollectiveCall of its arguments and passes
// it to core/group/collective.hpp, where arguments are checked.
#include "core/group/collective.hpp"

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/guard.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/request.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "core/group/requests.hpp"
#include "core/group/user_operation.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"
#include "symm/fused.h"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_collective_options, options, word_pointer, SYMM_COLLECTIVE_OPTIONS_INIT)
SYMM_OPTIONS(symm_rmsnorm_call, norm, scale_out, SYMM_RMSNORM_CALL_INIT)
SYMM_OPTIONS(symm_batch_options, options, request, SYMM_BATCH_OPTIONS_INIT)

namespace {
// What the options of a call say of it, but not of its result.
struct Manner {
  const char* tag = nullptr;
  symm_request_t** request = nullptr;
};

// Completes the call with what the group and the options say. After this the call does not
// change.
Manner complete(
    CollectiveCall& call, const Group& group, const symm_collective_options_t* options) {
  call.heaps = group.heap_history();
  call.timeout_ms = group.timeout_or_default(0);
  call.set_order(group.order(), group.size());
  if (options == nullptr) return {};

  const symm_collective_options_t given = read_options(options);
  call.algorithm = static_cast<Algorithm>(given.algorithm);
  call.timeout_ms = group.timeout_or_default(given.timeout_ms);
  if (given.max_blocks < 0) {
    throw Error(
        Status::invalid_argument, format("options.max_blocks: %d is negative", given.max_blocks));
  }
  call.block_limit =
      static_cast<uint8_t>(std::min(given.max_blocks, CallSignature::kMostBlockLimit));

  if (given.order != SYMM_ORDER_GROUP) {
    const auto order = static_cast<Order>(given.order);
    require_known(
        is_valid(order) && static_cast<int>(order) == given.order, given.order, "options.order");
    if (order == Order::tree && traits(call.collective).of_prefix) {
      throw Error(Status::invalid_argument,
          format("options.order: SYMM_ORDER_TREE, but %s is in the order of the ranks",
              collective_name(call.collective)));
    }
    call.set_order(order, group.size());
  }

  const auto result = static_cast<DType>(given.result_dtype);
  const bool changes_type = given.result_dtype != 0 && result != call.dtype;
  const Number factor(given.scale);
  if (given.scale_position != SYMM_SCALE_NONE || changes_type || !factor.is_zero() ||
      given.scale_pointer != nullptr) {
    call.scaling = {call.dtype, changes_type ? result : call.dtype,
        static_cast<ScalePosition>(given.scale_position),
        given.scale_pointer != nullptr ? Factor::pointer : Factor::value, {}, factor};
    call.scale_pointer = given.scale_pointer;
  }
  if (given.wire_dtype != 0 || given.wire_group != 0) {
    call.scaling.wire = Wire(wire_format(given.wire_dtype, given.wire_group));
  }
  if (given.chunk_bytes != 0 || given.progress != nullptr || given.ready != nullptr ||
      given.word_value != 0 || given.word_pointer != nullptr) {
    call.words = {
        given.chunk_bytes, given.progress, given.ready, given.word_value, given.word_pointer};
    check_words(call);
    call.scaling.factor = Number::of_bits(call.words.number(call.count));
  }
  return {given.tag, given.request};
}

bool has_late_counts(const CollectiveCall& call) {
  return call.pieces != nullptr && call.pieces->counts.capacities.has_value();
}

// What a request keeps of calls of collectives whose arguments the caller may drop at once.
struct KeptCalls {
  KeptCalls(std::span<const CollectiveCall> given, const char* tag_given)
      : calls(given.begin(), given.end()),
        tag(tag_given, tag_given != nullptr ? strnlen(tag_given, kTagBytes) : 0) {}
  // Copies what the calls refer to, in a group of `size` ranks.
  void keep(int size) {
    for (CollectiveCall& call : calls) {
      if (call.norm != nullptr) call.norm = &norms.emplace_back(*call.norm);
      if (call.pieces == nullptr) continue;
      Pieces& own = pieces.emplace_back(*call.pieces);
      PieceCounts& counts = own.counts;
      call.pieces = &own;
      // Numbers that are read when the call runs stay the caller's.
      if (counts.capacities) continue;
      for (const size_t** numbers : {&counts.send_counts, &counts.send_displacements,
               &counts.recv_counts, &counts.recv_displacements}) {
        if (*numbers == nullptr) continue;
        lists.emplace_back(*numbers, *numbers + size);
        *numbers = lists.back().data();
      }
    }
  }

  std::vector<CollectiveCall> calls;
  std::string tag;
  // Lists, so that what they hold keeps its place.
  std::list<Pieces> pieces;
  std::list<RmsNorm> norms;
  std::list<std::vector<size_t>> lists;
};

// Makes a call, and returns the number that the request of one has: the bytes that came.
uint64_t run_and_count(Group& group, const CollectiveCall& call) {
  run_collective(group, call);
  if (call.collective != Collective::broadcast_bytes) return 0;
  require_room(group, call);
  return call.pieces->found.bytes;
}

// Makes a request of calls, each of which was checked. run(group, calls) returns its number.
template <class Run>
void begin_calls(const std::shared_ptr<Group>& group, std::span<const CollectiveCall> calls,
    const Manner& manner, const char* name, void* stream, const Run& run) {
  Requests& requests = requests_of(*group, stream);
  const auto kept = std::make_shared<KeptCalls>(calls, manner.tag);
  kept->keep(group->size());
  const auto work = [group, kept, run] {
    const CallTag tagged(kept->tag.c_str());
    return uint64_t{run(*group, kept->calls)};
  };
  begin(manner.request, [&] { return requests.start(RequestOrder::collective, name, work); });
}

// True if the call was begun as a request, and false if it was made.
bool complete_and_run(const std::shared_ptr<Group>& group, CollectiveCall& call,
    const symm_collective_options_t* options) {
  const char* const name = collective_name(call.collective);
  Manner manner;
  group->with_refusals_told(name, [&] {
    manner = complete(call, *group, options);
    // Counts that are read when the call runs may not be there yet.
    if (manner.request != nullptr && !has_late_counts(call)) check_call(*group, call);
  });
  if (manner.request != nullptr) {
    begin_calls(group, {&call, 1}, manner, name, call.stream,
        [](Group& of, std::span<CollectiveCall> calls) { return run_and_count(of, calls[0]); });
    return true;
  }

  group->settle_requests(RequestOrder::collective, name, call.timeout_ms);
  if (manner.tag == nullptr) {
    run_collective(*group, call);
    return false;
  }

  const CallTag tagged(manner.tag);
  run_collective(*group, call);
  return false;
}

// The product of two numbers of elements; SIZE_MAX, which check_call() refuses, if it
// does not fit.
size_t product(size_t a, size_t b) {
  size_t elements = 0;
  return __builtin_mul_overflow(a, b, &elements) ? SIZE_MAX : elements;
}

// The length of a row is in the field that has the root of other calls. check_call() refuses a
// length that is too large for the field: it is cut to a value that is still too large.
void set_norm_rows(CollectiveCall& call, size_t tokens, size_t hidden) {
  call.op = Op::sum;
  call.root = static_cast<int32_t>(std::min<size_t>(hidden, kMostNormBytes));
  call.count = product(tokens, hidden);
}

// The epsilon of symm_rmsnorm_call_t where it is 0.
constexpr Number kDefaultEpsilon = Number::of_f32(0x358637BD);  // 1e-6

RmsNorm norm_of(const symm_rmsnorm_call_t& norm, size_t hidden, symm_dtype_t dtype) {
  const symm_rmsnorm_call_t given = read_options(&norm);
  const Number epsilon(given.epsilon);
  const auto input = [](const void* matrix) { return static_cast<const std::byte*>(matrix); };
  const auto output = [](void* matrix) { return static_cast<std::byte*>(matrix); };
  return {input(given.residual_in), output(given.residual_out), output(given.norm_out),
      input(given.weight), static_cast<DType>(given.weight_dtype != 0 ? given.weight_dtype : dtype),
      (epsilon.is_zero() ? kDefaultEpsilon : epsilon).f32(), Number(given.weight_offset).f32(),
      static_cast<QuantScale>(given.scale_kind), output(given.quant_out),
      static_cast<const float*>(given.scale_in), static_cast<float*>(given.scale_out), hidden};
}

// ---- calls described by a struct

// Throws unless this library reads the structs of version `version` of fused.h.
void require_fused(uint32_t version) {
  if (version >> 16 == SYMM_FUSED_VERSION_MAJOR) return;
  throw Error(Status::unsupported,
      format("fused_version: version %u.%u of fused.h is not that of this library, %d.%d",
          version >> 16, version & 0xFFFF, SYMM_FUSED_VERSION_MAJOR, SYMM_FUSED_VERSION_MINOR));
}

// The objects to which calls refer by address. Most calls refer to none.
struct ReferredTo {
  std::vector<std::unique_ptr<Pieces>> pieces;
  std::vector<std::unique_ptr<RmsNorm>> norms;
};

symm_collective_call_t read_call(const symm_collective_call_t& call, const char* argument) {
  return read_struct(&call, symm_collective_call_t SYMM_COLLECTIVE_CALL_INIT,
      SYMM_FIRST_SIZE(symm_collective_call_t, options), argument);
}

void require_no_options(const symm_collective_call_t& given) {
  if (given.options == nullptr) return;
  throw Error(
      Status::invalid_argument, "call.options: goes with symm_batch() only; this call has options");
}

// Checks the fields that the collective does not use, and makes the call, without its options.
CollectiveCall described(
    const symm_collective_call_t& given, void* stream, ReferredTo& referred_to) {
  const symm_dtype_t dtype = given.dtype != 0 ? given.dtype : SYMM_DTYPE_F32;
  const auto collective = static_cast<Collective>(given.collective);
  const bool on_device = (given.flags & SYMM_CALL_DEVICE_COUNTS) != 0;
  require_known_bits(given.flags, SYMM_CALL_DEVICE_COUNTS, "flags");
  if (on_device && collective != Collective::alltoallv) {
    throw Error(Status::invalid_argument,
        "flags: SYMM_CALL_DEVICE_COUNTS goes with SYMM_COLLECTIVE_ALLTOALLV only");
  }
  require_with_flag(on_device, given.send_capacity, "send_capacity", "SYMM_CALL_DEVICE_COUNTS");
  require_with_flag(on_device, given.recv_capacity, "recv_capacity", "SYMM_CALL_DEVICE_COUNTS");

  CollectiveCall call(
      collective, given.send, given.recv, given.count, dtype, stream, given.op, given.root);
  const CollectiveTraits what = traits(collective);
  if (!what.has_op) call.op = Op::sum;
  if (!what.has_root()) call.root = 0;
  if (has_counts(collective)) call.count = 0;
  if (has_rows(collective)) call.count = product(given.rows, given.count);
  if (what.in_pieces) {
    Pieces& pieces = *referred_to.pieces.emplace_back(std::make_unique<Pieces>());
    pieces.counts = {given.send_counts, given.send_displacements, given.recv_counts,
        given.recv_displacements, given.rows, given.count, given.count,
        what.has_op ? given.send_stride : given.recv_stride};
    if (on_device) {
      pieces.counts.capacities = Capacities{given.send_capacity, given.recv_capacity};
    }
    call.pieces = &pieces;
  }

  if (collective != Collective::allreduce_rmsnorm) return call;
  set_norm_rows(call, given.rows, given.count);
  if (given.fused == nullptr) return call;
  require_fused(given.fused_version);
  const auto& norm = *static_cast<const symm_rmsnorm_call_t*>(given.fused);
  referred_to.norms.push_back(std::make_unique<RmsNorm>(norm_of(norm, given.count, dtype)));
  call.norm = referred_to.norms.back().get();
  return call;
}

// Throws if a call that is to be made, and not only planned, lacks fields that a plan
// does not need, or has an output.
void require_all_of(const CollectiveCall& call, const symm_collective_call_t& given) {
  if (call.collective == Collective::broadcast_bytes) {
    throw Error(Status::invalid_argument,
        "call.collective: SYMM_COLLECTIVE_BROADCAST_BYTES has an output, which "
        "symm_broadcast_bytes() alone returns");
  }
  if (call.collective == Collective::allreduce_rmsnorm && given.fused == nullptr) {
    throw Error(Status::invalid_argument, "fused: is NULL");
  }
}

// Makes a call of a batch. Its deadline is that of the batch.
CollectiveCall described_in_batch(Group& group, const symm_collective_call_t& call, size_t step,
    const symm_batch_options_t& batch, void* stream, ReferredTo& referred_to) {
  if (call.struct_size != step) {
    throw Error(Status::invalid_argument, "the calls differ in struct_size");
  }
  const symm_collective_call_t given = read_call(call, "call");
  CollectiveCall made = described(given, stream, referred_to);
  require_all_of(made, given);

  symm_collective_options_t options = read_options(given.options);
  if (options.timeout_ms != 0 || options.failure != nullptr || options.tag != nullptr ||
      options.request != nullptr) {
    throw Error(Status::invalid_argument,
        "options: timeout_ms, failure, tag and request are those of the batch, and 0 here");
  }
  options.timeout_ms = batch.timeout_ms;
  complete(made, group, &options);
  return made;
}

symm_status_t run(symm_group_t* handle, CollectiveCall&& call,
    const symm_collective_options_t* options) noexcept {
  return quick(options, [&] { complete_and_run(group_of(handle), call, options); });
}

symm_status_t run_in_pieces(symm_group_t* handle, CollectiveCall&& call, const PieceCounts& counts,
    const symm_collective_options_t* options) noexcept {
  return quick(options, [&] {
    Pieces pieces;
    pieces.counts = counts;
    call.pieces = &pieces;
    complete_and_run(group_of(handle), call, options);
  });
}
}  // namespace

symm_status_t symm_allreduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::allreduce, send, recv, count, dtype, stream, op), options);
}

symm_status_t symm_reduce_scatter(symm_group_t* group, const void* send, void* recv,
    size_t recv_count, symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options,
    void* stream) {
  return run(group,
      CollectiveCall(Collective::reduce_scatter, send, recv, recv_count, dtype, stream, op),
      options);
}

symm_status_t symm_allgather(symm_group_t* group, const void* send, void* recv, size_t send_count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::allgather, send, recv, send_count, dtype, stream), options);
}

symm_status_t symm_broadcast(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run(group,
      CollectiveCall(Collective::broadcast, send, recv, count, dtype, stream, SYMM_OP_SUM, root),
      options);
}

symm_status_t symm_reduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, int32_t root, const symm_collective_options_t* options,
    void* stream) {
  return run(group, CollectiveCall(Collective::reduce, send, recv, count, dtype, stream, op, root),
      options);
}

symm_status_t symm_scan(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::scan, send, recv, count, dtype, stream, op), options);
}

symm_status_t symm_exscan(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::exscan, send, recv, count, dtype, stream, op), options);
}

symm_status_t symm_reduce_by(symm_group_t* group, symm_collective_t collective, const void* send,
    void* recv, size_t count, size_t element_bytes, symm_combine_callback_t combine, void* user,
    int32_t root, const symm_call_options_t* options) {
  return guard(options, [&] {
    Group& self = *group_of(group);
    reduce_by(self,
        {static_cast<Collective>(collective), send, recv, count, element_bytes, combine, user,
            root},
        self.timeout_or_default(timeout_of(options)));
  });
}

symm_status_t symm_alltoall(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::alltoall, send, recv, count, dtype, stream), options);
}

symm_status_t symm_allgatherv(symm_group_t* group, const void* send, void* recv,
    const size_t* recv_counts, const size_t* recv_displacements, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::allgatherv, send, recv, 0, dtype, stream),
      {.recv_counts = recv_counts, .recv_displacements = recv_displacements}, options);
}

symm_status_t symm_reduce_scatterv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, symm_dtype_t dtype, symm_op_t op,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::reduce_scatterv, send, recv, 0, dtype, stream, op),
      {.send_counts = send_counts, .send_displacements = send_displacements}, options);
}

symm_status_t symm_alltoallv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, const size_t* recv_counts,
    const size_t* recv_displacements, symm_dtype_t dtype, const symm_collective_options_t* options,
    void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::alltoallv, send, recv, 0, dtype, stream),
      {send_counts, send_displacements, recv_counts, recv_displacements}, options);
}

symm_status_t symm_alltoallv_device(symm_group_t* group, const void* send, size_t send_capacity,
    const uint64_t* send_counts, const uint64_t* send_displacements, void* recv,
    size_t recv_capacity, const uint64_t* recv_counts, const uint64_t* recv_displacements,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::alltoallv, send, recv, 0, dtype, stream),
      {.send_counts = send_counts,
          .send_displacements = send_displacements,
          .recv_counts = recv_counts,
          .recv_displacements = recv_displacements,
          .capacities = Capacities{send_capacity, recv_capacity}},
      options);
}

symm_status_t symm_gather(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::gather, send, recv, count, dtype, stream, SYMM_OP_SUM, root), {},
      options);
}

symm_status_t symm_scatter(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::scatter, send, recv, count, dtype, stream, SYMM_OP_SUM, root), {},
      options);
}

symm_status_t symm_gatherv(symm_group_t* group, const void* send, size_t send_count, void* recv,
    const size_t* recv_counts, const size_t* recv_displacements, symm_dtype_t dtype, int32_t root,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::gatherv, send, recv, 0, dtype, stream, SYMM_OP_SUM, root),
      {.recv_counts = recv_counts,
          .recv_displacements = recv_displacements,
          .own_count = send_count},
      options);
}

symm_status_t symm_scatterv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, size_t recv_count, symm_dtype_t dtype,
    int32_t root, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::scatterv, send, recv, 0, dtype, stream, SYMM_OP_SUM, root),
      {.send_counts = send_counts,
          .send_displacements = send_displacements,
          .own_count = recv_count},
      options);
}

symm_status_t symm_broadcast_bytes(symm_group_t* group, const void* send, size_t send_bytes,
    void* recv, size_t recv_capacity, int32_t root, const symm_collective_options_t* options,
    size_t* out_bytes, void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Group>& owner = group_of(group);
    CollectiveCall call(
        Collective::broadcast_bytes, send, recv, 0, SYMM_DTYPE_U8, stream, SYMM_OP_SUM, root);
    Pieces pieces;
    pieces.counts.own_count = owner->rank() == root ? send_bytes : recv_capacity;
    call.pieces = &pieces;

    const bool is_begun = complete_and_run(owner, call, options);
    if (is_begun) return;
    // The length is told before a refusal, since it is what the call is to be made again with.
    if (out_bytes != nullptr) *out_bytes = pieces.found.bytes;
    require_room(*owner, call);
  });
}

symm_status_t symm_allgather_rows(symm_group_t* group, const void* send, void* recv, size_t rows,
    size_t row_count, size_t recv_stride, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(
          Collective::allgather_rows, send, recv, product(rows, row_count), dtype, stream),
      {.rows = rows, .row_count = row_count, .stride = recv_stride}, options);
}

symm_status_t symm_reduce_scatter_rows(symm_group_t* group, const void* send, void* recv,
    size_t rows, size_t row_count, size_t send_stride, symm_dtype_t dtype, symm_op_t op,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(
          Collective::reduce_scatter_rows, send, recv, product(rows, row_count), dtype, stream, op),
      {.rows = rows, .row_count = row_count, .stride = send_stride}, options);
}

symm_status_t symm_allreduce_rmsnorm(symm_group_t* group, const void* send, size_t tokens,
    size_t hidden, symm_dtype_t dtype, const symm_rmsnorm_call_t* norm,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    const RmsNorm wanted = norm_of(require(norm, "norm"), hidden, dtype);
    const std::shared_ptr<Group>& owner = group_of(group);
    CollectiveCall call(Collective::allreduce_rmsnorm, send, nullptr, 0, dtype, stream);
    set_norm_rows(call, tokens, hidden);
    call.norm = &wanted;
    complete_and_run(owner, call, options);
  });
}

symm_status_t symm_collective(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Group>& owner = group_of(group);
    const symm_collective_call_t given = read_call(require(call, "call"), "call");
    require_no_options(given);

    ReferredTo referred_to;
    CollectiveCall made;
    owner->with_refusals_told("collective", [&] {
      made = described(given, stream, referred_to);
      require_all_of(made, given);
    });

    complete_and_run(owner, made, options);
  });
}

symm_status_t symm_batch(symm_group_t* group, const symm_collective_call_t* calls, size_t count,
    const symm_batch_options_t* options, void* stream) {
  return guard(options, [&] {
    const std::shared_ptr<Group>& handle = group_of(group);
    Group& owner = *handle;
    const symm_batch_options_t given = read_options(options);
    if (count == 0 && given.request == nullptr) return run_batch(owner, {});

    std::vector<CollectiveCall> made;
    ReferredTo referred_to;
    owner.with_refusals_told("batch", [&] {
      if (count > BatchPlace::kMostCalls) {
        throw Error(Status::invalid_argument,
            format("count: %zu is more than the %u calls that a batch can have", count,
                BatchPlace::kMostCalls));
      }
      if (count == 0) return;
      const size_t step = require(calls, "calls").struct_size;
      require_struct_size(step, SYMM_FIRST_SIZE(symm_collective_call_t, options), "calls");
      made.reserve(count);
      for (size_t i = 0; i < count; ++i) {
        const auto& at = *reinterpret_cast<const symm_collective_call_t*>(
            reinterpret_cast<const char*>(calls) + i * step);
        naming_call(i, [&] {
          made.push_back(described_in_batch(owner, at, step, given, stream, referred_to));
        });
      }
    });

    if (given.request != nullptr) {
      const bool is_whole = std::none_of(made.begin(), made.end(), has_late_counts);
      if (is_whole) owner.with_refusals_told("batch", [&] { check_batch(owner, made); });
      return begin_calls(handle, made, {given.tag, given.request}, "batch", stream,
          [](Group& of, std::span<CollectiveCall> kept) {
            run_batch(of, kept);
            return uint64_t{0};
          });
    }
    owner.settle_requests(RequestOrder::collective, "batch", given.timeout_ms);
    if (given.tag == nullptr) return run_batch(owner, made);
    const CallTag tagged(given.tag);
    run_batch(owner, made);
  });
}

static_assert(static_cast<int32_t>(Advice::nccl) == SYMM_ADVICE_NCCL);

symm_status_t symm_collective_plan(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, symm_plan_info_t* out) {
  return fill_struct(options, out, SYMM_FIRST_SIZE(symm_plan_info_t, advice_reason), [&] {
    Group& owner = *group_of(group);
    const symm_collective_call_t asked = read_call(require(call, "call"), "call");
    require_no_options(asked);
    ReferredTo referred_to;
    CollectiveCall planned = described(asked, nullptr, referred_to);
    if (complete(planned, owner, options).request != nullptr) {
      throw Error(Status::invalid_argument, "options.request: nothing is called, only planned");
    }

    const PlanReport report = plan_collective(owner, planned);
    symm_plan_info_t filled{};
    filled.algorithm = static_cast<int32_t>(report.algorithm);
    filled.chunk_bytes = report.chunk_bytes;
    write_text(filled.reason, report.reason);
    filled.advice = static_cast<int32_t>(report.advice);
    filled.symm_ns = report.symm_ns;
    filled.nccl_ns = report.nccl_ns;
    write_text(filled.advice_reason, report.advice_reason);
    return filled;
  });
}
