/* XLA's calls, for symm.jax. Its structs are laid out here as in version 0.2 of its foreign function interface (OpenXLA,
 * xla/ffi/api/c_api.h); later ones of version 0 only add to them, so none of its headers is needed. */
#include "native.h"
#include "support.h"

/* clang-format off */
typedef struct extension_t { size_t struct_size; int type; struct extension_t* next; } extension_t;
typedef struct { size_t struct_size; extension_t* extensions; int major, minor; } version_t;
typedef struct { size_t struct_size; version_t api_version; uint32_t traits; } metadata_t;
typedef struct { extension_t base; metadata_t* metadata; } metadata_extension_t;
typedef struct { size_t struct_size; extension_t* extensions; const char* message; int code; } failure_t;
typedef struct { size_t struct_size; extension_t* extensions; void *context, *stream; } stream_t;
typedef struct { size_t struct_size; extension_t* extensions; version_t api_version; const void* internal;
                 void* (*error_create)(failure_t*); void* unused[3]; void* (*stream_get)(stream_t*); } api_t;
typedef struct { size_t struct_size; extension_t* extensions; int64_t size; int* types; void** items; } list_t;
typedef struct { size_t struct_size; extension_t* extensions; int64_t size; int* types; void **names, **items; } attributes_t;
typedef struct { int dtype; size_t size; int64_t* data; } array_t;
typedef struct { size_t struct_size; extension_t* extensions; int dtype; void* data; } buffer_t;
typedef struct { size_t struct_size; extension_t* extensions; const api_t* api; void* context; int stage;
                 list_t arguments, results; attributes_t attributes; } frame_t;

/* clang-format on */

enum { METADATA = 1, ARRAY = 1, S64 = 5, EXECUTE = 3, MAY_BE_CAPTURED = 1 };

/* What the one attribute holds, an array: symm/jax.py. */
enum { GROUP, COLLECTIVE, COUNT, DTYPE, OP, ROOT, FIELDS };

static int code_of(symm_status_t status) {
  switch (status) {
    case SYMM_ERR_INVALID_ARGUMENT: return 3;
    case SYMM_ERR_TIMEOUT: return 4;
    case SYMM_ERR_UNSUPPORTED: return 12;
    default: return 13;
  }
}

static void* failed(const frame_t* frame, int code, const char* message) {
  failure_t error = {sizeof error, NULL, message, code};
  return frame->api->error_create(&error);
}

static symm_status_t call(const int64_t* field, const void* send, void* recv, void* stream) {
  symm_group_t* const group =
      (symm_group_t*)field[GROUP]; /* checked by the library, as every handle */
  const size_t count = (size_t)field[COUNT];
  const symm_dtype_t dtype = (symm_dtype_t)field[DTYPE];
  const symm_op_t op = (symm_op_t)field[OP];
  const int32_t root = (int32_t)field[ROOT];
  switch (field[COLLECTIVE]) {
    case SYMM_COLLECTIVE_ALLREDUCE:
      return symm_allreduce(group, send, recv, count, dtype, op, NULL, stream);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return symm_reduce_scatter(group, send, recv, count, dtype, op, NULL, stream);
    case SYMM_COLLECTIVE_ALLGATHER:
      return symm_allgather(group, send, recv, count, dtype, NULL, stream);
    case SYMM_COLLECTIVE_BROADCAST:
      return symm_broadcast(group, send, recv, count, dtype, root, NULL, stream);
    case SYMM_COLLECTIVE_REDUCE:
      return symm_reduce(group, send, recv, count, dtype, op, root, NULL, stream);
    default: return symm_alltoall(group, send, recv, count, dtype, NULL, stream);
  }
}

static void* handle(frame_t* frame, int on_device) {
  stream_t stream = {sizeof stream, NULL, frame->context, NULL};
  const array_t* fields;
  symm_status_t status;
  extension_t* asked;
  for (asked = frame->extensions; asked != NULL; asked = asked->next) {
    if (asked->type != METADATA) continue;
    ((metadata_extension_t*)asked)->metadata->api_version.major = 0;
    ((metadata_extension_t*)asked)->metadata->api_version.minor = frame->api->api_version.minor;
    ((metadata_extension_t*)asked)->metadata->traits = on_device ? MAY_BE_CAPTURED : 0;
    return NULL;
  }
  if (frame->stage != EXECUTE) return NULL;
  fields = frame->attributes.size == 1 && frame->attributes.types[0] == ARRAY
               ? (const array_t*)frame->attributes.items[0]
               : NULL;
  if (fields == NULL || fields->dtype != S64 || fields->size != FIELDS ||
      frame->arguments.size < 1 || frame->results.size < 1) {
    return failed(frame, 13, "symm: not a call by symm.jax of this version");
  }
  if (on_device) {
    void* const error = frame->api->stream_get(&stream);
    if (error != NULL) return error;
  }
  status = call(fields->data, ((buffer_t*)frame->arguments.items[0])->data,
      ((buffer_t*)frame->results.items[0])->data, stream.stream);
  return status == SYMM_OK ? NULL : failed(frame, code_of(status), symm_last_error());
}

static void* on_host(frame_t* frame) { return handle(frame, 0); }

static void* on_device(frame_t* frame) { return handle(frame, 1); }

PyObject* xla_handler(int device) {
  return PyCapsule_New(
      device ? (void*)(uintptr_t)on_device : (void*)(uintptr_t)on_host, NULL, NULL);
}
