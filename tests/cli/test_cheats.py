"""A cheat is a row that says how it was caught, and the sentence of result knows it not."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd

SUITE = """
name: cheats
axes: {N: 1024, H: 2, D: 16, causal: true}
methods: ["plain:Plain", softmax.sdpa, "cheats:ReplaysByPointer", "cheats:InHalfPrecision", "cheats:ForgesSamples"]
budget: {seconds: 0.4, timeout: 20}
replicates: 1
"""


def test_cheats_are_shown_and_neither_ranked_nor_named_in_the_sentence_of_result(
    attnbench: Callable[..., CompletedProcess[str]], suite: Callable[[str], str], only_run: Callable[[], Path]
) -> None:
    done = attnbench("run", suite(SUITE))
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(only_run() / "table.csv").set_index("method")
    assert table["status"].to_dict() == {
        "plain:Plain": "ok",
        "softmax.sdpa": "ok",
        "cheats:ReplaysByPointer": "impossible",
        "cheats:InHalfPrecision": "incorrect",
        "cheats:ForgesSamples": "unfair",
    }
    cheats = table[table["status"] != "ok"]
    assert cheats["time_median_s_per_call"].isna().all()
    assert cheats["reason"].str.contains("is not ranked|of the .* in which they were taken").all()
    said = " ".join(done.stdout.split())
    assert "cheats:" not in said[: said.index("Speed only")]
    assert "impossible: cheats:ReplaysByPointer at 1k" in said
