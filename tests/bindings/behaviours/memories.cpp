// Verbs of buffers, memories, heaps and tokens.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "tests/bindings/behaviours/runner.hpp"

namespace behaviours {
namespace {
// ---- buffers and memories

void alloc(Runner& runner, const Line& line) {
  symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
  options.alignment = line.size("alignment", 0);
  runner.things[line.text("as")] = runner.group(line).allocate(line.size("bytes"), options);
}

// The kernel may refuse to bind memory to nodes, as in containers, but only if it is asked to.
void expect_node(Runner& runner, const Line& line) {
  const bool is_given = line.has("node");
  const int32_t node = line.integer32("node", -1);
  symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
  if (is_given) {
    options.flags = SYMM_ALLOC_ON_NODE;
    options.numa_node = node;
  }

  try {
    const symm::Buffer buffer = runner.group(line).allocate(line.size("bytes"), options);
    require(buffer.info().numa_node, node, "the NUMA node");
  } catch (const symm::Error& error) {
    if (!is_given || error.status() != SYMM_ERR_UNAVAILABLE) throw;
    const std::string named = "NUMA node " + std::to_string(node) + " ";
    const bool is_named = std::string(error.what()).find(named) != std::string::npos;
    require(is_named ? 1 : 0, 1, "whether the node is named");
  }
}

void move_memory(Runner& runner, const Line& line) {
  const symm::Memory from = line.has("memory") ? runner.memory(line) : symm::Memory();
  runner.things[line.text("as")] = runner.group(line).move_memory(from, {timeout(line)});
}

void move_heap(Runner& runner, const Line& line) {
  const symm::Heap from =
      line.has("heap") ? runner.the<symm::Heap>(line.text("heap")) : symm::Heap();
  runner.things[line.text("as")] = runner.group(line).move_heap(from, {timeout(line)});
}

void rendezvous(Runner& runner, const Line& line) {
  symm_rendezvous_options_t options = SYMM_RENDEZVOUS_OPTIONS_INIT;
  options.tag = line.size("tag", 0);
  options.channels = line.integer32("channels", 0);
  options.timeout_ms = timeout(line);
  const auto& buffer = runner.the<symm::Buffer>(line.text("buffer"));
  symm::Memory made = runner.group(line).rendezvous(buffer, options);

  if (line.has("memory")) {
    const bool is_known = made.get() == runner.memory(line).get();
    require(is_known ? 1 : 0, 1, "whether it is the same memory");
  }
  runner.things[line.text("as")] = std::move(made);
}

// `of` names the group that `thing` belongs to.
template <class Thing>
void require_group(Runner& runner, const Line& line, const Thing& thing) {
  if (!line.has("of")) return;
  const symm::Group& group = runner.the<symm::Group>(line.text("of"));
  require(thing.group().info().id, static_cast<int64_t>(group.info().id), "the group's id");
}

void expect_buffer(Runner& runner, const Line& line) {
  const auto& buffer = runner.the<symm::Buffer>(line.text("buffer"));
  require(buffer.span().size(), line.integer("bytes"), "bytes");
  require_group(runner, line, buffer);
}

void expect_memory(Runner& runner, const Line& line) {
  const symm::Memory memory = runner.memory(line);
  const symm_memory_info_t info = memory.info();
  require_group(runner, line, memory);
  if (line.has("of")) {
    const bool is_own = memory.buffer().span().data() == memory.span().data();
    require(is_own ? 1 : 0, 1, "whether its buffer is this rank's block");
  }
  require_fields(line, {
                           {"rank", info.rank},
                           {"size", info.size},
                           {"bytes", info.bytes},
                           {"channels", info.channels},
                       });
}

void find(Runner& runner, const Line& line) {
  // The copy of a far block is found by no address.
  if (runner.is_far(line)) return line.use_all();

  const auto place = runner.group(line).find(runner.address(line, "at"));
  const auto own = symm::find_buffer(runner.address(line, "at"));
  if (!line.has("memory")) {
    require(place.has_value() || own.has_value() ? 1 : 0, 0, "whether something was found");
    return;
  }

  const auto id = static_cast<int64_t>(runner.memory(line).info().id);
  require(place.value().memory.info().id, id, "id");
  require(place->rank, line.integer("rank"), "rank");
  require(place->offset, line.integer("offset"), "offset");
  if (place->rank != runner.rank) return;

  require(own.value().offset, line.integer("offset"), "offset in the buffer");
  require(runner.group(line).memory_of(own->buffer).info().id, id, "id by the buffer");
}

void record_use(Runner& runner, const Line& line) {
  const std::string name = line.text("name");
  if (const auto* buffer = std::get_if<symm::Buffer>(&runner.things.at(name))) {
    buffer->record_use(nullptr);
  } else {
    runner.memory(name).record_use(nullptr);
  }
}

void suspend(Runner& runner, const Line& line) {
  const uint64_t flags = line.integer("keep", 0) != 0 ? SYMM_SUSPEND_KEEP : 0;
  runner.the<symm::Buffer>(line.text("name")).suspend(flags);
}

void resume(Runner& runner, const Line& line) {
  runner.the<symm::Buffer>(line.text("name")).resume();
}

void expect_suspended(Runner& runner, const Line& line) {
  const uint64_t flags = runner.the<symm::Buffer>(line.text("name")).info().flags;
  const int is_suspended = (flags & SYMM_BUFFER_SUSPENDED) != 0 ? 1 : 0;
  require(is_suspended, line.integer("suspended"), "suspended");
}

void write_buffer(Runner& runner, const Line& line) {
  const symm::Span<std::byte> bytes = runner.the<symm::Buffer>(line.text("name")).span();
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(line.integer("value")));
}

void expect_buffer_bytes(Runner& runner, const Line& line) {
  for (const std::byte byte : runner.the<symm::Buffer>(line.text("name")).span()) {
    require(static_cast<int>(byte), line.integer("value"), "a byte");
  }
}

void release(Runner& runner, const Line& line) {
  const auto empty = [](auto& thing) { thing = std::decay_t<decltype(thing)>(); };
  std::visit(empty, runner.things.at(line.text("name")));
}

// ---- heaps

void make_heap(Runner& runner, const Line& line) {
  runner.things[line.text("as")] = runner.group(line).heap(line.size("bytes"));
}

void take(Runner& runner, const Line& line) {
  void* piece = nullptr;
  size_t offset = 0;
  symm::check(symm_heap_alloc(runner.heap(line).get(), line.size("bytes"),
                  line.size("alignment", 0), nullptr, &piece, &offset),
      "symm_heap_alloc");
  require(offset, line.integer("offset"), "offset");
}

void give(Runner& runner, const Line& line) {
  symm::check(symm_heap_free(runner.heap(line).get(), runner.address(line, "at"), nullptr),
      "symm_heap_free");
}

void expect_piece(Runner& runner, const Line& line) {
  const symm::Heap& heap = runner.heap(line);
  const symm::Span<std::byte> found = heap.find(runner.address(line, "at"));
  const int64_t offset = found.empty() ? 0 : found.data() - heap.memory().span().data();
  require(found.size(), line.integer("bytes"), "bytes");
  require(offset, line.integer("offset", offset), "offset");
}

void expect_heap(Runner& runner, const Line& line) {
  const symm_heap_info_t info = runner.heap(line).info();
  require_group(runner, line, runner.heap(line));
  require_fields(line, {
                           {"used_bytes", info.used_bytes},
                           {"free_bytes", info.free_bytes},
                           {"pieces", info.pieces},
                           {"largest_free_bytes", info.largest_free_bytes},
                           {"fragmentation_permille", info.fragmentation_permille},
                       });
}

// ---- tokens

void export_token(Runner& runner, const Line& line) {
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.hold_ms = line.size("hold_ms", 0);
  if (line.has("hold_ms") && options.hold_ms == 0) options.flags = SYMM_IPC_NO_HOLD;
  options.channels = static_cast<int32_t>(line.integer("channels", 0));
  options.fence_bytes = line.size("fence_bytes", 0);
  runner.things[line.text("as")] = symm::ipc_export(runner.bytes(line, "at"), options);
}

void import_token(Runner& runner, const Line& line) {
  runner.things[line.text("as")] = symm::Import(runner.the<symm::Token>(line.text("token")));
}

void expect_import(Runner& runner, const Line& line) {
  const symm_ipc_info_t info = runner.the<symm::Import>(line.text("import")).info();
  require_fields(line, {
                           {"bytes", info.bytes},
                           {"offset", info.offset},
                           {"host_memory", info.host_memory},
                       });
}

void expect_holders(Runner& runner, const Line& line) {
  const symm_ipc_holders_t held = symm::ipc_holders(runner.bytes(line, "at"));
  require_fields(line, {
                           {"leases", held.leases},
                           {"processes", held.processes},
                           {"quarantined", held.quarantined},
                       });
}

// ---- bundles and versions

void export_bundle(Runner& runner, const Line& line) {
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.hold_ms = line.size("hold_ms", 0);
  if (line.has("hold_ms") && options.hold_ms == 0) options.flags = SYMM_IPC_NO_HOLD;
  const symm::Span<std::byte> first = runner.bytes(line, "at");
  const std::vector<std::string> names = split(line.text("names"), ":");

  std::vector<symm_ipc_piece_t> pieces(names.size(), SYMM_IPC_PIECE_INIT);
  for (size_t i = 0; i < names.size(); ++i) {
    pieces[i].pointer = first.data() + i * first.size();
    pieces[i].bytes = first.size();
    pieces[i].name = names[i].c_str();
  }
  runner.things[line.text("as")] = symm::ipc_export_bundle(pieces, options);
}

void suspend_import(Runner& runner, const Line& line) {
  runner.the<symm::Import>(line.text("import")).suspend();
}

void resume_import(Runner& runner, const Line& line) {
  const auto& import = runner.the<symm::Import>(line.text("import"));
  if (!line.has("token")) return import.resume();
  import.resume(runner.the<symm::Token>(line.text("token")));
}

void expect_asleep(Runner& runner, const Line& line) {
  const uint64_t flags = runner.the<symm::Import>(line.text("import")).info().flags;
  const int is_asleep = (flags & SYMM_IPC_SUSPENDED) != 0 ? 1 : 0;
  require(is_asleep, line.integer("asleep"), "asleep");
}

void import_bundle(Runner& runner, const Line& line) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.flags = SYMM_IPC_READ_ONLY;
  runner.things[line.text("as")] =
      symm::Import(runner.the<symm::Token>(line.text("token")), options);
}

