"""`attnbench show`: a picture of any method here, or words that say what would be right."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import attnbench as door
from attnbench import registry
from tests.cli.conftest import Refused, Run

SMALL = ("--N", 16, "--heads", 2, "--width", 8)


def drawn(method: str, **changes: Any) -> bytes:
    return door.show(method, **{"N": 16, "heads": 2, "width": 8, **changes}).image("svg")


def test_the_command_draws_and_says_where(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("show", "linear.chunked", "--N", "32", "--heads", "2", "--param", "chunk=8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "linear.chunked.png\n"
    with Image.open(tmp_path / "linear.chunked.png") as opened:
        assert opened.width > 600


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("softmax.naive", {}),
        ("softmax.flex", {}),
        ("linear.full", {}),
        ("linear.cuda", {}),
        ("linear.chunked", {"feature_map": "favor", "features": 8}),
        ("lsh.reformer_pytorch", {"bucket_size": 4, "rounds": 2}),
    ],
)
def test_what_is_drawn_depends_on_the_seed_alone(method: str, params: dict[str, Any]) -> None:
    first = drawn(method, param=params)
    assert first == drawn(method, param=params)
    assert first != drawn(method, param=params, seed=1)


def test_a_picture_is_causal_where_the_method_can_and_nothing_else_was_asked() -> None:
    assert b"; non-causal" not in drawn("softmax.naive")
    assert drawn("softmax.naive") == drawn("softmax.naive", causal=True)
    assert drawn("softmax.naive") != drawn("softmax.naive", causal=False)
    assert drawn("linear.full") == drawn("linear.full", causal=False)


def test_numbers_truths_and_words_are_told_apart(refused: Refused) -> None:
    duplicates = ("--param", "bucket_size=4", "--param", "allow_duplicate_attention=1")
    assert "allow_duplicate_attention=1: must be true or false" in refused("show", "lsh.reformer_pytorch", *SMALL, *duplicates)
    assert "chunk='x'" in refused("show", "linear.chunked", *SMALL, "--param", "chunk=x")
    assert "chunk=2.5" in refused("show", "linear.chunked", *SMALL, "--param", "chunk=2.5")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("softmax.nave",), "no method 'softmax.nave'; did you mean 'softmax.naive', 'softmax"),
        (("linear.full", "--causal"), "linear.full cannot be shown: it has no causal form: every query sees every key;"),
        (("lsh.reformer_pytorch",), "lsh.reformer_pytorch cannot be shown: N=16 must be a multiple of 2 * bucket_size = 128"),
        (("linear.chunked", "--param", "chnk=3"), "--param chnk: the method has no such parameter; did you mean 'chunk'?"),
        (("softmax.naive", "--param", "chunk=3"), "it has: none"),
        (("softmax.naive", "--param", "chunk"), "--param chunk: write it as name=value"),
        (("softmax.naive", "--N", 513), "--N 513: more than a picture can show; at most 512"),
        (("softmax.naive", "--heads", 17), "--heads 17: more than a picture can show; at most 16"),
        (("faulty:NeedsAPackage",), "pip install 'a-package-that-nobody-has>=2'"),
        (("import_needs:Method",), "cannot be imported"),
        (("math:nothing",), "math has no 'nothing'; it has no attention: subclass attnbench.api.Attention"),
    ],
)
def test_bad_input_gets_words(
    plugins: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], says: str, refused: Refused
) -> None:
    monkeypatch.syspath_prepend(str(plugins))
    assert says in refused("show", *SMALL, *words)


def test_a_picture_says_which_parameters_nobody_gave() -> None:
    # four heads, so that the line has room
    svg = drawn("sparse.strided", param={"mode": "per_head"}, heads=4)
    assert b"by default layer=0, convention=paper; left to the method:" in svg
    assert b"left to the method" not in drawn("sparse.strided", param={"mode": "per_head", "stride": 4}, heads=4)


def test_a_class_is_drawn_as_its_name_is() -> None:
    by_class, by_name = (door.show(method, N=16).picture for method in (registry.load("softmax.naive"), "softmax.naive"))
    assert (by_class.weights == by_name.weights).all()
    assert (by_class.title, by_class.about) == ("NaiveSoftmax", by_name.about)


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.pdf"])
def test_a_picture_that_is_neither_png_nor_svg_is_refused_before_anything_else(refused: Refused, name: str) -> None:
    assert "a picture is .png or .svg" in refused("show", "no.such.method", "--out", name)
