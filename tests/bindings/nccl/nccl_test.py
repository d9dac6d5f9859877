"""The drop-in over a fake NCCL.

nccl_test.py <build folder> [tests of unittest]

Each test runs its programs in processes of their own, since a process has one drop-in.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(SOURCE / "bindings/nccl"))
import generate

BUILD = Path(sys.argv[1]).resolve()
LINKS = BUILD / "lib/symm-nccl"
SHIM = LINKS / "libsymm_nccl.so"
FAKES = BUILD / "tests/bindings/nccl"
NEWEST = FAKES / "nccl_newest/libnccl.so.2"
OLD = FAKES / "nccl_old/libnccl.so.2"
FUNCTIONS = generate.read()

# Begins each program that calls the drop-in by ctypes.
PRELUDE = f"""
import ctypes, json, os, sys, threading, time
shim = ctypes.CDLL({str(SHIM)!r})
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
shim.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
shim.ncclCommInitRankConfig.argtypes = [
    ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int, ctypes.c_void_p]
for name in ("ncclGetLastError", "ncclGetErrorString"):
    getattr(shim, name).restype = ctypes.c_char_p
for name in ("ncclCommDestroy", "ncclCommAbort", "ncclCommFinalize", "ncclGetLastError"):
    getattr(shim, name).argtypes = [ctypes.c_void_p]
shim.ncclCommGetAsyncError.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
shim.ncclCommSplit.argtypes = [
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
shim.ncclCommShrink.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
def new_id():
    id = Id()
    assert shim.ncclGetUniqueId(ctypes.byref(id)) == 0
    return id
def init(id, size, rank):
    comm = ctypes.c_void_p()
    assert shim.ncclCommInitRank(ctypes.byref(comm), size, id, rank) == 0
    return comm
def async_error(comm):
    error = ctypes.c_int(-1)
    assert shim.ncclCommGetAsyncError(comm, ctypes.byref(error)) == 0
    return error.value
def fake():
    # The copy that the drop-in has found.
    return ctypes.CDLL(os.environ["SYMM_NCCL"])
"""


def start(program, nccl=NEWEST, **environment):
    """A process that runs `program` after PRELUDE."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SYMM_", "LD_", "FAKE_"))}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program],
        env={**inherited, "SYMM_NCCL": str(nccl), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program, nccl=NEWEST, **environment):
    """What `program` prints, read as JSON."""
    process = start(program, nccl, **environment)
    out, err = process.communicate(timeout=120)
    if process.returncode != 0:
        raise AssertionError(f"status {process.returncode}\n{out}\n{err}")
    return json.loads(out)


class Exports(unittest.TestCase):
    def exported(self):
        listing = subprocess.run(
            ["nm", "-D", "--defined-only", SHIM], check=True, capture_output=True, text=True
        )
        return {line.split()[-1] for line in listing.stdout.splitlines()}

    def test_are_the_list_and_nothing_else(self):
        listed = {prefix + f.name for f in FUNCTIONS for prefix in ("", "p")}
        self.assertEqual(self.exported(), listed | {"symm_nccl_marker"})

    def test_have_all_that_clients_ask_for(self):
        exported = self.exported()
        lists = sorted((HERE / "clients").glob("*.txt"))
        self.assertGreaterEqual(len(lists), 8)
        for client in lists:
            names = [n for n in client.read_text().splitlines() if n and not n.startswith("#")]
            self.assertGreater(len(names), 15, client.name)
            for name in names:
                self.assertIn(name, exported, client.name)

    def test_need_libc_only(self):
        listing = subprocess.run(
            ["readelf", "-dW", SHIM], check=True, capture_output=True, text=True
        ).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listing)
        self.assertEqual([n for n in needed if not re.match(r"lib(?:c|dl|pthread|m)\.|ld-", n)], [])
        self.assertIn("[libnccl.so.2]", re.search(r"\(SONAME\).*", listing)[0])
        self.assertRegex(listing, r"FLAGS_1.*NODELETE")


class Forwarding(unittest.TestCase):
    def test_passes_every_argument_and_result(self):
        """Ten words, four of which lie on the stack, and eight reals, twice: the first call of a
        process goes another way than the later ones.
        """
        noted = [
            p + f.name for f in FUNCTIONS for p in ("", "p") if not f.by_hand and p + f.name not in
            ("ncclGetVersion", "ncclCommCount", "ncclCommUserRank", "ncclCommInitAll",
             "ncclCommCuDevice")
        ]  # fmt: skip
        answers = run(f"""
names = {noted!r}
words = list(range(0x1111111100000001, 0x111111110000000b))
reals = [1.5 + i for i in range(8)]
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10),
                ("reals", ctypes.c_double * 8)]
last = Call.in_dll(fake(), "fake_last")
calls = ctypes.c_int.in_dll(fake(), "fake_calls")
wrong = []
for again in range(2):
    for name in names:
        call = getattr(shim, name)
        call.restype = ctypes.c_uint64
        call.argtypes = [ctypes.c_uint64] * 6 + [ctypes.c_double] * 8 + [ctypes.c_uint64] * 4
        got = call(*words[:6], *reals, *words[6:])
        if (last.name.decode(), list(last.words), list(last.reals)) != (name, words, reals):
            wrong.append(["arguments", name, last.name.decode()])
        if got != calls.value + 1000:
            wrong.append(["result", name, got])
print(json.dumps({{"wrong": wrong, "calls": calls.value}}))
""")
        self.assertEqual(answers["wrong"], [])
        self.assertEqual(answers["calls"], 2 * len(noted))
        self.assertGreater(len(noted), 105)

    def test_first_call_of_each_function_in_a_process_of_its_own(self):
        """The table is filled by whichever call comes first, with its arguments kept."""
        for name in ("ncclCommRegister", "pncclSignal", "ncclTeamRankToLsa", "ncclParamGetU8"):
            got = run(f"""
call = shim.{name}
call.argtypes = [ctypes.c_uint64] * 6 + [ctypes.c_double] * 8 + [ctypes.c_uint64] * 4
call(*range(1, 7), *[0.5] * 8, *range(7, 11))
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10),
                ("reals", ctypes.c_double * 8)]
last = Call.in_dll(fake(), "fake_last")
print(json.dumps([last.name.decode(), list(last.words), list(last.reals)]))
""")
            self.assertEqual(got, [name, list(range(1, 11)), [0.5] * 8])

    def test_collectives_reach_nccl_with_their_arguments(self):
        """These are written by hand, by the types of their arguments, for the sake of the order
        with symm's work. A stream and a communicator that are not known are passed on, too.
        """
        pointer, size, number = 0x1111111122222201, 0x1234567890123402, 0x12345603
        data, root = [pointer, pointer + 8, size, number], [number + 4]
        ends = [pointer + 16, pointer + 24]
        calls = {
            "AllGather": data + ends,
            "AlltoAll": data + ends,
            "AllReduce": data + root + ends,
            "Bcast": [pointer, size, number] + root + ends,
            "Broadcast": data + root + ends,
            "Gather": data + root + ends,
            "Scatter": data + root + ends,
            "Reduce": data + root + [number + 5] + ends,
            "ReduceScatter": data + root + ends,
            "Send": [pointer, size, number] + root + ends,
            "Recv": [pointer, size, number] + root + ends,
        }
        for name in [n for n in calls if n not in ("Bcast", "Send", "Recv")]:
            calls[name + "Config"] = calls[name] + [pointer + 32]
        by_hand = {f.name for f in FUNCTIONS if f.by_hand}
        self.assertLessEqual({f"nccl{name}" for name in calls}, by_hand)
        answers = run(f"""
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10)]
last = Call.in_dll(fake(), "fake_last")
calls = ctypes.c_int.in_dll(fake(), "fake_calls")
wrong = []
for name, words in {calls!r}.items():
    for prefix in ("nccl", "pnccl"):
        call = getattr(shim, prefix + name)
        call.argtypes = [ctypes.c_uint64 if w >> 32 else ctypes.c_int for w in words]
        got = call(*words)
        seen = [s if w >> 32 else s & 0xffffffff for s, w in zip(last.words, words)]
        if (last.name.decode(), seen, got) != ("nccl" + name, words, calls.value + 1000):
            wrong.append([prefix + name, last.name.decode(), seen, got])
print(json.dumps(wrong))
""")
        self.assertEqual(answers, [])
        self.assertEqual(len(calls), 19)

    def test_calls_that_are_noted_reach_nccl_with_their_arguments(self):
        """A communicator that is not known, and places that NCCL writes to."""
        answers = run("""
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10)]
last = Call.in_dll(fake(), "fake_last")
pointer, size, number = 0x1111111122222201, 0x1234567890123402, 0x12345603
window, op, comms = ctypes.c_uint64(), ctypes.c_int(), (ctypes.c_uint64 * 2)()
def at(place):
    return ctypes.addressof(place)
wrong = []
for prefix in ("nccl", "pnccl"):
    for name, words, expected in (
        ("CommWindowRegister", [pointer, pointer + 8, size, at(window), number], 0),
        ("CommWindowDeregister", [pointer, pointer + 8], 0),
        ("RedOpCreatePreMulSum", [at(op), pointer, number, number + 1, pointer + 8], 0),
        ("RedOpDestroy", [number, pointer], 4),
        ("CommInitAll", [at(comms), 2, pointer], 0),
    ):
        call = getattr(shim, prefix + name)
        call.argtypes = [ctypes.c_uint64 if w >> 32 else ctypes.c_int for w in words]
        got = call(*words)
        seen = list(last.words)[:len(words)]
        if (last.name.decode(), seen, got) != ("nccl" + name, words, expected):
            wrong.append([prefix + name, last.name.decode(), seen, words, got])
print(json.dumps([wrong, window.value, op.value, all(comms)]), flush=True)
os._exit(0)
""")
        self.assertEqual(answers, [[], 2, 6, True])

    def test_names_what_an_older_nccl_lacks(self):
        answers = run(
            """
answers = {}
for name in ("ncclAlltoAll", "ncclCommResume", "pncclSetEncryption", "ncclCommShrink"):
    arguments = [None, None, 0, None, None, 0]
    answers[name] = [getattr(shim, name)(*arguments), shim.ncclGetLastError(None).decode()]
answers["ncclTeamRankToLsa"] = [shim.ncclTeamRankToLsa(None), ""]
answers["ncclAllReduce"] = [shim.ncclAllReduce(None) > 1000, ""]
answers["8"] = shim.ncclGetErrorString(8).decode()
print(json.dumps(answers))
""",
            nccl=OLD,
        )
        for name, since in (
            ("ncclAlltoAll", "2.28"),
            ("ncclCommResume", "2.29.7"),
            ("pncclSetEncryption", "2.32"),
            ("ncclCommShrink", "2.27"),
        ):
            result, sentence = answers[name]
            self.assertEqual(result, 5, name)
            self.assertIn(f"{name} came with NCCL {since}, ", sentence)
            self.assertIn(f"this process has NCCL 2.21.5 ({OLD})", sentence)
        self.assertEqual(answers["ncclTeamRankToLsa"][0], -1)
        self.assertTrue(answers["ncclAllReduce"][0])
        self.assertEqual(answers["8"], "a rank did not come before the deadline")

    def test_the_log_has_one_line_for_each_function_that_is_missing(self):
        """Programs poll such calls, and hear each time why they fail."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            last = run(
                """
for _ in range(1000):
    assert shim.ncclAlltoAll(None, None, 0, 0, None, None) == 5
    assert shim.ncclCommResume(None) == 5
shim.ncclAlltoAll(None, None, 0, 0, None, None)
print(json.dumps(shim.ncclGetLastError(None).decode()))
""",
                nccl=OLD,
                SYMM_NCCL_LOG=str(log),
            )
            said = [re.search(r": (\w+) came with", line) for line in log.read_text().splitlines()]
        self.assertEqual([m[1] for m in said if m], ["ncclAlltoAll", "ncclCommResume"])
        self.assertTrue(last.startswith("ncclAlltoAll came with NCCL 2.28, "), last)

    def test_calls_of_nccl_to_itself_reach_it(self):
        """A preloaded drop-in is asked for the names that NCCL calls within itself."""
        got = run(
            """
comm = init(new_id(), 1, 0)
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10)]
calls = ctypes.c_int.in_dll(fake(), "fake_calls")
before = calls.value
result = shim.ncclCommDestroy(comm)
last = Call.in_dll(fake(), "fake_last")
print(json.dumps([result, calls.value - before, last.name.decode(), list(last.words)[1:]]))
""",
            FAKE_NCCL="reenters",
            LD_PRELOAD=str(SHIM),
        )
        self.assertEqual(got, [0, 2, "ncclMemFree", [2, 3, 4, 5, 6, 7, 8, 9, 10]])

    def test_a_constructor_of_nccl_may_call_nccl(self):
        """The drop-in, which is preloaded, gets these calls while it loads the library that makes
        them: in its first call of whatever kind, and when it is asked for the marker.
        """
        for first in (
            "shim.ncclGetVersion(ctypes.byref(ctypes.c_int()))",
            "shim.ncclGetUniqueId(ctypes.byref(Id()))",
            "shim.symm_nccl_marker()",
        ):
            got = run(
                f"""
{first}
lib = fake()
version = ctypes.c_int()
print(json.dumps([list((ctypes.c_int * 2).in_dll(lib, "fake_constructed")),
                  (ctypes.c_char * 16).in_dll(lib, "fake_constructed_text").value.decode(),
                  shim.ncclGetVersion(ctypes.byref(version)), version.value]))
""",
                FAKE_NCCL="constructs",
                LD_PRELOAD=str(SHIM),
            )
            self.assertEqual(got, [[0, 23200], "fake remote", 0, 23200], first)

    def test_results_and_errors_of_nccl_are_as_they_were(self):
        got = run(
            """
comm = init(new_id(), 1, 0)
bad = ctypes.c_void_p()
results = [shim.ncclCommInitRank(ctypes.byref(bad), 1, new_id(), 5), bad.value, async_error(comm),
           shim.ncclGroupEnd(), shim.ncclGetErrorString(6).decode()]
ctypes.c_char_p.in_dll(fake(), "fake_error").value = b"what NCCL says"
results += [shim.ncclGetLastError(comm).decode(), shim.ncclGetLastError(None).decode()]
print(json.dumps(results))
""",
            FAKE_NCCL="failed",
        )
        self.assertEqual(got, [4, None, 3, 5, "fake remote", "what NCCL says", "what NCCL says"])


class Configurations(unittest.TestCase):
    # sizeof(ncclConfig_t) by version.
    SIZES = {
        21400: 24, 21700: 40, 21800: 48, 22500: 48, 22700: 72, 22800: 80, 22900: 88, 23000: 96,
        23100: 112, 23200: 120,
    }  # fmt: skip

    def test_of_every_version_reach_nccl_byte_for_byte(self):
        """A struct ends where its page ends, so that a byte read behind it is a crash."""
        answers = run(f"""
import mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = libc.mmap(None, 8192, 3, 0x22, -1, 0)
assert libc.mprotect(page + 4096, 4096, 0) == 0
lib = fake()
size_told = ctypes.c_size_t.in_dll(lib, "fake_config_size")
where = ctypes.c_void_p.in_dll(lib, "fake_config")
seen = (ctypes.c_ubyte * 4096).in_dll(lib, "fake_config_bytes")
wrong = []
def word(value, size):
    return value.to_bytes(size, "little")
cases = []
for version, size in {self.SIZES!r}.items():
    fill = bytes((7 * i) % 251 for i in range(size))
    for blocking in (0, 1, 0x80000000):
        head = word(size, 8) + word(0xcafebeef, 4) + word(version, 4) + word(blocking, 4)
        cases.append(head + fill[20:])
    cases.append(word(1 << 40, 8) + cases[-1][8:])        # a wrong size
    cases.append(word(3, 8) + cases[-1][8:])              # and one that is too small
    cases.append(word(size, 8) + word(0xdead, 4) + fill[12:])   # a wrong magic number
# What Julia's NCCL.jl passes: a size of 4 bytes, and everything else 4 bytes earlier.
cases.append(word(48, 4) + word(0xcafebeef, 4) + word(21800, 4) + word(1, 4) + bytes(32))
for number, case in enumerate(cases):
    at = page + 4096 - len(case)
    ctypes.memmove(at, case, len(case))
    size_told.value = len(case)
    parent = init(new_id(), 4, 0)
    for call in ("init", "split", "shrink", "scalable"):
        where.value = None
        ctypes.memset(seen, 0, 4096)
        comm = ctypes.c_void_p()
        id = new_id()
        if call == "init":
            result = shim.ncclCommInitRankConfig(ctypes.byref(comm), 1, id, 0, at)
        elif call == "split":
            result = shim.ncclCommSplit(parent, 0, 0, ctypes.byref(comm), at)
        elif call == "shrink":
            result = shim.ncclCommShrink(parent, None, 1, ctypes.byref(comm), at, 0)
        else:
            result = shim.ncclCommInitRankScalable(
                ctypes.byref(comm), 1, 0, 1, ctypes.byref(id), ctypes.c_void_p(at))
        # One that does not block meets its other ranks, and they do not come.
        fine = (0, 7) if case[16:20] == bytes(4) and call in ("split", "shrink") else (0,)
        if result not in fine or where.value != at or bytes(seen[:len(case)]) != case:
            wrong.append([number, call, result])
        if ctypes.string_at(at, len(case)) != case:
            wrong.append([number, call, "changed"])
        assert shim.ncclCommDestroy(comm) == 0
    assert shim.ncclCommDestroy(parent) == 0
print(json.dumps({{"wrong": wrong, "cases": len(cases)}}))
os._exit(0)
""")
        self.assertEqual(answers, {"wrong": [], "cases": 61})


class Loading(unittest.TestCase):
    """Which library answers, by the way in which the drop-in comes into a process, and by that in
    which a program looks for NCCL.
    """

    def client(self, program, *steps, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SYMM_", "LD_"))}
        out = subprocess.run(
            [BUILD / "bin" / program, *steps],
            env={**inherited, **environment},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        answers = dict(re.findall(r"^(\w+): file (.*)$", out, re.M))
        versions = set(re.findall(r"result \d+ version \d+", out))
        loaded = [os.path.realpath(name) for name in re.findall(r"^has (.*)$", out, re.M)]
        who = {step: "drop-in" if os.path.samefile(f, SHIM) else "NCCL" for step, f in
               answers.items()}  # fmt: skip
        return who, versions, loaded

    def expect(self, program, steps, expected, real=NEWEST, **environment):
        who, versions, loaded = self.client(program, *steps, **environment)
        self.assertEqual(who, expected, environment)
        # Whoever answers, it is one copy of NCCL that does, and no other one is loaded.
        self.assertEqual(versions, {"result 0 version 23200" if real == NEWEST else
                                    "result 0 version 22105"})  # fmt: skip
        self.assertEqual([f for f in loaded if f != str(SHIM)], [str(real)])
        self.assertEqual(loaded.count(str(SHIM)), int("drop-in" in expected.values()))

    def test_without_the_drop_in(self):
        for program in ("nccl_client_rpath", "nccl_client_runpath"):
            self.expect(program, ["linked", "soname"], {"linked": "NCCL", "soname": "NCCL"})

    def test_preloaded(self):
        for program in ("nccl_client_rpath", "nccl_client_runpath"):
            self.expect(
                program,
                ["linked", "soname", "noload"],
                {"linked": "drop-in", "soname": "drop-in", "noload": "drop-in"},
                LD_PRELOAD=str(SHIM),
            )

    def test_preloaded_and_the_real_one_by_its_path(self):
        """The copy that a program opens by its path is the one behind the drop-in."""
        self.expect(
            "nccl_client_rpath",
            [f"path:{NEWEST}", "linked", "soname"],
            {"path": "NCCL", "linked": "drop-in", "soname": "drop-in"},
            LD_PRELOAD=str(SHIM),
        )

    def test_by_the_path_for_libraries(self):
        """A program with DT_RPATH, as PyTorch's wheels have it, is not reached; DT_RUNPATH is."""
        for program, who in (("nccl_client_rpath", "NCCL"), ("nccl_client_runpath", "drop-in")):
            self.expect(
                program,
                ["linked", "soname"],
                {"linked": who, "soname": who},
                LD_LIBRARY_PATH=str(LINKS),
            )
        self.expect(
            "nccl_client",
            ["soname", "noload"],
            {"soname": "drop-in", "noload": "drop-in"},
            LD_LIBRARY_PATH=f"{LINKS}:{NEWEST.parent}",
        )

    def test_by_its_path(self):
        """As with VLLM_NCCL_SO_PATH: the drop-in finds the copy that the process has, before or
        after it was opened.
        """
        self.expect(
            "nccl_client_rpath",
            ["linked", f"path:{SHIM}", "linked"],
            {"linked": "NCCL", "path": "drop-in"},
        )
        self.expect(
            "nccl_client",
            [f"path:{SHIM}", "soname"],
            {"path": "drop-in", "soname": "drop-in"},
            LD_LIBRARY_PATH=str(NEWEST.parent),
        )

    def test_the_variable_names_the_one_behind(self):
        self.expect(
            "nccl_client",
            [f"path:{SHIM}"],
            {"path": "drop-in"},
            real=OLD,
            SYMM_NCCL=str(OLD),
            LD_LIBRARY_PATH=str(NEWEST.parent),
        )

    def test_none_at_all(self):
        """The drop-in serves by itself, however it comes into a process and whoever asks; the
        client that is linked to NCCL would not start without it.
        """
        for program, steps, environment in (
            ("nccl_client", ["soname", "noload"], {"LD_LIBRARY_PATH": str(LINKS)}),
            ("nccl_client", [f"path:{SHIM}", "soname"], {}),
            ("nccl_client", ["soname"], {"LD_PRELOAD": str(SHIM)}),
            ("nccl_client_runpath", ["linked", "soname"], {"LD_LIBRARY_PATH": str(LINKS)}),
            ("nccl_client_rpath", ["linked", "noload"], {"LD_PRELOAD": str(SHIM)}),
        ):
            who, versions, loaded = self.client(program, *steps, SYMM_NCCL="none", **environment)
            self.assertEqual(set(who.values()), {"drop-in"}, environment)
            self.assertEqual(versions, {"result 0 version 22605"})
            self.assertEqual(loaded, [str(SHIM)])

    def test_none_that_is_found(self):
        """Without a variable, where the search ends without a NCCL."""
        got = run(
            """
del os.environ["SYMM_NCCL"]
version = ctypes.c_int()
print(json.dumps([shim.ncclGetVersion(ctypes.byref(version)), version.value]))
""",
            SYMM_NCCL_LOG="stderr",
        )
        if got[1] > 22605:
            self.skipTest("this machine has a NCCL, which is found")
        self.assertEqual(got, [0, 22605])

    def test_one_that_cannot_be_used_is_not_replaced(self):
        """It is there, so the user wants it. The sentence says what is wrong with it, and how to
        do without.
        """
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libnccl.so.2").write_text("no library")
            got = run(
                """
version = ctypes.c_int(7)
print(json.dumps([shim.ncclGetVersion(ctypes.byref(version)), version.value,
                  shim.ncclGetLastError(None).decode()]))
""",
                "",
                LD_LIBRARY_PATH=folder,
            )
        self.assertEqual(got[:2], [2, 7])
        self.assertIn("the NCCL behind symm's drop-in cannot be used", got[2])
        self.assertIn("or none to have symm serve by itself", got[2])

    def test_none_behind_is_said(self):
        for environment, why in (
            (
                {"SYMM_NCCL": "none", "SYMM_NCCL_MODE": "off"},
                "SYMM_NCCL=none; with SYMM_NCCL_MODE=off, symm serves nothing by itself",
            ),
            ({"SYMM_NCCL": str(SHIM)}, "is symm's drop-in, not the NCCL behind it"),
            ({"SYMM_NCCL": "/nowhere/libnccl.so.2"}, "/nowhere/libnccl.so.2"),
        ):
            got = run(
                f"""
os.environ.pop("SYMM_NCCL", None)
os.environ.update({environment!r})
version = ctypes.c_int(7)
results = [shim.ncclGetVersion(ctypes.byref(version)), version.value,
           shim.ncclGetErrorString(2).decode(), shim.ncclGetLastError(None).decode(),
           shim.symm_nccl_marker()]
print(json.dumps(results))
""",
            )
            self.assertEqual(got[:3] + got[4:], [2, 7, "unhandled system error", 0])
            self.assertIn(why, got[3])

    def test_engine_of_symm_gets_the_real_one(self):
        for environment in (
            {"LD_PRELOAD": str(SHIM), "SYMM_NCCL": str(NEWEST)},
            {"LD_PRELOAD": str(SHIM), "LD_LIBRARY_PATH": str(NEWEST.parent)},
            {"LD_LIBRARY_PATH": f"{LINKS}:{NEWEST.parent}"},
        ):
            inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SYMM_", "LD_"))}
            ended = subprocess.run(
                [BUILD / "bin/nccl_engine"],
                env={**inherited, "SYMM_LOG": "info", **environment},
                capture_output=True,
                text=True,
            )
            self.assertEqual(ended.stdout, "nccl 2.32.0\n", environment)
            self.assertIn(f"engine: nccl 2.32.0 ({NEWEST})", ended.stderr)


