"""What a call runs, by torch's profiler, and which kernels are chosen before any runs."""

import json
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from attnbench.measure.kernels import Kernel, in_words, kernels_of, tuned_launches
from attnbench.measure.vector_math import choose_kernels


def test_the_operators_of_a_call_are_named_with_how_often_they_ran_the_longest_first(tmp_path: Path) -> None:
    x = torch.randn(256, 256)
    found = kernels_of(lambda: (x @ x @ x).cos(), "cpu", tmp_path / "trace.json")
    calls = {kernel.name: kernel.calls for kernel in found}
    assert (calls["aten::mm"], calls["aten::cos"]) == (2, 1)
    assert [kernel.seconds for kernel in found] == sorted((kernel.seconds for kernel in found), reverse=True)
    assert "aten::mm" in in_words(found)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 2


@pytest.mark.cuda
def test_the_kernels_of_a_call_on_a_gpu_are_named() -> None:
    x = torch.randn(1024, 1024, device="cuda:0")
    found = kernels_of(lambda: (x @ x).cos(), "cuda:0")
    assert sum(kernel.calls for kernel in found) == 2
    assert all(0 < kernel.seconds < 1 for kernel in found)
    assert not any(kernel.name.startswith("aten::") for kernel in found)


def test_what_is_beyond_the_longest_is_summed_up() -> None:
    assert in_words([Kernel("a", 1, 3.0), Kernel("b", 2, 1.0)]) == "a 75 %, b 25 %"
    assert in_words([Kernel(name, 1, 1.0) for name in "abcdefg"]).endswith("e 14 %, 2 others 29 %")


@dataclass
class Tuner:
    """As triton.runtime.autotuner.Autotuner, which has `best_config` once it was called."""

    base_fn: Callable[[], object]

    def choose(self, config: str) -> None:
        self.best_config = config


def test_the_launches_that_triton_s_autotuners_chose_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward() -> None: ...
    def backward() -> None: ...
    def never_called() -> None: ...

    monkeypatch.delitem(sys.modules, "triton.runtime.autotuner", raising=False)
    assert tuned_launches() == "", "Triton was not imported"
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=Tuner))
    tuners = [Tuner(function) for function in (forward, backward, never_called)]
    # a weak reference to what is gone answers no question about it
    gone = weakref.proxy(Tuner(forward))
    assert tuned_launches() == ""
    del gone
    tuners[0].choose("BLOCK: 64, num_warps: 4")
    tuners[1].choose("BLOCK: 32, num_warps: 8")
    assert tuned_launches() == "backward (BLOCK: 32, num_warps: 8); forward (BLOCK: 64, num_warps: 4)"


class Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, torch.dtype]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], torch.Tensor):
            self.seen.append((func.__name__, args[0].dtype))
        return func(*args, **(kwargs or {}))


def test_the_functions_that_attentions_use_are_called_first_by_one_thread_in_both_precisions() -> None:
    with Calls() as calls:
        choose_kernels()
    assert {("exp", torch.float32), ("exp", torch.float64), ("log", torch.float32), ("tanh", torch.float32)} <= set(calls.seen)
