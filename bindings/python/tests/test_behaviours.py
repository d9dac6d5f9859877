import signal
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

TABLE = REPOSITORY / "tests" / "bindings" / "behaviours" / "table.txt"
RUNNER = Path(__file__).parent / "behaviours.py"


@pytest.mark.skipif(not TABLE.exists(), reason="the table is in the repository only")
def test_table(launch):
    scenarios = TABLE.read_text().count("\nscenario ")
    first, second, third = launch(3, sys.executable, str(RUNNER), str(TABLE))
    assert first == (0, f"rank 0: {scenarios} scenarios\n")
    assert second == (0, f"rank 1: {scenarios} scenarios\n")
    assert third == (-signal.SIGKILL, ""), "rank 2 kills itself in the last scenario"


@pytest.mark.skipif(not TABLE.exists(), reason="the table is in the repository only")
def test_a_wrong_table_fails(launch, tmp_path):
    wrong = tmp_path / "table.txt"
    wrong.write_text("scenario s\nall expect_group size=3\nall barrier channel=99\n")
    for status, output in launch(3, sys.executable, str(RUNNER), str(wrong)):
        assert status == 1
        assert "table.txt:3" in output
