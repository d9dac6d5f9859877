import re
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_four_ranks_of_the_demo(launch, tmp_path, monkeypatch):
    place = tmp_path / "ipc"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("SYMM_IPC_DIRECTORY", str(place))
    for rank, (status, output) in enumerate(launch(4, sys.executable, str(DEMO))):
        expected = (
            rf"rank {rank} \(Python\): put 16384 B to rank {(rank + 1) % 4} in [\d.]+ us; all-reduce 262144 B in [\d.]+ us; "
            rf"all bits right; imported rank {(rank + 3) % 4}'s piece by token \(\d+ bytes\)\n"
        )
        assert status == 0, output
        assert re.fullmatch(expected, output), output
