"""The C allocator's policy: what it does to resident memory, and what is said where it cannot be set."""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from attnbench.measure import allocator

Patterns = Callable[[str], dict[str, dict[str, Any]]]
BLOCK = 320 * 2**20


def test_a_freed_block_stays_resident_when_memory_is_retained(patterns: Patterns) -> None:
    assert patterns("retain")["a freed block"]["kept"] > 0.95 * BLOCK


def test_a_freed_block_goes_back_to_the_system_by_default(patterns: Patterns) -> None:
    assert patterns("system")["a freed block"]["kept"] < 0.1 * BLOCK


def test_a_trim_gives_back_even_what_is_retained(patterns: Patterns) -> None:
    assert patterns("retain")["a freed block"]["after_trim"] < 0.1 * BLOCK


def test_a_c_library_without_the_functions_is_told_by_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert not allocator.retain()
    assert not allocator.trim()


def test_a_refused_option_is_told_by_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda option, value: 0))
    assert not allocator.retain()
