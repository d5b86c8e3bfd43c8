"""Advice from recorded runs: who qualifies, in which order, what is unknown, and whose numbers these are."""

from pathlib import Path

import pytest

import attnbench
from attnbench.library.advise import Advice
from attnbench.measure import environment

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores"
RUN = attnbench.read(REFERENCE / "crossover")
RECALL = attnbench.read(REFERENCE / "recall")
FIDELITY = attnbench.read(REFERENCE / "fidelity")


def advice(*more: attnbench.Run, **asked: object) -> Advice:
    return attnbench.advise(RUN, *more, **{"N": 8192, **asked})  # type: ignore[arg-type]


def measured(column: str) -> dict[str, float]:
    """One figure of all cells that the question is about."""
    frame = RUN.frame()
    own = frame[(frame.N == 8192) & (frame.workload == "forward") & (frame.status == "ok")]
    labels = own.method + own.params.map(lambda text: f"({text})" if text else "")
    return dict(zip(labels, own[column], strict=True))


@pytest.mark.parametrize(("by", "column"), [("time", "time_s"), ("memory", "memory_bytes")])
def test_methods_are_ranked_by_the_cost_that_is_asked_for(by: str, column: str) -> None:
    found, figures = advice(by=by), measured(column)
    assert found.qualified == tuple(sorted(figures, key=figures.__getitem__))
    assert f"{found.qualified[0]} has the least {by}" in " ".join(str(found).split())


def test_who_needs_more_memory_than_there_is_does_not_qualify() -> None:
    found, figures = advice(memory="20MiB"), measured("memory_bytes")
    assert set(found.ruled_out) == {label for label, size in figures.items() if size > 20 * 2**20}
    assert set(found.qualified) == figures.keys() - set(found.ruled_out)
    assert "needs more than 20.0 MiB" in str(found)


def test_a_quality_that_nobody_recorded_is_unknown_and_never_guessed() -> None:
    found = advice(RECALL, workload="decode", min=["recall=0.9"])
    assert found.qualified == ("softmax.sdpa",)
    assert {"linear.chunked", "delta.deltanet"} <= set(found.ruled_out)
    assert "gated.mamba2" in found.unknown
    assert "unknown: recall not recorded" in str(found)
    assert "Only softmax.sdpa qualifies at N = 8,192" in str(found)


def test_a_quality_counts_only_of_the_same_parameters_whether_they_were_named_or_not() -> None:
    # the cell says rounds=4 and means buckets of 64; fidelity was recorded for several of both
    found, frame = attnbench.advise(RUN, FIDELITY, N=512, min=["mass_recall=0"]), FIDELITY.frame()
    same = frame[(frame.method == "lsh.reformer") & (frame.params == "bucket_size=64 rounds=4")]
    assert found.qualified == ("lsh.reformer(rounds=4)",)
    (longest,) = same[(same.N == 1024) & (same.inputs == "normal")].mass_recall
    assert f"{100 * longest:.1f}% [" in str(found)
    assert " at N = 1k, normal inputs" in str(found)


def test_the_front_is_of_methods_that_no_other_beats_in_cost_and_quality() -> None:
    found = advice(RECALL, workload="decode", min=["recall=0.1"])
    rows = {row[0]: row[-1] for row in found.tables[0].rows}
    # delta.deltanet is faster and recalls more than linear.chunked; softmax.sdpa is slower and recalls all
    assert rows["delta.deltanet"] == rows["softmax.sdpa"] == "qualifies, on the front"
    assert rows["linear.chunked"] == "qualifies"


def test_less_may_be_asked_for_than_for_a_least(monkeypatch: pytest.MonkeyPatch) -> None:
    found = attnbench.advise(RUN, FIDELITY, N=512, max=["output_error=0.0001"])
    assert "lsh.reformer(rounds=4)" in found.ruled_out
    assert "output_error too high" in str(found)


def test_whose_numbers_these_are_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    another = "That is another machine than this one"
    facts = RUN.info.environment
    monkeypatch.setattr(environment, "gather", lambda: dict(facts))
    assert another not in str(advice())
    monkeypatch.setattr(environment, "gather", lambda: {**facts, "cores": 64})
    assert another in str(advice())


def test_what_was_not_measured_there_is_an_error_with_the_command_that_measures_it() -> None:
    with pytest.raises(attnbench.UsageError) as error:
        advice(N=700, causal=False)
    said = str(error.value)
    assert "nothing was measured at N = 700, forward, non-causal; there is nothing of that kind" in said
    assert said.endswith("--N 700 --workloads forward --non-causal")
    with pytest.raises(attnbench.UsageError, match=r"there is: N = 256, 512, 1,024, .*16,384"):
        advice(N="2^20")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"min": ["recal=0.9"]}, "min='recal': did you mean 'recall'"),
        ({"min": ["recall=high"]}, "min='recall=high': a quality is a number"),
        ({"memory": "much"}, "memory='much': write an amount of memory, as 8GiB or 500MB"),
        ({"by": "price"}, "by='price': there are: time, memory, state"),
        ({"workload": "backwards"}, "workload='backwards': did you mean"),
        ({"N": "512..1024"}, "one number is wanted"),
    ],
)
def test_what_cannot_be_asked_is_told(asked: dict[str, object], said: str) -> None:
    with pytest.raises(attnbench.UsageError, match=said):
        advice(**asked)


def test_advice_is_a_table_in_any_form(tmp_path: Path) -> None:
    advice().save(tmp_path / "a.md", tmp_path / "a.tex", tmp_path / "a.csv")
    assert "| gated.mamba2" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "a.csv").read_text().startswith("method,time per sample,")
