"""What a suite may say: lengths, what can be trained, what others printed; and what is said where it cannot be."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from attnbench.schema.problem import Problem
from attnbench.schema.published import Published
from attnbench.schema.suite import Axes, Suite
from attnbench.schema.training import PIXELS, Task, Training

OURS = {"metric": "throughput", "workload": "generate", "of": {"method": "a"}}


def published(**fields: Any) -> Published:
    return Published.model_validate({"where": "Table 1", "what": "images/s", "comparable": "ratio", **fields}, strict=False)


def test_every_key_of_a_suite_says_what_it_means() -> None:
    schema = TypeAdapter(Suite).json_schema(mode="validation")
    parts = {"Suite": schema, **schema["$defs"]}
    silent = [
        f"{title}.{key}"
        for title, part in parts.items()
        for key, field in part.get("properties", {}).items()
        if not field.get("description")
    ]
    assert not silent


def test_a_row_says_how_it_is_read_off_a_run_or_what_it_would_take() -> None:
    assert published(ours=OURS).says == "n/a"
    # of any parameter
    assert published(ours={**OURS, "of": {"method": "a", "when": "N == 512 and k == 128"}}).ours is not None
    assert published(needs="a week on eight GPUs").ours is None
    with pytest.raises(ValidationError, match="say by `ours` how it is read off a run, or by `needs` what it would take"):
        published()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ours": {**OURS, "over": {"method": "b"}, "less": {"method": "c"}}}, "give `over` or `less`, not both"),
        ({"ours": OURS, "reproduced": {}}, "give `at_least`, `at_most` or both"),
        ({"ours": OURS, "reproduced": {"at_least": 2.0, "at_most": 1.0}}, "`at_least` is above `at_most`"),
        ({"ours": {**OURS, "metric": "speed"}}, "'tokens', 'throughput'"),
        ({"ours": {**OURS, "of": {"method": "a", "when": "print(1)"}}}, "is not allowed"),
    ],
    ids=["two comparisons", "no bound", "nothing between the bounds", "nothing that can be read", "no condition"],
)
def test_what_cannot_be_compared_is_refused_in_words(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        published(**fields)


def test_a_bound_that_is_the_printed_number_needs_one() -> None:
    axes = {"down": {"N": [512]}, "across": {"k": [128, 256]}, "numbers": [[1.5, None]]}
    assert published(ours=OURS, reproduced={"at_least": "printed"}, grid=axes).reproduced is not None
    band = published(ours=OURS, reproduced={"at_least": "printed", "at_most": 9}, number=3).reproduced
    assert band is not None
    assert (band.ends(3), band.ends(1.5)) == ((3, 9), (1.5, 9))
    with pytest.raises(ValidationError, match="a bound `printed` needs the printed `number`, or a `grid`"):
        published(ours=OURS, reproduced={"at_least": "printed"})


def test_a_grid_has_a_number_or_nothing_at_every_crossing() -> None:
    axes = {"down": {"N": [512, 1024]}, "across": {"k": [128, 256, 512]}}
    assert published(ours=OURS, grid={**axes, "numbers": [[1.5, 1.3, None], [1.7, 1.6, 1.3]]}).grid is not None
    with pytest.raises(ValidationError, match="numbers must be 2 rows of 3"):
        published(ours=OURS, grid={**axes, "numbers": [[1.5, 1.3]]})
    with pytest.raises(ValidationError, match="down and across are both 'k'"):
        published(ours=OURS, grid={"down": {"k": [1]}, "across": {"k": [2]}, "numbers": [[1.5]]})


def lengths(value: object) -> tuple[int, ...]:
    return Axes.model_validate({"N": value}).N


@given(st.integers(1, 2**24), st.integers(1, 2**24), st.integers(0, 24), st.integers(0, 24))
def test_a_range_doubles_from_its_start_and_never_passes_its_end(a: int, b: int, x: int, y: int) -> None:
    low, high = sorted((a, b))
    got = lengths(f"{low}..{high}")
    assert got[0] == low
    assert all(later == 2 * earlier for earlier, later in pairwise(got))
    assert got[-1] <= high < 2 * got[-1]
    low, high = sorted((x, y))
    assert lengths(f"2^{low}..2^{high}") == tuple(2**k for k in range(low, high + 1))


def test_a_value_is_one_length_or_several() -> None:
    for value in (512, "512", "2^9", " 2 ^ 9 ", "2^9..512"):
        assert lengths(value) == (512,)
    assert (lengths("3^2"), lengths("3..20")) == ((9,), (3, 6, 12))
    assert lengths(["2^3..2^5", 7, "2^6", "9"]) == (8, 16, 32, 7, 64, 9)


@pytest.mark.parametrize(
    ("says", "values"),
    [
        (
            r"is not a number; write 512, 2\^9, or a range 2\^9\.\.2\^16",
            ["2^9-2^12", "2**9", "2^9..", "..2^9", "1..2..3", "", "x", "-2", "1e3", "2^^3", "2^9, 2^10", ["x"]],
        ),
        ("is empty; write it from low to high", ["2^12..2^9", "0..4", "8..0"]),
        # before it is computed
        (r"is too large; numbers go up to 2\^24", ["2^41", "2^999999999", "9^40", "1^99", "9999999999999", "2^9..2^41"]),
    ],
    ids=["no length", "an empty range", "beyond reason"],
)
def test_what_is_no_length_says_what_would_be(says: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ValidationError, match=says):
            lengths(value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, [None], [[1]], {"a": 1}, 2**24 + 1, "0", "0^3"])
def test_a_length_is_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(ValidationError):
        lengths(value)


def test_axes_that_every_problem_needs_are_not_empty() -> None:
    for axis in ("H", "D", "dtype", "causal", "inputs", "allocator", "matmul_precision", "clock"):
        with pytest.raises(ValidationError, match=axis):
            Axes.model_validate({"N": 8, axis: []})


def problem(N: int = 64, **fields: Any) -> Problem:
    return Problem(**{"N": N, "H": 2, "D": 8, "causal": True, **fields})


@pytest.mark.parametrize(
    ("training", "given"),
    [
        *(({"task": task, "symbols": 16}, {}) for task in Task if task not in {Task.PIXELS, Task.SPEECH}),
        *(({"task": "pixels", "data": images}, {"N": rows * columns}) for images, (rows, columns, _) in PIXELS.items()),
        ({"task": "listops"}, {"causal": False}),
        ({"task": "speech"}, {"causal": False}),
        # a folder of speech may have any symbols
        ({"task": "speech", "data": "a/folder", "symbols": 200}, {"causal": False}),
    ],
)
def test_every_task_can_be_trained_on_a_usual_problem(training: dict[str, Any], given: dict[str, Any]) -> None:
    assert Training(**training).why_not(problem(**given)) is None


@pytest.mark.parametrize(
    ("training", "given", "says"),
    [
        ({"task": "copy"}, {"causal": False}, "task copy is causal; set causal: true"),
        ({"task": "copy"}, {"N": 65}, "copy repeats the first half of a sequence; N=65 must be even"),
        ({"task": "copy", "shortest": 32}, {}, "a word of copy has at most N / 2 - 1 = 31 symbols; shortest=32"),
        ({"task": "copy"}, {"M": 4}, "a model's heads are as wide in values as in keys; set M to D=8"),
        ({"task": "copy"}, {"padding": 0.5}, "training is without padding"),
        ({"task": "recall", "data": "x"}, {}, "task recall makes its own data; leave out data: x"),
        ({"task": "recall", "symbols": 32, "pairs": 16}, {"N": 33}, "task recall needs N of at least 34; it is 33"),
        ({"task": "recall", "symbols": 32, "pairs": 17}, {}, "half of symbols=32 are keys; pairs=17 are more than that"),
        ({"task": "induction"}, {"N": 3}, "task induction needs N of at least 4; it is 3"),
        ({"task": "listops"}, {"N": 7}, "task listops needs N of at least 8; it is 7"),
        (
            {"task": "pixels", "data": "faces"},
            {},
            "no images are called 'faces'; write one of digits, mnist, cifar10, imagenet64, or PATH/imagenet64",
        ),
        ({"task": "pixels", "data": "~/data/small"}, {}, "an image of imagenet64 has 12288 pixels; set N to that, not 64"),
        ({"task": "speech"}, {}, "task speech hears an utterance as a whole; set causal: false"),
        ({"task": "speech"}, {"causal": False, "N": 23}, "task speech needs N of at least 24; it is 23"),
        ({"task": "speech", "symbols": 43}, {"causal": False}, "made-up speech has at most 42 symbols; symbols=43"),
    ],
)
def test_what_cannot_be_trained_says_what_would_be_right(training: dict[str, Any], given: dict[str, Any], says: str) -> None:
    assert Training(**training).why_not(problem(**given)) == says


@given(st.sampled_from(Task), st.integers(1, 40), st.integers(2, 64), st.integers(1, 20))
def test_the_answer_is_a_reason_or_none_whatever_is_asked(task: Task, N: int, symbols: int, pairs: int) -> None:
    assert Training(task=task, symbols=symbols, pairs=pairs).why_not(problem(N)) != ""
