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


@pytest.mark.parametrize("changed", ["family/one.py", "family/shared.py", "__init__.py"])
def test_an_answer_is_known_until_its_package_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "asked_package"
    (package / "family").mkdir(parents=True)
    for name in ("__init__.py", "family/__init__.py", "family/one.py", "family/shared.py"):
        (package / name).write_text('"""."""\n')
    entry = EntryPoint(name="mine.one", value="asked_package.family.one:One", group="attnbench.impls")
    about = {"method": "mine.one", "paper": "", "tier": "eager", "causality": "full", "summary": "", "version": "1"}
    answer = Description(**about, parameters=("a",))  # type: ignore[arg-type]
    module._newest.cache_clear()
    assert known_answer(entry) is None
    keep_answer(entry, answer)
    assert known_answer(entry) == answer
    # another process asks later: what was found in this one is found anew
    module._newest.cache_clear()
    later = (package / changed).stat().st_mtime + 10**9
    os.utime(package / changed, (later, later))
    assert known_answer(entry) is None


def seen(products: float, copies: float, cached: float | None = None, name: str = "float32") -> Surroundings:
    roof = Roof(flops_per_second=products, bytes_per_second=copies, cached_bytes_per_second=cached)
    return Surroundings(device="cpu", facts={}, memory_bytes=1, roof={name: roof})


def test_a_busy_machine_lowers_no_roof_a_quiet_one_raises_each_and_dtypes_and_environments_have_their_own() -> None:
    with_highest_roofs("e", seen(30, 10, 50))
    busy = with_highest_roofs("e", seen(17, 12, None))
    assert busy == known_roofs("e") == seen(30, 12, 50)
    assert with_highest_roofs("e", seen(5, 5, name="bfloat16")) == seen(5, 5, name="bfloat16")
    assert with_highest_roofs("other", seen(17, 10)) == seen(17, 10)
    known = known_roofs("e")
    assert known is not None
    assert set(known.roof) == {"float32", "bfloat16"}


def floor(environment: str = "abc", *smallest: tuple[int, float]) -> NoiseFloor:
    known = smallest or ((3, 0.09), (5, 0.05), (10, 0.03))
    return NoiseFloor(environment=environment, device="cpu", about="m, N=8", run="r", verdicts=200, smallest=known)


def test_the_last_noise_floor_is_known_in_its_own_environment_only_which_is_a_name_and_never_a_path(cache: Path) -> None:
    assert known_noise_floor("abc") is None
    keep_noise_floor(floor())
    keep_noise_floor(floor("abc", (5, 0.2)))
    assert known_noise_floor("abc") == floor("abc", (5, 0.2))
    assert known_noise_floor("abd") is None
    keep_noise_floor(floor("../../x"))
    assert [file.parent for file in cache.parent.rglob("*") if file.is_file()] == [cache] * 2


@pytest.mark.parametrize(("replicates", "share"), [(2, None), (3, 0.09), (5, 0.05), (10, 0.03), (40, 0.015)])
def test_beyond_the_counts_that_were_tried_the_floor_sinks_with_the_square_root(replicates: int, share: float | None) -> None:
    assert floor().at(replicates) == share
    assert floor().model_copy(update={"smallest": ()}).at(replicates) is None, "no effect was found"


def test_a_spoilt_file_or_a_cache_that_cannot_be_written_or_read_is_as_good_as_none(cache: Path) -> None:
    keep_noise_floor(floor())
    (file,) = cache.iterdir()
    for content in (b"", b"{", b"[]", b"\xff", b'{"environment": "abc"}'):
        file.write_bytes(content)
        assert known_noise_floor("abc") is None
    cache.rename(cache.with_name("moved"))
    cache.write_text("a file")
    keep_noise_floor(floor())
    assert known_noise_floor("abc") is None
    assert with_highest_roofs("e", seen(30, 10)) == seen(30, 10)
    assert known_roofs("e") is None
