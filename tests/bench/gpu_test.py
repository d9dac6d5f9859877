"""bench/gpu without a GPU: options, sizes, times by stand-ins of PyTorch, files and tables."""

import contextlib
import importlib
import io
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "bench" / "gpu"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
import common
import report
import sizes


def asked(*more, world=4):
    return sizes.parse(["--library", "l", "--out", "o", *more], world)


def row_of(size, us):
    return {
        "collective": "allreduce",
        "dtype": "bf16",
        "bytes": size,
        "calls": 2,
        "repeats": 3,
        "us": us,
        "times": {name: [[time] * 3] * 4 for name, time in us.items()},
    }


def a_run(world=4):
    found = report.new_run(world, "2026-01-02", vars(asked("--tune", "work_groups=8", world=world)))
    found.update(
        driver="1.2",
        device={"name": "a GPU", "multiprocessors": 132},
        complete=True,
        versions={"CUDA": "13.0", "NCCL": "2.28", "PyTorch": "2.11.0+x", "symm": "{}"},
    )
    found["rows"] = [
        row_of(
            256,
            {
                "symm": 3.0,
                "symm work_groups=8": 2.9,
                "nccl": 21.0,
                "nccl window": 14.0,
                "torch one-shot": 6.6,
            },
        ),
        row_of(
            1 << 30,
            {"symm": 4000.0, "symm work_groups=8": 5000.0, "nccl": 4200.0, "nccl window": 6000.0},
        ),
    ]

    return found


