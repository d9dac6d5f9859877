// Every function refuses every kind of wrong argument: with the right status, a message
// that names the argument, and untouched outputs. That no parameter was forgotten is
// checked against the header itself.
#include "tests/capi/refusal.hpp"

#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace symm_test {
World::World(const char* bootstrap, int rank, int size)
    : group(support::create(
          {.bootstrap = bootstrap, .create_timeout_ms = 5'000, .timeout_ms = 50}, rank, size)
              .detach()) {
  void* pointer = nullptr;
  symm_ipc_export_options_t with_channels = SYMM_IPC_EXPORT_OPTIONS_INIT;
  with_channels.channels = 2;
  if (symm_alloc(group, kBytes, nullptr, &buffer) != SYMM_OK ||
      symm_rendezvous(group, buffer, nullptr, &memory) != SYMM_OK ||
      symm_buffer_pointer(buffer, &pointer) != SYMM_OK ||
      symm_ipc_export(
          pointer, kBytes, &with_channels, token.data(), kToken, &token_size, nullptr) != SYMM_OK ||
      symm_group_invite(group, nullptr, ticket.data(), ticket.size(), &ticket_size) != SYMM_OK ||
      symm_heap_create(group, kBytes, nullptr, &heap) != SYMM_OK ||
      symm_heap_alloc(heap, kBytes - 8, 0, nullptr, &piece, nullptr) != SYMM_OK) {
    ADD_FAILURE() << symm_last_error();
  }

  block = static_cast<std::byte*>(pointer);
  symm_ipc_piece_t piece_of_bundle = SYMM_IPC_PIECE_INIT;
  piece_of_bundle.pointer = pointer;
  piece_of_bundle.bytes = kBytes;
  piece_of_bundle.name = "whole";
  std::array<std::byte, kToken> bundle{};
  size_t size_of_bundle = 0;
  version_name = fresh_name();
  if (symm_ipc_export_bundle(&piece_of_bundle, 1, nullptr, bundle.data(), kToken, &size_of_bundle,
          nullptr) != SYMM_OK ||
      symm_ipc_publish(version_name.c_str(), 1, bundle.data(), size_of_bundle, nullptr) !=
          SYMM_OK ||
      symm_ipc_import(bundle.data(), size_of_bundle, nullptr, &ipc, nullptr) != SYMM_OK) {
    ADD_FAILURE() << symm_last_error();
  }

  symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
  options.request = &request;
  if (symm_fill8(memory, rank, 0, 0, 1, &options, nullptr) != SYMM_OK ||
      symm_request_wait(request, nullptr) != SYMM_OK) {
    ADD_FAILURE() << symm_last_error();
  }
  // A round is started, so that one can be finished.
  if (symm_exchange_create(group, nullptr, 0, nullptr, &exchange) != SYMM_OK ||
      symm_exchange_start(exchange, nullptr, nullptr) != SYMM_OK) {
    ADD_FAILURE() << symm_last_error();
  }
}

// Calls at random have a group here that may be none; then so is the buffer.
symm_buffer_t* World::unmet_buffer() {
  symm_buffer_t* made = nullptr;
  symm_alloc(group, kBytes, nullptr, &made);
  return buffers_.emplace_back(made);
}

symm_buffer_t* World::suspended_buffer() {
  symm_buffer_t* const made = unmet_buffer();
  symm_buffer_suspend(made, 0, nullptr, nullptr);
  return made;
}

symm_ipc_t* World::fresh_import() {
  symm_ipc_t* made = nullptr;
  symm_ipc_import(token.data(), token_size, nullptr, &made, nullptr);
  return imports_.emplace_back(made);
}

symm_ipc_t* World::suspended_import() {
  symm_ipc_t* const made = fresh_import();
  symm_ipc_suspend(made, nullptr, nullptr);
  return made;
}

const char* World::fresh_name() {
  static std::atomic<uint64_t> serial{0};
  return names_.emplace_back("world " + std::to_string(++serial)).c_str();
}

World::~World() {
  for (symm_ipc_t* const import : imports_) {
    symm_ipc_release(import, nullptr);
  }
  std::for_each(buffers_.begin(), buffers_.end(), symm_buffer_release);
  const OneOfEach all = handles();
  for (size_t kind = all.size(); kind-- > 0;) {
    release(kind, all[kind]);
  }
}

void release(size_t kind, void* handle) {
  if (kind == 0) symm_group_release(static_cast<symm_group_t*>(handle));
  if (kind == 1) symm_buffer_release(static_cast<symm_buffer_t*>(handle));
  if (kind == 2) symm_memory_release(static_cast<symm_memory_t*>(handle));
  if (kind == 3) symm_heap_release(static_cast<symm_heap_t*>(handle));
  if (kind == 4) symm_ipc_release(static_cast<symm_ipc_t*>(handle), nullptr);
  if (kind == 5) symm_exchange_release(static_cast<symm_exchange_t*>(handle));
  if (kind == 6) symm_request_release(static_cast<symm_request_t*>(handle));
}

void* World::poisoned(size_t size) {
  Place& place = places_.emplace_back();
  EXPECT_LE(size, place.bytes.size());
  place.bytes.fill(std::byte{0xA5});
  place.before = place.bytes;
  return place.bytes.data();
}

bool World::outputs_untouched() const {
  return std::all_of(places_.begin(), places_.end(),
      [](const Place& place) { return place.bytes == place.before; });
}

namespace {
bool is_output_struct(const Parameter& parameter) {
  return parameter.name == std::string("out") && std::strstr(parameter.type, "**") == nullptr;
}

bool has(const std::vector<const char*>& functions, const Parameter& parameter) {
  const auto is_it = [&](const char* one) { return one == std::string(parameter.function); };
  return functions.empty() || std::any_of(functions.begin(), functions.end(), is_it);
}

bool stands_for(const std::string& of, const Parameter& parameter) {
  if (of == kAnyOutput) return std::string(parameter.name).rfind("out", 0) == 0;
  if (of == kOutputStruct) return is_output_struct(parameter);
  return of == parameter.name || of == parameter.type;
}

bool is_exempt(const Parameter& parameter, const char* reason = nullptr) {
  return std::any_of(exemptions().begin(), exemptions().end(), [&](const Exemption& row) {
    return has(row.functions, parameter) &&
           (reason == nullptr || reason == std::string(row.reason)) &&
           std::count(row.parameters.begin(), row.parameters.end(), parameter.name) != 0;
  });
}

bool is_handle(const Parameter& parameter) {
  return std::any_of(std::begin(kHandles), std::end(kHandles),
      [&](const char* type) { return type == std::string(parameter.type); });
}

// Every parameter of every call, and which of the call's it is.
void for_each_parameter(
    const std::function<void(const Call& call, size_t index, const Parameter& parameter)>& body) {
  for (const Call& call : calls()) {
    size_t index = 0;
    for (const Parameter& parameter : kParameters) {
      if (parameter.function == std::string(call.function)) body(call, index++, parameter);
    }
  }
}

// Calls `body` for each parameter that is a struct.
void for_each_struct(
    const std::function<void(const Call& call, size_t index, const Struct& one)>& body) {
  // The default of calls on tokens, which know no group, as short as that of the group.
  setenv("SYMM_TIMEOUT_MS", "50", 1);
  setenv("SYMM_CREATE_TIMEOUT_MS", "50", 1);  // of a newcomer, whom nobody takes
  for_each_parameter([&](const Call& call, size_t index, const Parameter& parameter) {
    SCOPED_TRACE(std::string(call.function) + ", " + parameter.name);
    for (const Struct& one : structs()) {
      if (one.type == std::string(parameter.type)) body(call, index, one);
    }
  });
}

// Leave a message behind that no row can be content with.
void forget_last_error() { ASSERT_EQ(symm_log_remove_listener(99), SYMM_ERR_NOT_FOUND); }

void expect_refusal(
    symm_status_t got, symm_status_t expected, const char* parameter, World& world) {
  EXPECT_EQ(got, expected) << symm_status_string(got) << ": " << symm_last_error();
  const std::string message = symm_last_error();

  // Out of memory is nobody's wrong argument; the message
  // says how many bytes were not to be had. Nor is a "no".
  const bool is_size =
      expected == SYMM_ERR_OUT_OF_MEMORY && std::strspn(parameter, "0123456789") == 0;
  const char* word = parameter;
  if (expected == SYMM_ERR_NOT_FOUND) word = "";
  if (is_size) word = "bytes";
  EXPECT_NE(message.find(word), std::string::npos) << "the message is: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(world.outputs_untouched()) << "an output was written";
  world.forget_outputs();
}

symm_status_t expected_of(const Call& call) {
  static const std::map<std::string, symm_status_t> otherwise = {
      {"symm_buffer_adopt", SYMM_ERR_UNSUPPORTED},
      {"symm_buffer_export_dmabuf", SYMM_ERR_UNAVAILABLE},
      // A round is started already.
      {"symm_exchange_start", SYMM_ERR_INVALID_ARGUMENT},
      // What moves is on the group already.
      {"symm_heap_move", SYMM_ERR_INVALID_ARGUMENT},
      {"symm_memory_move", SYMM_ERR_INVALID_ARGUMENT},
      // A member that grows the group would have to take this newcomer.
      {"symm_group_join", SYMM_ERR_TIMEOUT}, {"symm_heap_alloc", SYMM_ERR_OUT_OF_MEMORY},
      {"symm_ipc_withdraw", SYMM_ERR_TIMEOUT}, {"symm_ipc_withdraw_version", SYMM_ERR_TIMEOUT},
      {"symm_memory_device_view", SYMM_ERR_UNSUPPORTED},
      {"symm_memory_multicast_pointer", SYMM_ERR_UNAVAILABLE}, {"symm_recv", SYMM_ERR_TIMEOUT},
      {"symm_wait_signal", SYMM_ERR_TIMEOUT}, {"symm_wait_signal_value", SYMM_ERR_TIMEOUT},
      {"symm_wait_signals", SYMM_ERR_TIMEOUT}, {"symm_wait_value32", SYMM_ERR_TIMEOUT},
      {"symm_wait_value64", SYMM_ERR_TIMEOUT}};
  const auto found = otherwise.find(call.function);
  return found != otherwise.end() ? found->second : SYMM_OK;
}

}  // namespace

bool applies(const Refusal& row, const Parameter& to) {
  const auto is_it = [&](const std::string& of) { return stands_for(of, to); };
  return has(row.functions, to) && std::any_of(row.parameters.begin(), row.parameters.end(), is_it);
}

namespace {
// A program without a launcher is a group of one, on which every call works, or says why not.
TEST(Call, RightArguments) {
  for (const Call& call : calls()) {
    World world;
    SCOPED_TRACE(call.function);
    const symm_status_t expected = expected_of(call);
    EXPECT_EQ(call.call(world, SIZE_MAX, 0), expected) << symm_last_error();
    EXPECT_EQ(world.outputs_untouched(), expected != SYMM_OK || !world.has_outputs());
  }

  World world;
  symm_group_t* none = world.group;
  EXPECT_EQ(symm_group_split(world.group, -1, 0, nullptr, &none), SYMM_OK) << symm_last_error();
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(symm_heap_free(world.heap, nullptr, nullptr), SYMM_OK) << symm_last_error();
}

// What a call says to a struct with nothing but its size: a bundle of no bytes is refused.
symm_status_t expected_of_defaults(const Call& call, const Struct& one) {
  const bool is_piece = one.type == std::string("const symm_ipc_piece_t*");
  return is_piece ? SYMM_ERR_INVALID_ARGUMENT : expected_of(call);
}

// The fields of a newer header's struct do not matter if they are unused; in outputs, the fields
// that this library does not fill come back as zero.
TEST(Call, LongerStructs) {
  for_each_struct([](const Call& call, size_t index, const Struct& one) {
    World world;
    const symm_status_t status = call.call(world, index, world.bits(one.unused));
    EXPECT_TRUE(status == SYMM_OK || status == expected_of_defaults(call, one))
        << symm_last_error();
  });

  for_each_parameter([](const Call& call, size_t index, const Parameter& parameter) {
    SCOPED_TRACE(std::string(call.function) + ", " + parameter.name);
    if (!is_output_struct(parameter) || expected_of(call) != SYMM_OK) return;
    World world;
    EXPECT_EQ(call.call(world, SIZE_MAX, 0), SYMM_OK) << symm_last_error();
    const size_t size = world.given_size();

    for (const size_t more : {size_t{8}, size_t{0}}) {
      world.forget_outputs();
      const uint64_t place = world.bits(world.out_struct<symm_failure_t>(size + more));
      EXPECT_EQ(call.call(world, index, place), SYMM_OK) << symm_last_error();
      EXPECT_EQ(world.first_word(0), size + more);
      EXPECT_EQ(world.first_word(size), more == 0 ? 0xA5A5A5A5A5A5A5A5U : 0U);
    }
  });
}

// A language that clears memory and sets the size gets what NULL gets, which is what every call of
// calls.cpp is given, or a deadline in its place.
TEST(Call, ZeroIsTheDefault) {
  std::set<std::string> sent;
  for_each_struct([&](const Call& call, size_t index, const Struct& one) {
    World world;
    const symm_status_t status = call.call(world, index, world.bits(one.zeroed));
    // The zeroed wait is for a word that is 0, which it is.
    const bool is_there = one.type == std::string("const symm_signal_wait_t*");
    EXPECT_EQ(status, is_there ? SYMM_OK : expected_of_defaults(call, one)) << symm_last_error();
    sent.insert(one.type);
  });
  EXPECT_EQ(sent.size(), structs().size()) << "a struct that no call takes";
}

// A zeroed struct is what the initialiser makes.
TEST(Call, InitialisersAreZero) {
#define SYMM_EXPECT_ZERO(kind, macro)                                   \
  [] {                                                                  \
    static const symm_##kind##_t kMade = SYMM_##macro##_INIT;           \
    symm_##kind##_t zeroed;                                             \
    std::memset(&zeroed, 0, sizeof zeroed);                             \
    zeroed.struct_size = sizeof zeroed;                                 \
    EXPECT_EQ(std::memcmp(&zeroed, &kMade, sizeof zeroed), 0) << #kind; \
  }()
  SYMM_EACH_OPTIONS(SYMM_EXPECT_ZERO);
  SYMM_EXPECT_ZERO(rmsnorm_call, RMSNORM_CALL);
  SYMM_EXPECT_ZERO(store, STORE);
  SYMM_EXPECT_ZERO(failure, FAILURE);
  SYMM_EXPECT_ZERO(signal_wait, SIGNAL_WAIT);
  SYMM_EXPECT_ZERO(collective_call, COLLECTIVE_CALL);
  SYMM_EXPECT_ZERO(message, MESSAGE);
  SYMM_EXPECT_ZERO(pieces_call, PIECES_CALL);
  SYMM_EXPECT_ZERO(neighbor, NEIGHBOR);
}

// A runtime that moves a task to another thread between
// the call and the question has the failure all the same.
TEST(LastFailure, IsDeliveredIntoTheOptionsOfTheCall) {
  for_each_struct([](const Call& call, size_t index, const Struct& one) {
    if (one.failure == nullptr) return;

    World world;
    symm_failure_t& told = *one.failure;
    told.status = 4711;
    const symm_status_t status = call.call(world, index, world.bits(one.unused));
    EXPECT_EQ(told.status, status == SYMM_OK ? 4711 : status);

    EXPECT_EQ(call.call(world, index, world.bits(one.newer)), SYMM_ERR_UNSUPPORTED);
    EXPECT_EQ(told.status, SYMM_ERR_UNSUPPORTED);
    EXPECT_STREQ(told.message, symm_last_error());

    const symm_failure_t before = std::exchange(told, {});
    EXPECT_EQ(call.call(world, index, world.bits(one.unused)), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(symm_last_error()).find(".failure: "), std::string::npos)
        << symm_last_error();
    EXPECT_STREQ(told.message, "");
    told = before;

    static const std::vector<uint64_t> never_set(64, UINT64_MAX - 1);
    EXPECT_EQ(call.call(world, index, world.bits(never_set.data())), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(symm_last_error()).find("was not set"), std::string::npos)
        << symm_last_error();
  });
}

TEST(Refusal, WrongArguments) {
  World world;
  const auto check = [&](const char* function, const char* named, const char* how,
                         symm_status_t expected, const auto& call) {
    SCOPED_TRACE(std::string(function) + ", " + named + " " + how);
    forget_last_error();
    expect_refusal(call(), expected, named, world);
    symm_failure_t status = SYMM_FAILURE_INIT;
    EXPECT_EQ(symm_group_status(world.group, &status), SYMM_OK);
    ASSERT_EQ(status.status, SYMM_OK) << "the group did not survive: " << status.message;
  };

  for_each_parameter([&](const Call& call, size_t index, const Parameter& parameter) {
    const auto check_struct = [&](const char* how, symm_status_t expected, const void* value) {
      check(call.function, parameter.name, how, expected,
          [&] { return call.call(world, index, world.bits(value)); });
    };

    for (const Struct& one : structs()) {
      if (one.type != std::string(parameter.type)) continue;
      check_struct("short", SYMM_ERR_INVALID_ARGUMENT, one.cut_short);
      check_struct("newer", SYMM_ERR_UNSUPPORTED, one.newer);
    }

    for (const Refusal& row : refusals()) {
      const char* const reason = row.how == std::string("NULL") ? nullptr : kNotLookedAt;
      if (!applies(row, parameter) || (row.functions.empty() && is_exempt(parameter, reason))) {
        continue;
      }
      check(call.function, row.named != nullptr ? row.named : parameter.name, row.how, row.status,
          [&] { return call.call(world, index, row.value(world)); });
    }
  });

  for (const WrongCall& row : wrong_calls()) {
    check(row.function, row.named, row.how, row.status, [&] { return row.call(world); });
  }
}

TEST(Refusal, WrongHandles) {
  World world;
  alignas(64) static std::byte garbage[4096];
  std::fill(std::begin(garbage), std::end(garbage), std::byte{0xA5});
  const OneOfEach right = world.handles();
  const OneOfEach released = World().handles();

  struct Wrong {
    std::string what;
    void* handle;
    std::string except;  // the type for which it would be right
  };

  std::vector<Wrong> wrongs = {
      {"NULL", nullptr, ""},
      {"garbage", garbage, ""},
      {"an address that is not mapped", reinterpret_cast<void*>(uintptr_t{0x10}), ""},
      {"the middle of a group", reinterpret_cast<std::byte*>(world.group) + 8, ""},
      {"a group's slot in another generation",
          reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(world.group) ^ uintptr_t{1} << 48),
          ""},
      {"a number above all generations",
          reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(world.group) | uintptr_t{1} << 63),
          ""},
  };
  for (size_t kind = 0; kind < std::size(kHandles); ++kind) {
    wrongs.push_back({std::string("a released ") + kHandles[kind], released[kind], ""});
    wrongs.push_back({std::string("a ") + kHandles[kind], right[kind], kHandles[kind]});
  }
  for_each_parameter([&](const Call& call, size_t index, const Parameter& parameter) {
    for (const Wrong& wrong : wrongs) {
      if (!is_handle(parameter) || wrong.except == parameter.type) continue;
      if (wrong.handle == nullptr && is_exempt(parameter, kNullOnNewcomers)) continue;
      SCOPED_TRACE(std::string(call.function) + ", " + parameter.name + " is " + wrong.what);
      forget_last_error();
      expect_refusal(call.call(world, index, world.bits(wrong.handle)), SYMM_ERR_INVALID_HANDLE,
          parameter.name, world);
    }
  });
  // A release of a wrong handle does no harm: a garbage collector may be wrong once and must not
  // pay with its life.
  for (const Wrong& wrong : wrongs) {
    for (size_t kind = 0; kind < std::size(kHandles); ++kind) {
      if (wrong.except != kHandles[kind]) release(kind, wrong.handle);
    }
  }
  int32_t size = 0;
  EXPECT_EQ(symm_group_size(world.group, &size), SYMM_OK)
      << "releasing wrong handles hurt a right one";
}

// A back end that cannot be used is not a wrong argument.
TEST(Refusal, UnavailableBackEnd) {
  int32_t count = 0;
  if (symm_device_count(SYMM_BACKEND_CUDA, &count) == SYMM_OK) {
    GTEST_SKIP() << "this machine has " << count << " CUDA devices";
  }

  World world;
  forget_last_error();
  expect_refusal(symm_device_count(SYMM_BACKEND_CUDA, world.out<int32_t>()), SYMM_ERR_UNAVAILABLE,
      "CUDA", world);
  forget_last_error();
  expect_refusal(symm_device_info(SYMM_BACKEND_CUDA, 0, world.out_struct<symm_device_info_t>()),
      SYMM_ERR_UNAVAILABLE, "CUDA", world);
  forget_last_error();
  expect_refusal(
      symm_topology(SYMM_BACKEND_CUDA, world.out<symm_topology_class_t>(), nullptr, 0, nullptr),
      SYMM_ERR_UNAVAILABLE, "CUDA", world);
  forget_last_error();
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  expect_refusal(
      symm_group_create(&config, world.out<symm_group_t*>()), SYMM_ERR_UNAVAILABLE, "CUDA", world);
}

TEST(Refusal, NoParameterIsForgotten) {
  for (const Parameter& parameter : kParameters) {
    // A release never fails; the test WrongHandles has it.
    if (std::string(parameter.function).ends_with("_release")) continue;
    const auto is_here = [&](const auto& row) {
      return row.function == std::string(parameter.function);
    };
    const bool is_called = std::any_of(calls().begin(), calls().end(), is_here);
    const bool is_refused =
        is_handle(parameter) ||
        std::any_of(structs().begin(), structs().end(),
            [&](const Struct& one) { return one.type == std::string(parameter.type); }) ||
        std::any_of(refusals().begin(), refusals().end(),
            [&](const Refusal& row) { return applies(row, parameter); }) ||
        std::any_of(wrong_calls().begin(), wrong_calls().end(), [&](const WrongCall& row) {
          return is_here(row) && row.named == std::string(parameter.name);
        });
    EXPECT_TRUE(is_exempt(parameter) || is_called)
        << "tests/capi/calls.cpp has no call of " << parameter.function;
    EXPECT_TRUE(is_exempt(parameter) || is_refused)
        << "tests/capi/refusals.cpp has no row for " << parameter.type << " " << parameter.name
        << " of " << parameter.function << ": what is refused, or why nothing is";
  }
}

// More handles than one slot has numbers. Each buffer would have the slot of the one before.
TEST(Refusal, AReleasedNumberIsNotGivenOutAgain) {
  constexpr int kHandlesOfASlot = 1 << 15;
  World world;
  std::set<symm_buffer_t*> numbers;

  for (int i = 0; i < kHandlesOfASlot + 100; ++i) {
    symm_buffer_t* buffer = nullptr;
    ASSERT_EQ(symm_alloc(world.group, 1, nullptr, &buffer), SYMM_OK) << symm_last_error();
    ASSERT_GT(reinterpret_cast<intptr_t>(buffer), 0);
    ASSERT_TRUE(numbers.insert(buffer).second) << "after " << i;
    symm_buffer_release(buffer);
  }

  size_t size = 0;
  for (symm_buffer_t* const buffer : numbers) {
    ASSERT_EQ(symm_buffer_bytes(buffer, &size), SYMM_ERR_INVALID_HANDLE);
    symm_buffer_release(buffer);
  }
  EXPECT_EQ(symm_buffer_bytes(world.buffer, &size), SYMM_OK);
}

TEST(Refusal, AGroupDoesNotStandForAnEarlierOne) {
  symm_group_t* const first = support::create({.bootstrap = "thread://first"}, 0, 1).detach();
  symm_group_release(first);
  const auto second = support::create({.bootstrap = "thread://second"}, 0, 1);
  EXPECT_NE(second.get(), first);

  float x = 1;
  EXPECT_EQ(symm_allreduce(first, &x, &x, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
      SYMM_ERR_INVALID_HANDLE);
  symm_group_release(first);
  EXPECT_EQ(symm_allreduce(second.get(), &x, &x, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
      SYMM_OK);
}

// The other way round: a row or an exemption for
// something that the header does not have checks nothing.
TEST(Refusal, NoRowIsStale) {
  const auto expect_all = [](const auto& row, const char* what) {
    for (const std::string& of : row.parameters) {
      const auto is_it = [&](const Parameter& one) {
        return has(row.functions, one) && stands_for(of, one);
      };
      const auto found = std::count_if(std::begin(kParameters), std::end(kParameters), is_it);
      EXPECT_GE(static_cast<size_t>(found), std::max(row.functions.size(), size_t{1}))
          << of << ": " << what;
    }
  };

  for (const Refusal& row : refusals()) {
    expect_all(row, row.how);
  }

  for (const Exemption& row : exemptions()) {
    expect_all(row, row.reason);
  }
}
}  // namespace
}  // namespace symm_test
