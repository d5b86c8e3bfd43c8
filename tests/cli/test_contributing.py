"""The attention that CONTRIBUTING shows is a whole one: copied to the letter, it runs."""

import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_attention_that_contributing_shows_runs_beside_the_others(
    attnbench: Callable[..., subprocess.CompletedProcess[str]],
    suite: Callable[[str], str],
    only_run: Callable[[], Path],
    tmp_path: Path,
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "my_attention.py").write_text(textwrap.dedent(found.group(1)), encoding="utf-8")
    text = (
        "name: s\naxes: {N: 128, H: 2, D: 16, causal: [true, false]}\nworkloads: [forward, forward_backward]\n"
        "methods: [softmax.sdpa]\nbudget: {seconds: 0.2}\nreplicates: 1\nreport: {plots: []}\n"
    )
    done = attnbench("run", suite(text), "--impl", "my_attention:MeanOfValues")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(only_run() / "table.csv")
    mine = table[table["method"] == "my_attention:MeanOfValues"]
    assert set(zip(mine["causal"], mine["status"], strict=True)) == {(True, "unsupported"), (False, "ok")}
