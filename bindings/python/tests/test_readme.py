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
