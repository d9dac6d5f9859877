/* A program that is installed set-user-ID. It makes a group of one, and aborts it. Its status says
 * how that went; 3 if the kernel gave it no more privileges than its caller has. */
#include <stdio.h>
#include <sys/auxv.h>

#include <symm/symm.h>

int main(void) {
  if (getauxval(AT_SECURE) == 0) return 3;

  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_group_t* group = NULL;
  if (symm_group_create(&config, &group) != SYMM_OK) {
    fprintf(stderr, "%s\n", symm_last_error());
    return 1;
  }

  symm_buffer_t* buffer = NULL;
  const int allocated = symm_alloc(group, 4096, NULL, &buffer) == SYMM_OK;
  symm_group_abort(group, "chosen text\nroot::0:0");
  symm_buffer_release(buffer);
  symm_group_release(group);
  return allocated ? 0 : 2;
}
