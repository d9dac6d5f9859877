"""House rules that no compiler knows.

rules.py <repository root> <rule or all>; prints each offence as file:line and fails.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

root, rule = Path(sys.argv[1]), sys.argv[2]
# What pages name the files of.
FOLDERS = "bench bindings capi cmake core docs kernels packaging tests tools".split()
LIBRARY = ("capi/", "core/", "kernels/")
CODE = (".c", ".h", ".cpp", ".hpp")


def files():
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(name for name in listing.split("\0") if name and (root / name).is_file())


def lines(name):
    return (root / name).read_text(encoding="utf-8", errors="replace").splitlines()


def code_lines(name):
    """(number, line) without comments and string literals, so that prose may say `abort`."""
    text = "\n".join(lines(name))
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    literals = r"""R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'"""
    text = re.sub(rf"/\*.*?\*/|//[^\n]*|{literals}", blank, text, flags=re.S)
    return enumerate(text.split("\n"), 1)


def found_in_library(forbidden, allowed):
    """Matches of `forbidden` in the code of the library. `allowed` has, by file, what may
    match there.
    """
    for name in files():
        for number, line in (
            code_lines(name) if name.startswith(LIBRARY) and name.endswith(CODE) else ()
        ):
            found = forbidden.search(line)
            if found and not re.search(allowed.get(name, r"(?!)"), found[0]):
                yield f"{name}:{number}: {line.strip()}"


def pages():
    return [name for name in files() if name.endswith(".md")]


def spdx():
    """What is shipped by itself says its licence in its
    first line; REUSE.toml says it of all the rest.
    """
    for name in files():
        if (
            name.startswith("capi/include/symm/")
            and "SPDX-License-Identifier: Apache-2.0" not in lines(name)[0]
        ):
            yield f"{name}:1: no SPDX-License-Identifier: Apache-2.0"


def machine_paths():
    """No committed file names a directory of the machine on which it was written, or a
    device as what a tool writes: gcovr, as many, takes away what is in the place of its
    output, and then other programs read there what they have written.
    """
    private = re.compile(
        r"(?<![\w.$}{/-])/(?:home|root|Users|work|build|mnt)/\w|\s(?:-o|--output|--out)[ =]/dev/"
    )
    here = str(root.resolve()) + "/"
    for name in files():
        for number, line in enumerate(lines(name), 1):
            if private.search(line) or here in line:
                yield f"{name}:{number}: {line.strip()[:120]}"


def manners():
    """The library never ends the process, prints, handles signals or changes the environment."""
    calls = (
        "exit|_exit|_Exit|quick_exit|abort|atexit|terminate|"
        "printf|vprintf|puts|putchar|perror|fputs|fwrite|"
        "setenv|putenv|unsetenv|clearenv|setlocale|signal|sigaction|sleep|system"
    )
    forbidden = re.compile(
        rf"(?<![\w.>])(?:std::|::)?(?:{calls})\s*\(|std::(?:cout|cerr|clog)|\bassert\s*\(|"
        r"\braise\s*\(\s*SIG"
    )

    allowed = {
        "core/base/log.cpp": r"fputs|fwrite",  # SYMM_LOG
        "core/base/process.hpp": r"sigaction",  # SignalsKept
        "core/base/environment.cpp": r"unsetenv",  # VariablesKept
        "capi/include/symm/symm.hpp": r"^(?:abort|signal)\s*\($",
    }  # methods' names
    yield from found_in_library(forbidden, allowed)


