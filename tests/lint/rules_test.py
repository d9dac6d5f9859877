"""Rules find what they are for: offences are planted in a tree of their own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RULES = Path(__file__).with_name("rules.py")
PROMISE = "| it works | `tests/it_test.cpp {}` |\n"
IT = {"tests/it_test.cpp": "TEST(It, Works) {\n"}
TABLE = {
    "docs/environment.md": "| `SYMM_LOG` | | Level. |\n",
    "core/base/log.cpp": 'environment("SYMM_LOG");\n',
    "core/base/environment.cpp": "secure_getenv(name);\n",
    "tools/run.cpp": "for (char** e = environ; *e; ++e) {}\n",
}
DECISIONS = "docs/decisions/"
RECORD = "# {}. It is so\n\n**Status.** {}, 2026-11-22.\n\n**Context.** None.\n"
ACCEPTED = {
    DECISIONS + "0001-so.md": RECORD.format(1, "Accepted"),
    DECISIONS + "0002-and-so.md": RECORD.format(2, "Accepted"),
    DECISIONS + "README.md": "| [1](0001-so.md) | Accepted | it is so |\n"
    "| [2](0002-and-so.md) | Accepted | and so |\n",
}

ONE_A_LINE = """#define TWO(a, b) a; b
enum { first, second };
struct Pair : Base<int, int> {
  Pair(int a, int b = 1) : a_(a), b_(b) {}
  Pair(int a)
      : Pair{a, a}, c_(a) {}
  std::map<int, int> both = {{1, 2}, {3, 4}};
  std::array<char, size_t{1} << 18> large;
  int a_;
};
template <class A, class B>
int call(std::pair<int, int> pair, int b) {
  const std::unique_ptr<A, void (*)(A*)> held(pair, b);
  for (int i = 0, end = 4; i < end; ++i, ++b) call<int,
      B>(pair, b);
  switch (b) {
    case 1: b = 2; break;
    default: b = 3; break;
  }
  kernel<<<b, 512>>>(b, b);
  auto [x, y] = pair;
  sort(x, [](int p, int q) { return p < q; });
  return first(x, y);  // one, two; three
}
"""
PACKED = """struct Pair {
  int a, b;
};
void packed() {
  int c; int d;
  c = 1, d = 2;
  call([&] { c = 2, d = 3; });
  call([&] { c = 3; d = 4; });
  return c, d;
}
constexpr int kOne = 1, kTwo = 2;
struct Other {
  int c = one(1), d = 2;
};
"""

# What is tried, the rule, the files, and the offences.
CASES = [
    (
        "down and sideways within a room is fine",
        "layers",
        {
            "core/mesh/wire.cpp": '#include "core/mesh/wire.hpp"\n'
            '#include "core/socket/fdpass.hpp"\n#include <vector>\n',
            "core/backends.cpp": '#include "core/cuda/backend.hpp"\n',
            "tools/info.cpp": "#include <symm/symm.h>\n",
        },
        [],
    ),
    (
        "up is an offence with its place",
        "layers",
        {"core/base/log.hpp": '#pragma once\n#include "core/group/group.hpp"\n'},
        ["core/base/log.hpp:2: core/base lies below core/group"],
    ),
    (
        "kernels know nobody",
        "layers",
        {"kernels/cuda/ll.cuh": '#include "core/base/error.hpp"\n'},
        ["kernels/cuda/ll.cuh:1: kernels lies below core/base"],
    ),
    (
        "strangers",
        "layers",
        {
            "core/cuda/plan.cpp": '#include "core/host/control.hpp"\n',
            "core/multinode/proxy.cpp": '#include "core/cuda/driver.hpp"\n',
            "tools/main.cpp": '#include "core/base/log.hpp"\n',
            "bindings/nccl/loading.cpp": '#include "bindings/nccl/abi.hpp"\n'
            '#include "core/base/library.hpp"\n#include "tools/text.hpp"\n',
            "bindings/nccl/host_group.cpp": "#include <symm/symm.h>\n",
        },
        [
            "bindings/nccl/loading.cpp:2: bindings/nccl and core/base do not know each other",
            "bindings/nccl/loading.cpp:3: bindings/nccl and tools do not know each other",
            "core/cuda/plan.cpp:1: core/cuda and core/host do not know each other",
            "core/multinode/proxy.cpp:1: core/multinode and core/cuda do not know each other",
            "tools/main.cpp:1: tools and core/base do not know each other",
        ],
    ),
    (
        "a file outside every room",
        "layers",
        {"core/stray.cpp": ""},
        ["core/stray.cpp:1: lies in no room of tests/lint/rules.py"],
    ),
    (
        "the product knows nothing of tests",
        "layers",
        {"core/base/wait.cpp": '#include "tests/support/group.hpp"\n'},
        ["core/base/wait.cpp:1: core/base knows nothing of tests"],
    ),
    (
        "a promise has a test",
        "promises",
        {"docs/promises.md": PROMISE.format("It.Works"), **IT},
        [],
    ),
    (
        "that is there",
        "promises",
        {"docs/promises.md": PROMISE.format("It.Flies") + "| it flies | |\n", **IT},
        [
            "docs/promises.md:1: there is no tests/it_test.cpp It Flies",
            "docs/promises.md:2: no test",
        ],
    ),
    (
        "also one of a binding",
        "promises",
        {
            "docs/promises.md": "| it works | `bindings/python/tests/test_it.py test_works` |\n"
            "| it flies | `bindings/python/tests/test_it.py test_flies` |\n"
            "| it runs | `bindings/rust/symm/tests/it.rs it_works` |\n",
            "bindings/python/tests/test_it.py": "def test_works():\n",
            "bindings/rust/symm/tests/it.rs": "fn it_works() {\n",
        },
        ["docs/promises.md:2: there is no bindings/python/tests/test_it.py test_flies"],
    ),
    (
        "a file that a page names is there",
        "places",
        {"docs/c.md": "`core/base/log.cpp`, `bindings/*/dev`\n", "core/base/log.cpp": ""},
        ["docs/c.md:1: there is no bindings/*/dev"],
    ),
    (
        "and a heading to which a page links, but for what looks like one in code",
        "places",
        {
            "docs/a.md": "[there](b.md#the-end-of-it) [here](#a)\n\n# A\n",
            "docs/b.md": "# The [end](a.md) of it!\n\n```sh\n# set\n```\n\n"
            "[in code](#set)\n| [in a table](a.md#b) |\n",
        },
        [
            "docs/b.md:7: #set is the name of no heading",
            "docs/b.md:8: a.md#b is the name of no heading",
        ],
    ),
    ("the environment is read in one place", "environment", TABLE, []),
    (
        "and nowhere else",
        "environment",
        TABLE | {"core/host/a.cpp": '// getenv()\nstd::getenv("SYMM_LOG");\n'},
        ["core/host/a.cpp:2: std::getenv(          );"],
    ),
    (
        "there not for who has privileges that the caller lacks",
        "environment",
        TABLE | {"core/base/environment.cpp": "std::getenv(name);\n"},
        ["core/base/environment.cpp:1: std::getenv(name);"],
    ),
    (
        "by the names of its table",
        "environment",
        TABLE | {"tools/run.cpp": 'environment("SYMM_LGO");\n'},
        ["tools/run.cpp:1: SYMM_LGO is not in docs/environment.md"],
    ),
    (
        "each of which is read",
        "environment",
        TABLE | {"core/base/log.cpp": ""},
        ["docs/environment.md:1: nobody reads SYMM_LOG"],
    ),
    (
        "descriptors have one owner from the call on that makes them",
        "descriptors",
        {
            "core/host/a.cpp": "Fd a = make_fd(memfd_create, name, 0);\n"
            "a = make_fd(::open, path, O_RDONLY);\n"
            "A::A() : timer_(make_fd(\n      timerfd_create, clock, 0)) {}\n"
            "Fd b(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));\n"
            "#ifdef SYS_pidfd_open\nFd c = make_fd(::syscall, SYS_pidfd_open, pid, 0);\n"
            "open();\nlink.close(line);\nbool open = link.open, socket = true;\n"
            "void f() {\n  const ClosedStreams held;\n  dlopen(name, RTLD_NOW);\n"
            "  recvmsg(socket, &message, 0);\n}\n",
            "tests/a.cpp": "int a = dup(1);\n",
        },
        [],
    ),
    (
        "and no other, however they are made",
        "descriptors",
        {
            "core/host/a.cpp": "int a = memfd_create(name, 0);\nint b = ::open(path, O_RDONLY);\n"
            "timer_(timerfd_create(clock, 0));\nint c = fcntl(fd, F_DUPFD_CLOEXEC, 3);\n"
            "FILE* d = fopen(path, mode);\n::close(b);\nstd::ofstream e(path);\n",
            "core/host/b.cpp": "Fd a(memfd_create(name, 0));\nauto call = ::open;\n"
            "Fd b(call_with(eventfd, 0));\nFd c(fcntl(fd, F_DUPFD_CLOEXEC, 0));\n"
            "std::ifstream file(path);\nFd d(static_cast<int>(syscall(SYS_pidfd_open, pid)));\n"
            "void f() {\n  const ClosedStreams held;\n}\nvoid g() {\n"
            "  recvmsg(socket, &message, 0);\n  getaddrinfo(name);\n"
            "  driver.cuMemExportToShareableHandle(&raw);\n"
            "  getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size);\n}\n",
        },
        [
            "core/host/a.cpp:1: int a = memfd_create(name, 0);",
            "core/host/a.cpp:2: int b = ::open(path, O_RDONLY);",
            "core/host/a.cpp:3: timer_(timerfd_create(clock, 0));",
            "core/host/a.cpp:4: int c = fcntl(fd, F_DUPFD_CLOEXEC, 3);",
            "core/host/a.cpp:5: FILE* d = fopen(path, mode);",
            "core/host/a.cpp:6: ::close(b);",
            "core/host/a.cpp:7: std::ofstream e(path);",
            "core/host/b.cpp:1: Fd a(memfd_create(name, 0));",
            "core/host/b.cpp:2: auto call = ::open;",
            "core/host/b.cpp:3: Fd b(call_with(eventfd, 0));",
            "core/host/b.cpp:4: Fd c(fcntl(fd, F_DUPFD_CLOEXEC, 0));",
            "core/host/b.cpp:5: std::ifstream file(path);",
            "core/host/b.cpp:6: Fd d(static_cast<int>(syscall(SYS_pidfd_open, pid)));",
            "core/host/b.cpp:11: recvmsg(socket, &message, 0);",
            "core/host/b.cpp:12: getaddrinfo(name);",
            "core/host/b.cpp:13: driver.cuMemExportToShareableHandle(&raw);",
            "core/host/b.cpp:14: getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size);",
            "descriptors: 17 offences",
        ],
    ),
    (
        "files grow only where the limit is asked for",
        "file_sizes",
        {
            "core/base/fd.cpp": "::write(fd, at, size);\n",
            "core/host/a.cpp": "log::write(level, text);\nwrite_whole(fd, at, size);\n"
            "::write(fd, at, size);\nftruncate(fd, size);\n",
        },
        ["core/host/a.cpp:3: ::write(fd, at, size);", "core/host/a.cpp:4: ftruncate(fd, size);"],
    ),
    ("decision records in a row", "records", ACCEPTED, []),
    (
        "a superseded record names a later one",
        "records",
        ACCEPTED
        | {
            DECISIONS + "0001-so.md": RECORD.format(1, "Superseded by [2](0002-and-so.md)"),
            DECISIONS
            + "README.md": "| [1](0001-so.md) | Superseded by [2](0002-and-so.md) | so |\n"
            "| [2](0002-and-so.md) | Accepted | and so |\n",
        },
        [],
    ),
    (
        "none of which is deleted",
        "records",
        {name: text for name, text in ACCEPTED.items() if "0001" not in name},
        [DECISIONS + "0002-and-so.md:1: 0001 was expected: records are superseded, not deleted"],
    ),
    (
        "nor the last one",
        "records",
        {name: text for name, text in ACCEPTED.items() if "0002" not in name},
        [DECISIONS + "README.md:2: there is no 0002-and-so.md"],
    ),
    ("nor all", "records", {"docs/index.md": ""}, [DECISIONS + ": no records"]),
    (
        "with a title and a status of their own",
        "records",
        ACCEPTED
        | {
            DECISIONS + "0001-so.md": "# 2. It is so\n\n**Context.** None.\n",
            DECISIONS + "0002-and-so.md": RECORD.format(2, "Superseded by [1](0001-so.md)"),
        },
        [
            DECISIONS + "0001-so.md:1: the title does not begin with # 1.",
            DECISIONS
            + "0001-so.md:3: no **Status.** Accepted or Superseded by [..](..), with a date",
            DECISIONS + "0002-and-so.md:3: 0001-so.md is not a later record",
            DECISIONS + "README.md:2: the number or the status is not that of 0002-and-so.md",
        ],
    ),
    (
        "each of which the index lists",
        "records",
        ACCEPTED | {DECISIONS + "README.md": "| [2](0002-and-so.md) | Accepted | and so |\n"},
        [DECISIONS + "0001-so.md:1: " + DECISIONS + "README.md does not list it"],
    ),
    (
        "a line ends within 100 columns, 96 in a public header, unless it is one word",
        "widths",
        {
            "capi/include/symm/a.h": f"/* {'wide ' * 18}*/\n/* {'wide ' * 18}a */\n",
            "core/a.cpp": f"// {'wide ' * 20}\n// {'w' * 120}\n",
            "tool": f"#!/bin/sh\n# {'wide ' * 20}\n",
            "docs/a.svg": f"<svg {'wide ' * 20}/>\n",
        },
        ["capi/include/symm/a.h:2: 97 columns", "core/a.cpp:1: 103 columns", "tool:2: 102 columns"],
    ),
    (
        "comments read alone",
        "comments",
        {
            "core/a.hpp": "int a;  // Of a.\n/* Its b.\n * Of c. */\nint b;  // As above.\n",
            "core/b.hpp": '// The sum\n// Of all.\nauto c = "// Of d";\n',
            "dev": "#!/bin/bash\n# Of a word.\necho '# Off' ${#a} $#\n",
            "a.py": '"""Of a module."""\nx = 1  # likewise\n',
        },
        [
            'a.py:2: "likewise" leans on a neighbour: likewise',
            'core/a.hpp:1: begins with "Of": Of a.',
            'core/a.hpp:4: "as above" leans on a neighbour: As above.',
            'dev:2: begins with "Of": Of a word.',
        ],
    ),
    (
        "floats in the mode of the caller's thread",
        "floats",
        {
            "core/a.cpp": "auto a = static_cast<float>(b);\nsize_t c = sizeof(float);\n"
            'const float* d;\nauto e = f * 1.5;\nint g = 0x1e5;\nconst char* h = "1.5";\n'
            "bool i = std::isfinite(j);\nauto k = 0x1p-3;\n",
            "kernels/cuda/args.hpp": "float a;\nauto b = 0.5;\n",
            "kernels/host/rmsnorm.cpp": "float a = 1.5F;\n",
            "tools/a.cpp": "double a = 1e3;\n",
        },
        [
            "core/a.cpp:1: auto a = static_cast<float>(b);",
            "core/a.cpp:4: auto e = f * 1.5;",
            "core/a.cpp:7: bool i = std::isfinite(j);",
            "core/a.cpp:8: auto k = 0x1p-3;",
            "kernels/cuda/args.hpp:2: auto b = 0.5;",
        ],
    ),
    ("one statement a line", "statements", {"core/fine.cpp": ONE_A_LINE}, []),
    (
        "no assignment within a condition, unless the line above says why",
        "statements",
        {
            "core/a.cpp": "while ((n = read()) > 0) {\n}\nwhile (n == 0) {\n}\n",
            "core/b.cpp": "for (int n; (n = read()) > 0;) {\n}\n",
            "core/c.cu": "// The condition assigns: registers.\nwhile ((n = read()) > 0) {\n}\n",
        },
        [
            "core/a.cpp:1: an assignment within a condition: while ((n = read()) > 0) {",
            "core/b.cpp:1: an assignment within a condition: for (int n; (n = read()) > 0;) {",
        ],
    ),
    (
        "and no two",
        "statements",
        {"core/packed.cpp": PACKED},
        [
            "core/packed.cpp:2: a comma between statements or declarations: int a, b;",
            "core/packed.cpp:5: several statements: int c; int d;",
            "core/packed.cpp:6: a comma between statements or declarations: c = 1, d = 2;",
            "core/packed.cpp:7: a comma between statements or declarations: "
            "call([&] { c = 2, d = 3; });",
            "core/packed.cpp:8: several statements: call([&] { c = 3; d = 4; });",
            "core/packed.cpp:9: a comma between statements or declarations: return c, d;",
            "core/packed.cpp:11: a comma between statements or declarations: "
            "constexpr int kOne = 1, kTwo = 2;",
            "core/packed.cpp:13: a comma between statements or declarations: "
            "int c = one(1), d = 2;",
        ],
    ),
    (
        "tools have one version",
        "pins",
        {
            "tests/lint/requirements.txt": "clang-format==22.1.8\nruff==0.17.6\n",
            ".clang-format": "# clang-format 22.1.8\n",
            ".pre-commit-config.yaml": "[ruff==0.17.5]\n[other==1.0]\n",
        },
        [".pre-commit-config.yaml:1: ruff 0.17.5 is not the pinned 0.17.6"],
    ),
    (
        "what an object depends on is not lost in a unit of several files",
        "dependencies",
        {
            "a/CMakeLists.txt": "set_source_files_properties(a.cpp PROPERTIES OBJECT_DEPENDS b)\n",
            "b/CMakeLists.txt": "set_source_files_properties(\n  a.cpp\n  PROPERTIES OBJECT_DEPENDS"
            ' "${all}" SKIP_UNITY_BUILD_INCLUSION ON\n)\n',
        },
        ["a/CMakeLists.txt:1: OBJECT_DEPENDS needs SKIP_UNITY_BUILD_INCLUSION ON"],
    ),
]


class Rules(unittest.TestCase):
    def test_cases(self):
        for what, rule, files, offences in CASES:
            with self.subTest(what), tempfile.TemporaryDirectory() as root:
                subprocess.run(["git", "init", "-q", root], check=True)
                for name, text in files.items():
                    path = Path(root, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                done = subprocess.run(
                    [sys.executable, RULES, root, rule], capture_output=True, text=True
                )
                said = offences or [f"{rule}: nothing to complain about"]
                self.assertEqual(
                    (done.stdout.splitlines(), done.returncode),
                    (said, int(bool(offences))),
                    done.stderr,
                )


if __name__ == "__main__":
    unittest.main()
