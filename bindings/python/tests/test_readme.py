"""The programs that the documents show run as they stand."""

import re
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

README = Path(__file__).parents[1] / "README.md"
TUTORIAL = REPOSITORY / "docs" / "python.md"


def programs(page):
    """The programs in Python on a page; none if the page is not in this package."""
    if not page.exists():
        return []
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [README, REPOSITORY / "README.md", TUTORIAL])
def test_what_a_page_installs_is_what_its_programs_import(page):
    """PyTorch and JAX have sections of their own, for those who have these."""
    if not page.exists():
        pytest.skip("the page is in the repository only")
    said = re.search(r"^pip install \.(.*?)(?:#.*)?$", page.read_text(), re.MULTILINE)
    installed = {"symm", "torch", "jax", *said[1].split()}
    for program in programs(page):
        imported = set(re.findall(r"^(?:import|from) (\w+)", program, re.MULTILINE))
        assert imported - sys.stdlib_module_names <= installed


# What rank {0}, with the left neighbour {1}, prints in the first program of a page.
OUTPUT = {
    README: "rank {0} of 3: the sum is 6\n",
    REPOSITORY / "README.md": "rank {0}: my neighbour wrote {1}, all together 3\n",
}


@pytest.mark.parametrize("page", [page for page in OUTPUT if page.exists()])
def test_the_first_program_prints_what_it_should(launch, page):
    (program,) = programs(page)
    for rank, result in enumerate(launch(3, sys.executable, "-c", program)):
        assert result == (0, OUTPUT[page].format(rank, (rank - 1) % 3))


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial is in the repository only")
@pytest.mark.parametrize("number", range(len(programs(TUTORIAL))))
def test_a_program_of_the_tutorial_runs(launch, number):
    program = programs(TUTORIAL)[number]
    if "# CUDA" in program:
        pytest.skip("needs a GPU")
    for package in ("torch", "jax"):
        if f"import {package}" in program:
            pytest.importorskip(package)
    for status, output in launch(2, sys.executable, "-c", program):
        assert status == 0, output
