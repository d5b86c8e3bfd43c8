"""From a name to a method: what helps where the name is wrong, and what a form of a method, as name+compile, computes."""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from attnbench import build, registry
from attnbench.api import Cell, Problem, Workload
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


PROBLEM = Problem(B=1, H=2, N=32, D=8, causal=True)
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
    with pytest.raises(UnknownMethodError, match=r"two methods are called 'a.b': one:X and two:X; uninstall"):
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
    requires = ("pytest", "no-such-package>=1", "pytest>=9999", "pytest>=1,<9999", "another-one<9")
    (tmp_path / "demanding.py").write_text(f"class Method:\n    why_not = print\n    requires = {requires}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(("a.b", "demanding:Method"))
    with pytest.raises(MissingPackageError) as error:
        build("a.b", Problem(N=8))
    wanted = "a.b needs no-such-package>=1, pytest>=9999, another-one<9: pip install"
    assert str(error.value) == f"{wanted} 'no-such-package>=1' 'pytest>=9999' 'another-one<9'"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), [("softmax.naive", {}), ("lsh.reformer", {"bucket_size": 4})])  # which draws anew
def test_compiled_a_method_computes_what_it_did_and_its_copy_is_compiled_too(name: str, params: dict[str, int]) -> None:
    plain, compiled = build(name, PROBLEM, **params), build(f"{name}+compile", PROBLEM, **params)
    counters, found = torch._dynamo.utils.counters, []
    counters.clear()
    q, k, v = (x.requires_grad_() for x in type(plain).inputs(PROBLEM, torch.Generator().manual_seed(7)))
    g = torch.randn(1, 2, 32, 8)
    for method in (plain, compiled, copy.deepcopy(compiled)):
        torch._dynamo.reset()
        torch.manual_seed(7)
        with method.observe() as noted:
            o = method(q, k, v)
        found.append((o.detach(), *torch.autograd.grad(o, (q, k, v), g)))
        assert noted == ({} if method is plain else {"graphs": 1, "graph_breaks": 0})
    for a, b in zip(found[2], found[0], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    assert not [name for counts in counters.values() for name in counts if "cache_hit" in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax.naive+compile", "softmax.flex"])
def test_every_length_of_a_process_is_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # what torch has found in a call is left as it is
    compiler = Mock(side_effect=lambda graph, _, **__: graph)
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compiler)
    with torch._dynamo.config.patch(recompile_limit=8):
        for N in range(2, 12):
            method = build(name, Problem(H=1, N=N, D=16))
            method(*type(method).inputs(method.problem, torch.Generator()))
    assert compiler.call_count == 10


def test_a_compiled_method_is_described_as_its_own_and_refuses_what_is_not_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(name: str) -> str | None:
        return registry.load(name).refusal(Cell(method=name, problem=PROBLEM))

    method = registry.load("linear.chunked+compile")
    assert (method.tier, method.paper, method.decodes) == ("compiled", registry.load("linear.chunked").paper, False)
    assert refusal("softmax.sdpa+compile") == "its tier is library: only eager methods are compiled"
    with monkeypatch.context() as compiling:  # whose import takes seconds
        compiling.delattr("attnbench.forms._compile")
        assert method.cost(PROBLEM, {}, Workload.FORWARD) == registry.load("linear.chunked").cost(PROBLEM, {}, Workload.FORWARD)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", {"clang++": "/bin/clang++"}.get)
    assert "needs a C++ compiler, and g++ is not there: install g++, or name another by CXX" in (
        refusal("softmax.naive+compile") or ""
    )
    monkeypatch.setenv("CXX", "clang++")
    assert refusal("softmax.naive+compile") is None


def test_a_padded_batch_is_built_as_one_row_and_forms_are_known_by_their_names_together() -> None:
    method = build("softmax.sdpa+packed", Problem(B=4, H=2, N=64, D=8, causal=True, padding=0.5))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    assert method(*inputs).shape == (1, 2, 56 + 48 + 40 + 32, 8)
    torch.testing.assert_close(method(*inputs), method.reference(*inputs))
    both = registry.load("linear.chunked+packed+compile")
    cell = Cell(method="linear.chunked+packed+compile", problem=PROBLEM.model_copy(update={"B": 4, "padding": 0.5}))
    assert both.tier == "compiled"
    assert "C++" in (both.refusal(cell) or "C++")
    assert registry.is_known(cell.method)
    assert not registry.is_known("linear.chunked+folded")