class Tool(unittest.TestCase):
    """`symm run --nccl` and `symm doctor`."""

    def symm(self, *arguments, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SYMM_", "LD_"))}
        return subprocess.run(
            [BUILD / "bin/symm", *arguments],
            env={**inherited, **environment},
            capture_output=True,
            text=True,
        )

    def test_run_sets_what_each_client_needs(self):
        names = ("LD_PRELOAD", "LD_LIBRARY_PATH", "VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH",
                 "MEGATRON_NCCL_SO_PATH")  # fmt: skip
        show = "; ".join(f"echo {name}=${name}" for name in names)
        # A path that the user has chosen for one program stands, and a warning tells of it.
        for environment, preload, path, vllm in (
            ({}, "", "", SHIM),
            ({"LD_PRELOAD": "/lib64/libc.so.6"}, ":/lib64/libc.so.6", "", SHIM),
            ({"VLLM_NCCL_SO_PATH": "", "LD_LIBRARY_PATH": "/a:/b"}, "", ":/a:/b", SHIM),
            ({"VLLM_NCCL_SO_PATH": "/nowhere"}, "", "", "/nowhere"),
            ({"VLLM_NCCL_SO_PATH": str(LINKS / "libnccl.so.2")}, "", "", LINKS / "libnccl.so.2"),
        ):
            ended = self.symm(
                "run", "-n", "2", "--nccl", "--no-prefix", "--", "sh", "-c", show, **environment
            )
            expected = [f"LD_PRELOAD={SHIM}{preload}", f"LD_LIBRARY_PATH={LINKS}{path}"]
            expected += [f"VLLM_NCCL_SO_PATH={vllm}", *(f"{name}={SHIM}" for name in names[3:])]
            self.assertEqual(sorted(ended.stdout.split()), sorted(2 * expected), ended.stderr)
            said = "VLLM_NCCL_SO_PATH=/nowhere is passed on"
            self.assertEqual(said in ended.stderr, vllm == "/nowhere", ended.stderr)
            self.assertEqual("is passed on" in ended.stderr, vllm == "/nowhere", ended.stderr)
        ended = self.symm("run", "-n", "1", "--no-prefix", "--", "sh", "-c", show)
        self.assertEqual(ended.stdout.split(), [f"{name}=" for name in names])

    def test_a_rank_of_run_gets_the_drop_in(self):
        ended = self.symm(
            "run",
            "-n",
            "2",
            "--nccl",
            "--no-prefix",
            "--",
            BUILD / "bin/nccl_client_rpath",
            "linked",
        )
        self.assertEqual(ended.stdout.count(f"linked: file {SHIM}"), 2, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count(f"has {NEWEST}"), 2)

    def test_run_says_where_there_is_no_drop_in(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder) / "symm"
            tool.write_bytes((BUILD / "bin/symm").read_bytes())
            tool.chmod(0o755)
            ended = subprocess.run(
                [tool, "run", "-n", "1", "--nccl", "--", "true"], capture_output=True, text=True
            )
        if ended.returncode == 0:
            self.skipTest("the loader has a libsymm_nccl.so of this machine")
        self.assertIn("--nccl: this symm was installed without its drop-in", ended.stderr)

    def test_run_refuses_a_path_that_the_loader_would_cut(self):
        for name in ("a b", "a:b", "a;b"):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / name
                for file in ("bin/symm", "lib/libsymm.so.0", "lib/symm-nccl/libsymm_nccl.so"):
                    (place / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(BUILD / file, place / file)
                ended = subprocess.run(
                    [place / "bin/symm", "run", "-n", "1", "--nccl", "--", "true"],
                    capture_output=True,
                    text=True,
                )
            self.assertNotEqual(ended.returncode, 0, ended.stderr)
            said = f"--nccl: {place}/lib/symm-nccl/libsymm_nccl.so: the loader separates the paths"
            self.assertIn(said, ended.stderr)

    def test_doctor_says_which_nccl_a_process_gets(self):
        for environment, expected in (
            ({"LD_LIBRARY_PATH": str(NEWEST.parent)}, f"2.32.0 ({NEWEST})"),
            (
                {"LD_PRELOAD": str(SHIM), "SYMM_NCCL": str(OLD)},
                f"2.21.5 ({OLD}) behind symm's drop-in ({SHIM})",
            ),
            (
                {"LD_LIBRARY_PATH": f"{LINKS}:{OLD.parent}"},
                f"2.21.5 ({OLD}) behind symm's drop-in ({LINKS / 'libnccl.so.2'})",
            ),
            (
                {"LD_PRELOAD": str(SHIM), "SYMM_NCCL": "none"},
                f"none: no NCCL is behind {SHIM}, which serves alone, as NCCL 2.26.5",
            ),
            (
                {"LD_LIBRARY_PATH": str(NEWEST.parent), "SYMM_NCCL": "none"},
                "none: SYMM_NCCL=none; symm run --nccl would serve alone, as NCCL 2.26.5",
            ),
        ):
            self.assertEqual(self.doctor(**environment)["detail"], expected)

    def doctor(self, **environment):
        """What `symm doctor` says of NCCL."""
        report = json.loads(self.symm("doctor", "--json", **environment).stdout)
        (found,) = [c for c in report["checks"] if c["check"] == "NCCL"]
        return found

    def test_doctor_does_not_find_the_drop_in_by_its_own_search_path(self):
        self.assertNotIn("behind", self.doctor()["detail"])
        found = self.doctor(SYMM_NCCL=str(NEWEST))["detail"]
        self.assertNotIn("behind", found)

    def test_doctor_where_the_loader_has_no_nccl(self):
        """The one that SYMM_NCCL names serves. With the mode off the drop-in would serve nobody."""
        if not self.doctor()["detail"].startswith("none"):
            self.skipTest("the loader has a NCCL of this machine")
        found = self.doctor(SYMM_NCCL=str(NEWEST))
        self.assertEqual([found["verdict"], found["detail"]], ["OK", f"2.32.0 ({NEWEST})"])
        found = self.doctor(SYMM_NCCL_MODE="off")
        self.assertEqual(found["verdict"], "FAIL", found)
        self.assertIn("with SYMM_NCCL_MODE=off, symm serves nothing by itself", found["detail"])
        self.assertIn("SYMM_NCCL_MODE", found["remedy"])

    def test_doctor_fails_where_the_drop_in_makes_no_communicator(self):
        for named, cause in (("/nonexistent", "cannot open"), (str(SHIM), "is symm's drop-in")):
            for preload in ({}, {"LD_PRELOAD": str(SHIM)}):
                found = self.doctor(SYMM_NCCL=named, **preload)
                self.assertEqual(found["verdict"], "FAIL", found)
                begin = f"symm's drop-in makes no communicator: SYMM_NCCL: {named}"
                self.assertTrue(found["detail"].startswith(begin), found)
                self.assertIn(cause, found["detail"])
                self.assertIn("SYMM_NCCL", found["remedy"])

    def test_a_rank_with_an_exception_is_named_within_the_grace_of_run(self):
        """Rank 1 ends with status 1, and the launcher ends the others by and by."""
        program = PRELUDE + (
            """
import pathlib
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = pathlib.Path(os.environ["TEST_PLACE"])
def all_wrote(name, text):
    (place / "new").with_suffix(f".{rank}").write_text(text)
    (place / "new").with_suffix(f".{rank}").rename(place / f"{name}.{rank}")
    until = time.monotonic() + 60
    while not all((place / f"{name}.{r}").exists() for r in range(size)):
        assert time.monotonic() < until
        time.sleep(0.01)
all_wrote("id", bytes(new_id().bytes).hex())
id = Id((ctypes.c_ubyte * 128)(*bytes.fromhex((place / "id.0").read_text())))
comm = init(id, size, rank)
log = pathlib.Path(os.environ["SYMM_NCCL_LOG"])
until = time.monotonic() + 60
while log.read_text().count("is watched") < size:
    assert time.monotonic() < until
    time.sleep(0.01)
all_wrote("ready", "")
if rank == 1:
    raise ValueError("a usual failure")
while async_error(comm) == 0:
    time.sleep(0.001)
print("told", rank, shim.ncclGetLastError(comm).decode(), flush=True)
"""
        )
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            log.touch()
            ended = self.symm(
                "run", "-n", "3", "--nccl", "--no-prefix", "--", sys.executable, "-c", program,
                SYMM_NCCL=str(NEWEST), SYMM_NCCL_LOG=str(log), TEST_PLACE=folder,
            )  # fmt: skip
        told = sorted(line for line in ended.stdout.splitlines() if line.startswith("told"))
        self.assertEqual(len(told), 2, ended.stdout + ended.stderr)
        for line, rank in zip(told, (0, 2), strict=True):
            self.assertRegex(line, rf"^told {rank} rank 1 \(pid \d+\) exited with status 1$")
        self.assertEqual(ended.returncode, 1)


# A rank: tells when it is watched, and then does what it reads from its input.
RANK = """
rank, size = int(os.environ["TEST_RANK"]), int(os.environ["TEST_SIZE"])
if rank == 0:
    id = new_id()
    print(bytes(id.bytes).hex(), flush=True)
else:
    id = Id((ctypes.c_ubyte * 128)(*bytes.fromhex(os.environ["TEST_ID"])))
# As with the real NCCL, no rank has a communicator before all ranks have begun to make it: the
# ranks of the drop-in meet within five seconds, which the start of an interpreter may take.
if "TEST_MEETING" in os.environ:
    open(os.path.join(os.environ["TEST_MEETING"], f"rank-{rank}"), "w").close()
    until = time.monotonic() + 60
    while len(os.listdir(os.environ["TEST_MEETING"])) < size:
        assert time.monotonic() < until, "a rank has not begun within 60 s"
        time.sleep(0.001)
comm = init(id, size, rank)
def told(count):
    # Each group that has formed, or could not, is a line of the log. Waits for so many.
    own = f"symm_nccl {os.getpid()}: rank"
    until = time.monotonic() + 60
    while True:
        log = open(os.environ["SYMM_NCCL_LOG"]).read().splitlines()
        lines = [line for line in log if own in line and "watched" in line]
        if len(lines) >= count or time.monotonic() > until:
            return lines
        time.sleep(0.001)
def watched(count=1):
    lines = told(count)
    return len(lines) >= count and not any("is not watched" in line for line in lines)
def wait_for_error(comm, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        error = async_error(comm)
        if error != 0:
            return error, time.monotonic()
        time.sleep(0.0002)
    return 0, time.monotonic()
def agreed():
    # A collective waits until the ranks have agreed on who does it. Before, a rank that ends leaves
    # the others without its part of the agreement.
    shim.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    shim.ncclAllReduce(1, 2, 3, 7, 0, comm, None)
    print("agreed", flush=True)
    sys.stdin.readline()
print("watched" if watched() else f"not watched: {told(0)}", flush=True)
"""


class Ranks(unittest.TestCase):
    """Tests whose ranks are processes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log"
        self.log.touch()
        self.runtime = Path(folder.name) / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.meetings = 0

    def ranks(self, size, program, each=(), **environment):
        """`each`: what the ranks have of their own in their environment."""
        own = [*each, *[{}] * (size - len(each))]
        self.meetings += 1
        meeting = self.runtime.with_name(f"meeting-{self.meetings}")
        meeting.mkdir()
        environment = {
            "TEST_SIZE": str(size),
            "TEST_MEETING": str(meeting),
            "SYMM_NCCL_LOG": str(self.log),
            "XDG_RUNTIME_DIR": str(self.runtime),
            **environment,
        }
        ranks = [start(RANK + program, TEST_RANK="0", **environment, **own[0])]
        environment["TEST_ID"] = ranks[0].stdout.readline().strip()
        for rank in range(1, size):
            ranks.append(start(RANK + program, TEST_RANK=str(rank), **environment, **own[rank]))
        for process in ranks:
            self.addCleanup(self.end, process)
        return ranks

    def end(self, process):
        process.kill()
        process.communicate()

    def are_all(self, word, ranks):
        """Each rank says the word next."""
        for process in ranks:
            self.assertEqual(process.stdout.readline(), word + "\n")

    def go_on(self, ranks):
        for process in ranks:
            process.stdin.write("go\n")
            process.stdin.flush()

    def have_agreed(self, ranks):
        """All ranks are watched, and have made a call; each goes on then."""
        self.are_all("watched", ranks)
        self.are_all("agreed", ranks)
        self.go_on(ranks)

    def lines(self, process):
        out, err = process.communicate(timeout=90)
        self.assertEqual(process.returncode, 0, out + err)
        return out.splitlines()


class Failures(Ranks):
    def test_a_rank_that_is_killed_is_named_by_the_others(self):
        ranks = self.ranks(
            3,
            """
error, seen = wait_for_error(comm)
print(json.dumps([error, seen, shim.ncclGetLastError(None).decode(),
                  shim.ncclGetLastError(comm).decode(), shim.ncclGetErrorString(error).decode()]),
      flush=True)
assert shim.ncclCommAbort(comm) == 0
""",
        )
        self.are_all("watched", ranks)
        time.sleep(0.1)
        begin = time.monotonic()
        ranks[1].send_signal(signal.SIGKILL)
        took = []
        for process in (ranks[0], ranks[2]):
            error, seen, sentence, same, name = json.loads(self.lines(process)[0])
            self.assertEqual(error, 6)
            self.assertIn(f"rank 1 (pid {ranks[1].pid})", sentence)
            self.assertEqual(same, sentence)
            self.assertEqual(name, f"fake remote: {sentence}")
            took.append(1000 * (seen - begin))
        print(f"a death is known after {max(took):.1f} ms", file=sys.stderr)
        self.assertLess(max(took), 2000)

    def test_ranks_that_end_in_good_order_are_no_failure(self):
        for end in (
            "assert shim.ncclCommDestroy(comm) == 0",
            "assert shim.ncclCommFinalize(comm) == 0; assert shim.ncclCommDestroy(comm) == 0",
            "assert shim.ncclCommAbort(comm) == 0",
            "pass",
        ):
            self.log.write_text("")
            ranks = self.ranks(
                2,
                f"""
agreed()
if rank == 0:
    {end}
    sys.exit(0)
sys.stdin.readline()
until = time.monotonic() + 1
errors = set()
while time.monotonic() < until:
    errors.add(async_error(comm))
    time.sleep(0.001)
print(json.dumps([sorted(errors), shim.ncclGetLastError(None).decode()]), flush=True)
""",
            )
            self.have_agreed(ranks)
            self.lines(ranks[0])
            self.go_on(ranks[1:])
            self.assertEqual(json.loads(self.lines(ranks[1])[0]), [[0], ""], end)

    def test_a_rank_that_has_left_is_named_after_a_while(self):
        """As after an exception in one rank of a training, whose process ends by itself."""
        ranks = self.ranks(
            2,
            """
agreed()
if rank == 0:
    sys.exit(0)
begin = time.monotonic()
error, seen = wait_for_error(comm)
print(json.dumps([error, seen - begin, shim.ncclGetLastError(None).decode()]), flush=True)
""",
        )
        self.have_agreed(ranks)
        error, took, sentence = json.loads(self.lines(ranks[1])[0])
        self.assertEqual(error, 6)
        self.assertGreater(took, 4)
        self.assertLess(took, 30)
        self.assertEqual(sentence, f"rank 0 (pid {ranks[0].pid}) has left the communicator")

    def late_rank(self, end, of_rank_0):
        """What ranks 0 and 2 hear of the `end` of rank 1, rank 2 when rank 0 has gone, too."""
        ranks = self.ranks(
            3,
            f"""
agreed()
if rank == 1:
    {end}
if rank == 2:
    sys.stdin.readline()
error, _ = wait_for_error(comm)
sentences = [shim.ncclGetLastError(comm).decode()]
if rank == 2:
    time.sleep(0.5)
    error = async_error(comm)
    sentences.append(shim.ncclGetLastError(comm).decode())
print(json.dumps([error, *sentences]), flush=True)
if rank == 0:
    {of_rank_0}
""",
        )
        self.have_agreed(ranks)
        first = json.loads(ranks[0].stdout.readline())
        ranks[0].wait(timeout=60)
        self.go_on(ranks[2:])
        return ranks, first, json.loads(self.lines(ranks[2])[0])

    def test_a_rank_that_asks_late_hears_who_left_first(self):
        for of_rank_0 in ("sys.exit(0)", "sys.exit(1)", "os.abort()"):
            ranks, first, late = self.late_rank("sys.exit(0)", of_rank_0)
            sentence = f"rank 1 (pid {ranks[1].pid}) has left the communicator"
            self.assertEqual(first, [6, sentence], of_rank_0)
            self.assertEqual(late, [6, sentence, sentence], of_rank_0)

    def test_a_rank_that_fails_is_named_with_its_status(self):
        for of_rank_0 in ("sys.exit(0)", "sys.exit(1)", "os.abort()"):
            ranks, first, late = self.late_rank("sys.exit(3)", of_rank_0)
            sentence = f"rank 1 (pid {ranks[1].pid}) exited with status 3"
            self.assertEqual(first, [6, sentence], of_rank_0)
            self.assertEqual(late, [6, sentence, sentence], of_rank_0)

    def test_a_forked_rank_that_fails_is_named_with_its_status(self):
        """The parent, which is no rank, has asked for an error before."""
        process = start(
            """
shim.ncclGetLastError(None)
id = new_id()
reads, writes = zip(os.pipe(), os.pipe())
for rank in range(2):
    if os.fork() != 0:
        continue
    comm = init(id, 2, rank)
    shim.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    shim.ncclAllReduce(1, 2, 3, 7, 0, comm, None)   # waits until both are watched
    os.write(writes[rank], b"a")
    os.read(reads[1 - rank], 1)
    if rank == 1:
        ctypes.CDLL(None).exit(3)
    until = time.monotonic() + 60
    while async_error(comm) == 0 and time.monotonic() < until:
        time.sleep(0.001)
    print(json.dumps(shim.ncclGetLastError(comm).decode()), flush=True)
    os._exit(0)
for _ in range(2):
    os.wait()
""",
            XDG_RUNTIME_DIR=str(self.runtime),
        )
        self.addCleanup(self.end, process)
        (line,) = self.lines(process)
        self.assertRegex(json.loads(line), r"^rank 1 \(pid \d+\) exited with status 3$")

    def test_a_rank_that_fails_because_another_has_left_does_not_blame_itself(self):
        ranks = self.ranks(
            3,
            """
agreed()
if rank == 1:
    sys.exit(0)
sys.stdin.readline()
if rank == 0:
    sys.exit(1)
error, _ = wait_for_error(comm)
print(json.dumps([error, shim.ncclGetLastError(comm).decode()]), flush=True)
""",
        )
        self.have_agreed(ranks)
        ranks[1].wait(timeout=60)
        time.sleep(0.5)
        self.go_on([ranks[0]])
        ranks[0].wait(timeout=60)
        self.go_on([ranks[2]])
        sentence = f"rank 1 (pid {ranks[1].pid}) has left the communicator"
        self.assertEqual(json.loads(self.lines(ranks[2])[0]), [6, sentence])

    def test_all_are_named_that_left_before_a_rank_asks(self):
        """Each in good order, so none of them has told anything."""
        ranks = self.ranks(
            3,
            """
agreed()
if rank < 2:
    sys.exit(0)
sys.stdin.readline()
error, _ = wait_for_error(comm)
print(json.dumps([error, shim.ncclGetLastError(comm).decode()]), flush=True)
""",
        )
        self.have_agreed(ranks)
        for process in ranks[:2]:
            process.wait(timeout=60)
        time.sleep(0.5)
        self.go_on(ranks[2:])
        names = ", ".join(f"rank {i} (pid {ranks[i].pid})" for i in range(2))
        sentence = f"{names} have left the communicator"
        self.assertEqual(json.loads(self.lines(ranks[2])[0]), [6, sentence])

    def test_a_status_is_no_failure_after_the_communicator_has_ended(self):
        ranks = self.ranks(
            2,
            """
agreed()
if rank == 0:
    assert shim.ncclCommFinalize(comm) == 0
    sys.exit(3)
sys.stdin.readline()
until = time.monotonic() + 1
errors = set()
while time.monotonic() < until:
    errors.add(async_error(comm))
    time.sleep(0.001)
print(json.dumps(sorted(errors)), flush=True)
""",
        )
        self.have_agreed(ranks)
        self.assertEqual(ranks[0].wait(timeout=60), 3)
        self.go_on(ranks[1:])
        self.assertEqual(json.loads(self.lines(ranks[1])[0]), [0])

    def test_a_finalization_that_is_refused_hides_no_death(self):
        """NCCL refuses it while the communicator is in progress."""
        ranks = self.ranks(
            2,
            """
config = b"".join(value.to_bytes(size, "little") for value, size in
                  [(24, 8), (0xcafebeef, 4), (23000, 4), (0, 4), (0, 4)])
if rank == 0:
    other_id = new_id()
    print(bytes(other_id.bytes).hex(), flush=True)
    sys.stdin.readline()
else:
    other_id = Id((ctypes.c_ubyte * 128)(*bytes.fromhex(sys.stdin.readline())))
other = ctypes.c_void_p()
results = [shim.ncclCommInitRankConfig(ctypes.byref(other), 2, other_id, rank, config),
           shim.ncclCommFinalize(other)]
while async_error(other) == 7:
    time.sleep(0.001)
print("ready" if watched(2) else told(0), flush=True)
sys.stdin.readline()
results.append(wait_for_error(other, 20)[0])
print(json.dumps([*results, shim.ncclGetLastError(other).decode()]), flush=True)
""",
            FAKE_NCCL="slow ensures",
        )
        self.are_all("watched", ranks)
        ranks[1].stdin.write(ranks[0].stdout.readline())
        ranks[1].stdin.flush()
        self.go_on(ranks[:1])
        self.are_all("ready", ranks)
        ranks[1].kill()
        self.go_on(ranks[:1])
        (line,) = self.lines(ranks[0])
        *got, said = json.loads(line)
        self.assertEqual(got, [7, 4, 6])
        self.assertIn(f"rank 1 (pid {ranks[1].pid}) died", said)

    def test_a_child_of_a_communicator_is_watched_by_its_own_ranks(self):
        """Ranks 0 and 1 have colour 0, ranks 2 and 3 colour 1, and a rank may have no colour."""
        ranks = self.ranks(
            4,
            """
child = ctypes.c_void_p()
none = ctypes.c_void_p(5)
assert shim.ncclCommSplit(comm, -1, 0, ctypes.byref(none), None) == 0
assert none.value is None
assert shim.ncclCommSplit(comm, rank // 2, 0, ctypes.byref(child), None) == 0
fewer = ctypes.c_void_p()
if rank < 3:
    assert shim.ncclCommShrink(comm, None, 1, ctypes.byref(fewer), None, 0) == 0
print("children" if watched(3 if rank < 3 else 2) else "none", flush=True)
sys.stdin.readline()
error, _ = wait_for_error(comm)
of_child, _ = wait_for_error(child, 60 if rank == 1 else 0.2)
of_fewer = wait_for_error(fewer, 60)[0] if rank < 3 else 0
print(json.dumps([error, of_child, of_fewer]), flush=True)
""",
        )
        for line in ("watched\n", "children\n"):
            for process in ranks:
                self.assertEqual(process.stdout.readline(), line)
        ranks[0].send_signal(signal.SIGKILL)
        for process in ranks[1:]:
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [json.loads(self.lines(process)[0]) for process in ranks[1:]]
        self.assertEqual(found, [[6, 6, 6], [6, 0, 6], [6, 0, 0]])

    def test_the_sentence_of_a_communicator_is_its_own(self):
        """Rank 3 is rank 1 of a child. Both fail, and whichever was asked last says nothing of the
        other one.
        """
        ranks = self.ranks(
            4,
            """
child = ctypes.c_void_p()
assert shim.ncclCommSplit(comm, rank // 2, 0, ctypes.byref(child), None) == 0
print("children" if watched(2) else told(0), flush=True)
sys.stdin.readline()
errors = [wait_for_error(comm)[0], wait_for_error(child)[0] if rank == 2 else 6]
said = [shim.ncclGetLastError(one).decode() for one in (comm, child, comm)]
print(json.dumps([errors, said]), flush=True)
""",
        )
        self.are_all("watched", ranks)
        self.are_all("children", ranks)
        ranks[3].kill()
        self.go_on(ranks[:3])
        pid = f"(pid {ranks[3].pid})"
        for rank in range(3):
            errors, said = json.loads(self.lines(ranks[rank])[0])
            self.assertEqual(errors, [6, 6])
            for of_comm in (said[0], said[2]):
                self.assertIn(f"rank 3 {pid}", of_comm)
            if rank == 2:
                self.assertIn(f"rank 1 {pid}", said[1])

    def test_the_text_of_a_remote_error_has_no_other_sentence(self):
        text = run(
            """
assert shim.ncclAlltoAll(None, None, 0, 0, None, None) == 5
print(json.dumps(shim.ncclGetErrorString(6).decode()))
""",
            nccl=OLD,
        )
        self.assertNotIn("ncclAlltoAll", text)

    def test_a_rank_that_is_left_out_of_a_shrink_meets_the_others_afterwards(self):
        """It does not call ncclCommShrink(), and then all ranks split the parent."""
        ranks = self.ranks(
            4,
            """
fewer, child = ctypes.c_void_p(), ctypes.c_void_p()
left_out = (ctypes.c_int * 1)(3)
if rank < 3:
    assert shim.ncclCommShrink(comm, left_out, 1, ctypes.byref(fewer), None, 0) == 0
assert shim.ncclCommSplit(comm, rank // 2, 0, ctypes.byref(child), None) == 0
print("children" if watched(3 if rank < 3 else 2) else "none", flush=True)
sys.stdin.readline()
""",
        )
        for line in ("watched\n", "children\n"):
            for process in ranks:
                self.assertEqual(process.stdout.readline(), line)
        self.assertEqual(self.log.read_text().count("is watched"), 4 + 3 + 4)

    def test_what_a_simulated_group_has_made_is_not_looked_at_again(self):
        """The program may use the place of the pointer for something else afterwards."""
        got = run("""
comm = ctypes.c_void_p()
assert shim.ncclGroupStart() == 0
assert shim.ncclCommInitRank(ctypes.byref(comm), 2, new_id(), 0) == 0
assert shim.ncclGroupSimulateEnd(None) == 0
made = comm.value is not None
comm.value = 8
print(json.dumps([made, shim.ncclGroupStart(), shim.ncclGroupEnd()]), flush=True)
os._exit(0)
""")
        self.assertEqual(got, [True, 0, 0])

    def test_an_abort_from_another_thread_does_not_disturb_a_poll(self):
        ranks = self.ranks(
            2,
            """
stop = threading.Event()
polled = [0]
def poll():
    while not stop.is_set():
        shim.ncclGetLastError(None)
        polled[0] += 1
threads = [threading.Thread(target=poll) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(50):
    other = init(new_id(), 2, 0)
    aborting = threading.Thread(target=shim.ncclCommAbort, args=(other,))
    aborting.start()
    aborting.join(10)
    assert not aborting.is_alive()
stop.set()
for thread in threads:
    thread.join(10)
assert shim.ncclCommAbort(comm) == 0
print(json.dumps(polled), flush=True)
os._exit(0)
""",
        )
        self.are_all("watched", ranks)
        for process in ranks:
            self.assertGreater(json.loads(self.lines(process)[0])[0], 50)

    def test_a_rank_without_the_drop_in_is_not_waited_for(self):
        """Its id has no name, or it never comes: the calls of the others go to NCCL at once."""
        begin = time.monotonic()
        ranks = [
            start(
                RANK + "print(async_error(comm), flush=True)",
                TEST_RANK="0",
                TEST_SIZE="2",
                SYMM_NCCL_LOG=str(self.log),
                XDG_RUNTIME_DIR=str(self.runtime),
            )
        ]
        self.addCleanup(self.end, ranks[0])
        lines = self.lines(ranks[0])
        self.assertEqual([lines[1][:11], lines[2:]], ["not watched", ["0"]])
        self.assertRegex(self.log.read_text(), r"rank 0 of 2 is not watched: .*(?:missing|rank 1)")
        self.assertLess(time.monotonic() - begin, 40)

        got = run("""
comm = ctypes.c_void_p()
begin = time.monotonic()
assert shim.ncclCommInitRank(ctypes.byref(comm), 2, Id(), 0) == 0
print(json.dumps([time.monotonic() - begin, async_error(comm), shim.ncclCommDestroy(comm)]))
""")
        self.assertLess(got[0], 2)
        self.assertEqual(got[1:], [0, 0])

    def test_a_program_may_change_its_environment_while_ranks_meet(self):
        """No thread of the drop-in reads variables, which nobody may read beside setenv()."""
        environment = {"XDG_RUNTIME_DIR": str(self.runtime), "SYMM_NCCL_LOG": str(self.log)}
        done = run(
            """
set_variable = ctypes.CDLL(None).setenv
ids, number = [new_id() for _ in range(100)], 0
for id in ids:
    for rank in range(2):
        init(id, 2, rank)
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        number += 1
        set_variable(b"V%d" % number, b"x" * (number % 400), 1)
print(json.dumps(number), flush=True)
os._exit(0)
""",
            **environment,
        )
        self.assertGreater(done, 1000)
        self.assertIn("is watched", self.log.read_text())

    def test_switched_off_nothing_is_watched(self):
        got = run(
            """
id = new_id()
comm = init(id, 2, 0)
time.sleep(0.2)
print(json.dumps([max(id.bytes[64:]), async_error(comm), threading.active_count(),
                  len(os.listdir("/proc/self/task"))]))
""",
            SYMM_NCCL_MODE="off",
        )
        self.assertEqual(got[:2], [0, 0])
        self.assertEqual(got[3], 1)

    def after_the_first_rank_died(self, ranks):
        """Hands rank 0's line on to rank 1, waits until the children of both are watched, and
        kills rank 0. Returns what rank 1 has found then.
        """
        self.are_all("watched", ranks)
        ranks[1].stdin.write(ranks[0].stdout.readline())
        ranks[1].stdin.flush()
        self.are_all("children", ranks)
        ranks[0].send_signal(signal.SIGKILL)
        ranks[1].stdin.write("go\n")
        ranks[1].stdin.flush()
        return json.loads(self.lines(ranks[1])[0])

    def test_one_that_does_not_block_is_watched_from_when_it_is_complete(self):
        ranks = self.ranks(
            2,
            """
class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("blocking", ctypes.c_int)]
config = Config(24, 0xcafebeef, 23000, 0)
if rank == 0:
    second = new_id()
    print(bytes(second.bytes).hex(), flush=True)
else:
    second = Id((ctypes.c_ubyte * 128)(*bytes.fromhex(sys.stdin.readline())))
other = ctypes.c_void_p()
result = shim.ncclCommInitRankConfig(ctypes.byref(other), 2, second, rank, ctypes.byref(config))
seen = []
while not seen or seen[-1] == 7:
    seen.append(async_error(other))
assert watched(2)
# A child is there when its parent says so, and not before.
child = ctypes.c_void_p()
results = [shim.ncclCommSplit(other, 0, 0, ctypes.byref(child), ctypes.byref(config)), child.value]
while async_error(other) == 7:
    results.append(child.value)
print("children" if watched(3) else "none", flush=True)
sys.stdin.readline()
print(json.dumps([result, seen, results, wait_for_error(other)[0], wait_for_error(child)[0]]),
      flush=True)
""",
            FAKE_NCCL="slow",
        )
        found = self.after_the_first_rank_died(ranks)
        # symm has no CUDA driver here, which the ranks find out before it is complete.
        self.assertEqual([found[0], found[1][:3], found[1][-1]], [7, [7, 7, 7], 0])
        self.assertEqual(found[2][:4], [7, None, None, None])
        self.assertEqual(found[3:], [6, 6])

    def test_a_child_that_does_not_block_made_in_a_group_of_calls_is_watched(self):
        """It is there when its parent says so, which is after ncclGroupEnd()."""
        ranks = self.ranks(
            2,
            """
config = b"".join(value.to_bytes(size, "little") for value, size in [
    (24, 8), (0xcafebeef, 4), (23000, 4), (0, 4), (0, 4)])
child = ctypes.c_void_p()
assert shim.ncclGroupStart() == 0
assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), config) in (0, 7)
results = [shim.ncclGroupEnd(), child.value]
print(flush=True)
while async_error(comm) == 7:
    results.append(child.value)
print("children" if watched(2) else "none", flush=True)
sys.stdin.readline()
print(json.dumps([results[:4], wait_for_error(comm)[0], wait_for_error(child)[0]]), flush=True)
""",
            FAKE_NCCL="slow",
        )
        self.assertEqual(ranks[1].stdout.readline(), "watched\n")
        self.assertEqual(ranks[1].stdout.readline(), "\n")
        self.assertEqual(ranks[0].stdout.readline(), "watched\n")
        self.assertEqual(ranks[0].stdout.readline(), "\n")
        self.are_all("children", ranks)
        ranks[0].send_signal(signal.SIGKILL)
        self.go_on(ranks[1:])
        self.assertEqual(json.loads(self.lines(ranks[1])[0]), [[7, None, None, None], 6, 6])

    def test_ranks_that_join_a_communicator_are_watched(self):
        """By ncclCommGrow(), twice: the ranks that are there know no id, but that which drew it."""
        ranks = self.ranks(
            2,
            """
shim.ncclCommGetUniqueId.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
shim.ncclCommGrow.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
                              ctypes.c_void_p, ctypes.c_void_p]
bigger = []
for turn in range(2):
    # Rank 0 joins as rank 2, too, with a communicator of no ranks before.
    id, grown, joined = Id(), ctypes.c_void_p(), ctypes.c_void_p()
    if rank == 0:
        assert shim.ncclCommGetUniqueId(comm, ctypes.byref(id)) == 0
        assert shim.ncclCommGrow(None, 3, ctypes.byref(id), 2, ctypes.byref(joined), None) == 0
    assert shim.ncclCommGrow(comm, 3, None, -1, ctypes.byref(grown), None) == 0
    bigger += [one for one in (grown, joined) if one.value]
print("grown" if watched(len(bigger) + 1) else told(0), flush=True)
sys.stdin.readline()
print(json.dumps([wait_for_error(one)[0] for one in bigger]), flush=True)
""",
        )
        for line in ("watched\n", "grown\n"):
            for process in ranks:
                self.assertEqual(process.stdout.readline(), line)
        self.assertEqual(self.log.read_text().count("of 3 is watched"), 6)
        ranks[1].send_signal(signal.SIGKILL)
        self.go_on(ranks[:1])
        self.assertEqual(json.loads(self.lines(ranks[0])[0]), [6] * 4)

    def test_those_that_a_group_of_calls_makes_are_watched(self):
        ranks = self.ranks(
            2,
            """
ids = [new_id() for _ in range(3)]
if rank == 0:
    print(json.dumps([bytes(id.bytes).hex() for id in ids]), flush=True)
else:
    ids = [Id((ctypes.c_ubyte * 128)(*bytes.fromhex(text))) for text in
           json.loads(sys.stdin.readline())]
comms = [ctypes.c_void_p() for _ in ids]
assert shim.ncclGroupStart() == 0
assert shim.ncclGroupStart() == 0
for id, other in zip(ids, comms):
    assert shim.ncclCommInitRank(ctypes.byref(other), 2, id, rank) == 0
assert shim.ncclGroupEnd() == 0
assert [other.value for other in comms] == [None] * 3
assert shim.ncclGroupEnd() == 0
# All ranks of this one are in this process, and nobody can die alone.
whole = [ctypes.c_void_p(), ctypes.c_void_p()]
own = new_id()
assert shim.ncclGroupStart() == 0
for number, other in enumerate(whole):
    assert shim.ncclCommInitRank(ctypes.byref(other), 2, own, number) == 0
assert shim.ncclGroupEnd() == 0
print("children" if watched(6) else "none", flush=True)
sys.stdin.readline()
print(json.dumps([wait_for_error(other)[0] for other in comms] +
                 [async_error(other) for other in whole]), flush=True)
""",
        )
        self.assertEqual(self.after_the_first_rank_died(ranks), [6, 6, 6, 0, 0])
        self.assertEqual(self.log.read_text().count("is watched"), 12)

    def test_a_second_destruction_is_left_to_nccl(self):
        """As cudarc makes it, in a destructor after an abort."""
        got = run("""
comms = [init(new_id(), 2, 0) for _ in range(4)]
alive = ctypes.c_int.in_dll(fake(), "fake_alive")
results = [alive.value]
for comm in comms:
    results += [shim.ncclCommAbort(comm), shim.ncclCommDestroy(comm), shim.ncclCommDestroy(comm)]
print(json.dumps([*results, alive.value]), flush=True)
os._exit(0)
""")
        self.assertEqual(got, [4, *([0, 4, 4] * 4), 0])

    def test_a_process_with_few_descriptors_keeps_them(self):
        ranks = self.ranks(
            2,
            """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
if rank == 0:
    ids = [new_id() for _ in range(16)]
    print(json.dumps([bytes(id.bytes).hex() for id in ids]), flush=True)
else:
    ids = [Id((ctypes.c_ubyte * 128)(*bytes.fromhex(text))) for text in
           json.loads(sys.stdin.readline())]
comms = []
for number, id in enumerate(ids):
    comms.append(init(id, 2, rank))
    assert len(told(2 + number)) == 2 + number
files = [open("/proc/self/status") for _ in range(8)]
print(len(files), flush=True)
sys.stdin.readline()
""",
        )
        self.are_all("watched", ranks)
        ranks[1].stdin.write(ranks[0].stdout.readline())
        ranks[1].stdin.flush()
        self.are_all("8", ranks)
        for process in ranks:
            process.stdin.write("go\n")
            process.stdin.flush()
            self.lines(process)
        self.assertIn("few descriptors left", self.log.read_text())
        self.assertGreater(self.log.read_text().count("is watched"), 8)

    def test_five_hundred_communicators_leave_nothing(self):
        ranks = self.ranks(
            2,
            """
def footprint():
    return [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
            len(open("/proc/self/maps").readlines())]
def settled():
    best = footprint()
    for _ in range(200):
        time.sleep(0.01)
        best = [min(pair) for pair in zip(best, footprint())]
    return best
def all_settled():
    # The ranks of the next communicator meet within five seconds, which one rank may take longer
    # than the other here.
    footprint = settled()
    open(os.path.join(os.environ["TEST_MEETING"], f"settled-{rank}"), "w").close()
    until = time.monotonic() + 60
    while not os.path.exists(os.path.join(os.environ["TEST_MEETING"], f"settled-{1 - rank}")):
        assert time.monotonic() < until, "the other rank has not settled within 60 s"
        time.sleep(0.001)
    return footprint
ids = [new_id() for _ in range(500)]
if rank == 0:
    print(json.dumps([bytes(id.bytes).hex() for id in ids]), flush=True)
else:
    ids = [Id((ctypes.c_ubyte * 128)(*bytes.fromhex(text))) for text in
           json.loads(sys.stdin.readline())]
count = 1
before = None
for number, id in enumerate(ids):
    if number == 50:
        before = all_settled()
    other = init(id, 2, rank)
    count += 1
    assert watched(count), [number, *told(0)[-3:]]
    if number % 50 == 0:
        open(os.environ["SYMM_NCCL_LOG"] + str(rank), "a").write(str(number))
    assert (shim.ncclCommDestroy if number % 3 else shim.ncclCommAbort)(other) == 0
print(json.dumps([before, settled(), open(os.environ["SYMM_NCCL_LOG"]).read().count("not w")]),
      flush=True)
sys.stdin.readline()
""",
        )
        self.are_all("watched", ranks)
        ranks[1].stdin.write(ranks[0].stdout.readline())
        ranks[1].stdin.flush()
        answers = [process.stdout.readline() for process in ranks]
        if "" in answers:
            self.fail([process.communicate() for process in ranks])
        for answer in answers:
            before, after, unwatched = json.loads(answer)
            self.assertEqual(unwatched, 0)
            for name, old, new in zip(("descriptors", "threads", "mappings"), before, after):
                self.assertLessEqual(new, old + 8, name)
        for process in ranks:
            process.stdin.write("go\n")
            process.stdin.flush()
            self.lines(process)
        left = [p for p in self.runtime.rglob("*") if not p.is_dir()]
        self.assertLess(len(left), 10, left)


# Behind RANK: the fake CUDA driver, and all-reduces. NCCL's fake notes each call that reaches it.
CUDA_RANK = (
    f"""
notes = ctypes.CDLL({str(FAKES / "libnccl_cuda_notes.so")!r})
notes.notes_stream.restype = notes.notes_memory.restype = ctypes.c_void_p
notes.notes_shared_memory.restype = ctypes.c_void_p
notes.notes_shared_memory.argtypes = [ctypes.c_int, ctypes.c_size_t]
notes.notes_memory.argtypes = [ctypes.c_size_t]
notes.notes_join.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
for name in ("notes_begin_capture", "notes_end_capture", "notes_hold", "notes_idle"):
    getattr(notes, name).argtypes = [ctypes.c_void_p]
"""
    + """
def noted(name):
    text = ctypes.create_string_buffer(1 << 20)
    size = getattr(notes, "notes_" + name)(text, ctypes.c_size_t(len(text)))
    assert size < len(text)
    return [line.split() for line in text.value.decode().splitlines()]
# Tables, since a call that reaches the fake has 18 arguments and a result above 1000.
reduce_types = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                ctypes.c_void_p, ctypes.c_void_p]
REDUCTIONS, ROOTED = ("AllReduce", "Reduce", "ReduceScatter"), (
    "Bcast", "Broadcast", "Gather", "Reduce", "Scatter")
COLLECTIVES = sorted({*REDUCTIONS, *ROOTED, "AllGather", "AlltoAll"})
for name in COLLECTIVES:
    own = [ctypes.c_int] * ((name in REDUCTIONS) + (name in ROOTED))
    getattr(shim, "nccl" + name).argtypes = (
        reduce_types[name == "Bcast":4] + own + reduce_types[5:])
shim.ncclRedOpCreatePreMulSum.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
shim.ncclRedOpDestroy.argtypes = [ctypes.c_int, ctypes.c_void_p]
for name in ("ncclSend", "ncclRecv"):
    getattr(shim, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                    ctypes.c_void_p, ctypes.c_void_p]
# Where there is no NCCL, none of its calls are counted.
is_alone = os.environ["SYMM_NCCL"] == "none"
calls = ctypes.c_int(0) if is_alone else ctypes.c_int.in_dll(fake(), "fake_calls")
FLOAT, SUM = 7, 0
send, recv = notes.notes_memory(1 << 20), notes.notes_memory(1 << 20)
stream, other_stream = notes.notes_stream(), notes.notes_stream()
def who(result, before):
    # A call that the fake noted has its number as its result.
    if result > 1000:
        return "NCCL" if calls.value == before + 1 else "NCCL?"
    launched = [s for k, s in noted("launches") if k.startswith("symm_")]
    if result != 0:
        return f"error {result}"
    return "symm" if launched and calls.value == before else "nobody"
def do(name, count=256, type=FLOAT, op=SUM, to=None, of=None, on=None, source=None, root=0):
    # The result of a call, and how many NCCL had before.
    own = [op] * (name in REDUCTIONS) + [root] * (name in ROOTED)
    data = [to or recv] if name == "Bcast" else [source or send, to or recv]
    before = calls.value
    result = getattr(shim, "nccl" + name)(*data, count, type, *own, of or comm, on or stream)
    return result, before
def call(name, *arguments, **named):
    noted("launches")
    return who(*do(name, *arguments, **named))
def all_reduce(*arguments, **named):
    return call("AllReduce", *arguments, **named)
def pre_mul_sum(scalar, type, on_host=1, of=None):
    # An operation whose scalar has these bytes, in memory of the host or of the device.
    op = ctypes.c_int()
    where = ctypes.create_string_buffer(scalar, 8)
    if not on_host:
        where = notes.notes_memory(8)
        ctypes.memmove(where, scalar, len(scalar))
    assert shim.ncclRedOpCreatePreMulSum(
        ctypes.byref(op), where, type, on_host, of or comm) == 0
    return op.value
def config_of(blocking):
    head = [(24, 8), (0xcafebeef, 4), (23000, 4), (blocking, 4), (0, 4)]
    return b"".join(value.to_bytes(size, "little") for value, size in head)
def within(seconds, call):
    # What a call gives, or None if it takes longer.
    got = []
    thread = threading.Thread(target=lambda: got.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    return got[0] if got else None
def settle(*comms):
    # Waits until none of them is in progress.
    while any(async_error(one) == 7 for one in comms):
        time.sleep(0.001)
def sentence():
    return shim.ncclGetLastError(None).decode()
def place_on(device):
    # The device of this thread, as a program chooses it.
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    return context.value
def number(name, comm):
    call, value = getattr(shim, name), ctypes.c_int(-1)
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    assert call(comm, ctypes.byref(value)) == 0, sentence()
    return value.value
def step(text):
    print(text, flush=True)
    return sys.stdin.readline()
def answer(value):
    print(json.dumps(value), flush=True)
"""
)


class CudaRanks(Ranks):
    """Tests whose ranks have the fake CUDA driver, which carries out no kernel of symm's."""

    def cuda_ranks(self, size, program, each=(), **environment):
        fakes = BUILD / "tests/fake_cuda"
        environment = {
            "LD_LIBRARY_PATH": f"{fakes / 'symm'}:{fakes / 'lib'}",
            "SYMM_BACKEND": "cuda",
            **environment,
        }
        ranks = self.ranks(size, CUDA_RANK + program, each, **environment)
        self.are_all("watched", ranks)
        return ranks

    def answers(self, ranks):
        return [json.loads(process.stdout.readline()) for process in ranks]

    def finished(self, ranks):
        answers = self.answers(ranks)
        self.go_on(ranks)
        for process in ranks:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, out + err)
        return answers

    def survivors_of_rank_1(self, ranks):
        """The answers of ranks 0 and 2 of three. Rank 1 is killed when all are ready."""
        self.are_all("ready", ranks)
        ranks[1].kill()
        living = [ranks[0], ranks[2]]
        self.go_on(living)
        return self.finished(living)

    def id_of_another(self, nccl=NEWEST):
        return run("print(json.dumps(bytes(new_id().bytes).hex()))", nccl)


class Collectives(CudaRanks):
    """Which library does what, with a fake NCCL."""

    def test_all_types_operations_and_sizes(self):
        ranks = self.cuda_ranks(
            2,
            """
wrong = []
for type in range(12):
    for op in range(5):
        for count in (1, 1000):
            for target in (recv, send):
                if all_reduce(count, type, op, target) != "symm":
                    wrong.append([type, op, count])
answer([wrong, all_reduce(0), all_reduce(op=5), all_reduce(type=12),
        all_reduce(count=(1 << 28) + 1), noted("violations")])
sys.stdin.readline()
""",
        )
        for got in self.finished(ranks):
            self.assertEqual(got, [[], "NCCL", "NCCL", "NCCL", "NCCL", []])

    def test_floats_are_added_in_tree_order_if_asked_for(self):
        for order in ("ranks", "tree"):
            ranks = self.cuda_ranks(
                4,
                """
answer(all_reduce())
sys.stdin.readline()
""",
                SYMM_NCCL_MODE="deterministic",
                SYMM_ORDER=order,
            )
            self.assertEqual(self.finished(ranks), ["symm"] * 4)
            said = "go to symm" + (", which adds floats in tree order" if order == "tree" else "")
            log = self.log.read_text()
            self.log.unlink()
            self.assertEqual(log.count(said + "\n"), 4, log)

    def test_all_collectives(self):
        """Of all types, with each root and in place; and what symm leaves to NCCL."""
        for mode, measured in (("fast", False), ("deterministic", True)):
            ranks = self.cuda_ranks(
                2,
                f"""
wrong = []
forwarded = [] if {measured} else ["Gather", "Scatter"]
for name in COLLECTIVES:
    expected = "NCCL" if name in forwarded else "symm"
    for type in range(12):
        for root in (0, 1):
            if call(name, 16, type, root=root) != expected:
                wrong.append([name, type, root])
    block = 256 * 4 * rank
    places = {{"AllGather": (recv + block, recv), "ReduceScatter": (send, send + block),
              "Gather": (recv + 256 * 4, recv) if rank == 1 else (send, recv),
              "Scatter": (send, send + 256 * 4) if rank == 1 else (send, recv)}}
    source, to = places.get(name, (send, send))
    if call(name, 256, source=source, to=to, root=1) != expected:
        wrong.append([name, "in place"])
    for left in ({{"count": 0}}, {{"type": 12}}, {{"count": (1 << 62)}}):
        if call(name, **left) != "NCCL":
            wrong.append([name, left])
    if name in ROOTED and [call(name, root=2), call(name, root=-1)] != ["NCCL"] * 2:
        wrong.append([name, "root"])
    if name in REDUCTIONS and [call(name, op=op) for op in (*range(5), 5)] != [
            *["symm"] * 5, "NCCL"]:
        wrong.append([name, "operations"])
answer([wrong, len(COLLECTIVES), noted("violations")])
sys.stdin.readline()
""",
                SYMM_NCCL_MODE=mode,
            )
            self.assertEqual(self.finished(ranks), [[[], 9, []]] * 2, mode)

    def test_all_collectives_in_groups_and_captures(self):
        """They go in the order in which they are made; on two streams, they are ordered."""
        ranks = self.cuda_ranks(
            2,
            """
got = []
assert [call(name) for name in COLLECTIVES] == ["symm"] * 9
def kernels():
    return len({int(s) for k, s in noted("launches") if k.startswith("symm_")})
for name in COLLECTIVES:
    kernels()
    assert shim.ncclGroupStart() == 0
    results = [do(name)[0], do(name, on=other_stream)[0], do("AllReduce")[0]]
    early = kernels()
    assert shim.ncclGroupEnd() == 0
    got.append([results, early, kernels()])
    notes.notes_begin_capture(stream)
    notes.notes_join(other_stream, stream)
    noted("waits")
    results = [do(name)[0], do(name, on=other_stream)[0]]
    ordered = [str(other_stream), str(stream)] in noted("waits")
    notes.notes_end_capture(stream)
    got.append([results, ordered])
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_MODE="deterministic",
        )
        expected = [[[0] * 3, 0, 2], [[0] * 2, True]] * 9
        self.assertEqual(self.finished(ranks), [[expected, []]] * 2)

    def test_an_own_sum_is_multiplied_by_symm(self):
        """By the factor that each rank has, on the host or the device, read when NCCL reads it;
        outside of captures and in one, in a group after the operation has ended, and for types
        that symm has no factor of its own for, by NCCL.
        """
        ranks = self.cuda_ranks(
            2,
            """
# Of one half, by type.
half = {6: "0038", 7: "0000003f", 9: "003f", 10: "30", 11: "38"}
eighth = {6: "0030", 7: "0000003e", 9: "003e", 10: "20", 11: "30"}
half, eighth = [{k: bytes.fromhex(v) for k, v in one.items()} for one in (half, eighth)]
def factors():
    return [float(text) for [text] in noted("factors")]
wrong = []
def expect(what, got, expected):
    if got != expected:
        wrong.append([what, got, expected])
for type in half:
    # The other rank may have its scalar elsewhere.
    on_host = pre_mul_sum((half, eighth)[rank][type], type, 1 if rank == 0 else type % 2)
    on_device = pre_mul_sum(half[type], type, 0)
    own = (0.5, 0.125)[rank]
    for name in REDUCTIONS:
        expect([type, name], [call(name, 8, type, on_host), factors()], ["symm", [own]])
        expect([type, name, "device"], [call(name, 8, type, on_device), factors()],
               ["symm", [0.5]])
    notes.notes_begin_capture(stream)
    expect([type, "captured"], [all_reduce(8, type, on_host), all_reduce(8, type, on_device)],
           ["symm"] * 2)
    notes.notes_end_capture(stream)
    expect([type, "captured"], factors(), [own, 0.5])
    assert shim.ncclGroupStart() == 0
    assert do("AllReduce", 8, type, on_host)[0] == 0
    assert shim.ncclRedOpDestroy(on_host, comm) == 0
    assert shim.ncclGroupEnd() == 0
    expect([type, "group"], factors(), [own])
    expect([type, "destroyed"], all_reduce(8, type, on_host), "NCCL")
    expect([type, "twice"], shim.ncclRedOpDestroy(on_host, comm), 4)
    assert shim.ncclRedOpDestroy(on_device, comm) == 0
for type in (0, 1, 2, 3, 4, 5, 8):
    op = pre_mul_sum(bytes(8), type)
    expect([type, "forwarded"], [call(name, 8, type, op) for name in REDUCTIONS], ["NCCL"] * 3)
# Factors that are alike share their place: work and graphs read it for ever.
many = [pre_mul_sum(bytes(ctypes.c_float(n)), 7) for n in range(64)] * 2
before = notes.notes_host_memory()
expect("many", [all_reduce(8, 7, op) for op in many], ["symm"] * 128)
expect("many", notes.notes_host_memory() - before, 0)
expect("many", len(set(factors())), 64)
answer([wrong, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_MODE="deterministic",
        )
        self.assertEqual(self.finished(ranks), [[[], []]] * 2)

    def test_configurations_of_collectives(self):
        """What asks for nothing goes where the call without it goes. NCCL gets what it alone can
        do, with the configuration, and in its order with symm's work.
        """
        ranks = self.cuda_ranks(
            2,
            CONFIGURED
            + """
class Call(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("words", ctypes.c_uint64 * 10)]
last = Call.in_dll(fake(), "fake_last")
wrong = []
for name in CONFIGURED:
    for demand in NOTHING:
        got = [configured(name, demand), configured(name, demand, count=0)]
        if got != ["symm", "NCCL"] or last.name.decode() != f"nccl{name}Config":
            wrong.append([name, NOTHING.index(demand), got, last.name.decode()])
    for demand in TUNING + WRONG + NEEDING:
        got = configured(name, demand)
        if got != "NCCL" or last.name.decode() != f"nccl{name}Config":
            wrong.append([name, DEMANDS.index(demand), got])
notes.notes_hold(other_stream)
assert all_reduce(on=other_stream) == "symm"
noted("waits")
assert configured("AllReduce", TUNING[0]) == "NCCL"
ordered = [str(stream), str(other_stream)] in noted("waits")
notes.notes_let_go()
answer([wrong, ordered, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_MODE="deterministic",
        )
        self.assertEqual(self.finished(ranks), [[[], True, []]] * 2)

    def test_communicators_that_have_grown(self):
        """symm does their calls when all ranks that joined have the drop-in."""
        ranks = self.cuda_ranks(
            2,
            """
shim.ncclCommGetUniqueId.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
shim.ncclCommGrow.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
                              ctypes.c_void_p, ctypes.c_void_p]
alone = comm if rank == 0 else None
id, grown = Id(), ctypes.c_void_p()
alone = ctypes.c_void_p()
assert shim.ncclCommSplit(comm, rank, 0, ctypes.byref(alone), None) in (0, 4)
if rank == 0:
    assert shim.ncclCommGetUniqueId(alone, ctypes.byref(id)) == 0
    print(bytes(id.bytes).hex(), flush=True)
    assert shim.ncclCommGrow(alone, 2, ctypes.byref(id), -1, ctypes.byref(grown), None) == 0
else:
    id = Id.from_buffer_copy(bytes.fromhex(sys.stdin.readline()))
    assert shim.ncclCommGrow(None, 2, ctypes.byref(id), 1, ctypes.byref(grown), None) == 0
answer([all_reduce(of=grown), noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
        )
        ranks[1].stdin.write(ranks[0].stdout.readline())
        ranks[1].stdin.flush()
        self.assertEqual(self.finished(ranks), [["symm", []]] * 2)

    def test_children_that_do_not_block_made_in_a_group_of_calls(self):
        ranks = self.cuda_ranks(
            2,
            """
os.environ["FAKE_NCCL"] = "slow"
children = [ctypes.c_void_p(), ctypes.c_void_p()]
assert shim.ncclGroupStart() == 0
assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(children[0]), config_of(0)) in (0, 7)
got = [shim.ncclGroupEnd()]
settle(comm)
got += [async_error(children[0]), all_reduce(of=children[0])]
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
        )
        self.assertEqual(self.finished(ranks), [[[7, 0, "symm"], []]] * 2)

    def test_an_own_sum_was_not_measured(self):
        ranks = self.cuda_ranks(
            2,
            """
op = pre_mul_sum(bytes(ctypes.c_float(1)), 7)
answer([all_reduce(8, 7, op), all_reduce()])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [["NCCL", "symm"]] * 2)

    def test_variables_choose(self):
        for environment, expected in (
            ({"SYMM_NCCL_OPS": "none"}, "NCCL"),
            ({"SYMM_NCCL_OPS": "allgather,reduce"}, "NCCL"),
            ({"SYMM_NCCL_OPS": "all"}, "symm"),
            ({"SYMM_NCCL_OPS": "broadcast,allreduce"}, "symm"),
            ({"SYMM_NCCL_OPS": "allreduc"}, "NCCL"),
            ({"SYMM_NCCL_OPS": ","}, "NCCL"),
            ({"SYMM_NCCL_OPS": "none,allreduce"}, "NCCL"),
            ({"SYMM_NCCL_MODE": "fast"}, "symm"),
            ({"SYMM_NCCL_MODE": "deterministic"}, "symm"),
            ({"SYMM_NCCL_MODE": "quick"}, "NCCL"),
            ({"SYMM_NCCL_TIMEOUT_MS": "2000"}, "symm"),
            ({"SYMM_NCCL_TIMEOUT_MS": "soon"}, "NCCL"),
            ({"SYMM_NCCL_COMMS": "tp*,dp"}, "NCCL"),
            ({"SYMM_NCCL_COMMS": "*"}, "symm"),
        ):
            ranks = self.cuda_ranks(
                2, "answer(all_reduce())\nsys.stdin.readline()\n", **environment
            )
            self.assertEqual(self.finished(ranks), [expected] * 2, environment)

    def test_configurations_choose(self):
        """The name by SYMM_NCCL_COMMS, also one that lies nowhere; of what does not block, too."""
        ranks = self.cuda_ranks(
            2,
            """
def child(parent, blocking, name):
    text = ctypes.c_char_p(name) if isinstance(name, bytes) else ctypes.c_void_p(name)
    head = [(72, 8), (0xcafebeef, 4), (22700, 4), (blocking, 4)]
    config = b"".join(value.to_bytes(size, "little") for value, size in head) + bytes(28)
    config = ctypes.create_string_buffer(config + bytes(text) + bytes(16), 72)
    made = ctypes.c_void_p()
    blocks = blocking == 1 or (blocking == undefined and parent is comm)
    result = shim.ncclCommSplit(parent, 0, 0, ctypes.byref(made), config)
    assert result == 0 if blocks else result in (0, 7)
    settle(parent, made)
    return made
undefined = 0x80000000
comms = [child(comm, 1, b"tp0"), child(comm, undefined, b"tensor"), child(comm, 1, b"dp"),
         child(comm, 1, 0), child(comm, 1, 12345), child(comm, 0, b"tp1")]
comms.append(child(comms[-1], undefined, b"tp2"))
comms.append(child(comms[-2], 1, b"tp3"))
answer([all_reduce(of=one) for one in comms])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="tp*,tensor",
        )
        expected = ["symm", "symm", "NCCL", "NCCL", "NCCL", "symm", "symm", "symm"]
        self.assertEqual(self.finished(ranks), [expected] * 2)

    def test_what_nccl_does_not_let_block_does_not_block(self):
        """By a variable of NCCL, whatever the configuration says."""
        ranks = self.cuda_ranks(
            2,
            """
os.environ["FAKE_NCCL"] = "slow unblocked"
child = ctypes.c_void_p()
got = [shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None)]
settle(comm, child)
notes.notes_begin_capture(stream)
got.append(all_reduce(of=child))
notes.notes_end_capture(stream)
answer([*got, all_reduce(of=child), all_reduce()])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
        )
        self.assertEqual(self.finished(ranks), [[7, "symm", "symm", "symm"]] * 2)

    def test_nccl_makes_a_communicator_in_the_context_of_the_caller(self):
        """By which NCCL finds the device, though another thread may make the communicator."""
        ranks = self.cuda_ranks(
            2,
            """
context = ctypes.c_void_p.in_dll(fake(), "fake_context")
thread = ctypes.c_int.in_dll(fake(), "fake_thread")
id = Id.from_buffer_copy(bytes.fromhex(os.environ["SECOND_ID"]))
# Without a context the thread itself may have chosen a device.
got = [context.value, thread.value == threading.get_native_id()]
for device in (1, 0):
    mine = place_on(device)
    made = init(id, 2, rank)
    got += [context.value == mine, shim.ncclCommDestroy(made)]
# Another thread takes no signals of the program, but its own faults.
got += [thread.value == threading.get_native_id(), *(ctypes.c_int * 2).in_dll(fake(), "fake_takes")]
answer(got)
sys.stdin.readline()
""",
            SECOND_ID=self.id_of_another(),
        )
        expected = [None, True, True, 0, True, 0, False, 0, 1]
        self.assertEqual(self.finished(ranks), [expected] * 2)

    def test_calls_on_what_does_not_block_return_at_once(self):
        """Its group is made while it is in progress, which its parent is, too. Then no call waits
        for a rank that is late, and an end is in progress while work is under way.
        """
        ranks = self.cuda_ranks(
            2,
            """
config = config_of(0)
child, made = ctypes.c_void_p(), ctypes.c_void_p()
if rank == 1:
    time.sleep(3)
began = time.monotonic()
got = [shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), config)]
waited = time.monotonic() - began
looks = []
while not looks or looks[-1] == 7:
    looks.append(async_error(comm))
    time.sleep(0.001)
got += [looks[0], looks[-1], async_error(child), waited < 2]
# In a group of calls.
id = Id.from_buffer_copy(bytes.fromhex(os.environ["SECOND_ID"]))
assert shim.ncclGroupStart() == 0
assert shim.ncclCommInitRankConfig(ctypes.byref(made), 2, id, rank, config) == 0
got.append(shim.ncclGroupEnd())
settle(made)
if rank == 1:
    time.sleep(3)
began = time.monotonic()
got += [all_reduce(of=child), all_reduce(of=made), time.monotonic() - began < 2]
notes.notes_hold(stream)
got += [all_reduce(of=child), shim.ncclCommFinalize(child), async_error(child)]
notes.notes_let_go()
settle(child)
got.append(shim.ncclCommDestroy(child))
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
            SECOND_ID=self.id_of_another(),
        )
        expected = [7, 7, 0, 0, True, 7, "symm", "symm", True, "symm", 7, 7, 0]
        self.assertEqual(self.finished(ranks), [[expected, []]] * 2)

    def test_what_nccl_asks_itself_is_not_answered_by_symm(self):
        """NCCL's calls ask for the communicator's state by the name that the program uses, too,
        which leads to a drop-in that is preloaded. NCCL refuses a call while that state is
        in progress.
        """
        ranks = self.cuda_ranks(
            2,
            """
os.environ["FAKE_NCCL"] = "slow ensures"
id = Id.from_buffer_copy(bytes.fromhex(os.environ["SECOND_ID"]))
made = ctypes.c_void_p()
got = [shim.ncclCommInitRankConfig(ctypes.byref(made), 2, id, rank, config_of(0))]
if rank == 1:
    time.sleep(1)
size = ctypes.c_int()
counted = set()
while async_error(made) == 7:
    # Of NCCL, which is ready, while symm makes its group.
    counted.add(shim.ncclCommCount(made, ctypes.byref(size)))
    time.sleep(0.001)
# The other rank may find all ready at once.
seen = counted == {0, 4} if rank == 0 else counted <= {0, 4}
got += [seen, async_error(made), all_reduce(of=made)]
notes.notes_hold(stream)
got += [all_reduce(of=made), shim.ncclCommFinalize(made), async_error(made)]
notes.notes_let_go()
settle(made)
got.append(shim.ncclCommDestroy(made))
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
            SECOND_ID=self.id_of_another(),
            LD_PRELOAD=str(SHIM),
        )
        # NCCL itself is in progress for the first looks, and refuses to count: 4.
        expected = [7, True, 0, "symm", "symm", 7, 7, 0]
        self.assertEqual(self.finished(ranks), [[expected, []]] * 2)

    def test_ranks_that_block_unlike_choose_alike(self):
        """One that blocks would have the other in progress until its first call."""
        ranks = self.cuda_ranks(
            2,
            """
child = ctypes.c_void_p()
assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), config_of(rank)) in (0, 7)
settle(comm, child)
answer([all_reduce(of=child) for _ in range(2)])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
        )
        self.assertEqual(self.finished(ranks), [["NCCL"] * 2] * 2)

    def test_a_variable_that_is_refused_is_said(self):
        """Where the log is, or to standard error."""
        program = """
comm = init(new_id(), 2, 0)
print(json.dumps(0), flush=True)
os._exit(0)
"""
        said = "SYMM_NCCL_OPS=none,allreduce: none stands alone, and not in a list; no collective"
        process = start(program, SYMM_NCCL_OPS="none,allreduce")
        out, err = process.communicate(timeout=60)
        self.assertEqual(err.count(said), 1, err)
        process = start(program, SYMM_NCCL_OPS="none,allreduce", SYMM_NCCL_LOG=str(self.log))
        out, err = process.communicate(timeout=60)
        self.assertEqual([err.count(said), self.log.read_text().count(said)], [0, 1], err)

    def test_a_deadline_that_is_refused_is_none(self):
        """The second number is SYMM_TIMEOUT_NOW."""
        program = """
comms = (ctypes.c_void_p * 2)()
result = shim.ncclCommInitAll(comms, 2, None)
print(json.dumps([result, shim.ncclGetLastError(None).decode()]), flush=True)
os._exit(0)
"""
        fakes = BUILD / "tests/fake_cuda"
        for text in ("1s", "18446744073709551614"):
            process = start(
                program,
                "none",
                LD_LIBRARY_PATH=f"{fakes / 'symm'}:{fakes / 'lib'}",
                SYMM_BACKEND="cuda",
                SYMM_NCCL_TIMEOUT_MS=text,
                XDG_RUNTIME_DIR=str(self.runtime),
            )
            out, err = process.communicate(timeout=60)
            self.assertEqual(json.loads(out), [0, ""], err)
            self.assertIn(f"SYMM_NCCL_TIMEOUT_MS={text}: this is not a positive number", err)

    def test_a_log_that_nobody_reads_is_not_waited_for(self):
        place = self.log.with_name("fifo")
        os.mkfifo(place)
        program = "print(json.dumps(shim.ncclGetVersion(ctypes.byref(ctypes.c_int()))))"
        process = start(program + "\ninit(new_id(), 1, 0)", SYMM_NCCL_LOG=str(place))
        self.addCleanup(self.end, process)
        out, err = process.communicate(timeout=60)
        self.assertEqual([process.returncode, json.loads(out)], [0, 0], err)

    def test_a_log_that_cannot_be_opened_is_said_once(self):
        """What would be said without a log goes to standard error, too."""
        process = start(
            "init(new_id(), 2, 0)\nprint(json.dumps(0), flush=True)\nos._exit(0)",
            SYMM_NCCL_LOG="/nonexistent/log",
            SYMM_NCCL_MODE="determinstic",
        )
        out, err = process.communicate(timeout=60)
        said = "SYMM_NCCL_LOG=/nonexistent/log cannot be opened: No such file or directory"
        self.assertEqual([json.loads(out), err.count(said)], [0, 1], err)
        self.assertEqual(err.count("SYMM_NCCL_MODE=determinstic: this is none of"), 1, err)

    def test_off_forwards_and_watches_nothing(self):
        got = run(
            """
comm = init(new_id(), 2, 0)
print(json.dumps(shim.ncclAllReduce(1, 2, 3, 7, 0, comm, None) > 1000))
os._exit(0)
""",
            SYMM_NCCL_MODE="off",
        )
        self.assertTrue(got)

    def test_ranks_with_other_settings_choose_alike(self):
        """One that differs, and all forward."""
        for name, values in (
            ("SYMM_NCCL_MODE", ("fast", "deterministic")),
            ("SYMM_NCCL_OPS", ("all", "none")),
            ("SYMM_NCCL_TIMEOUT_MS", ("1000", "2000")),
            ("SYMM_NCCL_COMMS", ("*", "no")),
        ):
            ranks = self.cuda_ranks(
                2,
                "answer([all_reduce() for _ in range(3)])\nsys.stdin.readline()\n",
                [{name: value} for value in values],
            )
            self.assertEqual(self.finished(ranks), [["NCCL"] * 3] * 2, name)

    def test_a_call_asks_the_driver_little(self):
        """A group of one call, as PyTorch makes it, beside symm's own call: no event is recorded
        and no stream waits for another, and the driver is asked for the context and the capture of
        a stream that can be captured. The times are printed.
        """
        fakes = BUILD / "tests/fake_cuda"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SYMM_", "FAKE_"))}
        program = subprocess.run(
            [BUILD / "bin/nccl_host_time", SHIM],
            env={
                **inherited,
                "LD_LIBRARY_PATH": f"{fakes / 'symm'}:{fakes / 'lib'}",
                "SYMM_NCCL": str(NEWEST),
                "SYMM_NCCL_LOG": str(self.log),
                "XDG_RUNTIME_DIR": str(self.runtime),
            },
            capture_output=True,
            text=True,
            timeout=200,
        )
        self.assertEqual(program.returncode, 0, program.stderr + self.log.read_text())
        found = json.loads(program.stdout)
        calls = found["calls"]
        own = calls["symm"]
        self.assertEqual(own["cuLaunchKernelEx"], 1)
        self.assertEqual(calls["symm, legacy"], own)
        question = {"cuCtxGetCurrent": 1, "cuStreamGetCaptureInfo": 1}
        for way in ("call", "group"):
            self.assertEqual(calls[way + ", legacy"], own, way)
            more = {name: calls[way][name] - own.get(name, 0) for name in calls[way]}
            self.assertEqual({name: n for name, n in more.items() if n != 0}, question, way)
        for way in ("NCCL behind", "question"):
            self.assertEqual(calls[way], {}, way)
        for name in ("ns", "ns with a watchdog"):
            print(f"{name}: {found[name]}", file=sys.stderr)

    def test_captures_are_forwarded_until_there_is_a_group(self):
        ranks = self.cuda_ranks(
            2,
            """
got = []
for turn in range(3):
    notes.notes_begin_capture(stream)
    got += [all_reduce(), all_reduce()]
    notes.notes_end_capture(stream)
    got.append(all_reduce())
for turn in range(3000):
    notes.notes_begin_capture(stream)
    assert all_reduce() == "symm"
    notes.notes_end_capture(stream)
answer([got, noted("violations")])
sys.stdin.readline()
""",
        )
        for got in self.finished(ranks):
            self.assertEqual(got, [["NCCL", "NCCL"] + ["symm"] * 7, []])

    def test_streams_are_ordered_between_the_libraries(self):
        """Work of NCCL that is under way on a stream is waited for by symm's next on another, and
        the other way round; outside of captures and in one, and never across.
        """
        ranks = self.cuda_ranks(
            2,
            """
def gather(on):
    assert do("AllGather", 4, on=on)[0] > 1000
def waits():
    streams = {str(stream): "a", str(other_stream): "b"}
    return sorted({tuple(streams.get(s, "?") for s in pair) for pair in noted("waits")})
assert all_reduce() == "symm"
assert all_reduce() == "symm"
waits()
got = []
notes.notes_hold(stream)
gather(stream)
assert all_reduce(on=other_stream) == "symm"
got.append(("b", "a") in waits())
gather(stream)
waits()
gather(stream)
got.append(waits())
assert all_reduce(on=stream) == "symm"
gather(other_stream)
got.append(("b", "a") in waits())
notes.notes_let_go()
# In a capture of both streams.
notes.notes_begin_capture(stream)
notes.notes_join(other_stream, stream)
assert all_reduce() == "symm"
waits()
gather(other_stream)
got.append(("b", "a") in waits())
assert all_reduce() == "symm"
got.append(("a", "b") in waits())
notes.notes_end_capture(stream)
notes.notes_begin_capture(other_stream)
assert all_reduce(on=other_stream) == "symm"
got.append(waits())
notes.notes_end_capture(other_stream)
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_OPS="allreduce",
        )
        for got in self.finished(ranks):
            self.assertEqual(got, [[True, [], True, True, True, []], []])

    def test_captures_of_one_communicator_take_turns(self):
        """Each has an order of its own: work of NCCL in one is ordered with symm's next there, also
        if there was work of both in the other meanwhile. That goes by events, of which captures
        that are over leave no more than 64.
        """
        ranks = self.cuda_ranks(
            2,
            """
def gather(on):
    assert do("AllGather", 4, on=on)[0] > 1000
def waits():
    streams = {str(stream): "a", str(other_stream): "b", str(third): "c", str(fourth): "d"}
    return sorted({tuple(streams.get(s, "?") for s in pair) for pair in noted("waits")})
third, fourth = notes.notes_stream(), notes.notes_stream()
assert all_reduce() == "symm"
assert all_reduce() == "symm"
got = []
notes.notes_begin_capture(stream)
notes.notes_join(other_stream, stream)
notes.notes_begin_capture(third)
notes.notes_join(fourth, third)
# NCCL works in both captures, then symm in both.
gather(stream)
gather(third)
waits()
assert all_reduce(on=other_stream) == "symm"
got.append(("b", "a") in waits())
assert all_reduce(on=fourth) == "symm"
got.append(("d", "c") in waits())
# And the other way round.
waits()
gather(stream)
got.append(("a", "b") in waits())
gather(third)
got.append(("c", "d") in waits())
notes.notes_end_capture(stream)
notes.notes_end_capture(third)
for turn in range(300):
    if turn == 100:
        before = notes.notes_events()
    notes.notes_begin_capture(stream)
    gather(stream)
    assert all_reduce() == "symm"
    notes.notes_end_capture(stream)
answer([got, notes.notes_events() - before, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_OPS="allreduce",
        )
        for got in self.finished(ranks):
            self.assertEqual(got, [[True] * 4, 0, []])

    def test_a_device_is_retained_once(self):
        """However many communicators a process has, and has had."""
        ranks = self.cuda_ranks(
            2,
            """
assert all_reduce() == "symm"
before = notes.notes_contexts()
for turn in range(8):
    child = ctypes.c_void_p()
    assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None) == 0
    assert all_reduce(of=child) == "NCCL"
    assert shim.ncclCommDestroy(child) == 0
answer(notes.notes_contexts() - before)
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [0, 0])

    def test_groups_of_calls(self):
        """Calls of symm are made at the outermost end, before NCCL's."""
        ranks = self.cuda_ranks(
            2,
            """
got = []
for turn in range(3):
    noted("launches")
    before = calls.value
    assert shim.ncclGroupStart() == 0
    assert shim.ncclSend(send, 1, FLOAT, 1 - rank, comm, stream) > 1000
    assert shim.ncclGroupStart() == 0
    assert shim.ncclAllReduce(send, recv, 8, FLOAT, SUM, comm, stream) == 0
    assert shim.ncclAllReduce(send, recv, 16, FLOAT, 5, comm, stream) > 1000
    assert shim.ncclGroupEnd() == 0
    assert shim.ncclAllReduce(send, recv, 8, FLOAT, SUM, comm, other_stream) == 0
    early = len([k for k, s in noted("launches") if k.startswith("symm_allreduce")])
    assert shim.ncclGroupEnd() == 0
    late = [s for k, s in noted("launches") if int(s) in (stream, other_stream)]
    got.append([early, late == [str(stream), str(other_stream)], calls.value - before])
    assert shim.ncclGroupStart() == 0
    assert shim.ncclAllReduce(send, recv, 8, FLOAT, SUM, comm, stream) == 0
    shim.ncclGroupSimulateEnd(None)
    got.append([k for k, s in noted("launches")])
got.append(all_reduce())
answer(got)
sys.stdin.readline()
""",
        )
        for got in self.finished(ranks):
            self.assertEqual(got, [[0, True, 2], []] * 3 + ["symm"])

    def test_messages_go_by_symm_where_that_is_asked_for(self):
        """Alone, in groups of calls on two streams, to the rank itself, and in captures."""
        ranks = self.cuda_ranks(
            3,
            """
right, left = (rank + 1) % size, (rank - 1) % size
INT = 2
def ints(at, count):
    return (ctypes.c_int * count).from_address(at)
def came(at, count, first):
    until = time.monotonic() + 60
    wanted = list(range(first, first + count))
    while not (notes.notes_idle(stream) and notes.notes_idle(other_stream)):
        assert time.monotonic() < until, "a message is under way for 60 s"
        time.sleep(0.001)
    return list(ints(at, count)) == wanted
def put(at, count, first):
    ints(at, count)[:] = range(first, first + count)
def kernels():
    return [k for k, s in noted("launches") if int(s) in (stream, other_stream)]
put(send, 1000, 1000 * rank)
# Without a group, which no message makes, they go to NCCL.
before = calls.value
early = [who(shim.ncclSend(send, 10, INT, right, comm, stream), before)]
assert shim.ncclGroupStart() == 0
early.append(shim.ncclRecv(recv, 10, INT, left, comm, stream))
assert shim.ncclGroupEnd() > 0
early.append(calls.value - before)
assert all_reduce() == "symm"
kernels()
before = calls.value
# One after the other round the ring; rank 0 begins.
alone = []
for turn in (0, 1):
    if (rank == 0) == (turn == 0):
        alone.append(shim.ncclSend(send, 10, INT, right, comm, stream))
    else:
        alone.append(shim.ncclRecv(recv, 10, INT, left, comm, stream))
alone += [kernels(), came(recv, 10, 1000 * left)]
assert shim.ncclGroupStart() == 0
together = [shim.ncclSend(send, 700 + rank, INT, right, comm, stream)]
assert shim.ncclGroupStart() == 0
together.append(shim.ncclRecv(recv, 700 + left, INT, left, comm, other_stream))
together.append(shim.ncclSend(send, 5, INT, rank, comm, stream))
together.append(shim.ncclRecv(recv + 4096, 5, INT, rank, comm, stream))
assert shim.ncclGroupEnd() == 0
together.append(shim.ncclAllReduce(send, recv + 8192, 8, FLOAT, SUM, comm, stream))
together.append(kernels())
together.append(shim.ncclGroupEnd())
launched = kernels()
together += [len(launched), launched[-1], came(recv, 700 + left, 1000 * left)]
together.append(came(recv + 4096, 5, 1000 * rank))
notes.notes_begin_capture(stream)
assert shim.ncclGroupStart() == 0
captured = [shim.ncclSend(send, 3, INT, left, comm, stream),
            shim.ncclRecv(recv, 3, INT, right, comm, stream), shim.ncclGroupEnd()]
notes.notes_end_capture(stream)
captured += [kernels(), came(recv, 3, 1000 * right)]
answer([early, alone, together, captured, calls.value - before, noted("violations")])
sys.stdin.readline()
""",
            SYMM_NCCL_OPS="all,sendrecv",
        )
        kernel = "symm_pass_messages"
        for got in self.finished(ranks):
            early, alone, together, captured, forwarded, violations = got
            self.assertEqual(early, ["NCCL", 0, 2])
            self.assertEqual(alone, [0, 0, [kernel, kernel], True])
            self.assertEqual(together, [0] * 5 + [[], 0, 2, kernel, True, True])
            self.assertEqual(captured, [0, 0, 0, [kernel], True])
            self.assertEqual([forwarded, violations], [0, []])

    def test_messages_of_other_lengths_are_told_on_both_ranks(self):
        ranks = self.cuda_ranks(
            2,
            """
assert all_reduce() == "symm"
if rank == 0:
    assert shim.ncclSend(send, 10, FLOAT, 1, comm, stream) == 0
else:
    assert shim.ncclRecv(recv, 11, FLOAT, 0, comm, stream) == 0
error, _ = wait_for_error(comm)
answer([error, shim.ncclGetLastError(None).decode()])
sys.stdin.readline()
""",
            SYMM_NCCL_OPS="sendrecv,allreduce",
        )
        for error, sentence in self.finished(ranks):
            self.assertEqual(error, 5)
            self.assertIn("rank 0 sends 40 bytes on channel 0 to rank 1", sentence)
            self.assertIn("room for 44", sentence)

    def test_groups_of_calls_on_communicators_in_another_order(self):
        """Their groups are made at once, so the order does not matter. By default one of them goes
        by symm.
        """
        for environment, expected in (
            ({"SYMM_NCCL_COMMS": "*"}, {("symm", "symm")}),
            ({}, {("NCCL", "NCCL"), ("symm", "NCCL"), ("NCCL", "symm")}),
        ):
            ranks = self.cuda_ranks(
                2,
                """
second = ctypes.c_void_p()
assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(second), None) == 0
assert watched(2)
order = [comm, second] if rank == 0 else [second, comm]
assert shim.ncclGroupStart() == 0
for one in order:
    assert shim.ncclAllReduce(send, recv, 8, FLOAT, SUM, one, stream) == 0
result = shim.ncclGroupEnd()
answer([all_reduce(), all_reduce(of=second)])
sys.stdin.readline()
""",
                **environment,
            )
            got = {tuple(one) for one in self.finished(ranks)}
            self.assertEqual(len(got), 1)
            self.assertLessEqual(got, expected)

    def test_a_refusal_on_one_rank_fails_all(self):
        """Operands that overlap: symm refuses them, and the other rank must not wait."""
        ranks = self.cuda_ranks(
            2,
            """
assert all_reduce() == "symm"
step("ready")
if rank == 0:
    got = all_reduce(to=send + 64)
else:
    assert all_reduce() in ("symm", "error 6")
    got = ""
error, _ = wait_for_error(comm)
answer([got, error, shim.ncclGetLastError(None).decode(), all_reduce()])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        first, second = self.finished(ranks)
        self.assertEqual(first[:2], ["error 4", 6])
        self.assertEqual(second[1], 6)
        self.assertIn("overlap", first[2])
        self.assertEqual([first[3], second[3]], ["error 6"] * 2)

    def test_a_death_within_a_collective_is_named(self):
        ranks = self.cuda_ranks(
            3,
            """
assert all_reduce() == "symm"
assert all_reduce() == "symm"
step("ready")
error, _ = wait_for_error(comm)
got = all_reduce()
answer([error, shim.ncclGetLastError(None).decode(), got])
sys.stdin.readline()
""",
        )
        for error, sentence, got in self.survivors_of_rank_1(ranks):
            self.assertEqual([error, got], [6, "error 6"])
            self.assertIn(f"rank 1 (pid {ranks[1].pid})", sentence)

    def test_a_death_before_the_group_is_made_ends_the_wait(self):
        ranks = self.cuda_ranks(
            2,
            """
step("ready")
result = all_reduce()
error, _ = wait_for_error(comm)
answer([result, error])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks[:1])
        time.sleep(0.5)
        ranks[1].kill()
        [(result, error)] = self.finished(ranks[:1])
        self.assertEqual(error, 6)
        self.assertIn(result, ("NCCL", "error 6"))

    def test_a_rank_that_cannot_make_its_part_ends_the_wait_of_the_others(self):
        """It has no descriptors left, and so NCCL does the collectives of all."""
        ranks = self.cuda_ranks(
            2,
            """
import resource
step("ready")
if rank == 1:
    most = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
began = time.monotonic()
answer([all_reduce(), all_reduce(), async_error(comm), time.monotonic() - began])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        for *got, seconds in self.finished(ranks):
            self.assertEqual(got, ["NCCL", "NCCL", 0])
            self.assertLess(seconds, 20)
        self.assertIn("another rank could not make its part", self.log.read_text())

    # Rank 1 agrees to make a group, and comes no further.
    WITHOUT_RANK_1 = """
step("ready")
if rank == 1:
    notes.notes_stop_memory()
got = []
began = time.monotonic()
thread = threading.Thread(target=lambda: got.append(all_reduce()), daemon=True)
thread.start()
thread.join(1)
got.append(thread.is_alive())
step("waits")
"""

    def test_a_death_while_the_group_is_made_ends_the_wait(self):
        ranks = self.cuda_ranks(
            2,
            self.WITHOUT_RANK_1
            + """
error = wait_for_error(comm)[0]
thread.join(30)
answer([error, sentence(), got, time.monotonic() - began])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        self.are_all("waits", ranks)
        ranks[1].kill()
        self.go_on(ranks[:1])
        [(error, sentence, got, seconds)] = self.finished(ranks[:1])
        self.assertEqual([error, got[0]], [6, True])
        self.assertIn(f"rank 1 (pid {ranks[1].pid})", sentence)
        self.assertIn(got[1], ("NCCL", "error 6"))
        self.assertLess(seconds, 20)

    def test_a_deadline_ends_the_wait_for_a_rank_that_makes_no_call(self):
        """In the call that makes the group, and in one in which a window meets. The rank that comes
        late hears of it in its own call.
        """
        window = """
assert all_reduce() == "symm"
memory, window = notes.notes_shared_memory(rank, 1 << 21), ctypes.c_void_p()
shim.ncclCommWindowRegister.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
assert shim.ncclCommWindowRegister(comm, memory, 1 << 21, ctypes.byref(window), 0) == 0
"""
        for before in ("memory = None", window):
            ranks = self.cuda_ranks(
                2,
                before
                + """
step("ready")
got = within(60, lambda: all_reduce(source=memory))
answer([got, all_reduce(source=memory) if got else None, async_error(comm), sentence()])
sys.stdin.readline()
""",
                SYMM_NCCL_TIMEOUT_MS="4000",
            )
            self.are_all("ready", ranks)
            for process in ranks:
                self.go_on([process])
                *got, sentence = json.loads(process.stdout.readline())
                self.assertEqual(got, ["error 6", "error 6", 6], before)
                self.assertRegex(sentence, r"rank 1 \(pid \d+.* within 4000 ms")

    def test_an_abort_ends_the_wait_while_the_group_is_made(self):
        ranks = self.cuda_ranks(
            2,
            self.WITHOUT_RANK_1
            + """
result = shim.ncclCommAbort(comm)
thread.join(30)
answer([result, got, time.monotonic() - began])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        self.are_all("waits", ranks)
        self.go_on(ranks[:1])
        [(result, got, seconds)] = self.finished(ranks[:1])
        self.assertEqual([result, got], [0, [True, "error 6"]])
        self.assertLess(seconds, 20)

    def test_an_abort_ends_a_call_of_another_thread(self):
        """Rank 1 does not come, so rank 0 waits for it in its first all-reduce."""
        ranks = self.cuda_ranks(
            2,
            """
if rank == 1:
    step("ready")
    answer(0)
    sys.stdin.readline()
    os._exit(0)
got = []
thread = threading.Thread(target=lambda: got.append(all_reduce()))
thread.start()
time.sleep(0.5)
got.append(thread.is_alive())
step("ready")
began = time.monotonic()
result = shim.ncclCommAbort(comm)
thread.join(30)
answer([got, result, thread.is_alive(), time.monotonic() - began])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        got, result, alive, seconds = self.finished(ranks)[0]
        self.assertEqual([got, result, alive], [[True, "error 6"], 0, False])
        self.assertLess(seconds, 20)

    def test_abort_of_what_is_under_way_and_of_what_is_over(self):
        """The other rank hears of an abort where work was under way, and else of nothing."""
        for held, expected in ((True, 6), (False, 0)):
            ranks = self.cuda_ranks(
                2,
                f"""
assert all_reduce() == "symm"
if rank == 0 and {held}:
    notes.notes_hold(stream)
    assert all_reduce() == "symm"
step("ready")
if rank == 0:
    assert shim.ncclCommAbort(comm) == 0
    answer(0)
else:
    answer(wait_for_error(comm, 2)[0])
sys.stdin.readline()
""",
            )
            self.are_all("ready", ranks)
            self.go_on(ranks)
            self.assertEqual(self.finished(ranks)[1], expected, held)

    def test_an_abort_does_not_wait_for_a_copy_to_pageable_memory(self):
        """The copy waits for the work that the abort is to end, and the driver for the copy. That
        work may be NCCL's, which ends when its own abort is called.
        """
        ranks = self.cuda_ranks(
            2,
            """
assert all_reduce() == "symm"
if rank == 0:
    notes.notes_hold(stream)
    assert all_reduce() == "symm"
step("ready")
if rank == 0:
    notes.notes_copy(1)
    results = []
    thread = threading.Thread(target=lambda: results.append(shim.ncclCommAbort(comm)))
    thread.start()
    thread.join(20)
    answer(results)
    notes.notes_copy(0)
    thread.join(30)
else:
    answer(wait_for_error(comm, 2)[0])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        self.assertEqual(self.finished(ranks), [[0], 6])

    def test_an_abort_reaches_nccl_while_other_threads_wait_for_the_driver(self):
        """It answers them when a copy to pageable memory is over, which waits for a kernel of NCCL,
        which ends when NCCL's own abort is called. No call goes to NCCL after that.
        """
        ranks = self.cuda_ranks(
            2,
            """
assert all_reduce() == "symm"
alive = ctypes.c_int.in_dll(fake(), "fake_alive")
if rank == 0:
    assert do("AllGather", 1 << 28)[0] > 1000
    notes.notes_copy(1)
    results = {}
    def count(name, number):
        results[name] = do(name, number)[0]
    threads = [threading.Thread(target=count, args=one, daemon=True)
               for one in (("AllReduce", 256), ("AllGather", 1 << 28))]
    for thread in threads:
        thread.start()
    threads[0].join(1)
    answers = [threads[0].is_alive()]
    abort = threading.Thread(target=lambda: shim.ncclCommAbort(comm), daemon=True)
    abort.start()
    until = time.monotonic() + 30
    while alive.value and time.monotonic() < until:
        time.sleep(0.01)
    answers.append(alive.value)
    before = calls.value
    notes.notes_copy(0)
    for thread in (*threads, abort):
        thread.join(30)
        answers.append(thread.is_alive())
    answer([*answers, calls.value - before, results["AllReduce"] < 1000])
else:
    answer(0)
sys.stdin.readline()
os._exit(0)
""",
        )
        expected = [True, 0, False, False, False, 0, True]
        self.assertEqual(self.finished(ranks)[0], expected)

    def test_a_refused_split_of_one_rank_does_not_count(self):
        for nccl in (str(NEWEST), "none"):
            ranks = self.cuda_ranks(
                2,
                """
child = ctypes.c_void_p()
first = shim.ncclCommSplit(comm, 0, 0, None, None) if rank == 0 else 4
result = shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None)
answer([first, result, all_reduce(of=child) if result == 0 else sentence()])
sys.stdin.readline()
""",
                SYMM_NCCL=nccl,
                SYMM_NCCL_COMMS="*",
                SYMM_NCCL_TIMEOUT_MS="10000",
            )
            self.assertEqual(self.finished(ranks), [[4, 0, "symm"]] * 2, nccl)

    def test_a_shrink_may_name_a_rank_twice(self):
        ranks = self.cuda_ranks(
            3,
            """
fewer, got = ctypes.c_void_p(), None
if rank < 2:
    out = (ctypes.c_int * 2)(2, 2)
    got = shim.ncclCommShrink(comm, out, 2 - rank, ctypes.byref(fewer), None, 0)
    got = all_reduce(of=fewer) if got == 0 else sentence()
answer(got)
sys.stdin.readline()
""",
            SYMM_NCCL="none",
            SYMM_NCCL_TIMEOUT_MS="10000",
        )
        self.assertEqual(self.finished(ranks), ["symm", "symm", None])

    def test_a_shrink_with_a_senseless_count_reads_no_list(self):
        fakes = BUILD / "tests/fake_cuda"
        for nccl, said in ((str(NEWEST), ""), ("none", "a list of 2000000000 ranks to leave out")):
            got = run(
                """
comm, child = init(new_id(), 1, 0), ctypes.c_void_p()
left_out = (ctypes.c_int * 1)(1)
print(json.dumps([shim.ncclCommShrink(comm, left_out, 2000000000, ctypes.byref(child), None, 0),
                  child.value, shim.ncclGetLastError(None).decode()]), flush=True)
os._exit(0)
""",
                nccl,
                LD_LIBRARY_PATH=f"{fakes / 'symm'}:{fakes / 'lib'}",
                XDG_RUNTIME_DIR=str(self.runtime),
            )
            self.assertEqual(got[:2], [4, None], nccl)
            self.assertIn(said, got[2])

    def test_a_revoked_communicator_has_children(self):
        ranks = self.cuda_ranks(
            2,
            """
shim.ncclCommRevoke.argtypes = [ctypes.c_void_p, ctypes.c_int]
got = [all_reduce()]
step("ready")
got += [shim.ncclCommRevoke(comm, 0) > 1000, all_reduce(), all_reduce()]
child = ctypes.c_void_p()
got.append(shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None))
answer([*got, all_reduce(of=child)])
sys.stdin.readline()
""",
            SYMM_NCCL_COMMS="*",
        )
        self.are_all("ready", ranks)
        self.go_on(ranks)
        expected = ["symm", True, "error 6", "error 6", 0, "symm"]
        self.assertEqual(self.finished(ranks), [expected] * 2)

    def test_the_end_of_a_communicator_waits_for_its_work(self):
        """As NCCL does: the program may free its memory then."""
        for name in ("ncclCommFinalize", "ncclCommDestroy"):
            ranks = self.cuda_ranks(
                2,
                f"""
assert all_reduce() == "symm"
notes.notes_hold(stream)
assert all_reduce() == "symm"
results = []
thread = threading.Thread(target=lambda: results.append(shim.{name}(comm)))
thread.start()
thread.join(0.5)
waits = thread.is_alive()
notes.notes_let_go()
thread.join(30)
answer([waits, results])
sys.stdin.readline()
""",
            )
            self.assertEqual(self.finished(ranks), [[True, [0]]] * 2, name)

    def test_a_finalization_after_a_death_tells_of_it(self):
        for nccl in (str(NEWEST), "none"):
            ranks = self.cuda_ranks(
                2,
                """
assert all_reduce() == "symm"
step("ready")
results = [wait_for_error(comm)[0], shim.ncclCommFinalize(comm), async_error(comm)]
said = sentence()
answer([*results, shim.ncclCommDestroy(comm), said])
sys.stdin.readline()
""",
                SYMM_NCCL=nccl,
            )
            self.are_all("ready", ranks)
            ranks[1].kill()
            self.go_on(ranks[:1])
            [(*got, said)] = self.finished(ranks[:1])
            self.assertEqual(got, [6, 6, 6, 0], nccl)
            self.assertIn(f"rank 1 (pid {ranks[1].pid}) died", said)

    def test_exit_handlers_may_make_groups_of_calls(self):
        """They run on a thread whose own variables have gone: the one that is registered last while
        the communicator is there, and the first one when symm has left it.
        """
        for nccl in (str(NEWEST), "none"):
            ranks = self.cuda_ranks(
                2,
                """
libc = ctypes.CDLL(None)
def grouped():
    results = [shim.ncclGroupStart()]
    for _ in range(3):
        results.append(shim.ncclAllReduce(send, recv, 256, FLOAT, SUM, comm, stream))
    return [*results, shim.ncclGroupEnd()]
def at_exit(_):
    os.write(1, (json.dumps(grouped()) + "\\n").encode())
handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(at_exit)
libc.__cxa_atexit(handler, None, None)
assert grouped() == [0] * 5
libc.__cxa_atexit(handler, None, None)
step("ready")
libc.exit(0)
""",
                SYMM_NCCL=nccl,
            )
            self.are_all("ready", ranks)
            self.go_on(ranks[:1])
            last, first = self.lines(ranks[0])
            self.assertEqual(json.loads(last), [0] * 5, nccl)
            self.assertEqual(len(json.loads(first)), 5, nccl)

    def test_a_shrink_that_aborts_ends_the_work_of_the_parent(self):
        for flags, expected in ((0, "symm"), (1, "error 6")):
            ranks = self.cuda_ranks(
                2,
                f"""
got = [all_reduce()]
step("ready")
child = ctypes.c_void_p()
got.append(shim.ncclCommShrink(comm, None, 0, ctypes.byref(child), None, {flags}))
answer([*got, all_reduce(), all_reduce(of=child)])
sys.stdin.readline()
""",
                SYMM_NCCL_COMMS="*",
            )
            self.are_all("ready", ranks)
            self.go_on(ranks)
            self.assertEqual(self.finished(ranks), [["symm", 0, expected, "symm"]] * 2, flags)

    def test_a_destroyed_communicator_gives_its_place_to_another(self):
        ranks = self.cuda_ranks(
            2,
            """
def child(parent):
    made = ctypes.c_void_p()
    assert shim.ncclCommSplit(parent, 0, 0, ctypes.byref(made), None) == 0
    return made
children = [child(comm) for _ in range(3)]
got = [all_reduce(of=one) for one in children[:2]]
for one in children[:2]:
    assert shim.ncclCommDestroy(one) == 0
got.append(all_reduce(of=children[2]))
answer(got)
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [["symm", "NCCL", "symm"]] * 2)

    def test_a_rank_without_the_drop_in_is_waited_for_once(self):
        got = run("""
shim.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                               ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
comm = init(new_id(), 2, 0)
got = []
for _ in range(2):
    began = time.monotonic()
    got += [shim.ncclAllReduce(1, 2, 3, 7, 0, comm, None) > 1000, time.monotonic() - began]
print(json.dumps(got), flush=True)
os._exit(0)
""")
        self.assertEqual(got[0::2], [True, True])
        self.assertGreater(got[1], 3)
        self.assertLess(got[1], 30)
        self.assertLess(got[3], 1)

    def test_a_rank_may_be_late(self):
        """There is no deadline by default, and the others wait in the first call."""
        ranks = self.cuda_ranks(
            2,
            """
if rank == 1:
    time.sleep(3)
began = time.monotonic()
who_did = all_reduce()
answer([who_did, time.monotonic() - began])
sys.stdin.readline()
""",
            SYMM_TIMEOUT_MS="500",
            SYMM_CREATE_TIMEOUT_MS="500",
        )
        first, second = self.finished(ranks)
        self.assertEqual([first[0], second[0]], ["symm", "symm"])
        self.assertGreater(first[1], 1)

    def test_windows_are_used_where_they_lie(self):
        """Memory that all ranks can share is mapped by the others with the next call outside of
        captures, and until it is deregistered. Else calls go on by symm, with copies.
        """
        ranks = self.cuda_ranks(
            2,
            """
shim.ncclCommWindowRegister.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                        ctypes.c_void_p, ctypes.c_int]
shim.ncclCommWindowDeregister.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
MEGA = 1 << 20
def register(memory, bytes=4 * MEGA):
    window = ctypes.c_void_p()
    assert shim.ncclCommWindowRegister(comm, memory, bytes, ctypes.byref(window), 0) == 0
    return window
def deregister(window):
    assert shim.ncclCommWindowDeregister(comm, window) == 0
first, second = [notes.notes_shared_memory(rank, 4 * MEGA) for _ in range(2)]
got = [all_reduce(), all_reduce()]
before = notes.notes_mappings()
def mapped():
    return notes.notes_mappings() > before
window = register(first)
got.append(mapped())
notes.notes_begin_capture(stream)
got += [all_reduce(source=first, to=first), mapped()]
notes.notes_end_capture(stream)
got += [all_reduce(source=first, to=first + MEGA), mapped()]
deregister(window)
got += [all_reduce(), mapped()]
# In a group of calls, with two at once, one of which one rank has deregistered already.
windows = [ctypes.c_void_p(), ctypes.c_void_p()]
assert shim.ncclGroupStart() == 0
for memory, one in zip((first, second), windows):
    assert shim.ncclCommWindowRegister(comm, memory, 4 * MEGA, ctypes.byref(one), 0) == 0
assert shim.ncclGroupEnd() == 0
if rank == 1:
    deregister(windows[0])
got += [call("AllGather", source=second, to=second + MEGA), mapped()]
if rank == 0:
    deregister(windows[0])
got.append(mapped())
deregister(windows[1])
got += [all_reduce(), mapped()]
# Memory of one rank that cannot be shared, and sizes that differ.
for memory, bytes in ((first if rank == 0 else send, MEGA), (first, MEGA * (1 + rank))):
    window = register(memory, bytes)
    got += [all_reduce(source=memory, to=recv), mapped()]
    deregister(window)
answer([got, async_error(comm), noted("violations")])
sys.stdin.readline()
""",
        )
        expected = ["symm", "symm", False, "symm", False, "symm", True, "symm", False]
        expected += ["symm", True, True, "symm", False, *["symm", False] * 2]
        for got, error, violations in self.finished(ranks):
            self.assertEqual([got, error, violations], [expected, 0, []])
        log = self.log.read_text()
        self.assertEqual(log.count("a window of 4194304 bytes is symmetric memory"), 4, log)
        self.assertEqual(log.count("stays private memory"), 6, log)

    def test_several_devices_of_a_process(self):
        """A communicator that ncclCommInitAll(), a group of calls, or a thread for each device has
        made; a thread calls for all devices in groups, or one for each.
        """
        ranks = self.cuda_ranks(
            2,
            """
on = [stream, other_stream]
def launched():
    return {int(s) for k, s in noted("launches") if k.startswith("symm_")}
def at_once(body):
    threads = [threading.Thread(target=body, args=(n,)) for n in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
def in_a_group(comms):
    assert shim.ncclGroupStart() == 0
    results = [do("AllReduce", of=one, on=where)[0] for one, where in zip(comms, on)]
    return [*results, shim.ncclGroupEnd()]
def by_threads(comms):
    results = [None, None, 0]
    def one(number):
        results[number] = do("AllReduce", of=comms[number], on=on[number])[0]
    at_once(one)
    return results
def init_all():
    comms = (ctypes.c_void_p * 2)()
    assert shim.ncclCommInitAll(comms, 2, None) == 0
    return [ctypes.c_void_p(one) for one in comms]
def in_a_group_of_calls():
    id, comms = new_id(), [ctypes.c_void_p(), ctypes.c_void_p()]
    assert shim.ncclGroupStart() == 0
    for number, one in enumerate(comms):
        assert shim.ncclCommInitRank(ctypes.byref(one), 2, id, number) == 0
    assert shim.ncclGroupEnd() == 0
    return comms
def one_by_one():
    id, comms = new_id(), [None, None]
    def one(number):
        comms[number] = init(id, 2, number)
    at_once(one)
    return comms
wrong = []
for make in (init_all, in_a_group_of_calls, one_by_one):
    for first, second in ((in_a_group, by_threads), (by_threads, in_a_group)):
        comms = make()
        for way in (first, second):
            launched()
            before = calls.value
            results = way(comms)
            if [results, launched(), calls.value - before] != [[0, 0, 0], set(on), 0]:
                wrong.append([make.__name__, way.__name__, results])
        if [async_error(one) for one in comms] != [0, 0]:
            wrong.append([make.__name__, "failed"])
        for one in comms:
            assert shim.ncclCommDestroy(one) == 0
# They share the place of their communicator, and leave it to the next one.
answer([wrong, all_reduce()])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[], "symm"]] * 2)

    def test_a_sum_without_the_bits_that_were_asked_for_is_said(self):
        """Once, and not for what has the same bits in any order."""
        said = "SYMM_NCCL_MODE=deterministic: a sum of 2 ranks goes to NCCL"
        for mode, calls, times in (
            ("deterministic", "(4, 0), (7, 2), (7, 3)", 0),
            ("deterministic", "(7, 0), (9, 4), (7, 0)", 1),
            ("fast", "(7, 0)", 0),
        ):
            process = start(
                f"""
shim.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                               ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
comm = init(new_id(), 2, 0)
for type, op in [{calls}]:
    assert shim.ncclAllReduce(1, 2, 3, type, op, comm, None) > 1000
os._exit(0)
""",
                SYMM_NCCL_MODE=mode,
                SYMM_NCCL_OPS="none",
            )
            out, err = process.communicate(timeout=60)
            self.assertEqual([process.returncode, err.count(said)], [0, times], err)

    def test_generated_calls_are_chosen_alike(self):
        """Ranks make the same calls by chance, each with memory, streams and groups of its own:
        they choose alike, and in the same order for a communicator.
        """
        program = """
import random
alike, own = random.Random(SEED), random.Random(rank)
comms = [comm]
for number in range(2):
    child = ctypes.c_void_p()
    assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None) == 0
    comms.append(child)
assert watched(3)
chosen = []
for _ in range(150):
    one = alike.choice(comms)
    count, type, op = alike.choice((0, 1, 7, 4096)), alike.randrange(13), alike.randrange(6)
    captured = alike.random() < 0.2
    on = own.choice((stream, other_stream))
    target = own.choice((recv, send, recv + 4096))
    grouped = own.random() < 0.3
    noted("launches")
    before = calls.value
    if captured:
        notes.notes_begin_capture(on)
    if grouped:
        assert shim.ncclGroupStart() == 0
    result = shim.ncclAllReduce(send, target, count, type, op, one, on)
    if grouped:
        end = shim.ncclGroupEnd()
    if captured:
        notes.notes_end_capture(on)
    # A call that went to NCCL at the end of a group has its number there.
    forwarded = calls.value - before
    launched = any(k.startswith("symm_") and int(s) == on for k, s in noted("launches"))
    assert forwarded + launched == 1, (forwarded, launched, result)
    chosen.append(launched)
answer([chosen, noted("violations")])
sys.stdin.readline()
"""
        for seed in range(4):
            comms = "*" if seed % 2 else ""
            ranks = self.cuda_ranks(2, program.replace("SEED", str(seed)), SYMM_NCCL_COMMS=comms)
            first, second = self.finished(ranks)
            self.assertEqual(first, second)
            self.assertEqual(first[1], [])
            self.assertIn(True, first[0])
            self.assertIn(False, first[0])


# Behind CUDA_RANK: calls with configurations of a collective.
CONFIGURED = """
CONFIGURED = [name for name in COLLECTIVES if name != "Bcast"]
UNDEFINED, EVENT = 0x80000000, 64
def collective_config(size=72, magic=0xcafebeef, ext=0, ctas=[UNDEFINED] * 4, algorithms=None,
                      force=1, policy=UNDEFINED, tag=0, event=0):
    text = ctypes.create_string_buffer(algorithms) if algorithms is not None else None
    words = [(size, 8), (magic, 4), (23200, 4), (ext, 8), *[(value, 4) for value in ctas],
             (ctypes.addressof(text) if text else 0, 8), (force, 4), (policy, 4), (tag, 8),
             (event, 8)]
    made = ctypes.create_string_buffer(b"".join(v.to_bytes(n, "little") for v, n in words), 72)
    made.text = text
    return made
def one_of(number, value):
    return [value if i == number else UNDEFINED for i in range(4)]
# What asks for nothing, then what would tune NCCL, then what is no configuration, and at last what
# only NCCL has.
NOTHING = [None, collective_config(), collective_config(tag=7), collective_config(size=64, event=9),
           collective_config(algorithms=b"")]
TUNING = [*[collective_config(ctas=one_of(n, 2)) for n in range(4)],
          collective_config(policy=2), collective_config(algorithms=b"ring", force=0)]
WRONG = [collective_config(size=63), collective_config(magic=1), collective_config(force=2)]
NEEDING = [collective_config(algorithms=b"ring"), collective_config(event=EVENT)]
DEMANDS = NOTHING + TUNING + WRONG + NEEDING
def configured(name, config, of=None, count=16):
    shape = getattr(shim, "nccl" + name).argtypes
    call = getattr(shim, f"nccl{name}Config")
    call.argtypes = [*shape, ctypes.c_void_p]
    noted("launches")
    own = [SUM] * (name in REDUCTIONS) + [0] * (name in ROOTED)
    before = calls.value
    result = call(send, recv, count, FLOAT, *own, of or comm, stream, config)
    return who(result, before)
"""


# What a client without NCCL is told, and the cure.
CURE = "install it, or name its libnccl.so.2 in SYMM_NCCL"


class Alone(CudaRanks):
    """No NCCL: the drop-in serves by itself. The fake driver notes which kernels are launched."""

    def alone(self, size, program, each=(), **environment):
        return self.cuda_ranks(size, program, each, SYMM_NCCL="none", **environment)

    def test_says_what_it_is(self):
        """The last version without windows; the marker has no NCCL to give, and ids are drawn."""
        got = run(
            """
version = ctypes.c_int()
ids = {bytes(new_id().bytes) for _ in range(8)}
print(json.dumps([shim.ncclGetVersion(ctypes.byref(version)), version.value, len(ids),
                  shim.symm_nccl_marker(), shim.ncclGetErrorString(5).decode(),
                  shim.ncclGetErrorString(0).decode(), shim.ncclGetLastError(None).decode()]))
""",
            "none",
            SYMM_NCCL_LOG=str(self.log),
        )
        self.assertEqual(got, [0, 22605, 8, 0, "invalid usage", "no error", ""])
        self.assertIn("symm serves by itself, as NCCL 2.26.5: SYMM_NCCL=none", self.log.read_text())

    def test_all_types_operations_and_sizes(self):
        """There is no table of sizes, for any number of ranks; a count of 0 is nothing to do."""
        ranks = self.alone(
            3,
            """
place_on(rank)
wrong = []
def expect(what, got, expected):
    if got != expected:
        wrong.append([what, got, expected])
# Larger than what symm takes beside NCCL.
large_send, large_recv = notes.notes_memory(1 << 26), notes.notes_memory(1 << 26)
for type in range(12):
    for op in range(5):
        for count in (1, 1000):
            expect([type, op, count], all_reduce(count, type, op, recv), "symm")
for name in COLLECTIVES:
    expect(name, [call(name, 16, type, root=2) for type in range(12)], ["symm"] * 12)
    large = {"source": large_send, "to": large_recv}
    expect([name, "large"], call(name, 1 << 22, **large), "symm")
    expect([name, "none"], call(name, 0), "nobody")
    expect([name, "type"], call(name, type=12), "error 4")
    expect([name, "type"], "no data type is 12" in sentence(), True)
    expect([name, "count"], call(name, 1 << 62), "error 4")
    if name in ROOTED:
        expect([name, "root"], [call(name, root=3), call(name, root=-1)], ["error 4"] * 2)
        expect([name, "root"], "root -1 of 3 ranks" in sentence(), True)
    if name in REDUCTIONS:
        expect([name, "op"], [call(name, op=5), call(name, 0, op=5)], ["error 4"] * 2)
expect("well", [async_error(comm), noted("violations")], [0, []])
answer(wrong)
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[]] * 3)

    def test_one_rank(self):
        """As a program on one GPU has it: every call has its kernel or copy, and no other rank."""
        ranks = self.alone(
            1,
            """
results = [do(name)[0] for name in COLLECTIVES]
child = ctypes.c_void_p()
results.append(shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None))
results += [do("AllReduce", of=child)[0], shim.ncclCommDestroy(child)]
answer([results, number("ncclCommCount", comm), noted("violations")])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[0] * 12, 1, []]])

    def test_groups_and_captures_without_a_call_before(self):
        """What is captured first is captured by symm: there is nobody else."""
        ranks = self.alone(
            2,
            """
got = []
for name in COLLECTIVES:
    notes.notes_begin_capture(stream)
    notes.notes_join(other_stream, stream)
    got.append([call(name), call(name, on=other_stream)])
    notes.notes_end_capture(stream)
for turn in range(3000):
    notes.notes_begin_capture(stream)
    assert all_reduce() == "symm"
    notes.notes_end_capture(stream)
def kernels():
    return len({int(s) for k, s in noted("launches") if k.startswith("symm_")})
for name in COLLECTIVES:
    kernels()
    assert shim.ncclGroupStart() == 0
    assert shim.ncclGroupStart() == 0
    results = [do(name)[0], do(name, on=other_stream)[0]]
    results.append(shim.ncclGroupEnd())
    early = kernels()
    results.append(shim.ncclGroupEnd())
    got.append([results, early, kernels()])
got.append(shim.ncclGroupEnd())
answer([got, noted("violations")])
sys.stdin.readline()
""",
        )
        expected = [["symm"] * 2] * 9 + [[[0] * 4, 0, 2]] * 9 + [5]
        self.assertEqual(self.finished(ranks), [[expected, []]] * 2)

    def test_an_own_sum(self):
        ranks = self.alone(
            2,
            """
wrong = []
halves = {6: "0038", 7: "0000003f", 9: "003f", 10: "30", 11: "38"}
for type, half in halves.items():
    op = pre_mul_sum(bytes.fromhex(half), type, 1 - rank)
    noted("factors")
    got = [call(name, 8, type, op) for name in REDUCTIONS]
    factors = [float(text) for [text] in noted("factors")]
    got += [shim.ncclRedOpDestroy(op, comm), shim.ncclRedOpDestroy(op, comm)]
    if [got, factors] != [["symm"] * 3 + [0, 4], [0.5] * 3]:
        wrong.append([type, got, factors])
    if call("AllReduce", 8, type, op) != "error 4":
        wrong.append([type, "destroyed"])
op = ctypes.c_int()
for type in (0, 5, 8):
    scalar = ctypes.create_string_buffer(8)
    result = shim.ncclRedOpCreatePreMulSum(ctypes.byref(op), scalar, type, 1, comm)
    if result != 5 or "a factor of integers or of f64 needs NCCL" not in sentence():
        wrong.append([type, result, sentence()])
answer([wrong, noted("violations")])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[], []]] * 2)

    def test_calls_on_what_is_in_progress_are_refused(self):
        """Until the program has been told that it is complete, whether it is or not; what was
        refused leaves nothing behind.
        """
        ranks = self.alone(
            2,
            """
id = Id.from_buffer_copy(bytes.fromhex(os.environ["SECOND_ID"]))
made, op, two = ctypes.c_void_p(), ctypes.c_int(), (ctypes.c_float * 1)(2)
if rank == 1:
    time.sleep(0.5)
got = [shim.ncclCommInitRankConfig(ctypes.byref(made), 2, id, rank, config_of(0))]
wrong = []
def refused(what, result):
    if result not in (4, "error 4") or " in progress" not in sentence():
        wrong.append([what, result, sentence()])
until = time.monotonic() + 1.5
while time.monotonic() < until:
    refused("op", shim.ncclRedOpCreatePreMulSum(ctypes.byref(op), two, FLOAT, 1, made))
    refused("sum", all_reduce(of=made))
    refused("send", shim.ncclSend(send, 1, FLOAT, 1 - rank, made, stream))
    refused("receive", shim.ncclRecv(recv, 1, FLOAT, 1 - rank, made, stream))
    time.sleep(0.05)
settle(made)
op = pre_mul_sum(bytes(two), FLOAT, of=made)
answer([*got, wrong[:3], all_reduce(of=made), all_reduce(of=made, op=op)])
sys.stdin.readline()
""",
            SECOND_ID=self.id_of_another("none"),
        )
        self.assertEqual(self.finished(ranks), [[7, [], "symm", "symm"]] * 2)

    def test_children(self):
        """By color and key, with a rank that has none, in a group of calls, of children, and by a
        shrink; each tells its numbers.
        """
        ranks = self.alone(
            4,
            """
def told(one):
    return [number(f"ncclComm{name}", one) for name in ("Count", "UserRank", "CuDevice")]
def split(parent, color, key):
    made = ctypes.c_void_p(5)
    assert shim.ncclCommSplit(parent, color, key, ctypes.byref(made), None) == 0, sentence()
    return made
got = [told(comm)]
# The ranks 3, 2, 1 in this order.
child = split(comm, -1 if rank == 0 else 7, -rank)
got.append(None if child.value is None else told(child))
# Two children of one parent in a group of calls, and one of another.
pair, whole = ctypes.c_void_p(), ctypes.c_void_p()
assert shim.ncclGroupStart() == 0
assert shim.ncclCommSplit(comm, rank // 2, 0, ctypes.byref(pair), None) == 0
assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(whole), None) == 0
assert [pair.value, whole.value] == [None] * 2
assert shim.ncclGroupEnd() == 0, sentence()
got += [told(pair), told(whole)]
fewer = ctypes.c_void_p()
left_out = (ctypes.c_int * 2)(3, 1)
if rank in (0, 2):
    result = shim.ncclCommShrink(comm, left_out, 2, ctypes.byref(fewer), None, 0)
    assert result == 0, sentence()
    got.append(told(fewer))
own = (ctypes.c_int * 1)(rank)
got.append(shim.ncclCommShrink(comm, own, 1, ctypes.byref(ctypes.c_void_p()), None, 0))
comms = [one for one in (comm, child, pair, whole, fewer) if one.value]
got.append({all_reduce(of=one) for one in comms} == {"symm"})
got += [{shim.ncclCommDestroy(one) for one in comms}  == {0}]
got += [{shim.ncclCommDestroy(one) for one in comms}  == {4}]
answer([got, noted("violations")])
sys.stdin.readline()
""",
        )
        answers = self.finished(ranks)
        for rank, (got, violations) in enumerate(answers):
            expected = [[4, rank, 0], None if rank == 0 else [3, 3 - rank, 0]]
            expected += [[2, rank % 2, 0], [4, rank, 0]]
            expected += [[2, rank // 2, 0]] if rank in (0, 2) else []
            self.assertEqual([got, violations], [[*expected, 4, True, True, True], []])

    def test_splits_of_a_group_that_one_rank_is_refused_do_not_count(self):
        ranks = self.alone(
            2,
            """
no_wait = ctypes.create_string_buffer(config_of(0))
refused = 4
if rank == 0:
    children = [ctypes.c_void_p(), ctypes.c_void_p()]
    assert shim.ncclGroupStart() == 0
    for child, config in zip(children, (None, no_wait)):
        assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), config) == 0
    refused = shim.ncclGroupEnd()
child = ctypes.c_void_p()
result = shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None)
answer([refused, result, all_reduce(of=child) if result == 0 else sentence()])
sys.stdin.readline()
""",
            SYMM_NCCL_TIMEOUT_MS="10000",
        )
        self.assertEqual(self.finished(ranks), [[4, 0, "symm"]] * 2)

    def test_what_does_not_block(self):
        """It is in progress until all ranks are there, and its parent until its children are."""
        ranks = self.alone(
            2,
            """
config = config_of(0)
id = Id.from_buffer_copy(bytes.fromhex(os.environ["SECOND_ID"]))
made, child, fewer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
if rank == 1:
    time.sleep(1)
began = time.monotonic()
got = [shim.ncclCommInitRankConfig(ctypes.byref(made), 2, id, rank, config), bool(made.value)]
got.append(rank == 1 or async_error(made) == 7)
got.append(time.monotonic() - began < 0.9)
settle(made)
got += [async_error(made), all_reduce(of=made)]
got.append(shim.ncclCommSplit(made, 0, 0, ctypes.byref(child), config))
settle(made)
got += [async_error(child), all_reduce(of=child)]
got.append(shim.ncclCommShrink(made, None, 0, ctypes.byref(fewer), config, 0))
settle(made)
got += [async_error(fewer), all_reduce(of=fewer)]
# In a group of calls.
grouped = ctypes.c_void_p()
assert shim.ncclGroupStart() == 0
got.append(shim.ncclCommSplit(made, 0, 0, ctypes.byref(grouped), config))
got.append(shim.ncclGroupEnd())
settle(made)
got += [async_error(grouped), all_reduce(of=grouped)]
notes.notes_hold(stream)
got += [all_reduce(of=child), shim.ncclCommFinalize(child), async_error(child)]
notes.notes_let_go()
settle(child)
got += [shim.ncclCommDestroy(one) for one in (child, grouped, fewer, made)]
answer([got, noted("violations")])
sys.stdin.readline()
""",
            SECOND_ID=self.id_of_another("none"),
        )
        expected = [7, True, True, True, 0, "symm", 7, 0, "symm", 7, 0, "symm", 0, 7, 0, "symm"]
        expected += ["symm", 7, 7, 0, 0, 0, 0]
        self.assertEqual(self.finished(ranks), [[expected, []]] * 2)

    def test_a_group_of_calls_that_block_and_that_do_not_is_refused(self):
        """As by NCCL. Children of one parent would be made in no order."""
        ranks = self.alone(
            2,
            """
first, second, whole = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
got = []
for blocking in (1, 0):
    assert shim.ncclGroupStart() == 0
    made = [shim.ncclCommSplit(comm, rank, 0, ctypes.byref(first), config_of(blocking)),
            shim.ncclCommSplit(comm, 0, 0, ctypes.byref(second), config_of(1 - blocking))]
    got += [made, shim.ncclGroupEnd(), "all block, or none does" in sentence()]
    got.append([first.value, second.value])
got += [async_error(comm), shim.ncclCommSplit(comm, 0, 0, ctypes.byref(whole), None)]
answer([*got, number("ncclCommCount", whole), all_reduce(of=whole), all_reduce()])
sys.stdin.readline()
""",
        )
        refused = [[0, 0], 4, True, [None, None]]
        self.assertEqual(self.finished(ranks), [[*refused, *refused, 0, 0, 2, "symm", "symm"]] * 2)

    def test_several_devices_of_a_process(self):
        ranks = self.alone(
            1,
            """
on = [stream, other_stream]
def launched():
    return {int(s) for k, s in noted("launches") if k.startswith("symm_")}
def init_all():
    comms = (ctypes.c_void_p * 2)()
    assert shim.ncclCommInitAll(comms, 2, (ctypes.c_int * 2)(1, 0)) == 0, sentence()
    return [ctypes.c_void_p(one) for one in comms]
def in_a_group_of_calls():
    id, comms = new_id(), [ctypes.c_void_p(), ctypes.c_void_p()]
    assert shim.ncclGroupStart() == 0
    for number_of, one in enumerate(comms):
        place_on(1 - number_of)
        assert shim.ncclCommInitRank(ctypes.byref(one), 2, id, number_of) == 0
    assert shim.ncclGroupEnd() == 0, sentence()
    return comms
wrong = []
for make in (init_all, in_a_group_of_calls):
    comms = make()
    devices = [number("ncclCommCuDevice", one) for one in comms]
    launched()
    assert shim.ncclGroupStart() == 0
    results = [do("AllReduce", of=one, on=where)[0] for one, where in zip(comms, on)]
    results += [shim.ncclGroupEnd(), launched() == set(on)]
    children = [ctypes.c_void_p(), ctypes.c_void_p()]
    assert shim.ncclGroupStart() == 0
    for one, child in zip(comms, children):
        assert shim.ncclCommSplit(one, 0, 0, ctypes.byref(child), None) == 0
    results += [shim.ncclGroupEnd(), *[number("ncclCommCount", child) for child in children]]
    results += [shim.ncclCommDestroy(one) for one in (*children, *comms)]
    if [devices, results] != [[1, 0], [0, 0, 0, True, 0, 2, 2, 0, 0, 0, 0]]:
        wrong.append([make.__name__, devices, results])
answer([wrong, noted("violations")])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[], []]])

    def test_messages_between_devices_of_a_process(self):
        """Of one thread, in one group of calls, in whatever order it names its communicators: the
        messages of each are one kernel, so that none waits for what is behind it.
        """
        ranks = self.alone(
            1,
            """
on, INT = [stream, other_stream], 2
comms = (ctypes.c_void_p * 2)()
assert shim.ncclCommInitAll(comms, 2, (ctypes.c_int * 2)(1, 0)) == 0, sentence()
def sends(mine):
    at = send + 4096 * mine
    return shim.ncclSend(at, 10, INT, 1 - mine, comms[mine], on[mine])
def receives(mine):
    at = recv + 4096 * mine
    return shim.ncclRecv(at, 10, INT, 1 - mine, comms[mine], on[mine])
def ints(at):
    return (ctypes.c_int * 10).from_address(at)
def come():
    until = time.monotonic() + 20
    while not (notes.notes_idle(stream) and notes.notes_idle(other_stream)):
        if time.monotonic() > until:
            return "under way for 20 s"
        time.sleep(0.001)
    return [ints(recv + 4096 * mine)[0] for mine in (0, 1)]
got = []
for turn, order in enumerate((
    (sends, 0, receives, 0, sends, 1, receives, 1),
    (sends, 0, sends, 1, receives, 0, receives, 1),
    (receives, 1, sends, 0, receives, 0, sends, 1),
)):
    for mine in (0, 1):
        ints(send + 4096 * mine)[:] = [100 * turn + mine] * 10
    noted("launches")
    assert shim.ncclGroupStart() == 0
    results = [side(mine) for side, mine in zip(order[::2], order[1::2])]
    results.append(shim.ncclGroupEnd())
    launched = sorted(int(s) for k, s in noted("launches") if k == "symm_pass_messages")
    got.append([results, launched == sorted(on), come()])
answer([got, noted("violations")])
sys.stdin.readline()
os._exit(0)
""",
        )
        expected = [[[0] * 5, True, [100 * turn + 1, 100 * turn]] for turn in range(3)]
        self.assertEqual(self.finished(ranks), [[expected, []]])

    def test_memory_and_windows(self):
        """ncclMemAlloc() gives memory that ranks can share, and a window of it is mapped by the
        others; a registration changes nothing.
        """
        ranks = self.alone(
            2,
            """
MEGA = 1 << 20
shim.ncclMemAlloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
shim.ncclMemFree.argtypes = [ctypes.c_void_p]
shim.ncclCommRegister.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_void_p]
shim.ncclCommDeregister.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
shim.ncclCommWindowRegister.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                        ctypes.c_void_p, ctypes.c_int]
shim.ncclCommWindowDeregister.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
shim.ncclWinGetUserPtr.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
before = notes.notes_mappings()
memory, handle, window, user = [ctypes.c_void_p() for _ in range(4)]
got = [shim.ncclMemAlloc(ctypes.byref(memory), 4 * MEGA - 5), notes.notes_mappings() - before]
got.append(shim.ncclCommRegister(comm, memory, MEGA, ctypes.byref(handle)))
got.append(all_reduce(source=memory.value, to=recv))
got += [notes.notes_mappings() - before, shim.ncclCommDeregister(comm, handle)]
mine = notes.notes_mappings()
got.append(shim.ncclCommWindowRegister(comm, memory, 4 * MEGA, ctypes.byref(window), 0))
got += [shim.ncclWinGetUserPtr(comm, window, ctypes.byref(user)), user.value == memory.value]
got += [all_reduce(source=memory.value, to=memory.value + MEGA), notes.notes_mappings() > mine]
got.append(shim.ncclCommWindowDeregister(comm, window))
got.append(shim.ncclCommWindowDeregister(comm, window))
got += [notes.notes_mappings() - mine, shim.ncclMemFree(memory), shim.ncclMemFree(memory)]
got += [notes.notes_mappings() - before, shim.ncclMemFree(None)]
got += [shim.ncclMemAlloc(ctypes.byref(memory), 0), memory.value]
got += [shim.ncclMemAlloc(ctypes.byref(memory), 1 << 60), memory.value]
got.append("has not given 1152921504606846976 bytes" in sentence())
answer([got, noted("violations")])
sys.stdin.readline()
""",
        )
        expected = [0, 1, 0, "symm", 1, 0, 0, 0, True, "symm", True, 0, 4, 0, 0, 4, 0, 0, 0, None]
        self.assertEqual(self.finished(ranks), [[[*expected, 1, None, True], []]] * 2)
        self.assertEqual(self.log.read_text().count("bytes is symmetric memory"), 2)

    def test_what_needs_nccl_says_so(self):
        """Each of these is refused at once, with the cure, and the communicator stays well."""
        ranks = self.alone(
            2,
            f"CURE = {CURE!r}\n"
            """
unknown = ctypes.c_void_p()
said = []
def refused(name, *arguments):
    result = getattr(shim, name)(*arguments)
    said.append([name, result, sentence()])
for name in ("ncclPutSignal", "ncclSignal", "ncclWaitSignal", "ncclCommGrow", "ncclCommSuspend",
             "ncclDevCommCreate", "pncclCommGetUniqueId", "ncclParamGet", "ncclCommMemStats"):
    refused(name, None, 0, None, 0, None, None)
assert shim.ncclGroupStart() == 0
refused("ncclGroupSimulateEnd", None)
refused("ncclCommInitRank", ctypes.byref(unknown), 17, new_id(), 0)
elsewhere = new_id()
elsewhere.bytes[104] ^= 1
refused("ncclCommInitRank", ctypes.byref(unknown), 2, elsewhere, 0)
wrong = [one for one in said if one[1] != 5 or " needs NCCL, and this process has none" not in
         one[2] or CURE not in one[2]]
answer([wrong, len(said), unknown.value, all_reduce(), async_error(comm)])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[], 12, None, "symm", 0]] * 2)

    def test_sends_and_receives_go_by_symm(self):
        """They need neither SYMM_NCCL_OPS nor a collective before."""
        ranks = self.alone(
            2,
            """
there = (ctypes.c_float * 1000).from_address(send)
here = (ctypes.c_float * 1000).from_address(recv)
there[:] = [1000 * rank + i for i in range(1000)]
noted("launches")
assert shim.ncclGroupStart() == 0
assert shim.ncclSend(send, 1000, FLOAT, 1 - rank, comm, stream) == 0
assert shim.ncclRecv(recv, 1000, FLOAT, 1 - rank, comm, stream) == 0
assert shim.ncclGroupEnd() == 0
until = time.monotonic() + 60
while not notes.notes_idle(stream):
    assert time.monotonic() < until, "the message is under way for 60 s"
    time.sleep(0.001)
kernels = [k for k, s in noted("launches")]
answer([here[:] == [1000 * (1 - rank) + i for i in range(1000)], kernels, async_error(comm)])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[True, ["symm_pass_messages"], 0]] * 2)

    def test_more_messages_than_progress_together_are_refused(self):
        """With the limit, before anything of the group of calls is issued."""
        ranks = self.alone(
            2,
            """
INT, got = 2, []
there = (ctypes.c_int * 513).from_address(send)
here = (ctypes.c_int * 513).from_address(recv)
there[:] = [1000 * rank + i for i in range(513)]
assert all_reduce() == "symm"
for count in (513, 512):
    noted("launches")
    assert shim.ncclGroupStart() == 0
    results = {do("AllReduce", to=recv + 8192)[0]}
    for i in range(count):
        results.add(shim.ncclSend(send + 4 * i, 1, INT, 1 - rank, comm, stream))
        results.add(shim.ncclRecv(recv + 4 * i, 1, INT, 1 - rank, comm, stream))
    got += [list(results), shim.ncclGroupEnd()]
    kernels = [k for k, s in noted("launches")]
    got.append([kernels.count("symm_pass_messages"), kernels != []])
    got.append("1026 messages" in sentence() and "at most 1024" in sentence())
    got.append(async_error(comm))
until = time.monotonic() + 60
while not notes.notes_idle(stream):
    assert time.monotonic() < until, "the messages are under way for 60 s"
    time.sleep(0.001)
got.append(here[:512] == [1000 * (1 - rank) + i for i in range(512)])
answer([got, all_reduce(), noted("violations")])
sys.stdin.readline()
""",
        )
        got = [[0], 5, [0, False], True, 0, [0], 0, [1, True], True, 0, True]
        self.assertEqual(self.finished(ranks), [[got, "symm", []]] * 2)

    def test_wrong_arguments_are_named(self):
        ranks = self.alone(
            2,
            """
place = ctypes.byref(ctypes.c_void_p())
wrong = []
def refused(expected, words, name, *arguments):
    result = getattr(shim, name)(*arguments)
    if result != expected or words not in sentence():
        wrong.append([name, result, sentence()])
damaged = new_id()
damaged.bytes[100] ^= 1
refused(4, "rank 2 of 2 ranks", "ncclCommInitRank", place, 2, new_id(), 2)
refused(4, "rank 0 of 0 ranks", "ncclCommInitRank", place, 0, new_id(), 0)
refused(4, "no place", "ncclCommInitRank", None, 2, new_id(), 0)
refused(5, "the unique id is damaged", "ncclCommInitRank", place, 2, damaged, 0)
for name in ("ncclCommDestroy", "ncclCommAbort", "ncclCommFinalize"):
    refused(4, name + ": this is no communicator", name, 64)
wrong += [name for name in ("ncclCommDestroy", "ncclCommAbort") if getattr(shim, name)(None)]
refused(4, "ncclCommSplit: this is no", "ncclCommSplit", 64, 0, 0, place, None)
refused(4, "a collective: this is no", "ncclAllReduce", send, recv, 1, FLOAT, SUM, 64, stream)
for name in ("ncclSend", "ncclRecv"):
    refused(4, name + ": this is no communicator", name, send, 1, FLOAT, 0, 64, stream)
    for peer in (-1, 2):
        refused(4, f"{name}: peer {peer} of 2 ranks", name, send, 1, FLOAT, peer, comm, stream)
    for type in (-1, 12):
        refused(4, f"{name}: no data type is {type}", name, send, 1, type, 0, comm, stream)
    refused(4, f"{name}: count {1 << 62} is more than memory has addresses", name, send, 1 << 62,
            FLOAT, 0, comm, stream)
for count in (1, 2):
    ranks_left_out = (ctypes.c_int * 2)(2, 0)
    refused(4, "none of the communicator's", "ncclCommShrink", comm, ranks_left_out, count, place,
            None, 0)
answer([wrong, all_reduce()])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.finished(ranks), [[[], "symm"]] * 2)

    def test_configurations_of_collectives(self):
        """What would tune NCCL has no meaning; an algorithm, or an event, is refused."""
        ranks = self.alone(
            2,
            CONFIGURED
            + """
got = []
for demand in DEMANDS:
    got.append([configured(name, demand) for name in CONFIGURED])
got.append("launchCompletionEvent needs NCCL" in sentence())
answer([got, noted("violations")])
sys.stdin.readline()
""",
        )
        rows = ["symm"] * 11 + ["error 4"] * 3 + ["error 5"] * 2
        self.assertEqual(self.finished(ranks), [[[[row] * 8 for row in rows] + [True], []]] * 2)

    def test_variables_that_leave_calls_to_nccl(self):
        """They are refused, rather than done by a library that the user has excluded."""
        for environment, expected, words in (
            (
                {"SYMM_NCCL_OPS": "allgather"},
                "error 5",
                "ncclAllReduce, which SYMM_NCCL_OPS=allgather leaves to NCCL, needs NCCL",
            ),
            (
                {"SYMM_NCCL_OPS": "allreduc"},
                "error 5",
                "ncclAllReduce: SYMM_NCCL_OPS=allreduc: allreduc is not a collective; until",
            ),
            (
                {"SYMM_NCCL_MODE": "determinstic"},
                "error 5",
                "ncclAllReduce: SYMM_NCCL_MODE=determinstic: this is none of fast, deterministic",
            ),
            ({"SYMM_NCCL_OPS": "allreduce"}, "symm", ""),
            ({"SYMM_NCCL_MODE": "deterministic"}, "symm", ""),
            ({"SYMM_NCCL_COMMS": "*"}, "symm", ""),
        ):
            ranks = self.alone(
                2, "answer([all_reduce(), sentence()])\nsys.stdin.readline()\n", **environment
            )
            for got, said in self.finished(ranks):
                self.assertEqual(got, expected, environment)
                self.assertIn(words, said)

    def test_ranks_that_cannot_agree_all_fail(self):
        """By other settings, or a name that is left to NCCL: at once, and each is told why."""
        for each, words in (
            ([{"SYMM_NCCL_MODE": "deterministic"}], "has other values of SYMM_NCCL_MODE"),
            ([{"SYMM_NCCL_TIMEOUT_MS": "5000"}], "has other values of SYMM_NCCL_MODE"),
            ([{"SYMM_NCCL_COMMS": "tp*"}] * 2, "SYMM_NCCL_COMMS leaves it to NCCL"),
        ):
            for result, said, _ in self.failed_inits(each, SYMM_NCCL="none"):
                self.assertEqual(result, 5)
                self.assertIn(words, said)

    def failed_inits(self, each, program="", nccl=(None, None), **environment):
        """What two ranks are told whose communicator cannot be made, and how long that took."""
        fakes = BUILD / "tests/fake_cuda"
        source = """
rank = int(os.environ["TEST_RANK"])
if rank == 0:
    id = new_id()
    print(bytes(id.bytes).hex(), flush=True)
else:
    id = Id((ctypes.c_ubyte * 128)(*bytes.fromhex(os.environ["TEST_ID"])))
sys.stdin.readline()
comm = ctypes.c_void_p()
config = None
# As a program has chosen its device.
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank) == 0
assert cuda.cuCtxSetCurrent(context) == 0
if "TEST_PENDING" in os.environ:
    head = [(24, 8), (0xcafebeef, 4), (23000, 4), (0, 4), (0, 4)]
    config = b"".join(value.to_bytes(size, "little") for value, size in head)
began = time.monotonic()
result = shim.ncclCommInitRankConfig(ctypes.byref(comm), 2, id, rank, config)
while result == 7:
    time.sleep(0.001)
    result = async_error(comm)
took = time.monotonic() - began
# As a watchdog, which asks again and again.
again = {async_error(comm) for _ in range(5)} if comm.value else {result}
assert again == {result}, again
print(json.dumps([result, shim.ncclGetLastError(None).decode(), took]),
      flush=True)
sys.stdin.readline()
os._exit(0)
"""
        environment = {
            "LD_LIBRARY_PATH": f"{fakes / 'symm'}:{fakes / 'lib'}",
            "SYMM_BACKEND": "cuda",
            "SYMM_NCCL_LOG": str(self.log),
            "XDG_RUNTIME_DIR": str(self.runtime),
            **environment,
        }
        each = [*each, *[{}] * (2 - len(each))]
        ranks = [start(source, TEST_RANK="0", **{**environment, **each[0]})]
        environment["TEST_ID"] = ranks[0].stdout.readline().strip()
        ranks.append(start(source, TEST_RANK="1", **{**environment, **each[1]}))
        for process in ranks:
            self.addCleanup(self.end, process)
        order = (1, 0) if environment.get("TEST_SECOND_FIRST") else (0, 1)
        answers = [None, None]
        for number in order:
            self.go_on([ranks[number]])
            if number == 1 and environment.get("TEST_SECOND_ENDS"):
                answers[1] = json.loads(ranks[1].stdout.readline())
            time.sleep(0.3)
        for number, process in enumerate(ranks):
            answers[number] = answers[number] or json.loads(process.stdout.readline())
        for process, (_, _, took) in zip(ranks, answers):
            self.assertLess(took, 30)
            self.go_on([process])
        self.pids = [process.pid for process in ranks]
        return answers

    def test_a_rank_with_nccl_and_one_without(self):
        """Whoever has made the id, whoever comes first, and whether the calls block or not."""
        with_nccl = {"SYMM_NCCL": str(NEWEST), "FAKE_NCCL": "waits"}
        without = {"SYMM_NCCL": "none"}
        remedy = "has none (SYMM_NCCL=none): have it on all ranks, or set SYMM_NCCL=none on all"
        for pending in ({}, {"TEST_PENDING": "1"}):
            for late in ({}, {"TEST_SECOND_FIRST": "1"}):
                for each in ([without, with_nccl], [with_nccl, without]):
                    answers = self.failed_inits(each, **pending, **late)
                    told = [answers[each.index(one)] for one in (with_nccl, without)]
                    for result, said, _ in told:
                        self.assertEqual(result, 5, [each, pending, late, answers])
                        self.assertIn("NCCL", said)
                    if each[0] is with_nccl:
                        sentence = f"rank 1 (pid {self.pids[1]}) has no NCCL"
                        self.assertIn(sentence, told[0][1])
                        self.assertEqual(self.log.read_text().count(sentence), 1)
                        self.assertIn("was not made by a process without NCCL", told[1][1])
                    else:
                        self.assertIn("the unique id was made by a process without", told[0][1])
                        self.assertIn(f"rank 1 has NCCL and this one {remedy}", told[1][1])

    def test_a_rank_that_comes_late_is_told_of_one_with_nccl(self):
        """That one has given up by then, and has left word."""
        for pending in ({}, {"TEST_PENDING": "1"}):
            answers = self.failed_inits(
                [{"SYMM_NCCL": "none"}, {"SYMM_NCCL": str(NEWEST)}],
                TEST_SECOND_FIRST="1",
                TEST_SECOND_ENDS="1",
                SYMM_NCCL_TIMEOUT_MS="20000",
                **pending,
            )
            (result, said, took), (other, _, _) = answers
            self.assertEqual([result, other], [5, 5], answers)
            self.assertIn(f"rank 1 (pid {self.pids[1]}) has NCCL and this one has none", said)
            self.assertLess(took, 10)

    def test_what_nccl_has_been_lent_is_there_when_the_caller_has_gone_on(self):
        """NCCL's thread waits on after a rank without NCCL has come; the caller's configuration,
        names and ids have another use then.
        """
        environment = {
            "LD_LIBRARY_PATH": "{0}/symm:{0}/lib".format(BUILD / "tests/fake_cuda"),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        for call in ("config", "scalable"):
            with_nccl = start(
                CUDA_RANK
                + """
ids = (Id * 2)(new_id(), new_id())
kept = bytes(ids)
print(kept[:128].hex(), flush=True)
place_on(1)
shim.ncclCommInitRankScalable.argtypes = [
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
names = [ctypes.create_string_buffer(text) for text in (b"the network", b"the name")]
network, name = [ctypes.addressof(one).to_bytes(8, "little") for one in names]
head = [(96, 8), (0xcafebeef, 4), (23000, 4), (1, 4), (7, 4), (8, 4), (9, 4)]
head = b"".join(value.to_bytes(size, "little") for value, size in head)
body = head + network + bytes(8) + name + bytes(range(40))
config = ctypes.create_string_buffer(body, len(body))
comm = ctypes.c_void_p()
if os.environ["CALL"] == "config":
    result = shim.ncclCommInitRankConfig(ctypes.byref(comm), 2, ids[0], 1, config)
else:
    result = shim.ncclCommInitRankScalable(ctypes.byref(comm), 2, 1, 2, ids, config)
for one in (config, *names, ids):
    ctypes.memset(one, 0x55, ctypes.sizeof(one))
at = ctypes.c_void_p.in_dll(fake(), "fake_config").value
seen = ctypes.string_at(at, 96)
texts = [ctypes.string_at(int.from_bytes(seen[o:o + 8], "little")).decode() for o in (32, 48)]
same = seen[:32] + seen[40:48] + seen[56:] == body[:32] + body[40:48] + body[56:]
seen_ids = ctypes.c_void_p.in_dll(fake(), "fake_ids").value
answer([result, comm.value, same, texts,
        seen_ids is None or ctypes.string_at(seen_ids, 256) == kept, sentence()])
os._exit(0)
""",
                CALL=call,
                FAKE_NCCL="waits",
                **environment,
            )
            unique = with_nccl.stdout.readline().strip()
            without = run(
                """
time.sleep(0.5)
id, comm = Id.from_buffer_copy(bytes.fromhex(os.environ["THE_ID"])), ctypes.c_void_p()
print(shim.ncclCommInitRank(ctypes.byref(comm), 2, id, 0))
""",
                "none",
                THE_ID=unique,
                **environment,
            )
            out, err = with_nccl.communicate(timeout=60)
            self.assertEqual([without, with_nccl.returncode], [5, 0], err)
            *got, said = json.loads(out)
            self.assertEqual(got, [5, None, True, ["the network", "the name"], True], call)
            self.assertIn("rank 0 (pid ", said)

    def test_another_thread_aborts_a_creation_that_waits(self):
        """NCCL gives the address before it waits for the other ranks."""
        got = run(
            CUDA_RANK
            + """
place_on(0)
comm, results = ctypes.c_void_p(), []
def abort():
    until = time.monotonic() + 20
    while comm.value is None and time.monotonic() < until:
        time.sleep(0.001)
    results.append(shim.ncclCommAbort(comm))
thread = threading.Thread(target=abort)
thread.start()
began = time.monotonic()
results.append(shim.ncclCommInitRank(ctypes.byref(comm), 2, new_id(), 0))
thread.join()
answer([results, comm.value, time.monotonic() - began < 10])
os._exit(0)
""",
            FAKE_NCCL="waits",
            LD_LIBRARY_PATH="{0}/symm:{0}/lib".format(BUILD / "tests/fake_cuda"),
            XDG_RUNTIME_DIR=str(self.runtime),
        )
        self.assertEqual(got, [[0, 6], None, True])

    def test_a_rank_that_is_killed_is_named(self):
        """The others' calls fail then, and the communicator can be ended."""
        ranks = self.alone(
            3,
            """
assert all_reduce() == "symm"
step("ready")
error, _ = wait_for_error(comm)
answer([error, sentence(), all_reduce(), shim.ncclCommAbort(comm)])
sys.stdin.readline()
""",
        )
        for error, said, got, aborted in self.survivors_of_rank_1(ranks):
            self.assertEqual([error, got, aborted], [6, "error 6", 0])
            self.assertIn(f"rank 1 (pid {ranks[1].pid})", said)

    def test_the_end_of_a_parent_ends_children_that_do_not_block(self):
        """Nothing is written to the place of the child, which has another use then, whether the
        other rank makes the child, too, or ends the parent.
        """
        for end in ("ncclCommAbort", "ncclCommDestroy"):
            for name, rest in (("ncclCommSplit", "0, 0, at, config"),
                               ("ncclCommShrink", "None, 0, at, config, 0")):  # fmt: skip
                ranks = self.alone(
                    2,
                    f"END, NAME = {end!r}, {name!r}\n"
                    f"def make(at, config):\n"
                    f"    return shim.{name}(comm, {rest})\n"
                    """
config = config_of(0)
if rank == 0:
    place = (ctypes.c_uint64 * 1)(0)
    got = [make(ctypes.byref(place), config), async_error(comm), getattr(shim, END)(comm)]
    place[0] = 0x1111111111111111
    step("ended")
    time.sleep(0.5)
    answer([*got, hex(place[0])])
else:
    step("waits")
    if NAME == "ncclCommSplit":
        child = ctypes.c_void_p()
        result = make(ctypes.byref(child), config)
        until = time.monotonic() + 30
        while result == 7 and time.monotonic() < until:
            result = async_error(comm)
        answer([result, child.value])
    else:
        answer([shim.ncclCommDestroy(comm)])
sys.stdin.readline()
os._exit(0)
""",
                )
                self.assertEqual(ranks[0].stdout.readline(), "ended\n")
                self.assertEqual(ranks[1].stdout.readline(), "waits\n")
                self.go_on([ranks[1]])
                [other] = self.answers([ranks[1]])
                self.go_on([ranks[0]])
                [got] = self.answers([ranks[0]])
                self.assertEqual(got, [7, 7, 0, "0x1111111111111111"], [end, name])
                self.assertEqual(other, [6, None] if name == "ncclCommSplit" else [0])
                self.go_on(ranks)

    def test_the_end_of_a_parent_ends_a_call_that_waits_for_a_child(self):
        """By another thread, while the other rank does not come."""
        for end in ("ncclCommAbort", "ncclCommDestroy"):
            for name, rest in (("ncclCommSplit", "0, 0, at, None"),
                               ("ncclCommShrink", "None, 0, at, None, 0")):  # fmt: skip
                ranks = self.alone(
                    2,
                    f"END = {end!r}\n"
                    f"def make(at):\n"
                    f"    return shim.{name}(comm, {rest})\n"
                    """
results, child = [], ctypes.c_void_p(5)
def body():
    results.append(make(ctypes.byref(child)))
if rank == 0:
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    time.sleep(0.5)
    waits = thread.is_alive()
    began = time.monotonic()
    results.append(getattr(shim, END)(comm))
    thread.join(20)
    answer([waits, sorted(results), child.value, time.monotonic() - began < 10])
else:
    answer([])
sys.stdin.readline()
os._exit(0)
""",
                )
                self.assertEqual(self.finished(ranks), [[True, [0, 6], None, True], []],
                                 [end, name])  # fmt: skip

    def test_survivors_of_a_death_shrink(self):
        ranks = self.alone(
            3,
            """
assert all_reduce() == "symm"
step("ready")
error, _ = wait_for_error(comm)
fewer = ctypes.c_void_p()
result = shim.ncclCommShrink(comm, (ctypes.c_int * 1)(1), 1, ctypes.byref(fewer), None, 1)
answer([error, result, all_reduce(of=fewer), number("ncclCommUserRank", fewer)])
sys.stdin.readline()
""",
        )
        self.assertEqual(self.survivors_of_rank_1(ranks), [[6, 0, "symm", 0], [6, 0, "symm", 1]])

    def test_a_rank_that_dies_before_it_makes_a_child_is_named(self):
        """Ranks 1 and 2 die, and rank 0 heard of rank 1 only when it shrank."""
        ranks = self.alone(
            3,
            """
step("ready")
error, _ = wait_for_error(comm)
step("knows")
fewer, began = ctypes.c_void_p(), time.monotonic()
result = shim.ncclCommShrink(comm, (ctypes.c_int * 1)(1), 1, ctypes.byref(fewer), None, 1)
answer([error, result, sentence(), time.monotonic() - began])
sys.stdin.readline()
""",
        )
        self.are_all("ready", ranks)
        ranks[1].kill()
        self.go_on([ranks[0], ranks[2]])
        self.are_all("knows", [ranks[0], ranks[2]])
        ranks[2].kill()
        self.go_on(ranks[:1])
        [(error, result, sentence, seconds)] = self.finished(ranks[:1])
        self.assertEqual([error, result], [6, 6])
        self.assertIn(f"rank 2 (pid {ranks[2].pid})", sentence)
        self.assertLess(seconds, 20)

    def test_a_rank_that_dies_within_a_split_is_named(self):
        """It has no descriptors for the child, and dies after the ranks have told their colors."""
        ranks = self.alone(
            2,
            """
import resource
child = ctypes.c_void_p()
if rank == 1:
    most = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 3, most + 3))
began = time.monotonic()
result = shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None)
answer([result, sentence(), time.monotonic() - began])
sys.stdin.readline()
""",
        )
        result, sentence, _ = json.loads(ranks[1].stdout.readline())
        self.assertEqual(result, 2)
        self.assertIn("few descriptors", sentence)
        ranks[1].kill()
        [(result, sentence, seconds)] = self.finished(ranks[:1])
        self.assertEqual(result, 6)
        self.assertIn(f"rank 1 (pid {ranks[1].pid})", sentence)
        self.assertLess(seconds, 20)

    def test_calls_after_a_death_name_it_again(self):
        ranks = self.alone(
            3,
            """
assert all_reduce() == "symm"
step("ready")
said = [wait_for_error(comm)[0], sentence()]
child = ctypes.c_void_p()
said += [shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None), sentence()]
assert shim.ncclCommSplit(comm, 0, 0, None, None) == 4
said += [all_reduce(), sentence(), shim.ncclGetErrorString(6).decode()]
answer(said)
sys.stdin.readline()
""",
        )
        for said in self.survivors_of_rank_1(ranks):
            self.assertEqual([said[0], said[2], said[4]], [6, 6, "error 6"])
            for sentence in (said[1], said[3], said[5], said[6]):
                self.assertIn(f"rank 1 (pid {ranks[1].pid})", sentence)

    def test_a_rank_that_does_not_come_is_named(self):
        """When the deadline has passed."""
        got = run(
            """
comm = ctypes.c_void_p(3)
began = time.monotonic()
result = shim.ncclCommInitRank(ctypes.byref(comm), 3, new_id(), 1)
print(json.dumps([result, comm.value, shim.ncclGetLastError(None).decode(),
                  time.monotonic() - began]), flush=True)
os._exit(0)
""",
            "none",
            LD_LIBRARY_PATH=str(BUILD / "tests/fake_cuda/lib"),
            XDG_RUNTIME_DIR=str(self.runtime),
            SYMM_NCCL_TIMEOUT_MS="1500",
        )
        self.assertEqual(got[:2], [2, None])
        self.assertRegex(got[2], r"^rank 1 of 3: rank 0 did not come to .* before the deadline$")
        self.assertGreater(got[3], 1)
        self.assertLess(got[3], 30)

    def test_a_deadline_ends_a_split_that_one_rank_does_not_make(self):
        ranks = self.alone(
            2,
            """
child = ctypes.c_void_p()
step("ready")
got = within(60, lambda: shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None))
answer([got, async_error(comm), sentence()])
sys.stdin.readline()
""",
            SYMM_NCCL_TIMEOUT_MS="4000",
        )
        self.are_all("ready", ranks)
        for process in ranks:
            self.go_on([process])
            *got, sentence = json.loads(process.stdout.readline())
            self.assertEqual(got, [6, 6])
            self.assertRegex(sentence, r"rank 1 \(pid \d+.* within 4000 ms")

    def test_an_abort_while_ranks_are_missing(self):
        """What does not block is ended at once, though the other rank never comes."""
        got = run(
            """
comm = ctypes.c_void_p()
head = [(24, 8), (0xcafebeef, 4), (23000, 4), (0, 4), (0, 4)]
config = b"".join(value.to_bytes(size, "little") for value, size in head)
result = shim.ncclCommInitRankConfig(ctypes.byref(comm), 2, new_id(), 0, config)
began = time.monotonic()
results = [result, async_error(comm), shim.ncclCommAbort(comm), shim.ncclCommAbort(comm)]
print(json.dumps([results, time.monotonic() - began < 2]), flush=True)
os._exit(0)
""",
            "none",
            LD_LIBRARY_PATH=str(BUILD / "tests/fake_cuda/lib"),
            XDG_RUNTIME_DIR=str(self.runtime),
        )
        self.assertEqual(got, [[7, 7, 0, 4], True])

    def test_communicators_leave_nothing(self):
        ranks = self.alone(
            2,
            """
def footprint():
    return [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
            notes.notes_mappings(), notes.notes_events()]
def settled():
    best = footprint()
    for _ in range(100):
        time.sleep(0.01)
        best = [min(pair) for pair in zip(best, footprint())]
    return best
before = None
for turn in range(40):
    if turn == 10:
        before = settled()
    child = ctypes.c_void_p()
    assert shim.ncclCommSplit(comm, 0, 0, ctypes.byref(child), None) == 0
    assert all_reduce(of=child) == "symm"
    assert (shim.ncclCommDestroy if turn % 3 else shim.ncclCommAbort)(child) == 0
answer([before, settled()])
sys.stdin.readline()
""",
        )
        for before, after in self.finished(ranks):
            for name, old, new in zip(
                ("descriptors", "threads", "mappings", "events"), before, after
            ):
                self.assertLessEqual(new, old + 4, name)

    def test_a_device_that_is_not_there_is_named(self):
        fakes = BUILD / "tests/fake_cuda"
        got = run(
            """
comms = (ctypes.c_void_p * 2)()
print(json.dumps([shim.ncclCommInitAll(comms, 2, (ctypes.c_int * 2)(98, 98)),
                  shim.ncclGetLastError(None).decode()]), flush=True)
os._exit(0)
""",
            "none",
            LD_LIBRARY_PATH=f"{fakes / 'symm'}:{fakes / 'lib'}",
            XDG_RUNTIME_DIR=str(self.runtime),
        )
        self.assertEqual(got[0], 2)
        self.assertIn("the CUDA driver gives no context, or no event, of device 98", got[1])

    def test_without_a_driver(self):
        got = run(
            """
comm = ctypes.c_void_p(3)
results = [shim.ncclCommInitRank(ctypes.byref(comm), 1, new_id(), 0), comm.value,
           shim.ncclGetLastError(None).decode()]
print(json.dumps(results))
""",
            "none",
        )
        self.assertEqual(got[:2], [1, None])
        said = "there is no CUDA driver (libcuda.so.1), or no device: symm doctor says what"
        self.assertIn(said, got[2])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