def waits():
    """core/base is the only room that waits, each of its files by the one means that is
    named here. The monitor's thread idles in epoll_wait(): nobody waits for it, an event
    ends it. The link over symm's own connections asks by it what has happened, with no time
    to wait.
    """
    forbidden = re.compile(
        r"\b(?:SYS_futex\w*|FUTEX_\w+|(?:::)?poll|ppoll|select|pselect|epoll_\w*wait\w*|"
        r"usleep|nanosleep|clock_nanosleep|sched_yield|sleep_for|sleep_until|this_thread::yield|"
        r"_mm_pause|__builtin_ia32_pause|atomic_wait)\s*\(|"
        r"\bSYS_futex\w*|\bFUTEX_\w+|std::condition_variable|\.wait\("
    )

    allowed = {
        "core/socket/monitor.cpp": r"^epoll_wait\(",
        "core/engine/secure_link.cpp": r"^epoll_wait\(",
        "core/socket/life.cpp": r"^FUTEX_(?:OWNER_DIED|WAITERS)$",
        "core/base/futex.cpp": r"^(?:SYS_futex|FUTEX_)",
        "core/base/poll.cpp": r"^(?:poll|clock_nanosleep)\($",
        "core/base/wait.cpp": r"^sched_yield\($",
        "core/base/wait.hpp": r"^__builtin_ia32_pause\($",
    }
    yield from found_in_library(forbidden, allowed)


def floats():
    """What arithmetic with floats does depends on how the caller's thread rounds, flushes and
    traps. So floats are computed with in a few files, within FloatEnvironment, and numbers of
    the caller are of type Number everywhere else.
    """
    forbidden = re.compile(
        r"(?<!sizeof\()\b(?:float|double)\b(?!\s*\*)|"
        r"(?<![\w.'])\d[\d']*(?:\.\d|[eE][-+]?\d)|\b0x[\da-fA-F.]+p[-+]?\d|"
        r"\bstd::(?:is(?:finite|nan|inf|normal)|signbit|f?abs|ceil|floor|l?l?round|sqrt|pow|log\d*)\b"
    )
    arithmetic = r"^"

    allowed = {
        "kernels/number.hpp": arithmetic,
        "kernels/rmsnorm.hpp": arithmetic,
        "kernels/host/rmsnorm.cpp": arithmetic,
        "kernels/host/arithmetic/formats-inl.hpp": arithmetic,
        "kernels/host/arithmetic/kernel-inl.hpp": arithmetic,
        "kernels/host/arithmetic/reduce.cpp": arithmetic,
        "kernels/host/arithmetic/reduce_kernels.cpp": arithmetic,
        "kernels/host/arithmetic/two_parts.cpp": arithmetic,
        "kernels/host/arithmetic/wire_kernels.cpp": arithmetic,
        "kernels/wire.hpp": arithmetic,
        "kernels/cuda/args.hpp": r"^(?:float|double)$",  # which kernels compute with
        "core/cuda/stream_uses.cpp": r"^float$",  # the driver's result, which nobody reads
        "capi/include/symm/symm.h": r"^double$",
        "capi/include/symm/fused.h": r"^(?:double|1e-6)$",
        "capi/include/symm/symm.hpp": r"^(?:float|double)$",
    }
    yield from found_in_library(forbidden, allowed)


