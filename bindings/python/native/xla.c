/* The function that XLA calls for a collective of symm.jax.
 *
 * The structs are laid out as in version 0.2 of XLA's foreign function interface (OpenXLA,
 * xla/ffi/api/c_api.h). Later versions 0.x only append fields, so none of its headers is
 * needed. */
#include "native.h"
#include "support.h"

/* XLA_FFI_Extension_Base */
typedef struct extension_t {
  size_t struct_size;
  int type;
  struct extension_t* next;
} extension_t;

/* XLA_FFI_Api_Version */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  int major;
  int minor;
} version_t;

/* XLA_FFI_Metadata */
typedef struct {
  size_t struct_size;
  version_t api_version;
  uint32_t traits;
} metadata_t;

/* XLA_FFI_Metadata_Extension */
typedef struct {
  extension_t base;
  metadata_t* metadata;
} metadata_extension_t;

/* XLA_FFI_Error_Create_Args */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  const char* message;
  int code;
} failure_t;

/* XLA_FFI_Stream_Get_Args */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  void* context;
  void* stream;
} stream_t;

/* XLA_FFI_Api, as far as it is used */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  version_t api_version;
  const void* internal;
  void* (*error_create)(failure_t*);
  void* unused[3];
  void* (*stream_get)(stream_t*);
} api_t;

/* XLA_FFI_Args, XLA_FFI_Rets */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  int64_t size;
  int* types;
  void** items;
} list_t;

/* XLA_FFI_Attrs */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  int64_t size;
  int* types;
  void** names;
  void** items;
} attributes_t;

/* XLA_FFI_Array */
typedef struct {
  int dtype;
  size_t size;
  int64_t* data;
} array_t;

/* XLA_FFI_Buffer, as far as it is used */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  int dtype;
  void* data;
} buffer_t;

/* XLA_FFI_CallFrame */
typedef struct {
  size_t struct_size;
  extension_t* extensions;
  const api_t* api;
  void* context;
  int stage;
  list_t arguments;
  list_t results;
  attributes_t attributes;
} frame_t;

enum {
  EXTENSION_METADATA = 1,   /* XLA_FFI_Extension_Metadata */
  ATTRIBUTE_ARRAY = 1,      /* XLA_FFI_AttrType_ARRAY */
  DTYPE_S64 = 5,            /* XLA_FFI_DataType_S64 */
  STAGE_EXECUTE = 3,        /* XLA_FFI_ExecutionStage_EXECUTE */
  TRAIT_MAY_BE_CAPTURED = 1 /* XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE */
};

/* XLA_FFI_Error_Code */
enum {
  CODE_INVALID_ARGUMENT = 3,
  CODE_DEADLINE_EXCEEDED = 4,
  CODE_UNIMPLEMENTED = 12,
  CODE_INTERNAL = 13
};

/* The fields of the one attribute, an array that symm/jax.py makes. */
enum { GROUP, COLLECTIVE, COUNT, DTYPE, OP, ROOT, FIELDS };

static int code_of(symm_status_t status) {
  switch (status) {
    case SYMM_ERR_INVALID_ARGUMENT: return CODE_INVALID_ARGUMENT;
    case SYMM_ERR_TIMEOUT: return CODE_DEADLINE_EXCEEDED;
    case SYMM_ERR_UNSUPPORTED: return CODE_UNIMPLEMENTED;
    default: return CODE_INTERNAL;
  }
}

static void* failed(const frame_t* frame, int code, const char* message) {
  failure_t error = {sizeof error, NULL, message, code};
  return frame->api->error_create(&error);
}

static symm_status_t call(const int64_t* fields, const void* send, void* recv, void* stream) {
  /* The library checks the handle of the group, as it checks every handle. */
  symm_group_t* const group = (symm_group_t*)fields[GROUP];
  const size_t count = (size_t)fields[COUNT];
  const symm_dtype_t dtype = (symm_dtype_t)fields[DTYPE];
  const symm_op_t op = (symm_op_t)fields[OP];
  const int32_t root = (int32_t)fields[ROOT];

  switch (fields[COLLECTIVE]) {
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

/* Answer XLA's question for the metadata of the handler, if this call is that question. */
static int answer_metadata(frame_t* frame, int on_device) {
  extension_t* extension;

  for (extension = frame->extensions; extension != NULL; extension = extension->next) {
    if (extension->type == EXTENSION_METADATA) {
      metadata_t* metadata = ((metadata_extension_t*)extension)->metadata;
      metadata->api_version.major = 0;
      metadata->api_version.minor = frame->api->api_version.minor;
      metadata->traits = on_device ? TRAIT_MAY_BE_CAPTURED : 0;
      return 1;
    }
  }
  return 0;
}

/* The fields of the call; NULL if it was not made by symm/jax.py of this version. */
static const int64_t* fields_of(const frame_t* frame) {
  const array_t* array;

  if (frame->arguments.size < 1 || frame->results.size < 1) return NULL;
  if (frame->attributes.size != 1 || frame->attributes.types[0] != ATTRIBUTE_ARRAY) return NULL;
  array = (const array_t*)frame->attributes.items[0];
  if (array->dtype != DTYPE_S64 || array->size != FIELDS) return NULL;
  return array->data;
}

/* Returns NULL on success, else XLA's error. */
static void* handle(frame_t* frame, int on_device) {
  stream_t stream = {sizeof stream, NULL, frame->context, NULL};
  const int64_t* fields;
  const buffer_t* send;
  const buffer_t* recv;
  symm_status_t status;

  if (answer_metadata(frame, on_device)) return NULL;
  if (frame->stage != STAGE_EXECUTE) return NULL;

  fields = fields_of(frame);
  if (fields == NULL) {
    return failed(frame, CODE_INTERNAL, "symm: not a call by symm.jax of this version");
  }

  if (on_device) {
    void* const error = frame->api->stream_get(&stream);
    if (error != NULL) return error;
  }

  send = (const buffer_t*)frame->arguments.items[0];
  recv = (const buffer_t*)frame->results.items[0];
  status = call(fields, send->data, recv->data, stream.stream);
  return status == SYMM_OK ? NULL : failed(frame, code_of(status), symm_last_error());
}

static void* on_host(frame_t* frame) { return handle(frame, 0); }

static void* on_device(frame_t* frame) { return handle(frame, 1); }

PyObject* xla_handler(int device) {
  void* (*const handler)(frame_t*) = device ? on_device : on_host;
  return PyCapsule_New((void*)(uintptr_t)handler, NULL, NULL);
}
