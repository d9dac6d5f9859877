"""Gates find what was forgotten: a tree of their own lacks one thing at a time."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GATES = Path(__file__).with_name("gates.py")
HEADER = "SYMM_API symm_status_t symm_fly(symm_group_t *group);\n"
LISTS = (
    "#define SYMM_DTYPES(X) \\\n  X(i8, I8, 0x0008) \\\n  X(u8, U8, 0x0108)\n"
    "#define SYMM_SMALL_FLOATS(X) X(f16) X(bf16)\n"
)
TREE = {
    "capi/include/symm/symm.h": HEADER,
    "capi/include/symm/fused.h": HEADER.replace("symm_fly", "symm_glide"),
    "capi/include/symm/fused.hpp": "symm_glide(get());\n",
    "bindings/python/src/symm/fused.py": "raw.symm_glide(self)\n",
    "bindings/rust/symm/src/fused.rs": "on!(self.symm_glide())\n",
    "bindings/julia/LibSymm.jl/src/fused.jl": "symm_glide(group)\n",
    "capi/include/symm/symm.hpp": "symm_fly(get());\n",
    "bindings/python/src/symm/group.py": "raw.symm_fly(self)\n",
    "bindings/rust/symm/src/group.rs": "on!(self.symm_fly())\n",
    "bindings/julia/LibSymm.jl/src/group.jl": "symm_fly(group)\n",
    "bindings/julia/LibSymm.jl/src/generated.jl": "symm_fly symm_land\n",
    "tests/lint/gates.txt": "",
}


def offences(gate, changes):
    """What the gate prints of a tree in which the files of `changes` are others."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**TREE, **changes}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", folder], check=True)
        done = subprocess.run(
            [sys.executable, GATES, folder, gate], capture_output=True, text=True, check=False
        )
        printed = (done.stdout + done.stderr).splitlines()
        return printed if done.returncode else []


class Languages(unittest.TestCase):
    def test_passes_where_each_layer_calls_it(self):
        self.assertEqual(offences("languages", {}), [])

    def test_names_the_layer_that_lacks_it(self):
        for layer, name in (
            ("C++", "capi/include/symm/symm.hpp"),
            ("Python", "bindings/python/src/symm/group.py"),
            ("Rust", "bindings/rust/symm/src/group.rs"),
            ("Julia", "bindings/julia/LibSymm.jl/src/group.jl"),
        ):
            with self.subTest(layer=layer):
                (found,) = offences("languages", {name: "symm_fly_higher()\n"})
                self.assertIn(f"symm_fly is not called by {layer}", found)

    def test_reads_every_header(self):
        lacks = {"bindings/rust/symm/src/fused.rs": ""}
        (found,) = offences("languages", lacks)
        self.assertIn("capi/include/symm/fused.h: symm_glide is not called by Rust", found)

    def test_prose_and_texts_call_nothing(self):
        for name, text in (
            ("capi/include/symm/symm.hpp", '/* symm_fly() */ given("symm_fly"); // symm_fly()\n'),
            ("bindings/python/src/symm/group.py", '"""raw.symm_fly()"""\n# raw.symm_fly()\n'),
            ("bindings/rust/symm/src/group.rs", "/// symm_fly()\n"),
            ("bindings/julia/LibSymm.jl/src/group.jl", '"""symm_fly()"""\n# symm_fly()\n'),
        ):
            with self.subTest(file=name):
                (found,) = offences("languages", {name: text})
                self.assertIn("symm_fly is not called by", found)

    def test_an_excuse_has_a_reason_and_is_needed(self):
        lacks = {"capi/include/symm/symm.hpp": ""}
        (found,) = offences("languages", lacks)
        self.assertIn("; or excuse it in tests/lint/gates.txt: languages symm_fly C++: why", found)
        excuse = "languages symm_* C++: C++ has wings\n"
        self.assertEqual(offences("languages", {**lacks, "tests/lint/gates.txt": excuse}), [])
        (found,) = offences("languages", {"tests/lint/gates.txt": excuse})
        self.assertEqual(found, "tests/lint/gates.txt:1: symm_* C++ needs no excuse")

    def test_an_excuse_names_a_gate(self):
        self.assertEqual(
            offences(
                "languages", {"tests/lint/gates.txt": "tongues symm_fly C++: C++ has wings\n"}
            ),
            ["tests/lint/gates.txt:1: there is no gate tongues"],
        )


class Lists(unittest.TestCase):
    def test_names_the_entry_and_the_file_that_lacks_it(self):
        found = offences(
            "lists",
            {
                "kernels/types.hpp": LISTS,
                "tools/bench/pattern.cpp": "SYMM_DTYPE_I8, SYMM_DTYPE_U8\n",
                "tools/bench/reference.hpp": "SYMM_DTYPE_I8, SYMM_DTYPE_U8\n",
                "bindings/julia/LibSymm.jl/src/formats.jl": "SYMM_DTYPE_I8, SYMM_DTYPE_U8\n",
                "bindings/python/src/symm/dtypes.py": "SYMM_DTYPE_I8\n",
                "bindings/rust/symm/src/element.rs": "SYMM_DTYPE_I8, SYMM_DTYPE_U8\n",
                "tests/bindings/behaviours/table.txt": "dtype=I8 dtype=U8\n",
            },
        )
        missing = [line.partition("; or")[0] for line in found if "SYMM_DTYPE_" in line]
        kept = "kernels/types.hpp: SYMM_DTYPE_U8 is not named in bindings/python/src/symm/dtypes.py"

        # Julia's list of small floats is asked for by a list of its own.
        self.assertEqual([line for line in missing if "16" not in line], [kept])

    def test_asks_for_small_floats_where_these_alone_are_listed(self):
        found = offences(
            "lists",
            {"kernels/types.hpp": LISTS, "kernels/cuda/combine.cu": "case DType::f16:\n"},
        )
        missing = [line.partition("; or")[0] for line in found if "combine.cu" in line]
        kept = "kernels/types.hpp: DType::bf16 is not named in kernels/cuda/combine.cu"
        self.assertEqual(missing, [kept])


class Models(unittest.TestCase):
    def test_names_the_kernel_that_the_test_leaves_out(self):
        kernels = {"kernels/cuda/ll.cu": "", "kernels/cuda/ll_far.cu": ""}
        cmake = "tests/kernels/cuda/CMakeLists.txt"
        listed = "set(\n  kernels\n  ll\n  ll_far\n)\n"
        self.assertEqual(offences("models", {**kernels, cmake: listed}), [])
        (found,) = offences("models", {**kernels, cmake: listed.replace("  ll\n", "")})
        self.assertIn(f"kernels/cuda/ll.cu: is not in the list of kernels of {cmake}", found)


if __name__ == "__main__":
    unittest.main()
