"""What an examination of a machine finds."""

import pytest

from attnbench.schema.errand import Surroundings
from attnbench.schema.noun import Facts
from attnbench.session.machine import disturbance, gpu, old_assembler
from tests.measure.conftest import FakeNvml

HOPPER, OTHERS = "9.0", ("8.0", "10.0", None)


@pytest.mark.parametrize("ptxas", ["V12.8.93", "V13.2.51"])
def test_an_assembler_that_is_wrong_on_hopper_gpus_is_told_with_what_to_do(ptxas: str) -> None:
    words = old_assembler({"compute_capability": HOPPER, "ptxas": ptxas})
    assert ptxas in words
    assert "TRITON_PTXAS_PATH and TRITON_PTXAS_BLACKWELL_PATH" in words
    assert not any(old_assembler({"compute_capability": other, "ptxas": ptxas}) for other in OTHERS)
    assert not any(old_assembler({"compute_capability": HOPPER, "ptxas": right}) for right in ("V13.5.37", None))


@pytest.mark.parametrize("lost", ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_a_gpu_that_is_lost_is_told_in_words_and_disturbs_no_run(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    setattr(nvml, lost, nvml.refuses)
    assert [(found.text, found.ok) for found in gpu()] == [("NVML: GPU is lost; memory by NVML will be n/a", None)]
    assert "GPU" not in disturbance([])


@pytest.mark.parametrize(("facts", "told"), [({"gpu_uuid": "1234"}, True), ({"gpu_uuid": "5678"}, False), ({}, False)])
def test_a_gpu_on_which_others_compute_disturbs_who_measures_on_it(
    monkeypatch: pytest.MonkeyPatch, facts: Facts, told: bool
) -> None:
    nvml = FakeNvml(processes=[(1, 500)])
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    said = disturbance([Surroundings(device="", facts=facts, memory_bytes=1, roof={})])
    assert ("H100: SM 1980 MHz, 312.5 W, 61 C, shared" in said) is told
