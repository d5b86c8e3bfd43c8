"""What was found out about methods and machines is kept: answers, the highest roofs, and the noise floors of environments."""

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attnbench.schema.errand import Description, Roof, Surroundings
from attnbench.store import cache as module
from attnbench.store.cache import (
    NoiseFloor,
    keep_answer,
    keep_noise_floor,
    known_answer,
    known_noise_floor,
    known_roofs,
    with_highest_roofs,
)

pytestmark = pytest.mark.usefixtures("cache")
ENTRY = EntryPoint(name="mine.one", value="asked_package.family.one:One", group="attnbench.impls")
ANSWER = Description(method="mine.one", paper="", tier="eager", causality="full", summary="", version="1", parameters=("a",))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The family of a method."""
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "asked_package" / "family"
    folder.mkdir(parents=True)
    for file in (folder.parent / "__init__.py", folder / "__init__.py", folder / "one.py", folder / "shared.py"):
        file.write_text('"""."""\n')
    return folder


@pytest.mark.parametrize("changed", ["one.py", "shared.py", "../__init__.py"])
def test_an_answer_is_known_until_any_file_of_its_package_changes(package: Path, changed: str) -> None:
    module._newest.cache_clear()
    assert known_answer(ENTRY) is None
    keep_answer(ENTRY, ANSWER)
    assert known_answer(ENTRY) == ANSWER
    # another process asks later: what was found in this one is found anew
    module._newest.cache_clear()
    later = (package / "one.py").stat().st_mtime + 10**9
    os.utime(package / changed, (later, later))
    assert known_answer(ENTRY) is None


def seen(products: float, copies: float, cached: float | None = None, name: str = "float32") -> Surroundings:
    roof = Roof(flops_per_second=products, bytes_per_second=copies, cached_bytes_per_second=cached)
    return Surroundings(device="cpu", facts={}, memory_bytes=1, roof={name: roof})


def test_a_busy_machine_lowers_no_roof_and_a_quiet_one_raises_each() -> None:
    with_highest_roofs("e", seen(30, 10, 50))
    busy = with_highest_roofs("e", seen(17, 12, None))
    assert busy == seen(30, 12, 50)
    assert known_roofs("e") == busy


def test_each_dtype_and_each_environment_has_its_own_roof() -> None:
    with_highest_roofs("e", seen(30, 10))
    assert with_highest_roofs("e", seen(5, 5, name="bfloat16")) == seen(5, 5, name="bfloat16")
    assert with_highest_roofs("other", seen(17, 10)) == seen(17, 10)
    known = known_roofs("e")
    assert known is not None
    assert set(known.roof) == {"float32", "bfloat16"}


def floor(environment: str = "abc", *smallest: tuple[int, float]) -> NoiseFloor:
    known = smallest or ((3, 0.09), (5, 0.05), (10, 0.03))
    return NoiseFloor(environment=environment, device="cpu", about="m, N=8", run="r", verdicts=200, smallest=known)


def test_the_last_noise_floor_is_known_in_its_own_environment_only() -> None:
    assert known_noise_floor("abc") is None
    keep_noise_floor(floor())
    keep_noise_floor(floor("abc", (5, 0.2)))
    assert known_noise_floor("abc") == floor("abc", (5, 0.2))
    assert known_noise_floor("abd") is None


@pytest.mark.parametrize(("replicates", "share"), [(2, None), (3, 0.09), (5, 0.05), (10, 0.03), (40, 0.015)])
def test_beyond_the_counts_that_were_tried_the_floor_sinks_with_the_square_root(replicates: int, share: float | None) -> None:
    assert floor().at(replicates) == share


def test_more_replicates_never_tell_less() -> None:
    shares = [floor().at(replicates) or 0 for replicates in range(3, 200)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


def test_where_no_effect_was_found_none_is_known() -> None:
    assert floor().model_copy(update={"smallest": ()}).at(10) is None


def test_a_spoilt_file_is_as_good_as_none(cache: Path) -> None:
    keep_noise_floor(floor())
    (file,) = cache.iterdir()
    for content in (b"", b"{", b"[]", b"\xff", b'{"environment": "abc"}'):
        file.write_bytes(content)
        assert known_noise_floor("abc") is None


def test_a_cache_that_cannot_be_written_or_read_is_none(cache: Path) -> None:
    cache.parent.write_text("a file")
    keep_noise_floor(floor())
    assert known_noise_floor("abc") is None
    assert with_highest_roofs("e", seen(30, 10)) == seen(30, 10)
    assert known_roofs("e") is None


def test_an_environment_is_a_name_and_never_a_path(cache: Path) -> None:
    keep_noise_floor(floor("../../x"))
    assert [file.parent for file in cache.parent.rglob("*") if file.is_file()] == [cache]
