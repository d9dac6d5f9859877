"""docs/coming-from.md says of each function of NCCL what does the same in symm, and what the
drop-in does with it.

names_test.py; needs no build.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bindings" / "nccl"))
sys.path.insert(0, str(ROOT / "tests" / "abi"))
import generate
import layout

PAGE = ROOT / "docs" / "coming-from.md"
FUNCTIONS = generate.read()


def rows():
    """The cells of each row: the functions, the text of symm's column, that of the drop-in's."""
    chapter = re.search(r"^### Every function of NCCL\n(.*)", PAGE.read_text(), re.M | re.S)
    table = re.search(r"^\|---.*?\n((?:\|.*\n)+)", chapter[1], re.M)
    for line in table[1].splitlines():
        names, ours, drop_in = (cell.strip() for cell in line.strip("|").split("|"))
        yield re.findall(r"`(\w+)`", names), ours, drop_in


class Names(unittest.TestCase):
    def test_each_function_has_one_row(self):
        named = [name for names, _, _ in rows() for name in names]
        self.assertEqual(sorted(named), sorted(function.name for function in FUNCTIONS))

    def test_what_is_passed_on_is_said_to_be(self):
        by_hand = {function.name: function.by_hand for function in FUNCTIONS}
        for names, _, drop_in in rows():
            for name in names:
                is_passed_on = drop_in.startswith("passed on")
                self.assertNotEqual(is_passed_on, by_hand[name], name)

    def test_a_row_names_calls_of_symm_that_there_are_or_none(self):
        calls = set(layout.functions())
        for names, ours, _ in rows():
            mentioned = re.findall(r"`(symm_\w+)`", ours)
            self.assertLessEqual(set(mentioned), calls, names)
            self.assertTrue(mentioned or ours.startswith(("none", "the calls above")), names)


if __name__ == "__main__":
    unittest.main()
