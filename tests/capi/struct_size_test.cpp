// SPDX-License-Identifier: Apache-2.0
//
// Structs of older and newer headers. An older one is shorter than ours only after 0.1, so here "short" is always refused (see
// the tables of refusals); a newer one is longer.
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace {

symm_group_config_t host_config() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://struct-size";
  config.size = 1;
  return config;
}

class StructSize : public testing::Test {
 protected:
  const symm::Group made_ = symm::Group::create(host_config());
  symm_group_t* const group = made_.get();
};

// A struct of a newer header: ours and then a field that we do not know.
template <class T>
struct Newer {
  T known;
  uint64_t appended;
};

template <class T>
Newer<T> newer(T known, uint64_t appended) {
  known.struct_size = sizeof(Newer<T>);
  return {known, appended};
}

TEST_F(StructSize, newer_config_is_accepted_while_its_tail_is_zero) {
  auto config = newer(host_config(), 0);
  symm_group_t* made = nullptr;
  EXPECT_EQ(symm_group_create(&config.known, &made), SYMM_OK) << symm_last_error();
  symm_group_release(made);

  config.appended = 1;
  made = nullptr;
  EXPECT_EQ(symm_group_create(&config.known, &made), SYMM_ERR_UNSUPPORTED);
  EXPECT_NE(std::string(symm_last_error()).find("config"), std::string::npos) << symm_last_error();
  EXPECT_EQ(made, nullptr);
}

TEST_F(StructSize, newer_options_are_accepted_while_their_tail_is_zero) {
  auto options = newer(symm_collective_options_t SYMM_COLLECTIVE_OPTIONS_INIT, 0);
  float value = 3;
  EXPECT_EQ(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, &options.known, nullptr), SYMM_OK)
      << symm_last_error();
  options.appended = uint64_t{1} << 63;  // the very last byte
  EXPECT_EQ(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, &options.known, nullptr), SYMM_ERR_UNSUPPORTED);
}

TEST_F(StructSize, newer_store_is_accepted_while_its_tail_is_zero) {
  symm_store_t store{sizeof store, nullptr, [](void*, const char*, const void*, size_t, uint64_t) { return SYMM_OK + 0; },
                     [](void*, const char*, void*, size_t, size_t*, uint64_t) { return SYMM_ERR_TIMEOUT + 0; }};
  auto longer = newer(store, 0);
  symm_group_config_t config = host_config();
  config.bootstrap = nullptr;
  config.store = &longer.known;
  symm_group_t* made = nullptr;
  EXPECT_EQ(symm_group_create(&config, &made), SYMM_OK) << symm_last_error();
  symm_group_release(made);
  longer.appended = 1;
  EXPECT_EQ(symm_group_create(&config, &made), SYMM_ERR_UNSUPPORTED);
}

