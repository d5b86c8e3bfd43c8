"""A pickle runs whatever it likes when it is opened: wherever in a run folder one lies, nobody opens it."""

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
PLACES = [
    "run.json",
    "records.jsonl",
    "records.aside",
    "run.lock",
    "table.csv",
    "index.html",
    "run.pkl",
    "checkpoints/x.safetensors",
]


class Poison:
    """Leaves a mark when it is opened as a pickle."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_pickled_in_a_run_folder_is_never_run(
    place: str, run: Run, written: Callable[[Path, float, int], Path], tmp_path: Path
) -> None:
    folder, mark = written(tmp_path / "run", 1.0, 1), tmp_path / "was-here"
    poison = pickle.dumps(Poison(mark))
    pickle.loads(poison)
    assert mark.exists(), "it is poison"
    mark.unlink()
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_bytes(poison)
    for command in (("export", str(folder), "--to", "parquet"), ("history", "list", str(tmp_path)), ("compare", str(folder))):
        done = run(*command)
        assert done.returncode in {0, 1, 2}, done.stderr
        assert "Traceback" not in done.stderr
    assert not mark.exists()
