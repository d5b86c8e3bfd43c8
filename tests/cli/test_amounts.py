"""Words that are lengths and amounts of memory."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.cli.amounts import length, memory_share, share
from attnbench.cli.errors import UsageError

FREE = 16 * 2**30


@given(st.integers(1, 2**24))
def test_a_length_is_a_number(number: int) -> None:
    assert length(str(number), "--limit") == number


@given(st.integers(0, 24))
def test_or_a_power(exponent: int) -> None:
    assert length(f"2^{exponent}", "--limit") == 2**exponent


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "2^99", "512..1024", "1.5", "max"])
def test_what_is_no_length_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=f"--limit {text}".replace(".", r"\.").replace("^", r"\^")):
        length(text, "--limit")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.7", 0.7),
        ("70%", 0.7),
        (" 70 % ", 0.7),
        ("8GiB", 0.5),
        ("8 gib", 0.5),
        ("8192MiB", 0.5),
        ("16GB", 16e9 / FREE),
        ("1", 1.0),
    ],
)
def test_memory_is_a_share_or_an_amount(text: str, share: float) -> None:
    assert memory_share(text, FREE, "--memory") == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["", "x", "0", "0%", "101%", "1.1", "17GiB", "0GiB", "8", "-1GiB", "8 GiBs", "8PiB", "nan", "inf"]
)
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        memory_share(text, FREE, "--memory")


@given(st.text(max_size=12))
def test_whatever_is_written_the_answer_is_a_share_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert 0 < memory_share(text, FREE, "--memory") <= 1


@given(st.text(max_size=12))
def test_whatever_is_written_the_answer_is_a_length_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert length(text, "--limit") >= 1


@pytest.mark.parametrize(("text", "want"), [("8%", 0.08), ("0.08", 0.08), (".5", 0.5), ("+25 %", None), (" 3 % ", 0.03)])
def test_a_share_is_a_percentage_or_a_fraction(text: str, want: float | None) -> None:
    if want is None:
        with pytest.raises(UsageError, match=r"for example 8% or 0\.08"):
            share(text, "--margin")
    else:
        assert share(text, "--margin") == pytest.approx(want)


@pytest.mark.parametrize("text", ["", "0", "0%", "-3%", "x", "1001%", "nan", "1e400"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--margin"):
        share(text, "--margin")
