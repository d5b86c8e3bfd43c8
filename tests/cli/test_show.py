"""`attnbench show`: a picture of any method here, or words that say what would be right."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from attnbench.cli.errors import UsageError
from attnbench.cli.show import Options, show

Run = Callable[..., subprocess.CompletedProcess[str]]


def options(method: str = "softmax.naive", out: Path | None = None, **changes: object) -> Options:
    known: dict[str, object] = {"N": 16, "heads": 2, "width": 8, "params": (), "causal": None, "seed": 0}
    return Options(method=method, out=out, **{**known, **changes})  # type: ignore[arg-type]


def drawn(tmp_path: Path, method: str, **changes: object) -> bytes:
    out = tmp_path / "a.svg"
    show(options(method, out, **changes))
    return out.read_bytes()


def refused(method: str = "softmax.naive", out: Path | None = None, **changes: object) -> str:
    with pytest.raises(UsageError) as error:
        show(options(method, out, **changes))
    return str(error.value)


def test_the_command_draws_and_says_where(attnbench: Run, tmp_path: Path) -> None:
    done = attnbench("show", "linear.chunked", "--N", "32", "--heads", "2", "--param", "chunk=8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "linear.chunked.png\n"
    with Image.open(tmp_path / "linear.chunked.png") as opened:
        assert opened.width > 600


def test_the_command_refuses_in_words_and_with_a_hint(attnbench: Run, tmp_path: Path) -> None:
    done = attnbench("show", "softmax.nave")
    assert done.returncode == 2
    assert "no method 'softmax.nave'; did you mean 'softmax.naive', 'softmax" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("softmax.naive", ()),
        ("softmax.flex", ()),
        ("linear.full", ()),
        ("linear.cuda", ()),
        ("linear.chunked", ("feature_map=favor", "features=8")),
        ("lsh.reformer_pytorch", ("bucket_size=4", "rounds=2")),
    ],
)
def test_what_is_drawn_depends_on_the_seed_alone(tmp_path: Path, method: str, params: tuple[str, ...]) -> None:
    first = drawn(tmp_path, method, params=params)
    assert first == drawn(tmp_path, method, params=params)
    assert first != drawn(tmp_path, method, params=params, seed=1)


def test_a_picture_is_causal_where_the_method_can_and_nothing_else_was_asked(tmp_path: Path) -> None:
    assert b"; non-causal" not in drawn(tmp_path, "softmax.naive")
    assert drawn(tmp_path, "softmax.naive") == drawn(tmp_path, "softmax.naive", causal=True)
    assert drawn(tmp_path, "softmax.naive") != drawn(tmp_path, "softmax.naive", causal=False)
    assert drawn(tmp_path, "linear.full") == drawn(tmp_path, "linear.full", causal=False)


def test_numbers_truths_and_words_are_told_apart() -> None:
    assert "allow_duplicate_attention=1: must be true or false" in refused(
        "lsh.reformer_pytorch", params=("bucket_size=4", "allow_duplicate_attention=1")
    )
    assert "chunk='x'" in refused("linear.chunked", params=("chunk=x",))
    assert "chunk=2.5" in refused("linear.chunked", params=("chunk=2.5",))


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("linear.full", {"causal": True}, "linear.full cannot be shown: every query sees every key; linear.chunked does the"),
        ("lsh.reformer_pytorch", {}, "lsh.reformer_pytorch cannot be shown: N=16 must be a multiple of 2 * bucket_size = 128"),
        ("linear.chunked", {"params": ("chnk=3",)}, "--param chnk: the method has no such parameter; did you mean 'chunk'?"),
        ("softmax.naive", {"params": ("chunk=3",)}, "it has: none"),
        ("softmax.naive", {"params": ("chunk",)}, "--param chunk: write it as name=value"),
        ("softmax.naive", {"N": 513}, "--N 513: more than a picture can show; at most 512"),
        ("softmax.naive", {"heads": 17}, "--heads 17: more than a picture can show; at most 16"),
        ("faulty:NeedsAPackage", {}, "pip install 'a-package-that-nobody-has>=2'"),
        ("import_needs:Method", {}, "cannot be imported"),
        ("nobody:Knows", {}, "there is no module 'nobody', here or installed"),
        ("math:nothing", {}, "math has no 'nothing'; it has no attention: subclass attnbench.api.Attention"),
        ("math:sqrt", {}, "math:sqrt is not an attention: subclass attnbench.api.Attention"),
    ],
)
def test_bad_input_gets_words(
    plugins: Path, monkeypatch: pytest.MonkeyPatch, method: str, changes: dict[str, object], words: str
) -> None:
    monkeypatch.syspath_prepend(str(plugins))
    assert words in refused(method, None, **changes)


def test_a_picture_says_which_parameters_nobody_gave(tmp_path: Path) -> None:
    # four heads, so that the line has room
    svg = drawn(tmp_path, "sparse.strided", params=("mode=per_head",), heads=4)
    assert b"by default layer=0, convention=paper; left to the method:" in svg
    assert b"left to the method" not in drawn(tmp_path, "sparse.strided", params=("mode=per_head", "stride=4"), heads=4)


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.pdf"])
def test_a_picture_that_is_neither_png_nor_svg_is_refused_before_anything_else(tmp_path: Path, name: str) -> None:
    assert "a picture is .png or .svg" in refused("no.such.method", tmp_path / name)


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'} is no folder" in refused(out=tmp_path / "file" / "a.png")
