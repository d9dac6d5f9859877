# SPDX-License-Identifier: Apache-2.0
"""The layer rule finds what it is for: offences are planted in a tree of their own."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RULES = Path(__file__).with_name("rules.py")


class Layers(unittest.TestCase):
    def offences(self, files):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in files.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, RULES, root, "layers"], capture_output=True, text=True)
            self.assertEqual(done.returncode, int("nothing to complain about" not in done.stdout), done.stderr)
            return [] if done.returncode == 0 else done.stdout.splitlines()

    def test_down_and_sideways_within_a_room_is_fine(self):
        self.assertEqual(self.offences({
            "core/mesh/wire.cpp": '#include "core/mesh/wire.hpp"\n#include "core/socket/fdpass.hpp"\n#include <vector>\n',
            "core/backends.cpp": '#include "core/cuda/backend.hpp"\n',
            "tools/info.cpp": '#include <symm/symm.h>\n',
        }), [])

    def test_up_is_an_offence_with_its_place(self):
        self.assertEqual(self.offences({"core/base/log.hpp": '#pragma once\n#include "core/group/group.hpp"\n'}),
                         ["core/base/log.hpp:2: core/base lies below core/group"])

    def test_kernels_know_nobody(self):
        self.assertEqual(self.offences({"kernels/cuda/ll.cuh": '#include "core/base/error.hpp"\n'}),
                         ["kernels/cuda/ll.cuh:1: kernels lies below core/base"])

    def test_strangers(self):
        self.assertEqual(self.offences({"core/cuda/plan.cpp": '#include "core/host/control.hpp"\n',
                                        "tools/main.cpp": '#include "core/base/log.hpp"\n'}),
                         ["core/cuda/plan.cpp:1: core/cuda and core/host do not know each other",
                          "tools/main.cpp:1: tools and core/base do not know each other"])

    def test_a_file_outside_every_room(self):
        self.assertEqual(self.offences({"core/stray.cpp": ""}), ["core/stray.cpp:1: lies in no room of tests/lint/rules.py"])

    def test_the_product_knows_nothing_of_tests(self):
        self.assertEqual(self.offences({"core/base/wait.cpp": '#include "tests/ranks/ranks.hpp"\n'}),
                         ["core/base/wait.cpp:1: core/base knows nothing of tests"])


if __name__ == "__main__":
    unittest.main()
