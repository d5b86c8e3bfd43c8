"""What the machine says of itself."""

import pytest
import torch

from attnbench.schema.errand import Roof, Surroundings, Survey
from attnbench.workloads.survey import survey


def test_a_survey_has_the_device_its_facts_its_memory_and_a_roof_per_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.measure.roof.measure", lambda device, dtype: (len(dtype) * 1e9, 1e10))
    found = survey(Survey(device="cpu", dtypes=("float32", "bfloat16")))
    assert found.device == "cpu"
    assert found.facts["torch"] == torch.__version__
    assert found.memory_bytes > 0
    assert found.roof == {
        "float32": Roof(flops_per_second=7e9, bytes_per_second=1e10),
        "bfloat16": Roof(flops_per_second=8e9, bytes_per_second=1e10),
    }
    assert Surroundings.model_validate_json(found.model_dump_json()) == found


def test_auto_comes_to_a_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert survey(Survey()).device == "cpu"
