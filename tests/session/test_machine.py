"""What an examination of a machine finds."""

import pytest

from attnbench.session.machine import old_assembler


@pytest.mark.parametrize(
    ("capability", "ptxas", "wrong"),
    [
        ("9.0", "V12.8.93", True),
        ("9.0", "V13.2.51", True),
        ("9.0", "V13.5.37", False),
        ("9.0", None, False),
        ("8.0", "V12.8.93", False),
        ("10.0", "V12.8.93", False),
        (None, "V12.8.93", False),
    ],
)
def test_an_assembler_that_is_wrong_on_hopper_gpus_is_told_with_what_to_do(
    capability: str | None, ptxas: str | None, wrong: bool
) -> None:
    words = old_assembler({"compute_capability": capability, "ptxas": ptxas})
    assert bool(words) is wrong
    assert not wrong or (str(ptxas) in words and "TRITON_PTXAS_PATH" in words)
