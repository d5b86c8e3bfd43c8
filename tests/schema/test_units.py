"""Numbers as people read them, compared with texts that were read by a person."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema import units


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (
            units.three_digits,
            {0: "0", 1: "1.00", 12.34: "12.3", 0.1234: "0.123", 99.96: "100", 100.4: "100", 999.4: "999", 999.6: "1000"}
            | {1234: "1230", 123456789: "123000000", 1e-5: "0.0000100", -12.34: "-12.3"}
            | {math.nan: "nan", math.inf: "inf", -math.inf: "-inf"},
        ),
        (
            units.seconds,
            {0.0: "0 ns", 3.5e-10: "0.350 ns", 1e-9: "1.00 ns", 9.99e-7: "999 ns", 1.234e-6: "1.23 µs", 0.0123: "12.3 ms"}
            | {1.0: "1.00 s", 75.04: "75.0 s", 3600: "3600 s", -0.002: "-2.00 ms"},
        ),
        (
            units.bytes_,
            {0: "0 B", 512: "512 B", 1024: "1.00 KiB", 64 * 2**20: "64.0 MiB", 1.5 * 2**30: "1.50 GiB", 3 * 2**40: "3.00 TiB"}
            | {5000 * 2**40: "5000 TiB", -2048: "-2.00 KiB"},
        ),
        # shortened only where nothing is lost
        (units.length, {1: "1", 512: "512", 1000: "1000", 1024: "1k", 1536: "1536", 65536: "64k"}),
    ],
    ids=["three digits", "seconds", "bytes", "lengths"],
)
def test_numbers_are_written_as_people_read_them(write: Callable[[float], str], texts: dict[float, str]) -> None:
    assert {value: write(value) for value in texts} == texts


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_three_digits_are_never_an_exponent_and_never_far_off(value: float) -> None:
    text = units.three_digits(value)
    assert "e" not in text
    assert not text.endswith(".")
    assert math.isclose(float(text), value, rel_tol=0.00501)
