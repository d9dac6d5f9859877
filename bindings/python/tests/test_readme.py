"""The programs that the documents show run as they stand."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

README = Path(__file__).parents[1] / "README.md"
INDEX = REPOSITORY / "docs" / "index.md"
PORT = REPOSITORY / "docs" / "how-to" / "from-torch-symmetric-memory.md"
# Pages that show parts of programs in examples/, which test_torch.py runs.
PARTS = [REPOSITORY / "docs" / "how-to" / "pytorch.md", REPOSITORY / "docs" / "determinism.md"]
WEIGHTS = REPOSITORY / "docs" / "how-to" / "weights.md"
SLEEP = REPOSITORY / "docs" / "how-to" / "sleep.md"
TUTORIAL = REPOSITORY / "docs" / "python.md"


def programs(page):
    """The programs in Python on a page; none if the page is not in this package."""
    if not page.exists():
        return []
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [README, REPOSITORY / "README.md", INDEX, TUTORIAL])
def test_what_a_page_installs_is_what_its_programs_import(page):
    """PyTorch and JAX have sections of their own, for those who have these."""
    if not page.exists():
        pytest.skip("the page is in the repository only")
    said = re.search(r"^pip install \.(.*?)(?:#.*)?$", page.read_text(), re.MULTILINE)
    installed = {"symm", "torch", "jax", *said[1].split()}
    for program in programs(page):
        imported = set(re.findall(r"^(?:import|from) (\w+)", program, re.MULTILINE))
        assert imported - sys.stdlib_module_names <= installed


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the page is in the repository only")
def test_the_page_of_limits_names_the_versions_that_doors_installs():
    said = (REPOSITORY / "docs" / "limits.md").read_text()
    said = " ".join(
        said[said.index("Tests on processors (`./dev doors`)") :].split("\n\n")[0].split()
    )
    installed = (REPOSITORY / "bindings" / "python" / "doors.txt").read_text()
    for name in ("PyTorch", "JAX", "Triton"):
        package = {"PyTorch": "torch"}.get(name, name.lower())
        version = re.search(rf"^{package}==(\d+\.\d+)", installed, re.MULTILINE)[1]
        assert re.search(rf"\b{name} {re.escape(version)}(?!\d)", said), f"{name} {version}: {said}"


# What rank {0}, with the left neighbour {1}, prints in the first program of a page.
OUTPUT = {
    README: "rank {0} of 3: the sum is 6\n",
    INDEX: "rank {0} of 3: the sum is 6\n",
    REPOSITORY / "README.md": "rank {0}: my neighbour wrote {1}, all together 3\n",
}


@pytest.mark.parametrize("page", [page for page in OUTPUT if page.exists()])
def test_the_first_program_prints_what_it_should(launch, page):
    (program,) = programs(page)
    for rank, result in enumerate(launch(3, sys.executable, "-c", program)):
        assert result == (0, OUTPUT[page].format(rank, (rank - 1) % 3))


def programs_with_symm(page):
    return [program for program in programs(page) if re.search("^import symm$", program, re.M)]


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial is in the repository only")
@pytest.mark.parametrize(
    ("page", "number"),
    [
        (page, number)
        for page in (TUTORIAL, PORT, WEIGHTS, SLEEP)
        for number in range(len(programs_with_symm(page)))
    ],
)
def test_a_program_of_a_page_runs(launch, page, number):
    program = programs_with_symm(page)[number]
    if "# CUDA" in program:
        pytest.skip("needs a GPU")
    for package in ("torch", "jax"):
        if f"import {package}" in program:
            pytest.importorskip(package)
    for status, output in launch(2, sys.executable, "-c", program):
        assert status == 0, output


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the pages are in the repository only")
@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.name)
def test_what_a_page_shows_of_a_program_is_in_the_program(page):
    text = page.read_text()
    linked = re.findall(r"\]\(((?:\.\./)+examples/\S+\.py)\)", text)
    sources = "".join((page.parent / path).read_text() for path in linked)
    shown = programs(page)
    assert shown
    assert [part for part in shown if part not in sources] == []


# Programs beside those in C++, what a rank prints last, and how ranks end otherwise than well.
EXAMPLES = {
    "01-hello-ranks/hello_ranks.py": ("rank {rank} of 3 is process", {}),
    "02-share-an-array/share_an_array.py": ("rank {rank}: the last elements add up to 3", {}),
    "03-signals/pass_it_on.py": ("around 3 ranks: 3", {}),
    "04-all-reduce/average.py": ("rank {rank}: average 2, total 9 (symmetric memory", {}),
    "06-survive-a-dead-rank/survive.py": (" lost rank 1\nrank ", {1: -signal.SIGKILL}),
    "08-a-pipeline/pipeline.py": ("100 blocks went through 3 stages and add up to 5376000", {}),
    "15-a-work-queue/work_queue.py": ("200 tasks found 17984 primes", {}),
}


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial is in the repository only")
@pytest.mark.parametrize("program", EXAMPLES)
def test_a_program_beside_one_in_cpp_prints_the_same(launch, program):
    expected, ends = EXAMPLES[program]
    results = launch(3, sys.executable, REPOSITORY / "examples" / program)
    for rank, (status, output) in enumerate(results):
        assert status == ends.get(rank, 0), output
    says_it = [rank for rank in range(3) if expected.format(rank=rank) in results[rank][1]]
    one_speaks = program.startswith(("03-", "08-", "15-"))
    assert len(says_it) == (1 if one_speaks else 3 - len(ends)), results


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the examples are in the repository only")
def test_a_spare_of_a_job_takes_the_place_of_a_rank_that_is_killed(tmp_path):
    """What `symm run --spares` sets is set here, since the wheel has no tool."""
    program = REPOSITORY / "examples" / "20-a-spare" / "keep_going.py"
    place = {"SYMM_TICKETS": str(tmp_path), "SYMM_BOOTSTRAP": f"dir://{tmp_path}"}
    whose = [{"SYMM_RANK": str(rank), "SYMM_SIZE": "3"} for rank in range(3)]
    processes = [
        subprocess.Popen(
            [sys.executable, program],
            env={**os.environ, **place, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for own in [*whose, {"SYMM_SPARE": "0"}]
    ]
    said = [process.communicate(timeout=100)[0] for process in processes]
    ends = [process.returncode for process in processes]
    assert ends == [0, -signal.SIGKILL, 0, 0], said
    # The killed rank had done 20; the all-reduce of the last may still have been under way here.
    assert re.search(r"^rank 0 lost rank 1 after (19|20) steps$", said[0], re.MULTILINE), said[0]
    assert "rank 1, a spare: 40 steps add up to 240" in said[3]


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial is in the repository only")
def test_each_program_of_the_tutorial_in_cpp_has_one_in_python():
    in_cpp = {path.with_suffix(".py") for path in (REPOSITORY / "examples").glob("0*/*.cpp")}
    in_python = {program for program in EXAMPLES if program.startswith("0")}
    assert in_cpp == {REPOSITORY / "examples" / program for program in in_python}
