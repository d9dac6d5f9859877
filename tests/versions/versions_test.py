"""Two libraries in one group, and tokens between them.

versions_test.py <client> <folder of this library> <folder of the other> <folder of the fake driver>
                 <symm> [tests of unittest]

The other library is a later version, 0.3.1, and has other numbers of the layouts that
SYMM_TEST_LAYOUTS names.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CLIENT, OURS, OTHER, DRIVER, TOOL = sys.argv[1:6]
OURS_VERSION, OTHER_VERSION = "0.2.0", "0.3.1"
UNSUPPORTED, MISMATCH = -5, -9
BOTH = (OURS, OTHER), (OTHER, OURS)
SECONDS = 60


class Sides(unittest.TestCase):
    """Processes of both libraries, in a folder of their own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="symm-versions-")
        self.addCleanup(self.folder.cleanup)
        os.chmod(self.folder.name, 0o700)
        self.running = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.running:
            try:
                process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def start(self, library, *words, layouts="", command=(CLIENT,), **variables):
        """A process that loads the library in the folder `library`."""
        home = Path(self.folder.name)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "LD_LIBRARY_PATH": f"{library}:{DRIVER}",
            "FAKE_CUDA_DEVICES": "2",
            "SYMM_TEST_LAYOUTS": layouts,
            "SYMM_TIMEOUT_MS": "20000",
            "SYMM_CREATE_TIMEOUT_MS": "30000",
            "SYMM_LOG": "warning",
        }
        environment |= {name: str(value) for name, value in variables.items()}
        process = subprocess.Popen(
            [*command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.running.append(process)
        return process

    def said(self, process):
        """What a process has printed, when it has ended."""
        out, errors = process.communicate(timeout=SECONDS)
        self.running.remove(process)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(out)

    def line(self, process):
        """The first line of a process that goes on."""
        return json.loads(process.stdout.readline())

    def ranks(self, libraries, backend="host", layouts="", where=None, ids=(), **variables):
        """What two ranks say, of which each has a library."""
        if where is None:
            where = f"dir://{self.folder.name}/meet"
        processes = []
        for rank, library in enumerate(libraries):
            own = {"SYMM_RANK": rank, "SYMM_SIZE": 2} | variables
            if where:
                own["SYMM_BOOTSTRAP"] = where
            if "SYMM_MACHINE" in own:
                own["SYMM_MACHINE"] = f"{own['SYMM_MACHINE']}{rank}"
            processes.append(self.start(library, "group", backend, *ids, layouts=layouts, **own))
        return [self.said(process) for process in processes]

    def expect_refused(self, said, status, what):
        """Both versions are named, in the words of the layout."""
        self.assertEqual(said.get("status"), status, said)
        for words in (OURS_VERSION, OTHER_VERSION, what):
            self.assertIn(words, said["message"])


class Groups(Sides):
    def test_ranks_of_two_versions_whose_layouts_agree_work_together(self):
        for backend, total in (("host", "3"), ("cuda", "-1")):
            for libraries in BOTH:
                with self.subTest(backend=backend, libraries=libraries):
                    said = self.ranks(libraries, backend)
                    self.assertEqual([one.get("sum") for one in said], [total, total], said)
                    self.assertNotEqual(said[0]["version"], said[1]["version"])

    def test_other_layouts_are_refused_by_both_ranks(self):
        host, cuda = ("host",), ("cuda",)
        rows = (
            ("messages", host + cuda, "messages between ranks"),
            ("directory", host + cuda, "files by which ranks meet"),
            ("control", host, "control segments"),
            ("cuda_control", cuda, "control blocks of CUDA groups"),
            ("plans", host + cuda, "choices of algorithms"),
            ("all", host + cuda, ""),
        )
        for layouts, backends, what in rows:
            for backend in backends:
                for libraries in BOTH:
                    with self.subTest(layouts=layouts, backend=backend, libraries=libraries):
                        for said in self.ranks(libraries, backend, layouts):
                            self.expect_refused(said, MISMATCH, what)

    def test_a_layout_that_a_group_has_not_is_no_reason(self):
        for layouts, backend in (("cuda_control", "host"), ("control", "cuda"), ("token", "host")):
            for libraries in BOTH:
                with self.subTest(layouts=layouts, libraries=libraries):
                    said = self.ranks(libraries, backend, layouts)
                    self.assertTrue(all("sum" in one for one in said), said)


class Machines(Sides):
    """Ranks that meet by TCP, as on two machines. Both libraries are linked of the same objects,
    so that either tells whether both were built without libsodium.
    """

    answer = None  # what rank 0 of a first group of this library says

    def setUp(self):
        super().setUp()
        if Machines.answer is None:
            Machines.answer = self.meet((OURS, OURS))[0]
        why = Machines.answer.get("message", "")
        if "built without libsodium" in why:
            self.skipTest(why)

    def port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def meet(self, libraries, layouts=""):
        where = f"tcp://127.0.0.1:{self.port()}"
        machines = {"SYMM_MACHINE": "m", "SYMM_ENGINE": "secure"}
        return self.ranks(libraries, "host", layouts, where, **machines)

    def test_versions_whose_layouts_agree_work_together(self):
        for libraries in BOTH:
            with self.subTest(libraries=libraries):
                said = self.meet(libraries)
                self.assertEqual([one.get("sum") for one in said], ["3", "3"], said)

    def test_other_layouts_are_refused_by_both_ranks(self):
        rows = (
            ("store", "requests to the store by TCP"),
            ("messages", "messages between ranks"),
            ("remote", "messages between machines"),
            ("control", "control segments"),
        )
        for layouts, what in rows:
            for libraries in BOTH:
                with self.subTest(layouts=layouts, libraries=libraries):
                    for said in self.meet(libraries, layouts):
                        self.expect_refused(said, MISMATCH, what)

    def test_another_greeting_is_refused_with_both_versions(self):
        """Rank 0 serves the store: it hears a greeting that it cannot read, answers with its
        version, and waits on for a rank that it can understand."""
        for libraries in BOTH:
            with self.subTest(libraries=libraries):
                where = f"tcp://127.0.0.1:{self.port()}"
                processes = [
                    self.start(
                        library,
                        "group",
                        layouts="greeting",
                        SYMM_RANK=rank,
                        SYMM_SIZE=2,
                        SYMM_BOOTSTRAP=where,
                        SYMM_CREATE_TIMEOUT_MS=4000,
                    )
                    for rank, library in enumerate(libraries)
                ]
                said = [process.communicate(timeout=SECONDS) for process in processes]
                self.running.clear()
                self.expect_refused(json.loads(said[1][0]), MISMATCH, "greetings by TCP")
                self.assertIn("greetings by TCP", said[0][1])
                for version in (OURS_VERSION, OTHER_VERSION):
                    self.assertIn(version, said[0][1])


class Ids(Sides):
    def meet(self, libraries):
        maker = self.start(libraries[0], "id", SYMM_ID_ADDRESS="machine")
        made = self.line(maker)["id"]
        said = self.ranks(libraries, "host", where="", ids=(made,))
        maker.communicate(timeout=SECONDS)
        self.running.remove(maker)
        return said

    def test_a_group_meets_by_the_id_of_another_version(self):
        for libraries in BOTH:
            with self.subTest(libraries=libraries):
                said = self.meet(libraries)
                self.assertEqual([one.get("sum") for one in said], ["3", "3"], said)

    def test_an_id_of_another_layout_is_refused(self):
        for maker, reader in BOTH:
            with self.subTest(maker=maker):
                process = self.start(maker, "id", layouts="unique_id", SYMM_ID_ADDRESS="machine")
                made = self.line(process)["id"]
                rank = self.start(
                    reader, "group", "host", made, layouts="unique_id", SYMM_RANK=0, SYMM_SIZE=2
                )
                self.expect_refused(self.said(rank), UNSUPPORTED, "config.id: its maker")


class Tokens(Sides):
    def pass_on(self, libraries, backend, layouts=""):
        alone = {"SYMM_RANK": 0, "SYMM_SIZE": 1}
        exporter = self.start(libraries[0], "export", backend, layouts=layouts, **alone)
        token = self.line(exporter)["token"]
        importer = self.start(libraries[1], "import", backend, token, layouts=layouts)
        return self.said(importer)

    def test_versions_whose_layouts_agree_pass_memory_on(self):
        for backend, first in (("host", "40"), ("cuda", "-1")):
            for libraries in BOTH:
                with self.subTest(backend=backend, libraries=libraries):
                    said = self.pass_on(libraries, backend)
                    self.assertEqual(said.get("first"), first, said)

    def test_other_layouts_are_refused_by_the_importer(self):
        for layouts, what in (
            ("token", "token: its maker"),
            ("leases", "leases of memory"),
            ("all", ""),
        ):
            for backend in ("host", "cuda"):
                for libraries in BOTH:
                    with self.subTest(layouts=layouts, backend=backend, libraries=libraries):
                        said = self.pass_on(libraries, backend, layouts)
                        self.expect_refused(said, UNSUPPORTED, what)


class Monitors(Sides):
    def top(self, layouts):
        rank = self.start(OTHER, "pause", layouts=layouts, SYMM_RANK=0, SYMM_SIZE=1)
        self.line(rank)
        seen = self.start(OURS, "top", "--json", command=(TOOL,))
        report = self.said(seen)
        return report["groups"], [one for one in report["unreadable"] if one["pid"] == rank.pid]

    def test_top_shows_the_ranks_of_another_version(self):
        groups, unreadable = self.top("")
        self.assertIn("versions", [group["name"] for group in groups])
        self.assertEqual(unreadable, [])

    def test_top_names_both_versions_of_a_page_that_it_cannot_read(self):
        _, unreadable = self.top("page")
        self.assertEqual(len(unreadable), 1)
        for version in (OURS_VERSION, OTHER_VERSION):
            self.assertIn(version, unreadable[0]["why"])

    def top_of_shares(self, layouts):
        """The versions that top shows, and why it cannot read the shares of their maker."""
        alone = {"SYMM_RANK": 0, "SYMM_SIZE": 1}
        maker = self.start(OTHER, "publish", "host", layouts=layouts, **alone)
        self.assertEqual(self.line(maker).get("published"), "7")
        report = self.said(self.start(OURS, "top", "--json", command=(TOOL,)))
        versions = [one for one in report["shares"]["versions"] if one["pid"] == maker.pid]
        return versions, [one for one in report["unreadable"] if one["pid"] == maker.pid]

    def test_top_shows_what_another_version_shares(self):
        versions, unreadable = self.top_of_shares("")
        self.assertEqual([(one["name"], one["version"]) for one in versions], [("weights", 7)])
        self.assertEqual(unreadable, [])

    def test_top_names_both_versions_of_shares_that_it_cannot_read(self):
        versions, unreadable = self.top_of_shares("shares")
        self.assertEqual(versions, [])
        self.assertEqual(len(unreadable), 1)
        for version in (OURS_VERSION, OTHER_VERSION):
            self.assertIn(version, unreadable[0]["why"])

    def test_run_names_both_versions_of_a_trace_that_it_cannot_read(self):
        trace = Path(self.folder.name) / "trace.json"
        run = self.start(
            OTHER,
            "run",
            "-n",
            "2",
            "--trace",
            str(trace),
            CLIENT,
            "group",
            "host",
            layouts="trace",
            command=(TOOL,),
        )
        _, errors = run.communicate(timeout=SECONDS)
        self.running.remove(run)
        for words in ("--trace: ", OURS_VERSION, OTHER_VERSION):
            self.assertIn(words, errors)


def main():
    """77 if some tests were skipped and the others passed."""
    result = unittest.main(argv=[sys.argv[0], *sys.argv[6:]], exit=False).result
    if not result.wasSuccessful() or not result.testsRun:
        sys.exit(1)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"SKIPPED: {reason}")
    sys.exit(77 if result.skipped else 0)


if __name__ == "__main__":
    main()
