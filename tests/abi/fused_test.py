"""A library with another major version of fused.h is refused: fused_test.py <libsymm.so> <C
compiler>.

Programs are linked with the library and then run with a stand-in for a later one, which has the
functions of symm.h that they call, but those of fused.h with the next major version.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPILER = sys.argv.pop()
LIBRARY = Path(sys.argv.pop()).resolve()
ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "capi/include"
LAYOUT = Path(__file__).with_name("fused.txt").read_text(encoding="utf-8")
MAJOR = int(re.search(r"SYMM_FUSED_VERSION_MAJOR (0x\w+)", LAYOUT)[1], 16)
FUNCTIONS = re.findall(r"^function .*?\b(symm_\w+)\(", LAYOUT, flags=re.M)

# Prints the versions of fused.h, of the library and of the header.
ASKS = """
#include <stdio.h>
#include <symm/fused.h>
int main(void) { return printf("%u %u\\n", symm_fused_version(), SYMM_FUSED_VERSION) < 0; }
"""
CALLS = ASKS.replace(
    "int main",
    "void (*const volatile all[])(void) = {"
    + ", ".join(f"(void (*)(void)){name}" for name in FUNCTIONS)
    + "};\nint main",
)


class Fused(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        later = MAJOR + 1
        source = f"unsigned symm_fused_version(void) {{ return {later} << 16; }}\n"
        source += "".join(f"int {name}(void) {{ return 0; }}\n" for name in FUNCTIONS)
        names = "".join(f"{name}; " for name in FUNCTIONS)
        nodes = f"SYMM_0.2 {{ global: symm_*; local: *; }};\nSYMM_FUSED_{later} {{ {names}}};\n"
        (self.folder / "later.map").write_text(nodes, encoding="utf-8")
        options = ["-shared", "-fPIC", "-Wl,-soname,libsymm.so.0", "-Wl,--version-script=later.map"]
        self.compile(source, "libsymm.so.0", *options)

    def compile(self, source, out, *options):
        command = [*COMPILER.split(), f"-I{INCLUDE}", *options, "-xc", "-", "-xnone"]
        command += [] if "-shared" in options else [LIBRARY]
        subprocess.run([*command, "-o", out], cwd=self.folder, input=source, text=True, check=True)

    def run_with(self, program, folder):
        return subprocess.run(
            [self.folder / program],
            env={"LD_LIBRARY_PATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_tells_its_version(self):
        self.compile(ASKS, "asks")
        of_library, of_header = self.run_with("asks", LIBRARY.parent).stdout.split()
        self.assertEqual(of_library, of_header)
        self.assertEqual(int(of_library) >> 16, MAJOR)

    def test_the_loader_refuses_what_would_be_called_wrongly(self):
        self.compile(CALLS, "calls")
        self.assertEqual(self.run_with("calls", LIBRARY.parent).returncode, 0)
        refused = self.run_with("calls", self.folder)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"SYMM_FUSED_{MAJOR}", refused.stderr)

    def test_a_program_that_does_not_call_them_works(self):
        self.compile(ASKS, "asks")
        done = self.run_with("asks", self.folder)
        self.assertEqual(done.stdout.split()[0], str((MAJOR + 1) << 16), done.stderr)


if __name__ == "__main__":
    unittest.main()
