"""What the documents show is run as it stands."""

import re
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

README = Path(__file__).parents[1] / "README.md"
TUTORIAL = REPOSITORY / "docs" / "python.md"


def programs(path):
    return (
        re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        if path.exists()
        else []
    )


SAID = {
    README: "rank {0} of 3: the sum is 6\n",
    REPOSITORY / "README.md": "rank {0}: my neighbour wrote {1}, all together 3\n",
}


@pytest.mark.parametrize("page", [page for page in SAID if page.exists()])
def test_the_first_program(launch, page):
    (program,) = programs(page)
    for rank, answer in enumerate(launch(3, sys.executable, "-c", program)):
        assert answer == (0, SAID[page].format(rank, (rank - 1) % 3))


@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial is in the repository only")
@pytest.mark.parametrize("number", range(len(programs(TUTORIAL))))
def test_the_tutorial(launch, number):
    program = programs(TUTORIAL)[number]
    if "# CUDA" in program:
        pytest.skip("needs a GPU")
    for package in ("torch", "jax"):
        if f"import {package}" in program:
            pytest.importorskip(package)
    for status, output in launch(2, sys.executable, "-c", program):
        assert status == 0, output
