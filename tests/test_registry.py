"""From a name to a method: what helps where the name is wrong, and that nothing heavy is imported on the way."""

import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attnbench import registry
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


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that can be imported as `some_module`."""
    module = types.ModuleType("some_module")
    monkeypatch.setitem(sys.modules, "some_module", module)
    return module


class Method:
    """What the registry takes for a method: it says why it cannot."""

    requires: tuple[str, ...] = ()

    @staticmethod
    def why_not(cell: object) -> None:
        """Can everything."""


def test_methods_are_listed_in_the_order_of_their_names(installed: Install) -> None:
    installed(("b.y", "some:Y"), ("a.x", "some:X"))
    assert list(registry.catalogue()) == ["a.x", "b.y"]


def test_a_wrong_name_offers_the_nearest_and_says_where_all_stand(installed: Install) -> None:
    installed(("linear.chunked", "some:X"), ("softmax.naive", "some:Y"))
    with pytest.raises(UnknownMethodError) as error:
        registry.load("linear.chunkd")
    assert str(error.value) == (
        "no method 'linear.chunkd'; did you mean 'linear.chunked'? "
        "attnbench methods lists the 2 there are; one's own: module:Class"
    )


def test_a_name_that_resembles_none_offers_none(installed: Install) -> None:
    installed(("linear.chunked", "some:X"))
    with pytest.raises(UnknownMethodError, match=r"^no method 'xyzzy'; attnbench methods lists the 1 there are; "):
        registry.find("xyzzy")


def test_at_most_three_names_are_offered(installed: Install) -> None:
    installed(*((f"linear.chunk{i}", "some:X") for i in range(9)))
    with pytest.raises(UnknownMethodError) as error:
        registry.find("linear.chunk")
    assert str(error.value).count("'linear.chunk") == 4


def test_a_name_with_a_colon_is_its_own_address(installed: Install, module: types.ModuleType) -> None:
    installed()
    module.Mine = Method  # type: ignore[attr-defined]
    found: object = registry.load("some_module:Mine")
    assert found is Method


def test_what_is_no_attention_is_refused_with_the_base_class_named(installed: Install, module: types.ModuleType) -> None:
    installed(("a.b", "some_module:thing"))
    module.thing = object()  # type: ignore[attr-defined]
    with pytest.raises(UnknownMethodError, match=r"some_module:thing is not an attention: subclass attnbench.api.Attention"):
        registry.load("a.b")


def test_two_methods_of_one_name_are_an_error_that_names_both(installed: Install) -> None:
    installed(("a.b", "one:X"), ("a.b", "two:X"))
    with pytest.raises(LookupError, match=r"two methods are called 'a.b': one:X and two:X"):
        registry.catalogue()


def test_one_method_that_is_found_twice_is_no_error(installed: Install) -> None:
    installed(("a.b", "one:X"), ("a.b", "one:X"))
    assert registry.catalogue()["a.b"].value == "one:X"


def test_a_module_that_a_method_imports_and_that_is_absent_is_a_pip_line(
    installed: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_one_more.py").write_text("import no_such_package_at_all.part\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(("a.b", "needs_one_more:X"))
    with pytest.raises(MissingPackageError) as error:
        registry.load("a.b")
    assert str(error.value) == "a.b needs the module 'no_such_package_at_all': pip install no_such_package_at_all"


def test_a_method_whose_own_module_is_absent_is_not_a_missing_package(installed: Install) -> None:
    installed(("a.b", "no_such_module_at_all.part:X"))
    with pytest.raises(ModuleNotFoundError) as error:
        registry.load("a.b")
    assert not isinstance(error.value, MissingPackageError)


def test_an_address_whose_module_is_absent_says_so(installed: Install) -> None:
    installed()
    with pytest.raises(UnknownMethodError, match=r"^there is no module 'nobody', here or installed$"):
        registry.load("nobody:Knows")


def test_a_module_without_that_class_says_which_it_has(installed: Install, module: types.ModuleType) -> None:
    installed()
    module.Mine, module.Other = Method, int  # type: ignore[attr-defined]
    said = r"^some_module has no 'Mien'; did you mean 'Mine'\? it has Mine$"
    with pytest.raises(UnknownMethodError, match=said):
        registry.load("some_module:Mien")


def test_a_file_is_an_address_too_whatever_it_is_called(installed: Install, tmp_path: Path) -> None:
    installed()
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "random.py").write_text("import beside\nclass Mine:\n    why_not = print\n    word = beside.WORD\n")
    mine = registry.load(f"{tmp_path}/random.py:Mine")
    assert vars(mine)["word"] == "beside"
    assert registry.load(f"{tmp_path}/random.py:Mine") is mine
    assert str(tmp_path) not in str(sys.modules["random"])
    with pytest.raises(UnknownMethodError, match=r"there is no file .*absent\.py$"):
        registry.load(f"{tmp_path}/absent.py:Mine")


def test_requirements_that_are_absent_or_too_old_are_missing() -> None:
    class Demanding(Method):
        requires = ("pytest", "no-such-package-at-all>=1", "pytest>=9999", "pytest>=1,<9999")

    assert registry.missing(Demanding) == ("no-such-package-at-all>=1", "pytest>=9999")  # type: ignore[arg-type]


def test_building_a_method_whose_package_is_absent_tells_what_to_type(installed: Install, module: types.ModuleType) -> None:
    from attnbench import Problem, build

    class Demanding(Method):
        requires = ("no-such-package>=1", "another-one")

    module.Demanding = Demanding  # type: ignore[attr-defined]
    installed(("a.b", "some_module:Demanding"))
    with pytest.raises(MissingPackageError) as error:
        build("a.b", Problem(N=8))
    wanted = "a.b needs no-such-package>=1, another-one: pip install 'no-such-package>=1' another-one"
    assert str(error.value) == wanted


def test_the_installed_methods_are_those_of_the_project_at_least() -> None:
    assert {"softmax.naive", "softmax.sdpa", "linear.chunked", "linear.full"} <= set(registry.catalogue())


def test_neither_what_only_talks_nor_reading_the_catalogue_imports_anything_heavy() -> None:
    rooms = "attnbench, attnbench.suite.load, attnbench.suite.expand, attnbench.store.run_folder, attnbench.cli.app"
    code = f"import sys, {rooms}; from attnbench import registry; registry.catalogue();"
    code += " print(*{'torch', 'pandas', 'matplotlib', 'numpy', 'attnbench_impls'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
