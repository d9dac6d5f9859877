"""The pictures in docs/: what the tables of the pages say, one element a line."""

import contextlib
import io
import re
import sys
import unittest
import xml.dom.minidom
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import chart
import pictures

PAGE = """
## 2 H100s, bf16, in graphs (2026-11-27)

| bytes | symm | NCCL & co | best peer / symm |
|---|---|---|---|
| 256 | 1.00 | 10.00 | 10.00 |
| 1024 | 100.00 | - | - |

| bytes | all-gather |
|---|---|
| 4096 | 2.25, 3.74 (1.66) |
"""


class Tables(unittest.TestCase):
    def test_first_table_of_sizes_without_what_is_missing(self):
        self.assertEqual(
            pictures.table(PAGE, "a page"),
            {
                "symm": {256: 1, 1024: 100},
                "NCCL & co": {256: 10},
                "best peer / symm": {256: 10},
            },
        )

    def test_page_without_one_is_named(self):
        with self.assertRaisesRegex(ValueError, "a page: no table of sizes"):
            pictures.table("| kilobytes | symm |\n|---|---|\n| 1 | 2 |\n", "a page")


class Charts(unittest.TestCase):
    def test_curves_in_powers(self):
        curves = {"symm": {256: 1, 1024: 100}, "NCCL & co": {256: 10}}
        lines = chart.chart("a < b", curves, chart.in_powers).splitlines()
        for element in (
            '<text x="50" y="20">a &lt; b</text>',
            '<path d="M50 200h560" stroke="#ddd"/>',
            '<text x="44" y="204" text-anchor="end">10</text>',
            '<polyline points="50,360 610,40" fill="none" stroke="#c0392b" stroke-width="2"/>',
            '<text x="60" y="68" fill="#1f4e79">NCCL &amp; co</text>',
        ):
            self.assertIn(element, lines)

    def test_curves_in_percent(self):
        lines = chart.chart("", {"": {1: 0, 2: 50}}, chart.in_percent).splitlines()
        self.assertIn(
            '<polyline points="50,360 610,200" fill="none" stroke="#c0392b" stroke-width="2"/>',
            lines,
        )


class Documents(unittest.TestCase):
    def test_pictures_are_what_their_tables_say(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertFalse(pictures.main(check=True), said.getvalue())

    def test_stale_one_is_named(self):
        drawn, said = pictures.PICTURES, io.StringIO()
        pictures.PICTURES = {"bits.svg": lambda: "<svg/>\n"}
        try:
            with contextlib.redirect_stdout(said):
                self.assertTrue(pictures.main(check=True))
        finally:
            pictures.PICTURES = drawn
        self.assertIn("docs/bits.svg is not what its table says", said.getvalue())

    def test_an_element_a_line(self):
        for picture in sorted((ROOT / "docs").glob("*.svg")):
            with self.subTest(picture.name):
                text = picture.read_text()
                xml.dom.minidom.parseString(text)
                for number, line in enumerate(text.splitlines(), 1):
                    elements = re.findall(r"<\w", line)
                    self.assertLessEqual(len(elements), 1, f"line {number}: {line[:100]}")


if __name__ == "__main__":
    unittest.main()
