/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

PyObject* symm_py_device_info(const symm_device_info_t* info) {
  return Py_BuildValue("{s:i,s:i,s:K,s:i,s:O,s:O,s:O,s:s,s:s,s:s,s:s,s:s,s:O,s:i,s:s}", "backend", (int)info->backend, "device",
                       (int)info->device, "memory_bytes", (unsigned long long)info->memory_bytes, "compute_units",
                       (int)info->compute_units, "multicast", info->multicast ? Py_True : Py_False, "fabric",
                       info->fabric ? Py_True : Py_False, "dmabuf", info->dmabuf ? Py_True : Py_False, "name", info->name, "uuid",
                       info->uuid, "multicast_reason", info->multicast_reason, "fabric_reason", info->fabric_reason,
                       "dmabuf_reason", info->dmabuf_reason, "host_memory", info->host_memory ? Py_True : Py_False, "numa_node",
                       (int)info->numa_node, "host_memory_reason", info->host_memory_reason);
}

PyObject* symm_py_group_info(const symm_group_info_t* info) {
  return Py_BuildValue("{s:i,s:i,s:i,s:i,s:K,s:i,s:i,s:K,s:s,s:s,s:O,s:s}", "rank", (int)info->rank, "size", (int)info->size,
                       "backend", (int)info->backend, "device", (int)info->device, "id", (unsigned long long)info->id, "channels",
                       (int)info->channels, "unwatched_peers", (int)info->unwatched_peers, "rejected_connections",
                       (unsigned long long)info->rejected_connections, "bootstrap", info->bootstrap, "name", info->name,
                       "multicast", info->multicast ? Py_True : Py_False, "multicast_reason", info->multicast_reason);
}

PyObject* symm_py_group_status(const symm_group_status_t* status) {
  return Py_BuildValue("{s:i,s:i,s:L,s:s}", "status", (int)status->status, "failed_rank", (int)status->failed_rank, "failed_pid",
                       (long long)status->failed_pid, "message", status->message);
}

PyObject* symm_py_memory_info(const symm_memory_info_t* info) {
  return Py_BuildValue("{s:i,s:i,s:K,s:K,s:i,s:i,s:O,s:s}", "rank", (int)info->rank, "size", (int)info->size, "bytes",
                       (unsigned long long)info->bytes, "id", (unsigned long long)info->id, "channels", (int)info->channels,
                       "signal_pad_bytes", (int)info->signal_pad_bytes, "multicast", info->multicast ? Py_True : Py_False,
                       "multicast_reason", info->multicast_reason);
}

PyObject* symm_py_plan_info(const symm_plan_info_t* info) {
  return Py_BuildValue("{s:i,s:i,s:K,s:O,s:s}", "algorithm", (int)info->algorithm, "slices", (int)info->slices, "chunk_bytes",
                       (unsigned long long)info->chunk_bytes, "nontemporal", info->nontemporal ? Py_True : Py_False, "reason",
                       info->reason);
}

int symm_py_options(PyObject* from, symm_collective_options_t* storage, const symm_collective_options_t** to) {
  const symm_collective_options_t defaults = SYMM_COLLECTIVE_OPTIONS_INIT;
  int algorithm = 0;
  unsigned long long timeout_ms = 0;
  *to = NULL;
  if (from == Py_None) return 1;
  if (!PyTuple_Check(from)) {
    PyErr_SetString(PyExc_TypeError, "options: must be None or (algorithm, timeout_ms)");
    return 0;
  }
  if (!PyArg_ParseTuple(from, "iK:options", &algorithm, &timeout_ms)) return 0;
  *storage = defaults;
  storage->algorithm = algorithm;
  storage->timeout_ms = timeout_ms;
  *to = storage;
  return 1;
}
