"""What is said to Ray, which is played."""

import sys
from types import SimpleNamespace

import pytest

from attnbench.places import ray
from attnbench.places.ray import RayError


def test_without_an_address_a_cluster_is_started_and_none_that_runs_here_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(address: str | None, **_: object) -> None:
        raise ConnectionError(f"asked for {address}")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    monkeypatch.setattr(ray, "_code", lambda _: {})
    for address, says in ((None, "at this machine: asked for local"), ("auto", "at auto: asked for auto")):
        with pytest.raises(RayError, match=says):
            ray.stations(address, "", "", fresh=False).__enter__()
