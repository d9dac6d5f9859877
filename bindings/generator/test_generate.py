"""Mistakes that are planted in copies of the files must be found. Run by unittest."""
import shutil
import tempfile
import unittest
from pathlib import Path

import generate
import header

LAYOUT = "tests/abi/layout.txt"
JULIA = "bindings/julia/LibSymm.jl/src/generated.jl"


class Generate(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in (generate.HEADER, *generate.TARGETS):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(generate.ROOT / name, self.root / name)

    def plant(self, name, right, wrong, *expected):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(right, text)
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
        said = "".join(generate.compare(self.root))
        for words in expected:
            self.assertIn(words, said)

    def test_a_size_that_became_an_int_in_julia(self):
        self.plant(JULIA, "recv::Ptr{Cvoid}, count::Csize_t", "recv::Ptr{Cvoid}, count::Cint", "count::Csize_t")

    def test_a_field_that_became_narrow_in_julia(self):
        self.plant(JULIA, " flags::UInt64;", " flags::UInt32;", " flags::UInt64;")

    def test_another_value_in_julia(self):
        self.plant(JULIA, "const SYMM_OP_MIN = symm_op_t(2)", "const SYMM_OP_MIN = symm_op_t(3)", "const SYMM_OP_MIN = symm_op_t(2)")

    def test_an_argument_that_is_new_in_the_header(self):
        self.plant(generate.HEADER, "symm_group_retain(symm_group_t *group)", "symm_group_retain(symm_group_t *group, int32_t times)",
                   f"--- {LAYOUT}", f"--- {JULIA}", "symm_group_t *group, int32_t times)")

    def test_a_function_that_the_header_lacks(self):
        self.plant(generate.HEADER, "symm_version(void)", "symm_release_number(void)", "-uint32_t symm_version(void)")

    def test_an_offset_in_the_golden_layout(self):
        self.plant(LAYOUT, " slices offset 12 size 4", " slices offset 16 size 4", " slices offset 12 size 4")

    def test_a_function_of_the_header_is_one_of_the_layer(self):
        self.plant(generate.HEADER, "symm_version(void)", "symm_release_number(void)", "@call symm_release_number()::UInt32")

    def test_names_that_differ_in_case_only_are_no_fortran(self):
        self.plant(generate.HEADER, "SYMM_OP_PROD = 4", "SYMM_OP_PROD = 4, SYMM_OP_T = 5")
        with self.assertRaisesRegex(SystemExit, "symm_op_t"):
            generate.fortran.render(header.read(self.root / generate.HEADER))

    def test_what_is_not_understood_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.plant(generate.HEADER, "typedef int32_t symm_op_t;", "typedef float symm_op_t;")


if __name__ == "__main__":
    unittest.main()