class Asked(unittest.TestCase):
    def test_everything_is_measured_by_default(self):
        plan = sizes.plan(asked(), 4)
        allreduces = [row for row in plan if row[0] == "allreduce"]
        self.assertEqual({dtype for _, dtype, _ in allreduces}, {"bf16", "f32"})
        self.assertEqual(
            [size for _, dtype, size in allreduces if dtype == "f32"], [256 << i for i in range(23)]
        )
        self.assertEqual([row[1:] for row in plan if row[0] == "barrier"], [("bf16", 0)])
        self.assertEqual(asked().name, f"gpu-4-{asked().date}")

    def refusal(self, *arguments):
        """What the parser prints before it ends the program with status 2."""
        output = io.StringIO()
        with contextlib.redirect_stderr(output), self.assertRaises(SystemExit) as ended:
            asked(*arguments)
        self.assertEqual(ended.exception.code, 2)
        return output.getvalue()

    def test_wrong_names_and_numbers_are_refused(self):
        for named, arguments in (
            ("'gather'", ("--collectives", "allreduce", "gather")),
            ("'f64'", ("--dtypes", "f64")),
            ("multiple of 16", ("--smallest", "100")),
            ("2", ("--step", "1")),
            ("is above", ("--smallest", "1024", "--largest", "512")),
            ("unrecognized", ("--small", "1024")),
        ):
            with self.subTest(arguments):
                self.assertIn(named, self.refusal(*arguments))

    def test_wrong_options_are_refused_before_torch_is_imported(self):
        run = subprocess.run(
            [sys.executable, FOLDER / "run.py", "--out", "x"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 2)
        self.assertIn("--library", run.stderr)


class Sizes(unittest.TestCase):
    def test_sizes_go_by_steps_up_to_the_largest(self):
        self.assertEqual(sizes.sizes(16, 1000, 4), [16, 64, 256])
        with self.assertRaises(ValueError):
            sizes.sizes(16, 64, 1)

    def test_sizes_of_other_collectives_divide_among_any_number_of_ranks(self):
        for world in range(2, 9):
            for size in sizes.sizes_of("allgather", asked("--smallest", "16"), world):
                with self.subTest(world=world, size=size):
                    self.assertEqual(size % (16 * world), 0)
                    self.assertGreater(size, 4096 - 16 * world)

    def test_large_sizes_take_fewer_calls_and_turns(self):
        calls = [sizes.calls_of(256 << i) for i in range(23)]
        self.assertEqual(calls, sorted(calls, reverse=True))
        self.assertLessEqual(calls[0], 100)
        repeats = [sizes.repeats_of(256 << i, 9) for i in range(23)]
        self.assertEqual(repeats, sorted(repeats, reverse=True))
        self.assertEqual((repeats[0], repeats[-1]), (9, 5))

    def test_the_bus_carries_a_share_of_the_larger_operand(self):
        for collective, factor in (
            ("allreduce", 1.5),
            ("allgather", 0.75),
            ("reduce_scatter", 0.75),
            ("alltoall", 0.75),
            ("broadcast", 1),
            ("reduce", 1),
        ):
            with self.subTest(collective):
                self.assertEqual(sizes.bus_factor(collective, 4), factor)


class FakeEvent:
    """An event of a clock that calls advance."""

    now = 0.0

    def __init__(self, enable_timing):
        self.enable_timing = enable_timing

    def record(self):
        self.at = FakeEvent.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        if not self.enable_timing:
            raise RuntimeError("this event takes no times")
        return end.at - self.at


class FakeGraph:
    """A graph that replays the calls between its begin and its end."""

    capturing = None

    def capture_begin(self, capture_error_mode):
        if capture_error_mode != "thread_local":
            raise RuntimeError("calls of other threads end this capture")
        self.calls = []
        FakeGraph.capturing = self.calls

    def capture_end(self):
        FakeGraph.capturing = None

    def replay(self):
        FakeEvent.now += sum(self.calls)


class FakeWay:
    """A way whose calls take a known time."""

    def __init__(self, name, microseconds, right=True):
        self.name = name
        self.milliseconds = microseconds / 1e3
        self.is_right = right
        self.calls = 0

    def call(self):
        self.calls += 1
        if FakeGraph.capturing is None:
            FakeEvent.now += self.milliseconds
        else:
            FakeGraph.capturing.append(self.milliseconds)

    def write(self):
        pass

    def clear(self):
        pass

    def right(self):
        if self.is_right is None:
            raise RuntimeError("it broke")
        return self.is_right


def measuring_without_torch(world=2, slower=1):
    """measuring.py on stand-ins; rank r's times are `slower` ** r those of this one."""

    def of_rank(rank, mine):
        return {
            name: [time * slower**rank for time in value] if isinstance(value, list) else value
            for name, value in mine.items()
        }

    def all_gather_object(objects, mine, group):
        objects[:] = [of_rank(rank, mine) for rank in range(world)]

    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(
        Event=FakeEvent, CUDAGraph=FakeGraph, synchronize=lambda: None
    )
    torch.distributed = types.ModuleType("torch.distributed")
    torch.distributed.get_world_size = lambda: world
    torch.distributed.barrier = lambda: None
    torch.distributed.all_gather_object = all_gather_object
    fakes = {"torch": torch, "torch.distributed": torch.distributed}
    with unittest.mock.patch.dict(sys.modules, fakes):
        sys.modules.pop("measuring", None)
        return importlib.import_module("measuring")


class Measured(unittest.TestCase):
    def test_turns_begin_with_another_way_in_each_round(self):
        measuring = measuring_without_torch()
        turns = list(measuring.turns(["a", "b", "c"], 4))
        self.assertEqual(turns, list("abcbcacababc"))
        self.assertEqual(list(measuring.turns([], 3)), [])

    def test_a_time_is_that_of_one_call(self):
        clock = measuring_without_torch().Clock("gloo")
        ways = [FakeWay("symm", 3), FakeWay("nccl", 20)]
        row = clock.measure(ways, 5, 4)
        self.assertAlmostEqual(row["us"]["symm"], 3, places=3)
        self.assertAlmostEqual(row["us"]["nccl"], 20, places=3)
        self.assertEqual([len(turns) for turns in row["times"]["nccl"]], [4, 4])
        self.assertEqual(ways[0].calls, 6)

    def test_the_slowest_rank_counts(self):
        clock = measuring_without_torch(world=3, slower=2).Clock("gloo")
        row = clock.measure([FakeWay("symm", 3)], 5, 4)
        self.assertAlmostEqual(row["us"]["symm"], 12, places=3)

    def test_a_way_that_is_wrong_is_named_with_the_rank(self):
        clock = measuring_without_torch().Clock("gloo")
        ways = [FakeWay("symm", 1), FakeWay("nccl", 1, False), FakeWay("torch", 1, None)]
        self.assertEqual(
            clock.check(ways), {"nccl": "rank 0: wrong result", "torch": "rank 0: it broke"}
        )


class Reported(unittest.TestCase):
    def test_the_reason_is_the_error_of_a_rank_or_the_end_of_the_output(self):
        output = "Traceback\n[rank3]: AssertionError: not close\nelastic.ChildFailedError: \n====\n"
        self.assertEqual(common.reason(output), "AssertionError: not close")
        self.assertEqual(common.reason("killed"), "killed")

    def test_ratio_is_to_the_best_peer_and_not_to_other_tunings(self):
        run = a_run()
        self.assertAlmostEqual(report.ratio(run["rows"][0]), 2.2)
        self.assertAlmostEqual(report.ratio(run["rows"][1]), 1.05)
        self.assertIsNone(report.ratio(row_of(256, {"symm": 1.0})))
        self.assertIsNone(report.ratio(row_of(256, {"nccl": 1.0})))
        self.assertIsNone(report.ratio(row_of(256, {})))

    def test_columns_are_what_any_row_has(self):
        self.assertEqual(
            report.columns(a_run()["rows"]),
            ["symm", "symm work_groups=8", "nccl", "nccl window", "torch one-shot"],
        )
        self.assertEqual(
            report.columns([row_of(1, {"nccl": 1}), row_of(2, {"nccl": 1, "vllm": 2})]),
            ["nccl", "vllm"],
        )

    def test_the_best_way_of_each_library_is_kept(self):
        row = row_of(1, {"symm": 3, "symm a=1": 1, "nccl": 9, "nccl 2.3 X=1 window": 7, "torch": 8})
        self.assertEqual(report.by_library(row)["us"], {"symm": 3, "nccl": 7, "torch": 8})
        self.assertIn(
            "| bytes | symm | NCCL | PyTorch | best peer / symm |", report.markdown(a_run(), True)
        )

    def test_picture(self):
        self.assertIn(
            '<polyline points="50,360 610,42" fill="none" stroke="#c0392b" stroke-width="2"/>\n'
            '<text x="60" y="50" ',
            report.picture(a_run()),
        )

    def test_the_tables_have_the_rows_of_the_run(self):
        lines = report.markdown(a_run()).splitlines()
        self.assertIn("4 x a GPU, driver 1.2, CUDA 13.0, NCCL 2.28", lines[0])
        self.assertIn("| 256 | 3.00 | 2.90 | 21.00 | 14.00 | 6.60 | 2.20 | 0.1 |", lines)
        self.assertIn(
            "| 1073741824 | 4000.00 | 5000.00 | 4200.00 | 6000.00 | - | 1.05 | 402.7 |", lines
        )
        tables = [line.count("|") for line in lines if line.startswith("|")]
        self.assertEqual(tables, [9] * 4)
        self.assertNotIn("stopped", lines[-1])

    def test_what_failed_is_below_the_tables(self):
        run = a_run()
        run.update(
            complete=False,
            errors=["allreduce: nccl: wrong result"],
            unavailable={"nccl window": "old"},
        )
        text = report.markdown(run)

        for line in (
            "Without nccl window: old",
            "FAILED: allreduce: nccl: wrong result",
            "stopped before its end",
        ):
            self.assertIn(line, text)


class Kept(unittest.TestCase):
    def test_a_run_that_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run = a_run()
            file = Path(report.write(folder + "/new", run))
            self.assertEqual(file.name, run["settings"]["name"] + ".json")
            self.assertEqual(report.read(file)["rows"], run["rows"])
            self.assertEqual([path.name for path in file.parent.iterdir()], [file.name])

    def test_a_file_of_another_format_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            name = report.write(folder, a_run() | {"format": 0})
            with self.assertRaisesRegex(ValueError, "not results of format"):
                report.read(name)


if __name__ == "__main__":
    unittest.main()
