"""What an examination of a machine finds."""

import pytest

from attnbench.session.machine import disturbance, gpu, old_assembler
from tests.measure.conftest import FakeNvml

HOPPER, OTHERS = "9.0", ("8.0", "10.0", None)


@pytest.mark.parametrize("ptxas", ["V12.8.93", "V13.2.51"])
def test_an_assembler_that_is_wrong_on_hopper_gpus_is_told_with_what_to_do(ptxas: str) -> None:
    words = old_assembler({"compute_capability": HOPPER, "ptxas": ptxas})
    assert ptxas in words
    assert "TRITON_PTXAS_PATH" in words
    assert not any(old_assembler({"compute_capability": other, "ptxas": ptxas}) for other in OTHERS)
    assert not any(old_assembler({"compute_capability": HOPPER, "ptxas": right}) for right in ("V13.5.37", None))


@pytest.mark.parametrize("lost", ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_a_gpu_that_is_lost_is_told_in_words_and_disturbs_no_run(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    for name, found in (("nvmlDeviceGetCount", lambda: 1), (lost, nvml.refuses)):
        setattr(nvml, name, found)
    assert [(found.text, found.ok) for found in gpu()] == [("NVML: GPU is lost; memory by NVML will be n/a", None)]
    assert "GPU" not in disturbance()