// Whatever the call, a struct that it fills keeps to struct_size, and what a newer caller has beyond ours comes back as zero.
template <class T>
void check_output(const char* what, const std::function<symm_status_t(T*)>& call) {
  SCOPED_TRACE(what);
  Newer<T> longer;
  std::memset(&longer, 0xA5, sizeof longer);
  longer.known.struct_size = sizeof longer;
  EXPECT_EQ(call(&longer.known), SYMM_OK) << symm_last_error();
  EXPECT_EQ(longer.known.struct_size, sizeof longer);
  EXPECT_EQ(longer.appended, 0u);

  Newer<T> exact;
  std::memset(&exact, 0xA5, sizeof exact);
  const uint64_t poison = exact.appended;
  exact.known.struct_size = sizeof(T);
  EXPECT_EQ(call(&exact.known), SYMM_OK) << symm_last_error();
  EXPECT_EQ(exact.known.struct_size, sizeof(T));
  EXPECT_EQ(exact.appended, poison) << "written beyond struct_size";

  exact.known.struct_size = 0x5A5A5A5A;  // what an uninitialised struct says
  EXPECT_EQ(call(&exact.known), SYMM_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(exact.appended, poison);
}

TEST_F(StructSize, outputs_keep_to_their_size) {
  check_output<symm_device_info_t>("symm_device_info", [](auto* out) { return symm_device_info(SYMM_BACKEND_HOST, 0, out); });
  check_output<symm_failure_t>("symm_last_failure", [](auto* out) { return symm_last_failure(out); });
  check_output<symm_peer_info_t>("symm_peer_info", [&](auto* out) { return symm_peer_info(group, 0, out); });
  check_output<symm_group_stats_t>("symm_group_stats", [&](auto* out) { return symm_group_stats(group, out); });
  check_output<symm_group_info_t>("symm_group_info", [&](auto* out) { return symm_group_info(group, out); });
  check_output<symm_group_status_t>("symm_group_status", [&](auto* out) { return symm_group_status(group, out); });
  check_output<symm_plan_info_t>("symm_collective_plan", [&](auto* out) {
    float value = 0;
    return symm_collective_plan(
        group, support::call_of(SYMM_COLLECTIVE_ALLREDUCE, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM), nullptr, out);
  });
  const support::Block block = support::allocate(made_, 64);
  check_output<symm_buffer_info_t>("symm_buffer_info", [&](auto* out) { return symm_buffer_info(block.buffer.get(), out); });
  check_output<symm_memory_info_t>("symm_memory_info", [&](auto* out) { return symm_memory_info(block.memory.get(), out); });
  const symm::Heap heap = made_.heap(4096);
  check_output<symm_heap_info_t>("symm_heap_info", [&](auto* out) { return symm_heap_info(heap.get(), out); });
  size_t size = 0;
  std::byte token[SYMM_IPC_TOKEN_MAX_SIZE];
  symm_ipc_t* ipc = nullptr;
  ASSERT_EQ(symm_ipc_export(block.buffer.span().data(), 64, nullptr, token, sizeof token, &size, nullptr), SYMM_OK)
      << symm_last_error();
  ASSERT_EQ(symm_ipc_import(token, size, nullptr, &ipc, nullptr), SYMM_OK) << symm_last_error();
  check_output<symm_ipc_info_t>("symm_ipc_info", [&](auto* out) { return symm_ipc_info(ipc, out); });
  check_output<symm_ipc_report_t>("symm_ipc_collect", [&](auto* out) { return symm_ipc_collect(out); });
  check_output<symm_ipc_stats_t>("symm_ipc_stats", [&](auto* out) { return symm_ipc_stats(out); });
  symm_ipc_release(ipc, nullptr);
}

// Callers of before there was multicast know shorter structs.
TEST_F(StructSize, outputs_of_an_older_header) {
  symm_group_info_t info;
  std::memset(&info, 0xA5, sizeof info);
  const symm_group_info_t poison = info;
  info.struct_size = offsetof(symm_group_info_t, multicast);
  EXPECT_EQ(symm_group_info(group, &info), SYMM_OK) << symm_last_error();
  EXPECT_EQ(info.size, 1);
  EXPECT_EQ(info.multicast, poison.multicast);
  info.struct_size = sizeof info;
  EXPECT_EQ(symm_group_info(group, &info), SYMM_OK) << symm_last_error();
  EXPECT_EQ(info.multicast, 0);
  EXPECT_NE(info.multicast_reason[0], '\0');
}

TEST_F(StructSize, newer_ipc_options_are_accepted_while_their_tail_is_zero) {
  const symm::Buffer buffer = made_.allocate(64);
  size_t size = 0;
  std::byte token[SYMM_IPC_TOKEN_MAX_SIZE];
  symm_ipc_t* ipc = nullptr;
  auto to_export = newer(symm_ipc_export_options_t SYMM_IPC_EXPORT_OPTIONS_INIT, 0);
  EXPECT_EQ(symm_ipc_export(buffer.span().data(), 64, &to_export.known, token, sizeof token, &size, nullptr), SYMM_OK)
      << symm_last_error();
  auto to_import = newer(symm_ipc_import_options_t SYMM_IPC_IMPORT_OPTIONS_INIT, 0);
  EXPECT_EQ(symm_ipc_import(token, size, &to_import.known, &ipc, nullptr), SYMM_OK) << symm_last_error();
  symm_ipc_release(ipc, nullptr);
  to_export.appended = to_import.appended = 1;
  EXPECT_EQ(symm_ipc_export(buffer.span().data(), 64, &to_export.known, token, sizeof token, &size, nullptr),
            SYMM_ERR_UNSUPPORTED);
  EXPECT_EQ(symm_ipc_import(token, size, &to_import.known, &ipc, nullptr), SYMM_ERR_UNSUPPORTED);
}

TEST_F(StructSize, init_functions_agree_with_the_macros) {
  Newer<symm_group_config_t> config;
  std::memset(&config, 0xA5, sizeof config);
  ASSERT_EQ(symm_group_config_init(&config.known, sizeof config), SYMM_OK);
  EXPECT_EQ(config.known.struct_size, sizeof config);
  EXPECT_EQ(config.appended, 0u) << "zero is the default of what we do not know";

  // Static, so that what lies between fields is zero.
#define SYMM_EXPECT_SAME(type, init, macro)                          \
  {                                                                  \
    static const type kMacro = macro;                                \
    type made;                                                       \
    std::memset(&made, 0xA5, sizeof made);                           \
    EXPECT_EQ(init(&made, sizeof made), SYMM_OK);                    \
    EXPECT_EQ(std::memcmp(&made, &kMacro, sizeof made), 0) << #type; \
  }
  SYMM_EXPECT_SAME(symm_group_config_t, symm_group_config_init, SYMM_GROUP_CONFIG_INIT)
  SYMM_EXPECT_SAME(symm_group_shrink_options_t, symm_group_shrink_options_init, SYMM_GROUP_SHRINK_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_alloc_options_t, symm_alloc_options_init, SYMM_ALLOC_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_adopt_options_t, symm_adopt_options_init, SYMM_ADOPT_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_rendezvous_options_t, symm_rendezvous_options_init, SYMM_RENDEZVOUS_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_heap_options_t, symm_heap_options_init, SYMM_HEAP_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_wait_options_t, symm_wait_options_init, SYMM_WAIT_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_collective_options_t, symm_collective_options_init, SYMM_COLLECTIVE_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_ipc_export_options_t, symm_ipc_export_options_init, SYMM_IPC_EXPORT_OPTIONS_INIT)
  SYMM_EXPECT_SAME(symm_ipc_import_options_t, symm_ipc_import_options_init, SYMM_IPC_IMPORT_OPTIONS_INIT)
}

}  // namespace
