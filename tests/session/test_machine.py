"""What an examination of a machine finds."""

import pytest

from attnbench.session.machine import old_assembler

HOPPER, OTHERS = "9.0", ("8.0", "10.0", None)


@pytest.mark.parametrize("ptxas", ["V12.8.93", "V13.2.51"])
def test_an_assembler_that_is_wrong_on_hopper_gpus_is_told_with_what_to_do(ptxas: str) -> None:
    words = old_assembler({"compute_capability": HOPPER, "ptxas": ptxas})
    assert ptxas in words
    assert "TRITON_PTXAS_PATH" in words
    assert not any(old_assembler({"compute_capability": other, "ptxas": ptxas}) for other in OTHERS)
    assert not any(old_assembler({"compute_capability": HOPPER, "ptxas": right}) for right in ("V13.5.37", None))
