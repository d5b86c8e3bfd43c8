"""What selfcheck found is kept by environment; and the plan beside its records."""

from pathlib import Path

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.problem import Problem
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store import noise_floor, selfcheck_plan
from attnbench.store.noise_floor import NoiseFloor
from attnbench.store.run_folder import StoreError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "attnbench"


def floor(environment: str = "abc", *smallest: tuple[int, float]) -> NoiseFloor:
    known = smallest or ((3, 0.09), (5, 0.05), (10, 0.03))
    return NoiseFloor(environment=environment, device="cpu", about="m, N=8", run="r", verdicts=200, smallest=known)


def test_what_was_kept_is_recalled_in_its_own_environment_only() -> None:
    assert noise_floor.recall("abc") is None
    noise_floor.remember(floor())
    assert noise_floor.recall("abc") == floor()
    assert noise_floor.recall("abd") is None


def test_the_last_one_counts() -> None:
    noise_floor.remember(floor())
    noise_floor.remember(floor("abc", (5, 0.2)))
    assert noise_floor.recall("abc") == floor("abc", (5, 0.2))


@pytest.mark.parametrize(("replicates", "share"), [(2, None), (3, 0.09), (5, 0.05), (10, 0.03), (40, 0.015)])
def test_beyond_the_counts_that_were_tried_the_floor_sinks_with_the_square_root(replicates: int, share: float | None) -> None:
    assert floor().at(replicates) == share


def test_more_replicates_never_tell_less() -> None:
    shares = [floor().at(replicates) or 0 for replicates in range(3, 200)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


def test_where_nothing_was_found_nothing_is_known() -> None:
    nothing = NoiseFloor(environment="e", device="cpu", about="", run="", verdicts=200, smallest=())
    assert nothing.at(10) is None


def test_a_spoilt_file_is_as_good_as_none(cache: Path) -> None:
    noise_floor.remember(floor())
    (file,) = cache.iterdir()
    for content in (b"", b"{", b"[]", b"\xff", b'{"environment": "abc"}'):
        file.write_bytes(content)
        assert noise_floor.recall("abc") is None


def test_a_cache_that_cannot_be_written_is_none(cache: Path) -> None:
    cache.parent.write_text("a file")
    noise_floor.remember(floor())
    assert noise_floor.recall("abc") is None


def test_an_environment_is_a_name_and_never_a_path(cache: Path) -> None:
    noise_floor.remember(floor("../../x"))
    assert [file.parent for file in cache.parent.rglob("*") if file.is_file()] == [cache]


CELL = Cell(method="m", problem=Problem(N=8))


def test_a_plan_is_recalled_from_its_folder(tmp_path: Path) -> None:
    plan = Selfcheck(sides=(CELL, CELL), verdicts=7)
    selfcheck_plan.keep(tmp_path, plan)
    assert selfcheck_plan.recall(tmp_path) == plan


def test_a_folder_without_a_plan_is_none_of_a_selfcheck(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not the folder of a selfcheck"):
        selfcheck_plan.recall(tmp_path)


@pytest.mark.parametrize(("content", "why"), [(b"{", "EOF"), (b"{}", "sides: Field required"), (b"\xff", "")])
def test_a_plan_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(StoreError, match=f"plan.json cannot be read: .*{why}"):
        selfcheck_plan.recall(tmp_path)


def test_a_plan_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*plan.json"):
        selfcheck_plan.keep(tmp_path / "nowhere", Selfcheck(sides=(CELL, CELL)))
