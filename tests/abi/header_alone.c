/* This file is only compiled, as every version of C and C++ (see CMakeLists.txt). fused.h includes
 * symm.h, neither needs another header before it, and their macros can be used under all
 * warnings. */
#include <symm/fused.h>

int header_alone(void);

int header_alone(void) {
  symm_call_options_t wait = SYMM_CALL_OPTIONS_INIT;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_group_options_t shrink = SYMM_GROUP_OPTIONS_INIT;
  symm_alloc_options_t alloc = SYMM_ALLOC_OPTIONS_INIT;
  symm_adopt_options_t adopt = SYMM_ADOPT_OPTIONS_INIT;
  symm_rendezvous_options_t rendezvous = SYMM_RENDEZVOUS_OPTIONS_INIT;
  symm_heap_options_t heap = SYMM_HEAP_OPTIONS_INIT;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
  symm_ipc_export_options_t to_export = SYMM_IPC_EXPORT_OPTIONS_INIT;
  symm_ipc_import_options_t to_import = SYMM_IPC_IMPORT_OPTIONS_INIT;
  symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;

  const size_t sizes = wait.struct_size + shrink.struct_size + alloc.struct_size +
                       adopt.struct_size + rendezvous.struct_size + heap.struct_size +
                       call.struct_size + to_export.struct_size + to_import.struct_size +
                       norm.struct_size;

  options.timeout_ms = SYMM_TIMEOUT_INFINITE;
  return SYMM_VERSION > 0 && SYMM_FUSED_VERSION > 0 && config.struct_size > options.struct_size &&
         options.timeout_ms > config.timeout_ms && sizes > 0;
}

/* The headers may come twice. The second time is down here, because the formatter takes a duplicate
 * away that stands beside the first. */
#include <symm/fused.h>
#include <symm/symm.h>
