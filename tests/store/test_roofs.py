"""The roof of an environment: the highest that was ever measured there."""

from pathlib import Path

import pytest

from attnbench.schema.errand import Roof, Surroundings
from attnbench.store import roofs


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def seen(products: float, copies: float, cached: float | None = None, name: str = "float32") -> Surroundings:
    roof = Roof(flops_per_second=products, bytes_per_second=copies, cached_bytes_per_second=cached)
    return Surroundings(device="cpu", facts={}, memory_bytes=1, roof={name: roof})


def test_a_busy_machine_lowers_no_ceiling_and_a_quiet_one_raises_each() -> None:
    roofs.raised("e", seen(30, 10, 50))
    busy = roofs.raised("e", seen(17, 12, None))
    assert busy == seen(30, 12, 50)
    assert roofs.recall("e") == busy


def test_each_dtype_and_each_environment_has_its_own() -> None:
    roofs.raised("e", seen(30, 10))
    assert roofs.raised("e", seen(5, 5, name="bfloat16")) == seen(5, 5, name="bfloat16")
    assert roofs.raised("other", seen(17, 10)) == seen(17, 10)
    known = roofs.recall("e")
    assert known is not None
    assert set(known.roof) == {"float32", "bfloat16"}


def test_a_cache_that_cannot_be_written_or_read_is_none(cache: Path) -> None:
    (cache / "attnbench").write_text("a file")
    assert roofs.raised("e", seen(30, 10)) == seen(30, 10)
    assert roofs.recall("e") is None