void expect_bundle(Runner& runner, const Line& line) {
  const auto& bundle = runner.the<symm::Import>(line.text("import"));
  require_fields(line, {{"pieces", bundle.bundle_size()}, {"bytes", bundle.info().bytes}});
  if (!line.has("name")) return;
  const std::string name = line.text("name");
  const auto count = line.integer("count");
  if (count == 0) {
    size_t index = 0;
    return require(
        symm_ipc_bundle_find(bundle.get(), name.c_str(), &index), SYMM_ERR_NOT_FOUND, "the status");
  }

  const auto* const seen = static_cast<const int32_t*>(bundle.bundle_piece(name).pointer);
  const int64_t from = line.integer("from");
  for (int64_t i = 0; i < count; ++i) {
    require(seen[i], line.formula(from, i), "element " + std::to_string(i));
  }
}

void publish(Runner& runner, const Line& line) {
  symm_ipc_publish_options_t options = SYMM_IPC_PUBLISH_OPTIONS_INIT;
  options.keep = line.size("keep", 0);
  symm::ipc_publish(line.text("name"), line.size("version"),
      runner.the<symm::Token>(line.text("token")), options);
}

void lookup(Runner& runner, const Line& line) {
  symm_ipc_lookup_options_t options = SYMM_IPC_LOOKUP_OPTIONS_INIT;
  options.timeout_ms = timeout(line);
  const symm::PublishedVersion found =
      symm::ipc_lookup(line.text("name"), line.constant("compare"), line.size("version"), options);
  require(found.version, line.integer("expected"), "the version");
  runner.things[line.text("as")] = found.token;
}

