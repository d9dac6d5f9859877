// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"

namespace symm_test {

namespace {

// symm_group_create() with one field changed.
template <class Change>
symm_status_t create(World& w, Change change) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 1000;
  change(config);
  return symm_group_create(&config, w.out<symm_group_t*>());
}

const WrongSize<symm_group_shrink_options_t> kShrink;
constexpr int32_t kSome[] = {0, 7};
constexpr int32_t kZeros[] = {0, 0};

symm_status_t unused_set(void*, const char*, const void*, size_t, uint64_t) { return SYMM_ERR_INTERNAL; }
symm_status_t unused_get(void*, const char*, void*, size_t, size_t*, uint64_t) { return SYMM_ERR_INTERNAL; }

symm_status_t create_with_store(World& w, symm_store_t store, int32_t size) {
  return create(w, [&](symm_group_config_t& config) {
    config.store = &store;
    config.size = size;
  });
}

}  // namespace

#define SYMM_REFUSE_CONFIG(field, how, status, value)                                                 \
  {                                                                                                   \
    "symm_group_create", #field, how, SYMM_ERR_##status,                                              \
        [](World& w) { return create(w, [](symm_group_config_t& config) { config.field = value; }); } \
  }

const std::vector<Refusal>& group_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_group_config_init, config, "NULL", INVALID_ARGUMENT, nullptr, sizeof(symm_group_config_t)),
      SYMM_REFUSE(symm_group_config_init, struct_size, "0", INVALID_ARGUMENT, w.out<symm_group_config_t>(), 0),
      SYMM_REFUSE(symm_group_config_init, struct_size, "short", INVALID_ARGUMENT, w.out<symm_group_config_t>(),
                  sizeof(symm_group_config_t) - 1),

      SYMM_REFUSE(symm_group_create, out, "NULL", INVALID_ARGUMENT, nullptr, nullptr),
      SYMM_REFUSE_CONFIG(struct_size, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE_CONFIG(struct_size, "short", INVALID_ARGUMENT, sizeof(symm_group_config_t) - 8),
      SYMM_REFUSE_CONFIG(size, "-1", INVALID_ARGUMENT, -1),
      SYMM_REFUSE_CONFIG(backend, "unknown", UNSUPPORTED, 3),
      SYMM_REFUSE_CONFIG(flags, "unknown bit", UNSUPPORTED, uint64_t{1} << 63),
      SYMM_REFUSE_CONFIG(channels, "-1", INVALID_ARGUMENT, -1),
      SYMM_REFUSE_CONFIG(channels, "one too many", UNSUPPORTED, 257),
      SYMM_REFUSE_CONFIG(bootstrap, "unknown scheme", INVALID_ARGUMENT, "pigeon://coop"),
      SYMM_REFUSE_CONFIG(bootstrap, "no scheme", INVALID_ARGUMENT, "nonsense"),
      {"symm_group_create", "rank", "= size", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create(w, [](symm_group_config_t& config) {
           config.bootstrap = "thread://refused";
           config.rank = config.size = 2;
         });
       }},
      {"symm_group_create", "rank", "-1", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create(w, [](symm_group_config_t& config) {
           config.bootstrap = "thread://refused";
           config.size = 2;
           config.rank = -1;
         });
       }},
      {"symm_group_create", "store", "without set", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create_with_store(w, {sizeof(symm_store_t), nullptr, nullptr, unused_get}, 1);
       }},
      {"symm_group_create", "store", "without get", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create_with_store(w, {sizeof(symm_store_t), nullptr, unused_set, nullptr}, 1);
       }},
      {"symm_group_create", "store", "struct_size short", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create_with_store(w, {8, nullptr, unused_set, unused_get}, 1);
       }},
      {"symm_group_create", "size", "0 with a store", SYMM_ERR_INVALID_ARGUMENT,
       [](World& w) {
         return create_with_store(w, {sizeof(symm_store_t), nullptr, unused_set, unused_get}, 0);
       }},

      SYMM_REFUSE(symm_group_split, out, "NULL", INVALID_ARGUMENT, w.group, 0, 0, nullptr),
      SYMM_REFUSE(symm_group_create_from_ranks, ranks, "NULL", INVALID_ARGUMENT, w.group, nullptr, 1, w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_create_from_ranks, ranks, "not in the group", INVALID_ARGUMENT, w.group, kSome + 1, 1,
                  w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_create_from_ranks, ranks, "twice", INVALID_ARGUMENT, w.group, kZeros, 2, w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_create_from_ranks, count, "0", INVALID_ARGUMENT, w.group, kSome, 0, w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_create_from_ranks, out, "NULL", INVALID_ARGUMENT, w.group, kSome, 1, nullptr),
      SYMM_REFUSE(symm_group_shrink_options_init, options, "NULL", INVALID_ARGUMENT, nullptr, 32),
      SYMM_REFUSE(symm_group_shrink_options_init, struct_size, "0", INVALID_ARGUMENT, w.out<symm_group_shrink_options_t>(), 0),
      SYMM_REFUSE(symm_group_shrink, options, "short", INVALID_ARGUMENT, w.group, kShrink.small(), w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_shrink, options, "newer", UNSUPPORTED, w.group, kShrink.newer(), w.out<symm_group_t*>()),
      SYMM_REFUSE(symm_group_shrink, out, "NULL", INVALID_ARGUMENT, w.group, nullptr, nullptr),
      SYMM_REFUSE(symm_group_translate_rank, rank, "-1", INVALID_ARGUMENT, w.group, w.group, -1, w.out<int32_t>()),
      SYMM_REFUSE(symm_group_translate_rank, rank, "= size", INVALID_ARGUMENT, w.group, w.group, 1, w.out<int32_t>()),
      SYMM_REFUSE(symm_group_translate_rank, out_rank, "NULL", INVALID_ARGUMENT, w.group, w.group, 0, nullptr),
      SYMM_REFUSE(symm_group_failed_ranks, out_ranks, "NULL", INVALID_ARGUMENT, w.group, nullptr, 1, w.out<size_t>()),
      SYMM_REFUSE(symm_group_failed_ranks, out_count, "NULL", INVALID_ARGUMENT, w.group, nullptr, 0, nullptr),
      SYMM_REFUSE(symm_group_failure_fd, out_fd, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_peer_info, rank, "-1", INVALID_ARGUMENT, w.group, -1, w.out_struct<symm_peer_info_t>()),
      SYMM_REFUSE(symm_peer_info, rank, "= size", INVALID_ARGUMENT, w.group, 1, w.out_struct<symm_peer_info_t>()),
      SYMM_REFUSE(symm_peer_info, out, "NULL", INVALID_ARGUMENT, w.group, 0, nullptr),
      SYMM_REFUSE(symm_peer_info, out, "struct_size 0", INVALID_ARGUMENT, w.group, 0, w.out_struct<symm_peer_info_t>(0)),
      SYMM_REFUSE(symm_group_stats, out, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_group_stats, out, "struct_size 0", INVALID_ARGUMENT, w.group, w.out_struct<symm_group_stats_t>(0)),
      SYMM_REFUSE(symm_group_rank, out_rank, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_group_size, out_size, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_group_info, out, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_group_info, out, "struct_size 0", INVALID_ARGUMENT, w.group, w.out_struct<symm_group_info_t>(0)),
      SYMM_REFUSE(symm_group_status, out, "NULL", INVALID_ARGUMENT, w.group, nullptr),
      SYMM_REFUSE(symm_group_status, out, "struct_size 0", INVALID_ARGUMENT, w.group, w.out_struct<symm_group_status_t>(0)),
  };
  return rows;
}

}  // namespace symm_test
