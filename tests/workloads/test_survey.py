"""What the machine says of itself."""

from typing import Any

import pytest
import torch

from attnbench.schema.errand import Roof, Surroundings, Survey
from attnbench.workloads.survey import survey


def test_a_survey_has_the_device_its_facts_its_memory_and_its_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.measure.roof.measure", lambda device, dtype: (len(dtype) * 1e9, 1e10, 1e11))
    found = survey(Survey(device="cpu", ceilings=("float32", "bfloat16")))
    assert found.device == "cpu"
    assert found.facts["torch"] == torch.__version__
    assert found.memory_bytes > 0
    assert found.roof == {
        "float32": Roof(flops_per_second=7e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
        "bfloat16": Roof(flops_per_second=8e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
    }
    assert Surroundings.model_validate_json(found.model_dump_json()) == found


def test_memory_is_looked_at_before_the_roofs_take_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(name: str, value: Any) -> Any:
        def note(*_: object) -> Any:
            order.append(name)
            return value

        return note

    monkeypatch.setattr("attnbench.measure.roof.measure", noted("roof", (1e9, 1e9, 1e9)))
    monkeypatch.setattr("attnbench.measure.devices.free_bytes", noted("memory", 2**30))
    survey(Survey(device="cpu", ceilings=("float32",)))
    assert order == ["memory", "roof"]


def test_auto_comes_to_a_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert survey(Survey()).device == "cpu"