def descriptors():
    """A call that makes a descriptor is made by make_fd(), or while a ClosedStreams of the same
    function lives, so that it never has the number of a standard stream; its result is an Fd, which
    alone closes. fcntl(F_DUPFD_CLOEXEC, STDERR_FILENO + 1) does so by itself.
    """
    forms = {
        r"(?:open|openat|openat2)": r"\([^;]*?\b(?:O_\w+|kOpenDirectory)",
        r"(?:socket|socketpair)": r"\(\s*(?:[AP]F_|family)",
        r"(?:memfd_create|accept4|epoll_create1?|timerfd_create|eventfd|signalfd|dup[23]?|pipe2?|"
        r"inotify_init1?|creat|mkstemp|mkostemp|shm_open|fopen|popen|userfaultfd)": r"\(",
    }
    calls = "|".join(f"{name}\\s*{rest}" for name, rest in forms.items())
    passed = "memfd_create|eventfd|epoll_create1?|timerfd_create|signalfd|accept4|inotify_init1?"
    makes = re.compile(
        rf"(?<![\w.>:])(?:::)?(?:{calls})|(?<![\w>])::(?:accept|close)\s*\(|\bF_DUPFD\w*|"
        rf"(?<![\w>])::(?:open|openat|socket|socketpair|accept|dup[23]?|pipe2?|syscall)\b(?!\s*\()|"
        rf"(?<![\w.>:])(?:::)?(?:{passed})\b(?!\s*\()|"
        r"\bSYS_(?:pidfd_\w+|memfd_create|open\w*)|\bstd::(?:basic_)?[io]?fstream"
    )
    held = re.compile(r"\bFd(?: \w+)?\(fcntl\([^;]*?$|\bmake_fd\(\s*(?:::syscall,\s*)?$")
    above = re.compile(r"F_DUPFD_CLOEXEC, STDERR_FILENO \+ 1\)|(?!F_DUPFD)")
    # Calls that make descriptors on the way, or store the number of one.
    inside = re.compile(
        r"(?<![\w.>])(?:::)?(?:getaddrinfo|getifaddrs|getpw\w+_r|opendir|"
        r"dl(?:m)?open|recvm?msg)\s*\(|"
        r"\bSO_PEERPIDFD,|\bdirectory_iterator\(|"
        r"\bcu(?:Init|DevicePrimaryCtxRetain|MemExportToShareableHandle|"
        r"MemGetHandleForAddressRange)\s*\("
    )
    lives = re.compile(r"\bClosedStreams\b(?: held;|> held;)|\bhold_closed_streams\(\)")
    allowed = {
        "core/base/closed_streams.cpp": r"^::(?:close|open)",
        "core/base/fd.cpp": r"^(?:::close\(|F_DUPFD)",
    }
    elsewhere = {
        "core/cuda/allocation.cpp": "FABRIC",  # a handle that is none
        "core/socket/fdpass.cpp": "MSG_PEEK",  # without room for descriptors
        "kernels/cuda/borrowed_images.cpp": "libsymm",  # of the tool, whose streams main() holds
    }

    for name in files():
        if not (name.startswith(LIBRARY) and name.endswith(CODE)):
            continue
        code = "\n".join(line for _, line in code_lines(name))
        code = re.sub(r"(?m)^#.*", lambda line: " " * len(line[0]), code)
        for found in makes.finditer(code):
            known = re.search(allowed.get(name, r"(?!)"), found[0])
            is_held = held.search(code[max(0, found.start() - 200) : found.start()])
            if not known and not (is_held and above.match(code, found.start())):
                line = code.count("\n", 0, found.start())
                yield f"{name}:{line + 1}: {lines(name)[line].strip()}"
        for found in inside.finditer(code):
            function = code[code.rfind("\n}", 0, found.start()) + 1 : found.start()]
            statement = code[found.start() : code.find(";", found.start())]
            line = code.count("\n", 0, found.start())
            text = statement + lines(name)[line]
            known = name in elsewhere and elsewhere[name] in text
            if not known and not lives.search(function):
                yield f"{name}:{line + 1}: {lines(name)[line].strip()}"


def file_sizes():
    """A write to a file, or a file that grows, asks for the limit on file sizes first, or the
    kernel ends the process by SIGXFSZ: core/base/fd.cpp writes, and the files named here ask.
    """
    forbidden = re.compile(
        r"(?<!\w)::write\(|\bp?writev2?\(|\bpwrite\(|\bftruncate\(|\b(?:posix_)?fallocate\(|"
        r"\bf(?:write|puts|printf)\("
    )

    allowed = {
        "core/backend/segment.cpp": r"ftruncate|fallocate",
        "core/base/fd.cpp": r"::write",
        "core/base/log.cpp": r"::write|pwritev2",
        "core/base/page.cpp": r"fallocate",
        "core/group/group.cpp": r"::write",  # an eventfd
        "core/group/request.cpp": r"::write",  # an eventfd
        "core/socket/life.cpp": r"fallocate|::write",  # an eventfd
    }
    yield from found_in_library(forbidden, allowed)


