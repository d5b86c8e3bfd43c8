"""What a call runs, by torch's profiler."""

import json
from pathlib import Path

import torch

from attnbench.measure.kernels import Kernel, in_words, kernels_of


def test_the_operators_of_a_call_are_named_with_how_often_they_ran_the_longest_first(tmp_path: Path) -> None:
    x = torch.randn(256, 256)
    found = kernels_of(lambda: (x @ x @ x).cos(), "cpu", tmp_path / "trace.json")
    calls = {kernel.name: kernel.calls for kernel in found}
    assert (calls["aten::mm"], calls["aten::cos"]) == (2, 1)
    assert [kernel.seconds for kernel in found] == sorted((kernel.seconds for kernel in found), reverse=True)
    assert "aten::mm" in in_words(found)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 2


def test_what_is_beyond_the_longest_is_summed_up() -> None:
    assert in_words([Kernel("a", 1, 3.0), Kernel("b", 2, 1.0)]) == "a 75 %, b 25 %"
    many = [Kernel(name, 1, 1.0) for name in "abcdefg"]
    assert in_words(many).endswith("e 14 %, 2 others 29 %")
