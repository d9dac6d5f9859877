"""Plants mistakes in copies of the files, which must be found. Run by unittest."""

import shutil
import tempfile
import unittest
from pathlib import Path

import generate
import header

LAYOUT = "tests/abi/layout.txt"
JULIA = "bindings/julia/LibSymm.jl/src/generated.jl"

# A file, the text that is right in it, the text that is planted, and lines of the difference. A
# committed file is compared as text, so one mistake in each stands for all.
PLANTED = [
    (JULIA, "    count::Csize_t,", "    count::Cint,", "-    count::Cint,", "+    count::Csize_t,"),
    (LAYOUT, ".slices offset 12 size 4", ".slices offset 16 size 4", ".slices offset 12 size 4"),
    (
        generate.HEADER,
        "symm_group_retain(symm_group_t *group)",
        "symm_group_retain(symm_group_t *group, int32_t times)",
        f"--- {LAYOUT}",
        f"--- {JULIA}",
        "symm_group_t *group, int32_t times)",
    ),
    (
        generate.HEADER,
        "symm_version(void)",
        "symm_release_number(void)",
        "-function uint32_t symm_version(void)",
        "@call symm_release_number()::UInt32",
    ),
]


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

    def test_a_planted_mistake_is_found(self):
        for planted in PLANTED:
            with self.subTest(planted[2]):
                self.setUp()  # copies without the former mistake
                self.plant(*planted)

    def test_fortran_refuses_names_that_differ_in_case_only(self):
        self.plant(generate.HEADER, "SYMM_OP_PROD = 4", "SYMM_OP_PROD = 4, SYMM_OP_T = 5")
        with self.assertRaisesRegex(SystemExit, "symm_op_t"):
            generate.fortran.render(header.read(self.root / generate.HEADER))

    def test_an_unknown_declaration_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.plant(generate.HEADER, "typedef int32_t symm_op_t;", "typedef float symm_op_t;")

    def test_a_comment_of_no_declaration_is_found(self):
        right = "SYMM_ERR_INVALID_HANDLE = -2,"
        wrong = f"{right}\n  /**< A handle that was released. */"
        self.plant(generate.HEADER, right, wrong, "belongs to no declaration")


if __name__ == "__main__":
    unittest.main()