def guards():
    """Every function of the C ABI that can fail runs inside guard() or a helper that is
    nothing else, and every release inside release(), which is noexcept.
    """
    never_fail = {
        "symm_version",
        "symm_fused_version",
        "symm_build_info",
        "symm_status_string",
        "symm_last_error",
    }
    found = set()
    headers = "\n".join(
        line
        for name in files()
        if re.fullmatch(r"capi/\w+\.hpp", name)
        for _, line in code_lines(name)
    )
    helper = re.compile(
        r"^(?:template <[^>]*> )?symm_status_t (\w+)\([^;{}]*\) noexcept "
        r"\{\s*return (?:guard|quick)\(",
        flags=re.M,
    )
    shared = ["guard", "quick", *helper.findall(headers)]
    for name in files():
        if not (name.startswith("capi/") and name.endswith(".cpp")):
            continue
        text = "\n".join(line for _, line in code_lines(name))
        guarded = "|".join([*shared, *helper.findall(text)])
        for match in re.finditer(
            r"^(?:SYMM_API\s+)?[\w ]+?[ *&]+(symm_\w+)\(([^;{}]*)\)\s*(?:noexcept\s*)?\{",
            text,
            flags=re.M,
        ):
            function, line = match[1], text.count("\n", 0, match.start()) + 1
            found.add(function)
            body = text[match.end() :].lstrip()
            if function not in never_fail and not re.match(
                rf"(?:return )?(?:{guarded})\(|(?:symm::capi::)?release<\w+>\(", body
            ):
                yield f"{name}:{line}: {function} does not go through guard()"
    sys.path.insert(0, str(root / "tests/abi"))
    from layout import functions

    for function in sorted(set(functions()) - found):
        yield f"capi: no definition of {function} was recognised"


# Lowest first: a room includes only itself and rooms that stand before it.
ROOMS = (
    "capi/include",
    "kernels",
    "core/base",
    "core/socket",
    "core/bootstrap",
    "core/engine",
    "core/mesh",
    "core/backend",
    "core/host",
    "core/cuda",
    "core/multinode",
    "core/backends",
    "core/ipc",
    "core/group",
    "capi",
    "tools",
    "examples",
    "bench",
    "bindings/nccl",
)
# Rooms that do not know each other, though one stands before the other.
STRANGERS = {
    ("core/cuda", "core/host"),
    ("core/multinode", "core/cuda"),
    ("core/ipc", "core/host"),
    ("core/ipc", "core/cuda"),
    ("core/group", "core/host"),
    ("core/group", "core/cuda"),
    ("capi", "core/host"),
    ("capi", "core/cuda"),
}
STRANGERS |= {
    (user, room)
    for user in ("tools", "examples", "bindings/nccl")
    for room in ROOMS
    if room.startswith(("core/", "kernels")) or room == "capi"
}
STRANGERS |= {("bindings/nccl", room) for room in ("tools", "examples", "bench")}


def room_of(path):
    """The room that a path lies in: the longest that it
    begins with; a file has its room's name before its dot.
    """
    return max((room for room in ROOMS if re.match(rf"{room}[/.]", path)), key=len, default=None)


def layers():
    """Arrows run down only."""
    rooms = "symm|capi|core|kernels|tools|examples|bench|tests"
    for name in files():
        if name.startswith("core/") and room_of(name) is None and name.endswith(CODE):
            yield f"{name}:1: lies in no room of tests/lint/rules.py"
        mine = room_of(name)
        if mine is None or not name.endswith(CODE + (".cu", ".cuh")):
            continue
        for number, line in enumerate(lines(name), 1):
            found = re.match(rf'\s*#\s*include\s*[<"]((?:{rooms})/[^">]+)[">]', line)
            if not found:
                continue
            path = "capi/include/" + found[1] if found[1].startswith("symm/") else found[1]
            theirs = room_of(path)
            if path.startswith("tests/") and not mine.startswith("bench"):
                yield f"{name}:{number}: {mine} knows nothing of tests"
            elif theirs is not None and ROOMS.index(theirs) > ROOMS.index(mine):
                yield f"{name}:{number}: {mine} lies below {theirs}"
            elif (mine, theirs) in STRANGERS:
                yield f"{name}:{number}: {mine} and {theirs} do not know each other"


