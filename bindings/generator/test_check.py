# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are planted in copies of the files must be found. Run by unittest."""
import contextlib
import io
import shutil
import tempfile
import unittest
from pathlib import Path

import check
import header
import julia

ROOT = Path(__file__).resolve().parents[2]
HEADER = "capi/include/symm/symm.h"
MAP = "capi/symm.map"
LAYOUT = "tests/abi/layout.txt"
JULIA = "bindings/julia/Symm.jl/src/generated.jl"
RUST = "bindings/rust/symm-sys/src/generated/"
FILES = (HEADER, MAP, LAYOUT, JULIA, RUST + "types.rs", RUST + "api.rs", RUST + "linked.rs")

WRAPPER = """SWIGINTERN PyObject *_wrap_symm_put_signal(PyObject *self, PyObject *args) {
  symm_memory_t *arg1 = 0 ;
  int32_t arg2 ;
  RANK arg3 ;
  void *arg4 = 0 ;
  symm_status_t result;
  result = (symm_status_t)symm_put_signal(arg1,arg2,arg3,arg4);
}
"""


class Check(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in FILES:
            if (ROOT / name).exists():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)

    def plant(self, name, right, wrong):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(right, text)
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")

    def result(self, **options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            good = check.check(self.root, **options)
        return good, out.getvalue()

    def expect(self, words, **options):
        good, said = self.result(**options)
        self.assertFalse(good, said)
        self.assertIn(words, said)

    def test_a_size_that_became_an_int_in_julia(self):
        self.plant(JULIA, "symm_allreduce(group::Ptr{symm_group_t}, send::Ptr{Cvoid}, recv::Ptr{Cvoid}, count::Csize_t",
                   "symm_allreduce(group::Ptr{symm_group_t}, send::Ptr{Cvoid}, recv::Ptr{Cvoid}, count::Cint")
        self.expect("symm_allreduce: argument 4 is i32, should be u64")

    def test_a_field_that_became_narrow_in_julia(self):
        self.plant(JULIA, "    flags::UInt64", "    flags::UInt32")
        self.expect("symm_group_config_t: has")

    def test_another_value_in_julia(self):
        self.plant(JULIA, "const SYMM_OP_MIN = symm_op_t(2)", "const SYMM_OP_MIN = symm_op_t(3)")
        self.expect("SYMM_OP_MIN: is 3, should be 2")

    def test_a_function_that_is_missing_in_the_map(self):
        self.plant(MAP, "symm_barrier;", "")
        self.expect("symm_barrier is missing")

    def test_an_argument_that_is_new_in_the_header(self):
        self.plant(HEADER, "symm_group_retain(symm_group_t *group)", "symm_group_retain(symm_group_t *group, int32_t times)")
        self.expect("symm_group_retain: takes 1 arguments, should take 2")

    def test_a_function_that_the_header_lacks(self):
        self.plant(HEADER, "symm_version(void)", "symm_release_number(void)")
        self.expect("symm_version is not in the header")

    def test_an_offset_in_the_golden_layout(self):
        self.plant(LAYOUT, "  slices offset 12 size 4", "  slices offset 16 size 4")
        self.expect("symm_plan_info_t: has")

    def test_a_width_in_rust(self):
        if not (self.root / RUST).is_dir():
            self.skipTest("there is no Rust binding yet")
        for name in ("api.rs", "linked.rs"):
            self.plant(RUST + name, "timeout_ms: u64", "timeout_ms: u32")
        self.expect("should be u64")
        self.plant(RUST + "types.rs", "pub memory_bytes: u64", "pub memory_bytes: u32")
        self.expect("symm_device_info_t: has")

    def test_a_width_in_python(self):
        wrapper = self.root / "raw.c"
        wrapper.write_text(WRAPPER.replace("RANK", "int64_t"), encoding="utf-8")
        self.expect("symm_put_signal: argument 3 is i64, should be i32", swig=wrapper)
        wrapper.write_text(WRAPPER.replace("RANK", "int32_t"), encoding="utf-8")
        self.assertNotIn("symm_put_signal:", self.result(swig=wrapper)[1])

    def test_a_function_of_the_header_is_one_of_the_layer(self):
        self.plant(HEADER, "symm_version(void)", "symm_release_number(void)")
        self.assertIn("@call symm_release_number()::UInt32", julia.render(header.read(self.root / HEADER)))

    def test_what_is_not_understood_is_an_error(self):
        self.plant(HEADER, "typedef int32_t symm_op_t;", "typedef float symm_op_t;")
        with self.assertRaises(SystemExit):
            header.read(self.root / HEADER)


if __name__ == "__main__":
    unittest.main()
