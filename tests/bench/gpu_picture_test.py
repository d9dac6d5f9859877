"""Pictures of the GPU benchmark, drawn by the first Python that has matplotlib: this one, or that of bench/gpu/draw. Ends with 77 where
there is none."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from gpu_test import FOLDER, a_run, results


def with_matplotlib():
    for python in (sys.executable, str(FOLDER.parent.parent / "build/bench/venv/bin/python")):
        if Path(python).exists() and subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
            return python
    print("SKIPPED: no matplotlib; bench/gpu/draw fetches it")
    sys.exit(77)


PYTHON = with_matplotlib()


class Picture(unittest.TestCase):
    def draw(self, folder, runs, *arguments):
        names = [results.write(f"{folder}/{number}", run) for number, run in enumerate(runs)]
        return subprocess.run([PYTHON, FOLDER / "picture.py", *names, *arguments], capture_output=True, text=True, check=False)

    def test_panels_in_the_order_of_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "x.svg")
            done = self.draw(folder, [a_run(4), a_run(2)], "--out", str(out))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            svg = out.read_text(encoding="utf-8")
            self.assertLess(svg.index(">2 GPUs</text>"), svg.index(">4 GPUs</text>"))
            for text in ("NCCL", "best peer / symm", "All-reduce, bf16, in graphs, a GPU"):
                self.assertIn(f">{text}", svg)

    def test_the_same_runs_are_the_same_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            outs = [Path(folder, f"{i}.svg") for i in range(2)]
            for out in outs:
                self.draw(folder, [a_run()], "--out", str(out))
            self.assertEqual(outs[0].read_bytes(), outs[1].read_bytes())

    def test_what_cannot_be_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder, "x.png"))
            self.assertIn("two runs with 4 GPUs", self.draw(folder, [a_run(), a_run()], "--out", out).stderr)
            self.assertIn("no rows of allreduce, f32, graph", self.draw(folder, [a_run()], "--out", out, "--dtype", "f32").stderr)
            self.assertFalse(Path(out).exists())


if __name__ == "__main__":
    unittest.main()