def environment():
    """One place of the library and one of the tools read the environment, by names of the
    one table and by secure_getenv() only, and nobody lists what nobody reads.
    """
    readers, table = ("core/base/environment.cpp", "tools/environment.hpp"), "docs/environment.md"
    unread = {
        found[1]: number
        for number, line in enumerate(lines(table), 1)
        if (found := re.match(r"\| `(\w+)` \|", line))
    }
    listed = set(unread)

    for name in files():
        if not name.startswith(LIBRARY + ("tools/", "bindings/")):
            continue
        for variable in re.findall(r'"(\w+)"', "\n".join(lines(name))):
            unread.pop(variable, None)
        if name.startswith("bindings/") or not name.endswith(CODE):
            continue
        readers_words = r"(?<!secure_)getenv\b|\btemp_directory_path\b"
        words = r"getenv\b|\btemp_directory_path\b"
        words += "" if name.startswith("tools/") else r"|\benviron\b"
        for number, line in code_lines(name):
            if re.search(readers_words if name in readers else words, line):
                yield f"{name}:{number}: {line.strip()}"
        for number, line in enumerate(lines(name), 1):
            for variable in set(re.findall(r'\benvironment\("(\w+)"\)', line)) - listed:
                yield f"{name}:{number}: {variable} is not in {table}"

    for variable, number in unread.items():
        yield f"{table}:{number}: nobody reads {variable}"


def prose(name):
    """(number, line) of a page without its code, tables and comments."""
    inside = False
    for number, line in enumerate(lines(name), 1):
        fence = line.lstrip().startswith("```")
        inside ^= fence
        if not inside and not fence and not line.lstrip().startswith(("|", "<!--")):
            yield number, line


def columns():
    """Pages keep to 100 columns, tables and code aside."""
    for name in pages():
        for number, line in prose(name):
            if len(line) > 100:
                yield f"{name}:{number}: {len(line)} columns"


