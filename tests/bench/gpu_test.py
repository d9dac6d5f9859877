"""bench/gpu without a GPU: what is asked for, how often it is measured, what is made of the times. torch is a stand-in."""
import contextlib
import ctypes
import io
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "bench" / "gpu"
sys.path.insert(0, str(FOLDER))
import libraries
import report
import sizes


class FakeEvent:
    """Time passes when a call is made."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = FakeEvent.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


class FakeGraph:
    """Replays what was called between its begin and its end."""

    capturing = None

    def capture_begin(self, capture_error_mode):
        assert capture_error_mode == "thread_local"
        self.calls = FakeGraph.capturing = []

    def capture_end(self):
        FakeGraph.capturing = None

    def replay(self):
        for milliseconds in self.calls:
            FakeEvent.now += milliseconds


def measuring_on_fakes(world=2):
    """measuring.py; every rank says what this one does."""
    torch, dist = types.ModuleType("torch"), types.ModuleType("torch.distributed")
    torch.cuda = types.SimpleNamespace(Event=FakeEvent, CUDAGraph=FakeGraph, synchronize=lambda: None)
    torch.distributed = dist
    dist.get_world_size = lambda: world
    dist.barrier = lambda: None

    def all_gather_object(found, mine, group):
        assert group == "gloo"
        found[:] = [mine] * len(found)

    dist.all_gather_object = all_gather_object
    sys.modules["torch"], sys.modules["torch.distributed"] = torch, dist
    try:
        import measuring
    finally:
        del sys.modules["torch"], sys.modules["torch.distributed"]
    return measuring


class FakeWay:
    def __init__(self, name, microseconds, right=True):
        self.name, self.milliseconds, self.is_right, self.made = name, microseconds / 1e3, right, 0

    def call(self):
        self.made += 1
        if FakeGraph.capturing is not None:
            FakeGraph.capturing.append(self.milliseconds)
        else:
            FakeEvent.now += self.milliseconds

    def write(self):
        pass

    clear = write

    def right(self):
        if self.is_right is None:
            raise RuntimeError("it broke")
        return self.is_right


def asked(*more, world=4):
    return sizes.parse(["--library", "l", "--out", "o", *more], world)


def row_of(size, us):
    return {"collective": "allreduce", "dtype": "bf16", "bytes": size, "calls": 2, "repeats": 3, "us": us,
            "times": {name: [[time] * 3] * 4 for name, time in us.items()}}


def a_run(world=4):
    found = report.new_run(world, "2026-01-02", vars(asked("--tune", "stripes=8", world=world)))
    found.update(driver="1.2", device={"name": "a GPU", "multiprocessors": 132}, complete=True,
                 versions={"CUDA": "13.0", "NCCL": "2.28", "PyTorch": "2.11.0+x", "symm": "{}"})
    found["rows"] = [row_of(256, {"symm": 3.0, "symm stripes=8": 2.9, "nccl": 21.0, "nccl window": 14.0, "torch one-shot": 6.6}),
                     row_of(1 << 30, {"symm": 4000.0, "symm stripes=8": 5000.0, "nccl": 4200.0, "nccl window": 6000.0})]
    return found


class Asked(unittest.TestCase):
    def refused(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            asked(*arguments)
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_everything_is_the_default(self):
        plan = sizes.plan(asked(), 4)
        self.assertEqual({row[:2] for row in plan if row[0] == "allreduce"}, {("allreduce", "bf16"), ("allreduce", "f32")})
        self.assertEqual([row[2] for row in plan if row[:2] == ("allreduce", "f32")], [256 << i for i in range(23)])
        self.assertEqual([row[1:] for row in plan if row[0] == "barrier"], [("bf16", 0)])
        self.assertEqual(asked().name, f"gpu-4-{asked().date}")

    def test_names_and_numbers_are_checked(self):
        self.assertIn("'gather' is none of allreduce", self.refused("--collectives", "allreduce,gather"))
        self.assertIn("'f64' is none of", self.refused("--dtypes", "f64"))
        self.assertIn("'' is none of", self.refused("--dtypes", "bf16,"))
        self.assertIn("multiple of 16", self.refused("--smallest", "100"))
        self.assertIn("2", self.refused("--step", "1"))
        self.assertIn("is above", self.refused("--smallest", "1024", "--largest", "512"))
        self.assertIn("unrecognized", self.refused("--small", "1024"))

    def test_program_ends_so_without_torch(self):
        run = subprocess.run([sys.executable, FOLDER / "run.py", "--out", "x"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--library", run.stderr)


class Sizes(unittest.TestCase):
    def test_steps(self):
        self.assertEqual(sizes.sizes(16, 1000, 4), [16, 64, 256])
        with self.assertRaises(ValueError):
            sizes.sizes(16, 64, 1)

    def test_others_divide_among_any_number_of_ranks(self):
        for world in range(2, 9):
            for size in sizes.sizes_of("allgather", asked("--smallest", "16"), world):
                self.assertEqual(size % (16 * world), 0)
                self.assertGreater(size, 4096 - 16 * world)

    def test_large_ones_take_fewer_calls_and_turns(self):
        calls = [sizes.calls_of(256 << i) for i in range(23)]
        self.assertEqual(calls, sorted(calls, reverse=True))
        self.assertLessEqual(calls[0], 100)
        repeats = [sizes.repeats_of(256 << i, 9) for i in range(23)]
        self.assertEqual((repeats, repeats[0], repeats[-1]), (sorted(repeats, reverse=True), 9, 5))

    def test_bus(self):
        self.assertEqual([sizes.bus_factor(name, 4) for name in ("allreduce", "allgather", "reduce_scatter", "alltoall", "broadcast", "reduce")],
                         [1.5, 0.75, 0.75, 0.75, 1, 1])


class Measured(unittest.TestCase):
    def setUp(self):
        self.measuring = measuring_on_fakes()
        self.clock = self.measuring.Clock("gloo")

    def test_turns_begin_with_another_each_round(self):
        self.assertEqual(list(self.measuring.turns(["a", "b", "c"], 4)), list("abc" "bca" "cab" "abc"))
        self.assertEqual(list(self.measuring.turns([], 3)), [])

    def test_the_slowest_rank_counts(self):
        self.assertEqual(self.measuring.slowest([[1, 2, 9], [3, 3, 3], [1, 1, 50]]), 3)

    def test_times_are_of_one_call(self):
        ways = [FakeWay("symm", 3), FakeWay("nccl", 20)]
        row = self.clock.measure(ways, 5, 4)
        self.assertAlmostEqual(row["us"]["symm"], 3, places=3)
        self.assertAlmostEqual(row["us"]["nccl"], 20, places=3)
        self.assertEqual([len(rank) for rank in row["times"]["nccl"]], [4, 4])
        self.assertEqual(ways[0].made, 6)

    def test_what_is_wrong_is_named(self):
        wrong = self.clock.check([FakeWay("symm", 1), FakeWay("nccl", 1, False), FakeWay("torch", 1, None)])
        self.assertEqual(wrong, {"nccl": "rank 0: wrong result", "torch": "rank 0: it broke"})


class Layouts(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        golden = (FOLDER.parent.parent / "tests/abi/layout.txt").read_text(encoding="utf-8")
        for name, ours in (("group_config", libraries.Config), ("rmsnorm", libraries.RmsNorm)):
            self.assertIn(f"struct symm_{name}_t size {ctypes.sizeof(ours)} ", golden)


class Reported(unittest.TestCase):
    def test_ratio_is_to_the_best_peer_and_not_to_other_tunings(self):
        run = a_run()
        self.assertAlmostEqual(report.ratio(run["rows"][0]), 2.2)
        self.assertAlmostEqual(report.ratio(run["rows"][1]), 1.05)
        self.assertIsNone(report.ratio(row_of(256, {"symm": 1.0})))
        self.assertIsNone(report.ratio(row_of(256, {"nccl": 1.0})))
        self.assertIsNone(report.ratio(row_of(256, {})))

    def test_columns_are_what_any_row_has(self):
        self.assertEqual(report.columns(a_run()["rows"]), ["symm", "symm stripes=8", "nccl", "nccl window", "torch one-shot"])
        self.assertEqual(report.columns([row_of(1, {"nccl": 1}), row_of(2, {"nccl": 1, "vllm": 2})]), ["nccl", "vllm"])

    def test_best_of_each_library(self):
        row = row_of(1, {"symm": 3, "symm a=1": 1, "nccl": 9, "nccl 2.3 X=1 window": 7, "torch": 8})
        self.assertEqual(report.by_library(row)["us"], {"symm": 3, "nccl": 7, "torch": 8})
        self.assertIn("| bytes | symm | NCCL | PyTorch | best peer / symm |", report.markdown(a_run(), True))

    def test_markdown(self):
        lines = report.markdown(a_run()).splitlines()
        self.assertIn("4 x a GPU, driver 1.2, CUDA 13.0, NCCL 2.28", lines[0])
        self.assertIn("| 256 | 3.00 | 2.90 | 21.00 | 14.00 | 6.60 | 2.20 | 0.1 |", lines)
        self.assertIn("| 1073741824 | 4000.00 | 5000.00 | 4200.00 | 6000.00 | - | 1.05 | 402.7 |", lines)
        tables = [line.count("|") for line in lines if line.startswith("|")]
        self.assertEqual(tables, [9] * 4)
        self.assertNotIn("stopped", lines[-1])

    def test_what_failed_is_said(self):
        run = a_run()
        run.update(complete=False, errors=["allreduce: nccl: wrong result"], unavailable={"nccl window": "old"})
        text = report.markdown(run)
        for said in ("Without nccl window: old", "FAILED: allreduce: nccl: wrong result", "stopped before its end"):
            self.assertIn(said, text)


class Kept(unittest.TestCase):
    def test_what_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run = a_run()
            name = report.write(folder + "/new", run)
            self.assertEqual(Path(name).name, run["settings"]["name"] + ".json")
            self.assertEqual(report.read(name)["rows"], run["rows"])
            self.assertEqual([path.name for path in Path(name).parent.iterdir()], [Path(name).name])

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            name = report.write(folder, a_run() | {"format": 0})
            with self.assertRaisesRegex(ValueError, "not results of format"):
                report.read(name)


if __name__ == "__main__":
    unittest.main()
