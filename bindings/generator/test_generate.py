"""Plants mistakes in copies of the files, which must be found. Run by unittest."""

import re
import shutil
import tempfile
import unittest
from pathlib import Path

import generate
import header

LAYOUT = "tests/abi/layout.txt"
FUSED = "tests/abi/fused.txt"
JULIA = "bindings/julia/LibSymm.jl/src/generated.jl"

# A file, the text that is right in it, the text that is planted, and lines of the difference. A
# committed file is compared as text, so one mistake in each stands for all.
PLANTED = [
    (JULIA, "    count::Csize_t,", "    count::Cint,", "-    count::Cint,", "+    count::Csize_t,"),
    (
        LAYOUT,
        ".chunk_bytes offset 16 size 8",
        ".chunk_bytes offset 24 size 8",
        ".chunk_bytes offset 16 size 8",
    ),
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
    (
        generate.HEADER,
        "SYMM_GROUP_NO_CHECK UINT64_C(256)",
        "SYMM_GROUP_NO_CHECK UINT64_C(1099511627776)",
        "+macro SYMM_GROUP_NO_CHECK 0x10000000000",
        "+const SYMM_GROUP_NO_CHECK = UInt64(0x10000000000)",
    ),
    (FUSED, ".epsilon offset 48 size 8", ".epsilon offset 44 size 4", "epsilon offset 48 size 8"),
    (
        generate.FUSED,
        "size_t hidden,",
        "uint32_t hidden,",
        f"--- {FUSED}",
        f"--- {JULIA}",
        "-    hidden::Csize_t,",
    ),
    (
        generate.FUSED,
        "#define SYMM_FUSED_VERSION_MAJOR 1",
        "#define SYMM_FUSED_VERSION_MAJOR 2",
        "+macro SYMM_FUSED_VERSION_MAJOR 0x2",
        "+const SYMM_FUSED_VERSION_MAJOR = Int32(2)",
    ),
]


class Generate(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in (generate.HEADER, generate.FUSED, *generate.TARGETS):
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

    def test_a_change_of_fused_leaves_the_promised_layout_alone(self):
        path = self.root / generate.FUSED
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("size_t hidden,", "uint32_t hidden,"), encoding="utf-8")
        self.assertNotIn(f"--- {LAYOUT}", "".join(generate.compare(self.root)))

    def test_fortran_may_leave_out_what_may_be_null(self):
        made = generate.fortran.render(header.read(generate.ROOT / generate.HEADER))
        for function, output, is_optional in (
            ("symm_memory_find", "type(symm_memory_t), intent(inout){} :: out", False),
            ("symm_memory_find", "integer(c_int32_t), intent(inout){} :: out_rank", True),
            ("symm_topology", "integer(c_size_t), intent(inout){} :: out_count", True),
            ("symm_ipc_export", "integer(c_size_t), intent(inout){} :: out_bytes", False),
        ):
            text = re.search(rf"^  function {function}\(.*?^  end", made, re.M | re.S)
            text = text or re.search(rf"^    function {function}\(.*?^    end", made, re.M | re.S)
            self.assertIn(output.format(", optional" if is_optional else ""), text[0])

    def test_constants_of_an_enum_have_an_integer_type(self):
        with self.assertRaisesRegex(SystemExit, "symm_lonely_values"):
            self.plant(
                generate.HEADER,
                "typedef int32_t symm_op_t;",
                "enum symm_lonely_values { SYMM_LONELY = 1 };\ntypedef int32_t symm_op_t;",
            )

    def test_integer_registers_are_enough_for_every_call(self):
        """What docs/how-to/write-a-binding.md tells those who have no libclang."""
        found = header.read(generate.ROOT / generate.HEADER, generate.ROOT / generate.FUSED)
        for function in found.functions:
            kinds = {type_.kind for _, type_ in function.parameters} | {function.result.kind}
            self.assertLessEqual(kinds, {"integer", "pointer", "callback", "void"}, function.name)
            self.assertLessEqual(len(function.parameters), 15, function.name)
        for struct in found.structs:
            for field in struct.fields:
                one = field.type.of if field.type.kind == "array" else field.type
                self.assertEqual(field.offset % one.bytes, 0, f"{struct.name}.{field.name}")
                self.assertNotIn(one.kind, ("struct", "array"), f"{struct.name}.{field.name}")

    def test_an_unknown_declaration_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.plant(generate.HEADER, "typedef int32_t symm_op_t;", "typedef float symm_op_t;")

    def test_a_comment_of_no_declaration_is_found(self):
        right = "SYMM_ERR_INVALID_HANDLE = -2,"
        wrong = f"{right}\n  /**< A handle that was released. */"
        self.plant(generate.HEADER, right, wrong, "belongs to no declaration")


if __name__ == "__main__":
    unittest.main()