@functools.cache
def headings(page):
    """The names of a page's headings, as GitHub makes them."""
    titles = [title[1] for _, line in prose(page) if (title := re.match(r"#+ (.*)$", line))]
    return {
        re.sub(r"[^\w -]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title)).lower().replace(" ", "-")
        for title in titles
    }


def places():
    """A page's links lead somewhere, and the files that it names are there. A link to a heading
    names it as GitHub does: where the pages are read as they are, names that only the site would
    have lead nowhere.
    """
    for name in pages():
        here = root / name
        for number, line in enumerate(lines(name), 1):
            for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", line):
                place = here.parent / link if link else here
                if not place.exists():
                    yield f"{name}:{number}: there is no {place}"
                elif anchor and place.suffix == ".md" and anchor not in headings(place.resolve()):
                    yield f"{name}:{number}: {link}#{anchor} is the name of no heading"

            for place in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./*-]+)`", line):
                if not any(root.glob(place)):
                    yield f"{name}:{number}: there is no {place}"


def tutorial():
    """What a page of the tutorial shows stands so in the program of its number."""
    for page in files():
        if not (number := re.match(r"docs/tutorial/(\d\d)-", page)):
            continue
        programs = [
            (root / name).read_text()
            for name in files()
            if name.startswith(f"examples/{number[1]}-")
        ]
        shown = r"^```(?:cpp|python)\n(.*?)^```$"
        for block in re.findall(shown, "\n".join(lines(page)), flags=re.M | re.S):
            if not any(block in program for program in programs):
                yield f"{page}: no program has this: {block.strip().splitlines()[0]}"


def promises():
    """Each promise of docs/promises.md has a test, and the test is there."""
    page = "docs/promises.md"
    for number, line in enumerate(lines(page) if (root / page).is_file() else [], 1):
        if not line.startswith("| ") or line.startswith("| promise |"):
            continue
        tests = re.findall(
            r"`((?:bindings/[\w/.]+/)?tests?/[^` ]+)(?: (?:(\w+)\.(\w+)|(\w+)))?`", line
        )
        if not tests:
            yield f"{page}:{number}: no test"
        for path, suite, case, function in tests:
            text = "\n".join(lines(path)) if (root / path).is_file() else None
            wanted = rf"^(?:def|fn) {function}\(" if function else rf"\(\s*{suite},\s*{case}\)"
            is_named = bool(case or function)
            if text is None or (is_named and not re.search(wanted, text, flags=re.M)):
                name = function or f"{suite} {case}"
                yield f"{page}:{number}: there is no {path} {name}"


def listed_records(index):
    """The rows of the index: a record's file, and the line, number and status of its row."""
    rows = {}
    for line, text in enumerate(lines(index) if (root / index).is_file() else [], 1):
        if found := re.fullmatch(r"\| \[(\d+)\]\(([^)]+)\) \| ([^|]+) \| \S.* \|", text):
            rows[found[2]] = (line, int(found[1]), found[3])
    return rows


def records():
    """Decision records are numbered from 1 without gaps, each has a status with its date, and
    the index lists each with that status.
    """
    folder = "docs/decisions/"
    index = folder + "README.md"
    listed = listed_records(index)
    present = [
        name.removeprefix(folder)
        for name in files()
        if name.startswith(folder) and name.endswith(".md") and name != index
    ]
    if not present:
        yield f"{folder}: no records"

    for number, record in enumerate(present, 1):
        text = "\n".join(lines(folder + record))
        if not record.startswith(f"{number:04}-"):
            kept = "records are superseded, not deleted"
            yield f"{folder}{record}:1: {number:04} was expected: {kept}"
            return
        if not text.startswith(f"# {number}. "):
            yield f"{folder}{record}:1: the title does not begin with # {number}."

        status = re.search(
            r"(?m)^\*\*Status\.\*\* (Accepted|Superseded by \[\d+\]\(([\w-]+\.md)\)), "
            r"\d{4}-\d\d-\d\d\.",
            text,
        )
        if status is None:
            either = "Accepted or Superseded by [..](..)"
            yield f"{folder}{record}:3: no **Status.** {either}, with a date"
        elif status[2] and status[2] not in present[number:]:
            yield f"{folder}{record}:3: {status[2]} is not a later record"
        row = listed.pop(record, None)
        if row is None:
            yield f"{folder}{record}:1: {index} does not list it"
        elif status and row[1:] != (number, status[1]):
            yield f"{index}:{row[0]}: the number or the status is not that of {record}"

    for record, (line, *_) in listed.items():
        yield f"{index}:{line}: there is no {record}"


WIDTH = 100
# The headers of C, which their users read beside their own code.
PUBLIC_WIDTH = 96
REQUIREMENTS = "tests/lint/requirements.txt"
C_FAMILY = (".h", ".c", ".hpp", ".cpp", ".cu", ".cuh")
# By suffix; scripts without one are known by their first line.
MEASURED = (*C_FAMILY, ".i", ".py", ".rs", ".jl", ".f90", ".pml", ".sh", ".cmake", ".in", ".yml")
# Files with wider lines, and why.
WIDE = {
    "bindings/julia/LibSymm.jl/src/generated.jl": "generated",
    "bindings/rust/symm-sys/src/generated.rs": "generated",
}


def is_measured(name):
    """Whether a file is code: by its suffix, or a script by its first line."""
    last = name.rsplit("/", 1)[-1]
    if "." in last:
        return name.endswith(MEASURED) or last == "CMakeLists.txt"
    first = lines(name)[:1]
    return bool(first and re.match(r"#!.*\b(?:ba|da)?sh\b|#!.*\bpython", first[0]))


def widths():
    """Code and comments keep to 100 columns, and to 96 in the public headers of C. A line may
    be wider for one word that has no place to break: the address of a page, a digest, a
    regular expression without a space; or for a remark to a tool, which must stand on its
    line.
    """
    remark = re.compile(r"\s+(?:#|//) *(?:noqa|type:|NOLINT|NOSONAR)\b.*")
    for name in files():
        if name in WIDE or not is_measured(name):
            continue
        width = PUBLIC_WIDTH if re.fullmatch(r"capi/include/symm/\w+\.h", name) else WIDTH
        for number, line in enumerate(lines(name), 1):
            line = remark.sub("", line)
            longest = max(map(len, line.split()), default=0)
            if len(line) > width and longest < width - 20:
                yield f"{name}:{number}: {len(line)} columns"


def comments_of(name):
    """(number, text, first) of each line of a comment; `first` says that a comment begins
    with it. Strings are blanked, so that what a program prints is not a comment.
    """
    c_family = name.endswith((*C_FAMILY, ".rs", ".i"))
    text = "\n".join(lines(name))
    if c_family:
        literals = r'R"\(.*?\)"|"(?:\\.|[^"\\\n])*"'
        found = re.compile(
            rf"(?P<no>{literals})|//[/!]?<?(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/", re.S
        )
    else:
        literals = r'"""(?:.*?)"""|"(?:\\.|[^"\\\n])*"'
        if name.endswith(".py"):
            literals += r"|'(?:\\.|[^'\\\n])*'"
        found = re.compile(rf"(?P<no>{literals}|\$#|\$\{{#)|(?<!\S)#(?!!)(?P<line>[^\n]*)", re.S)

    before = -1  # the line of the last comment that stood alone
    for match in found.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        alone = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if match["no"] is not None:
            continue
        if match["line"] is not None:
            yield number, match["line"].strip(), not (alone and before == number - 1)
            before = number if alone else -1
            continue
        for offset, line in enumerate(match["block"].split("\n")):
            yield number + offset, line.strip(" *"), offset == 0


def comments():
    """A comment begins with its subject and reads alone: it may have to move."""
    leaning = re.compile(r"\b(?:as above|likewise)\b", re.I)
    for name in files():
        if not is_measured(name):
            continue
        for number, text, first in comments_of(name):
            if first and text.startswith("Of "):
                yield f'{name}:{number}: begins with "Of": {text[:60]}'
            elif found := leaning.search(text):
                yield f'{name}:{number}: "{found[0].lower()}" leans on a neighbour: {text[:60]}'


# What stands before the brace of a function, a lambda or a statement, but not before that
# of an initialiser.
BEFORE_A_BLOCK = re.compile(
    r"(?:[)\]]|\b(?:else|do|try|const|noexcept|override|final|mutable)|->\s*[\w:<>*& ]+)\s*$"
)
BEFORE_MEMBERS = re.compile(r"\b(?:class|struct|union)\b[^()=]*$")
BEFORE_NAMES = re.compile(r"\benum\b[^()=]*$")
BEFORE_A_ROOM = re.compile(r"\b(?:namespace|extern)\b[^()=]*$")


ASSIGNS_IN_CONDITION = re.compile(
    r"\b(?:if|while) \(.*\(\w+ = [^=]|\bfor \([^;]*;[^;]*\(\w+ = [^=]"
)
# What the comment above a condition of a kernel says that assigns for the sake of registers.
ASSIGNS_FOR_A_REASON = "// The condition assigns: "


def statements():
    """One statement a line, no comma operator and no assignment within a condition, in C, C++
    and CUDA. Clauses of `for`, a short `case` with its `break`, and lists are no offence.
    """
    for name in files():
        if not name.endswith(C_FAMILY):
            continue
        yield from packed_statements(name)

        above = ["", *lines(name)]
        for number, line in code_lines(name):
            reason = ASSIGNS_FOR_A_REASON in above[number - 1]
            if ASSIGNS_IN_CONDITION.search(line) and not reason:
                yield f"{name}:{number}: an assignment within a condition: {line.strip()[:60]}"


def without_templates(text):
    """Blanks the arguments of templates and of kernels' launches, whose commas separate no
    statements.
    """
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r"<<<.*?>>>", blank, text)
    before = None
    while before != text:
        before = text
        shift = r"(?:\b\d+|\{\d*\}) << \d+"
        arguments = rf"<(?:{shift}|[^<>;(){{}}|]|\([^()]*\))*>"
        text = re.sub(rf"(?:(?<=\w)|(?<=template )){arguments}", blank, text)
    return text


def kind_of_brace(statement, innermost):
    """What an opening brace begins, of which `statement` is what stands before it."""
    if BEFORE_A_ROOM.search(statement):
        return ""
    if BEFORE_NAMES.search(statement):
        return "list"
    if BEFORE_MEMBERS.search(statement):
        return "members"
    if BEFORE_A_BLOCK.search(statement):
        return "block"
    return "block" if not statement.strip() and innermost == "block" else "list"


def packed_statements(name):
    """What statements() complains about in one file."""
    nesting = []  # open brackets: "(", "[" or the kind of a brace
    before = []  # what stands before each of them
    statement = ""
    continued = False
    text = without_templates("\n".join(line for _, line in code_lines(name)))

    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        if directive:
            continue
        short_case = re.match(r"\s*(?:case\b.*|default\s*):", line)
        complained = False
        for place, letter in enumerate(line):
            innermost = nesting[-1] if nesting else ""
            offence = None
            if letter in "([":
                nesting.append(letter)
                before.append("")
            elif letter == "{":
                nesting.append(kind_of_brace(statement, innermost))
                before.append(statement)
                statement = ""
                continue
            elif letter in ")]}" and nesting:
                nesting.pop()
                opened_after = before.pop()
                if letter == "}":
                    statement = opened_after + "{}" if innermost == "list" else ""
                    continue
            elif letter == ";" and innermost != "(":
                rest = line[place + 1 :].strip()
                if rest and rest[0] not in "})" and not short_case:
                    offence = "several statements"
                statement = ""
            elif letter == ",":
                if (
                    innermost == "block"
                    or (innermost == "members" and not re.search(r"\(|(?<!:):(?!:)", statement))
                    or (innermost in ("members", "") and re.match(r"[^(]*\w = ", statement))
                ):
                    offence = "a comma between statements or declarations"
            if offence and not complained:
                complained = True
                yield f"{name}:{number}: {offence}: {line.strip()[:60]}"
            if letter != ";":
                statement += letter
        statement += "\n"


def pins():
    """The versions of the tools stand in tests/lint/requirements.txt. Other files that name
    one for a tool of their own name the same.
    """
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)$", "\n".join(lines(REQUIREMENTS)), re.M))
    for name in (".pre-commit-config.yaml", ".clang-format", ".clang-tidy"):
        for number, line in enumerate(lines(name) if (root / name).is_file() else [], 1):
            for tool, version in re.findall(r"\b([a-z][\w-]*)(?:==| )(\d[\d.]*\d)", line):
                if version != pinned.get(tool, version):
                    yield f"{name}:{number}: {tool} {version} is not the pinned {pinned[tool]}"


def dependencies():
    """A file whose object depends on more than the compiler sees is compiled by itself: CMake
    forgets that in a unit of several files.
    """
    wanted = re.compile(r"set_source_files_properties\((?:[^()]|\([^()]*\))*\)")
    for name in files():
        if not name.endswith("CMakeLists.txt"):
            continue
        text = "\n".join(lines(name))
        for call in wanted.finditer(text):
            if "OBJECT_DEPENDS" in call[0] and "SKIP_UNITY_BUILD_INCLUSION ON" not in call[0]:
                number = text.count("\n", 0, call.start()) + 1
                yield f"{name}:{number}: OBJECT_DEPENDS needs SKIP_UNITY_BUILD_INCLUSION ON"


RULES = (
    spdx,
    machine_paths,
    descriptors,
    file_sizes,
    manners,
    waits,
    floats,
    guards,
    layers,
    environment,
    tutorial,
    columns,
    places,
    promises,
    records,
    widths,
    comments,
    statements,
    pins,
    dependencies,
)


def main():
    failed = False
    for check in RULES:
        if rule in (check.__name__, "all"):
            offences = list(check())
            failed |= bool(offences)
            print(
                "\n".join(offences) if offences else f"{check.__name__}: nothing to complain about"
            )
            if len(offences) > 9:
                print(f"{check.__name__}: {len(offences)} offences")
    return failed


if rule != "all" and rule not in {check.__name__ for check in RULES}:
    sys.exit(f"there is no rule {rule}")
sys.exit(main())
