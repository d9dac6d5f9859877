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
      SYMM_REFUSE_CONFIG(backend, "unknown", INVALID_ARGUMENT, 3),
      SYMM_REFUSE_CONFIG(flags, "unknown bit", UNSUPPORTED, uint64_t{1} << 63),
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
