"""Rules find what they are for: offences are planted in a tree of their own."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RULES = Path(__file__).with_name("rules.py")


class Rules(unittest.TestCase):
    def offences(self, files, rule="layers"):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in files.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, RULES, root, rule], capture_output=True, text=True)
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
        self.assertEqual(self.offences({"core/base/wait.cpp": '#include "tests/support/group.hpp"\n'}),
                         ["core/base/wait.cpp:1: core/base knows nothing of tests"])

    def test_a_promise_has_a_test_that_is_there(self):
        row = "| it works | `tests/it_test.cpp {}` |\n"
        test = {"tests/it_test.cpp": "TEST(It, Works) {\n"}
        self.assertEqual(self.offences({"docs/promises.md": row.format("It.Works"), **test}, "promises"), [])
        self.assertEqual(self.offences({"docs/promises.md": row.format("It.Flies") + "| it flies | |\n", **test}, "promises"),
                         ["docs/promises.md:1: there is no tests/it_test.cpp It Flies", "docs/promises.md:2: no test"])

    def test_the_environment_is_read_in_one_place_by_the_names_of_its_table(self):
        table = {"core/base/environment.inc": 'SYMM_VARIABLE("SYMM_LOG", "", "Level.")\n', "core/base/log.cpp": 'environment("SYMM_LOG");\n',
                 "core/base/environment.cpp": "std::getenv(name);\n", "tools/run.cpp": "for (char** e = environ; *e; ++e) {}\n"}
        self.assertEqual(self.offences(table, "environment"), [])
        self.assertEqual(self.offences(table | {"core/host/a.cpp": '// getenv()\nstd::getenv("SYMM_LOG");\n'}, "environment"),
                         ['core/host/a.cpp:2: std::getenv(          );'])
        self.assertEqual(self.offences(table | {"tools/run.cpp": 'environment("SYMM_LGO");\n'}, "environment"),
                         ["tools/run.cpp:1: SYMM_LGO is not in core/base/environment.inc"])
        self.assertEqual(self.offences(table | {"core/base/log.cpp": ""}, "environment"),
                         ["core/base/environment.inc:1: nobody reads SYMM_LOG"])


if __name__ == "__main__":
    unittest.main()