void withdraw_version(Runner&, const Line& line) {
  symm::ipc_withdraw_version(line.text("name"), line.size("version"), timeout(line));
}

void withdraw(Runner& runner, const Line& line) {
  symm::ipc_withdraw(runner.bytes(line, "at"), timeout(line));
}
}  // namespace

const Verbs& verbs_of_memories() {
  static const Verbs verbs = {
      {"alloc", alloc},
      {"expect_asleep", expect_asleep},
      {"expect_buffer", expect_buffer},
      {"expect_buffer_bytes", expect_buffer_bytes},
      {"expect_bundle", expect_bundle},
      {"expect_heap", expect_heap},
      {"expect_holders", expect_holders},
      {"expect_import", expect_import},
      {"expect_memory", expect_memory},
      {"expect_node", expect_node},
      {"expect_piece", expect_piece},
      {"expect_suspended", expect_suspended},
      {"export", export_token},
      {"export_bundle", export_bundle},
      {"find", find},
      {"give", give},
      {"heap", make_heap},
      {"import", import_token},
      {"import_bundle", import_bundle},
      {"lookup", lookup},
      {"publish", publish},
      {"record_use", record_use},
      {"release", release},
      {"move_heap", move_heap},
      {"move_memory", move_memory},
      {"rendezvous", rendezvous},
      {"resume", resume},
      {"resume_import", resume_import},
      {"suspend", suspend},
      {"suspend_import", suspend_import},
      {"take", take},
      {"withdraw", withdraw},
      {"withdraw_version", withdraw_version},
      {"write_buffer", write_buffer},
  };

  return verbs;
}
}  // namespace behaviours
