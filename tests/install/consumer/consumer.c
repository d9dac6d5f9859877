/* Somebody else's program, built against the installed files only. Also compiled as C++. */
#include <stdio.h>

#include <symm/fused.h>
#include <symm/symm.h>

int main(void) {
  symm_group_t* group = NULL;
  float value = 2;
  int32_t size = 0;

  if (symm_version() != SYMM_VERSION) {
    fprintf(stderr, "header and library differ\n");
    return 1;
  }
  if (symm_fused_version() != SYMM_FUSED_VERSION) {
    fprintf(stderr, "fused.h and library differ\n");
    return 1;
  }

  if (symm_group_create(NULL, &group) != SYMM_OK || symm_group_size(group, &size) != SYMM_OK ||
      symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL) !=
          SYMM_OK) {
    fprintf(stderr, "%s\n", symm_last_error());
    return 1;
  }

  printf("consumer: %d rank(s), sum %g\n", (int)size, (double)value);
  symm_group_release(group);
  return 0;
}
