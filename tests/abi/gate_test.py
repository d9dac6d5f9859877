"""The gates of a library say what to do: gate_test.py <C compiler>."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPILER = sys.argv.pop()
ROOT = Path(__file__).resolve().parents[2]


def offences(library):
    """What the gate of exports prints, and that it fails."""
    gate = [ROOT / "tests/abi/gate.sh", "exports", library, ROOT, COMPILER]
    done = subprocess.run(gate, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode else "nothing"


class Exports(unittest.TestCase):
    def test_asks_for_the_library(self):
        self.assertIn("/none.so is not built: build the target symm", offences("/none.so"))

    def test_names_what_is_not_promised(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "libsymm.so")
            command = [COMPILER, "-shared", "-fPIC", "-xc", "-", "-o", library]
            subprocess.run(command, input="void symm_fly(void) {}\n", text=True, check=True)
            printed = offences(library)
        self.assertIn("+T symm_fly", printed)
        self.assertIn("+ is exported and not promised", printed)

    def test_functions_of_fused_belong_to_the_version_of_that_header(self):
        with tempfile.TemporaryDirectory() as folder:
            symbols = Path(folder, "symm.map")
            symbols.write_text("SYMM_0.2 {\n  global:\n    symm_*;\n};\n", encoding="utf-8")
            command = [sys.executable, "-B", ROOT / "tests/abi/layout.py", symbols]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertRegex(printed, r"T symm_allreduce_rmsnorm@@SYMM_FUSED_\d+\n")
        self.assertIn("T symm_allreduce@@SYMM_0.2\n", printed)


if __name__ == "__main__":
    unittest.main()
