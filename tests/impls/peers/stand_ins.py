"""Stand-ins for packages of others, which compute their definitions and note how they are called."""

import copy
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import laid_out
from tests.impls.contract.calls import Inputs, evaluated, inputs_of

Calls = list[dict[str, Any]]


def load(name: str) -> Any:
    """The class of a method, whatever its constructor takes."""
    return registry.load(name)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of that name with these contents, and empty packages above it, until the test ends."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        # what is really installed must not be what is called
        if not getattr(sys.modules.get(path), "stands_in", False):
            module = ModuleType(path)
            module.__path__, module.stands_in = [], True  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, path, module)
            if i > 1:
                monkeypatch.setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], module, raising=False)
    for key, value in contents.items():
        monkeypatch.setattr(sys.modules[name], key, value, raising=False)


def is_its_definition(method: Any, **keywords: Tensor | None) -> tuple[Inputs, Tensor]:
    """What the stand-in gives, and all gradients through it, are those of the definition, in float64; inputs and output."""
    p, inputs, parameters = method.problem, inputs_of(method), list(method.parameters())
    g = torch.randn(p.B, p.H, p.N, p.M, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    g = laid_out(g, method.layout)
    got, want = (evaluated(function, inputs, g, parameters, **keywords) for function in (method, method.reference))
    # each is copied to be checked, also after its calls
    copy.deepcopy(method)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    return inputs, got[0]
