"""What is said to Ray, which is played."""

import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

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
            ray.stations(address, "", "", cuda=False, fresh=False).__enter__()


def test_a_lane_of_a_suite_on_cuda_is_given_a_gpu_by_whatever_resource_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, dict[str, int] | None]] = []

    class Actor:
        def options(self, *, num_gpus: float, resources: dict[str, int] | None, **_: object) -> "Actor":
            asked.append((num_gpus, resources))
            return self

        def remote(self, *_: object, **__: object) -> None: ...

    offered = {"GPU": 2.0, "accelerator_type:H200": 1.0, "slot": 4.0}
    node = {"Alive": True, "NodeID": "", "NodeManagerHostname": "", "Resources": offered}
    played = MagicMock()
    played.nodes.return_value, played.remote.return_value = [node], Actor()
    monkeypatch.setitem(sys.modules, "ray", played)
    monkeypatch.setattr(ray, "_code", lambda _: {})

    def lanes(resource: str, *, cuda: bool) -> list[tuple[float, dict[str, int] | None]]:
        asked.clear()
        with ray.stations(None, resource, "", cuda=cuda, fresh=False) as found:
            # the options are those of a node, whatever its number of lanes
            return asked * len(found)

    type_ = "accelerator_type:H200"
    assert lanes("", cuda=True) == lanes("GPU", cuda=False) == [(1, None)] * 2
    assert lanes("", cuda=False) == [(0, None)]
    assert (lanes(type_, cuda=True), lanes(type_, cuda=False)) == ([(1, {type_: 1})], [(0, {type_: 1})])
    # more lanes than GPUs
    assert lanes("slot", cuda=True) == [(0, {"slot": 1})] * 4
