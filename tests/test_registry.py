"""From a name to a method: what helps where the name is wrong, and that nothing heavy is imported on the way."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attnbench import Problem, build, registry
from attnbench.registry import MissingPackageError, UnknownMethodError

Install = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Replaces the installed entry points by the given (name, value) pairs."""

    def _install(*pairs: tuple[str, str]) -> None:
        entries = [EntryPoint(name=name, value=value, group=registry.GROUP) for name, value in pairs]
        monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == registry.GROUP else [])
        registry.catalogue.cache_clear()

    yield _install
    registry.catalogue.cache_clear()


LISTED = "attnbench methods lists the {} there are; one's own: module:Class"


@pytest.mark.parametrize(
    ("names", "asked", "said"),
    [
        (("b.chunked", "a.naive"), "b.chunkd", f"no method 'b.chunkd'; did you mean 'b.chunked'? {LISTED.format(2)}"),
        (("b.chunked",), "xyzzy", f"no method 'xyzzy'; {LISTED.format(1)}"),
        (
            ("b.aa", "b.ab", "b.ac", "b.ad"),
            "b.a",
            f"no method 'b.a'; did you mean 'b.ad', 'b.ac' or 'b.ab'? {LISTED.format(4)}",
        ),
    ],
    ids=["one is near", "none is near", "three at most"],
)
def test_a_wrong_name_offers_the_nearest(installed: Install, names: Sequence[str], asked: str, said: str) -> None:
    installed(*((name, "some:X") for name in names))
    with pytest.raises(UnknownMethodError) as error:
        registry.load(asked)
    assert str(error.value) == said


def test_methods_are_listed_by_name_and_two_of_one_name_are_an_error_that_names_both(installed: Install) -> None:
    # one that is found twice is no error
    installed(("b.y", "some:Y"), ("a.x", "some:X"), ("a.x", "some:X"))
    assert {name: entry.value for name, entry in registry.catalogue().items()} == {"a.x": "some:X", "b.y": "some:Y"}
    assert list(registry.catalogue()) == ["a.x", "b.y"]
    installed(("a.b", "one:X"), ("a.b", "two:X"))
    with pytest.raises(LookupError, match=r"two methods are called 'a.b': one:X and two:X"):
        registry.catalogue()


def test_a_module_that_is_absent_is_a_pip_line(installed: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_one_more.py").write_text("import no_such_package_at_all.part\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(("a.b", "needs_one_more:X"), ("a.c", "no_such_module_at_all.part:X"))
    with pytest.raises(MissingPackageError) as error:
        registry.load("a.b")
    assert str(error.value) == "a.b needs the module 'no_such_package_at_all': pip install no_such_package_at_all"
    with pytest.raises(ModuleNotFoundError) as other:
        registry.load("a.c")
    assert not isinstance(other.value, MissingPackageError)


def test_a_file_is_an_address_too_whatever_it_is_called(installed: Install, tmp_path: Path) -> None:
    installed()
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "random.py").write_text("import beside\nclass Mine:\n    why_not = print\n    word = beside.WORD\n")
    mine = registry.load(f"{tmp_path}/random.py:Mine")
    assert vars(mine)["word"] == "beside"
    assert registry.load(f"{tmp_path}/random.py:Mine") is mine
    assert str(tmp_path) not in str(sys.modules["random"])


def test_building_without_its_packages_tells_what_to_type(
    installed: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires = ("pytest", "no-such-package>=1", "pytest>=9999", "pytest>=1,<9999", "another-one")
    (tmp_path / "demanding.py").write_text(f"class Method:\n    why_not = print\n    requires = {requires}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(("a.b", "demanding:Method"))
    with pytest.raises(MissingPackageError) as error:
        build("a.b", Problem(N=8))
    wanted = "a.b needs no-such-package>=1, pytest>=9999, another-one: pip install"
    assert str(error.value) == f"{wanted} 'no-such-package>=1' 'pytest>=9999' another-one"


def test_neither_what_only_talks_nor_reading_the_catalogue_imports_anything_heavy() -> None:
    rooms = "attnbench, attnbench.suite.load, attnbench.suite.expand, attnbench.store.run_folder, attnbench.cli.app"
    code = f"import sys, {rooms}; from attnbench import registry; registry.catalogue();"
    code += " print(*{'torch', 'pandas', 'matplotlib', 'numpy', 'attnbench_impls'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
