/* SPDX-License-Identifier: Apache-2.0
 *
 * Only compiled, as every version of C and C++ (see CMakeLists.txt): the header needs nothing before it, may come twice, and its
 * macros can be used under all warnings. */
#include <symm/symm.h>

int header_alone(void);
int header_alone(void) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.timeout_ms = SYMM_TIMEOUT_INFINITE;
  return SYMM_VERSION > 0 && config.struct_size > options.struct_size && options.timeout_ms > config.timeout_ms;
}
