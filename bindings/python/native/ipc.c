/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of symm_ipc_*. */
#include "support.h"

/* Dictionaries field by field, since all of them are numbers. A NULL dictionary passes through. */
static PyObject* put(PyObject* dictionary, const char* name, PyObject* value) {
  if (dictionary == NULL || value == NULL || PyDict_SetItemString(dictionary, name, value) < 0) Py_CLEAR(dictionary);
  Py_XDECREF(value);
  return dictionary;
}
#define SIGNED(name) out = put(out, #name, PyLong_FromLongLong(from->name))
#define UNSIGNED(name) out = put(out, #name, PyLong_FromUnsignedLongLong(from->name))

PyObject* symm_py_ipc_info(const symm_ipc_info_t* from) {
  PyObject* out = PyDict_New();
  SIGNED(backend);
  SIGNED(device);
  UNSIGNED(bytes);
  UNSIGNED(offset);
  UNSIGNED(block_bytes);
  SIGNED(exporter_pid);
  SIGNED(exporter_alive);
  return out;
}

PyObject* symm_py_ipc_report(const symm_ipc_report_t* from) {
  PyObject* out = PyDict_New();
  UNSIGNED(leases_ended);
  UNSIGNED(leases_written_off);
  UNSIGNED(blocks_freed);
  UNSIGNED(bytes_freed);
  UNSIGNED(mappings_dropped);
  UNSIGNED(blocks_in_limbo);
  UNSIGNED(bytes_in_limbo);
  return out;
}

PyObject* symm_py_ipc_stats(const symm_ipc_stats_t* from) {
  PyObject* out = PyDict_New();
  UNSIGNED(tokens);
  UNSIGNED(exported_blocks);
  UNSIGNED(exported_bytes);
  UNSIGNED(grants);
  UNSIGNED(leased);
  UNSIGNED(leased_blocks);
  UNSIGNED(limbo_blocks);
  UNSIGNED(limbo_bytes);
  UNSIGNED(quarantined_blocks);
  UNSIGNED(quarantined_bytes);
  UNSIGNED(written_off);
  UNSIGNED(refused);
  UNSIGNED(rejected_connections);
  UNSIGNED(consumers);
  UNSIGNED(imported);
  UNSIGNED(imported_blocks);
  UNSIGNED(imported_bytes);
  UNSIGNED(exporters);
  UNSIGNED(collections);
  UNSIGNED(oldest_lease_ms);
  SIGNED(oldest_lease_pid);
  UNSIGNED(oldest_lease_start_time);
  return out;
}

static int is_tuple(PyObject* from) {
  if (PyTuple_Check(from)) return 1;
  PyErr_SetString(PyExc_TypeError, "options: must be None or a tuple");
  return 0;
}

int symm_py_export_options(PyObject* from, symm_ipc_export_options_t* storage, const symm_ipc_export_options_t** to) {
  const symm_ipc_export_options_t defaults = SYMM_IPC_EXPORT_OPTIONS_INIT;
  unsigned long long hold_ms = 0;
  unsigned long long hold_imports = 0;
  *to = NULL;
  if (from == Py_None) return 1;
  if (!is_tuple(from) || !PyArg_ParseTuple(from, "KK:options", &hold_ms, &hold_imports)) return 0;
  *storage = defaults;
  storage->hold_ms = hold_ms;
  storage->hold_imports = hold_imports;
  *to = storage;
  return 1;
}

int symm_py_import_options(PyObject* from, symm_ipc_import_options_t* storage, const symm_ipc_import_options_t** to) {
  const symm_ipc_import_options_t defaults = SYMM_IPC_IMPORT_OPTIONS_INIT;
  unsigned long long timeout_ms = 0;
  *to = NULL;
  if (from == Py_None) return 1;
  *storage = defaults;
  if (!is_tuple(from) || !PyArg_ParseTuple(from, "Kzi:options", &timeout_ms, &storage->directory, &storage->device)) return 0;
  storage->timeout_ms = timeout_ms;
  *to = storage;
  return 1;
}
