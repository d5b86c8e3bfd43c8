"""Advice from recorded runs: who qualifies, in which order, what is unknown, and whose numbers these are."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attnbench
from attnbench import registry
from attnbench.library.advise import Advice
from attnbench.measure import environment
from attnbench.schema.cell import Inputs, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Failed, Measured, Series, Status
from attnbench.schema.problem import DType
from attnbench.schema.run import Elsewhere
from attnbench.session import machine
from tests.cli.conftest import keep as keep_run
from tests.library.conftest import REFERENCE
from tests.report.conftest import Law, Synthetic

RUN = attnbench.read(REFERENCE / "crossover")
HASHING = attnbench.read(REFERENCE / "peers_lsh")
RECALL = attnbench.read(REFERENCE / "recall")
FIDELITY = attnbench.read(REFERENCE / "fidelity")
ANOTHER = "That is another machine than this one"
SDPA = Law("softmax.sdpa", 3e-3, 2.0)
Keep = Callable[..., attnbench.Run]


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Store a run; `changes` are fields of its run.json."""

    def _keep(run: Synthetic, records: object = None, **changes: object) -> attnbench.Run:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        info = run.run().model_copy(update=changes)
        return attnbench.read(keep_run(folder, info, run.records() if records is None else records))  # type: ignore[arg-type]

    return _keep


def timed(*laws: Law, lengths: tuple[int, ...] = (512,)) -> Synthetic:
    """A run of causal forwards in float32, D=64."""
    return Synthetic(laws, lengths=lengths, causal=(True,), workloads=(Workload.FORWARD,))


def advice(*more: attnbench.Run, **asked: object) -> Advice:
    return attnbench.advise(RUN, *more, **{"N": 8192, **asked})  # type: ignore[arg-type]


def words(found: Advice) -> str:
    """All that is printed, without where lines are broken."""
    return " ".join(str(found).split())


def measured(column: str) -> dict[str, float]:
    """One figure of all cells that the question is about."""
    frame = RUN.frame()
    own = frame[(frame.N == 8192) & (frame.workload == "forward") & (frame.status == "ok")]
    labels = own.method + own.params.map(lambda text: f"({text})" if text else "")
    return dict(zip(labels, own[column], strict=True))


@pytest.mark.parametrize(("by", "column"), [("time", "time_s"), ("memory", "memory_bytes")])
def test_methods_are_ranked_by_the_cost_that_is_asked_for_in_a_table_of_any_form(by: str, column: str, tmp_path: Path) -> None:
    found, figures = advice(by=by), measured(column)
    assert found.qualified == tuple(sorted(figures, key=figures.__getitem__))
    assert f"{found.qualified[0]} has the least {by}" in words(found)
    found.save(tmp_path / "a.md", tmp_path / "a.tex", tmp_path / "a.csv")
    assert "| gated.mamba2" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "a.csv").read_text().startswith("method,time per sample,")


def test_who_needs_more_memory_than_there_is_does_not_qualify() -> None:
    found, figures = advice(memory="20MiB"), measured("memory_bytes")
    assert set(found.ruled_out) == {label for label, size in figures.items() if size > 20 * 2**20}
    assert set(found.qualified) == figures.keys() - set(found.ruled_out)
    assert "needs more than 20.0 MiB" in str(found)
    assert set(advice(memory="20MiB", by="state").ruled_out) == set(found.ruled_out), "whatever else is unknown"
    assert re.search(r"Of \d+ methods measured .* none qualifies\.", words(advice(memory="1KiB")))
    none = advice(RECALL, workload="decode", min=["recall=1.1"])
    assert f"is known to qualify; of {len(none.unknown)} not all was recorded." in words(none)


def test_a_quality_of_a_trained_model_counts_in_any_shape_and_one_that_nobody_recorded_is_never_guessed() -> None:
    # the models have D=32, the cells that are timed D=64
    assert {cell.problem.D for cell in RECALL.info.cells} != {cell.problem.D for cell in RUN.info.cells}
    found = advice(RECALL, workload="decode", min=["recall=0.9"])
    assert found.qualified == ("softmax.sdpa",)
    assert {"linear.chunked", "delta.deltanet"} <= set(found.ruled_out)
    assert "gated.mamba2" in found.unknown
    assert "unknown: recall not recorded" in str(found)
    assert "Only softmax.sdpa is known to qualify at N = 8,192" in words(found)
    assert f"; of {len(found.unknown)} others not all was recorded." in words(found)
    by_accuracy = advice(RECALL, workload="decode", min=["accuracy=0.9"])
    assert by_accuracy.qualified == ("softmax.sdpa",)
    assert " at N = 32, recall" in str(by_accuracy)


def test_the_front_is_of_methods_that_no_other_beats_in_cost_and_quality() -> None:
    found = advice(RECALL, workload="decode", min=["recall=0.1"])
    rows = {row[0]: row[-1] for row in found.tables[0].rows}
    # delta.deltanet is faster and recalls more than linear.chunked; softmax.sdpa is slower and recalls all
    assert rows["delta.deltanet"] == rows["softmax.sdpa"] == "qualifies, on the front"
    assert rows["linear.chunked"] == "qualifies"


def test_a_quality_counts_only_of_the_same_parameters_whether_they_were_named_or_not() -> None:
    # the cell says rounds=4 and means buckets of 64; fidelity was recorded for several of both
    found = attnbench.advise(HASHING, FIDELITY, N=1024, causal=False, min=["mass_recall=0"])
    frame = FIDELITY.frame()
    same = frame[(frame.method == "lsh.reformer") & (frame.params == "bucket_size=64 rounds=4")]
    assert set(found.qualified) == {f"lsh.reformer(rounds={rounds})" for rounds in (1, 4, 8)}
    (longest,) = same[(same.N == 1024) & (same.inputs == "normal")].mass_recall
    (row,) = [row for row in found.tables[0].rows if row[0] == "lsh.reformer(rounds=4)"]
    assert any(f"{100 * longest:.1f}% [" in text and text.endswith(" at N = 1k, normal inputs") for text in row)
    # less may be asked for than for a least
    found = attnbench.advise(HASHING, FIDELITY, N=1024, causal=False, max=["output_error=0.0001"])
    assert "lsh.reformer(rounds=4)" in found.ruled_out
    assert "output_error too high" in str(found)


@pytest.mark.parametrize(
    ("shape", "is_known"),
    [({}, True), ({"N": 64, "B": 2}, True), ({"causal": False}, False), ({"dtype": DType.FLOAT64}, False), ({"D": 32}, False)],
)
def test_a_quality_counts_only_with_its_own_mask_dtype_and_width(keep: Keep, shape: dict[str, Any], is_known: bool) -> None:
    run = timed(Law("linear.chunked", 2e-3, 1.0))
    (cell,) = run.run().cells
    other = cell.reshaped(**shape).model_copy(update={"workload": Workload.FIDELITY})
    samples = {name: Series(unit="1", values=(0.1,)) for name in (MASS_RECALL, OUTPUT_ERROR)}
    scored = run.record(other, Measured(samples=samples), phase=Pass.FIDELITY)
    found = attnbench.advise(keep(run), keep(run, [scored], id="f", cells=(other,)), N=512, max=["output_error=0.5"])
    assert (found.qualified, found.unknown) == ((("linear.chunked",), ()) if is_known else ((), ("linear.chunked",)))
    assert ("unknown: output_error not recorded" in str(found)) is not is_known


def test_of_several_recorded_qualities_that_counts_which_is_nearest_though_others_are_newer(keep: Keep) -> None:
    run = timed(Law("linear.chunked", 2e-3, 1.0))
    (cell,) = run.run().cells
    shapes: tuple[dict[str, Any], ...] = ({}, {}, {"N": 1024}, {"N": 64}, {})
    cells = [cell.reshaped(**shape).model_copy(update={"workload": Workload.FIDELITY}) for shape in shapes]
    cells[-1] = cells[-1].model_copy(update={"inputs": Inputs.PEAKED})
    scores = [
        run.record(each, Measured(samples={OUTPUT_ERROR: Series(unit="1", values=(n / 10,))}), phase=Pass.FIDELITY)
        for n, each in enumerate(cells, 1)
    ]
    own = keep(run, [*run.records(), scores[0]], cells=(cell, cells[0]))
    others = [keep(run, [scores[n]], id=str(n), started=f"202{n}", cells=(cells[n],)) for n in (1, 2, 3, 4)]
    bare = keep(run)
    runs = {"0.100 at N = 512, normal": [own, *others], "0.200 at N = 512, normal": [bare, *others]}
    runs |= {"0.400 at N = 64, normal": [bare, *others[1:]], "0.500 at N = 512, peaked": [bare, others[3]]}
    for said, given in runs.items():
        assert f"{said} inputs" in str(attnbench.advise(*given, N=512, max=["output_error=1"]))


def test_a_cell_that_was_not_run_yet_is_unknown_and_the_command_measures_it(keep: Keep) -> None:
    run = timed(SDPA, Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}), Law("linear.full", 1e-3, 1.0))
    started, pending, halted = run.run().cells
    records = [record for record in run.records() if record.job.cell == started]
    records.append(run.record(halted, Failed(status=Status.INTERRUPTED, reason="interrupted by signal 15")))
    found = attnbench.advise(keep(run, records), N=512)
    assert found.qualified == ("softmax.sdpa",)
    assert (set(found.unknown), found.ruled_out) == ({"linear.chunked(chunk=64)", "linear.full"}, ())
    assert {row[-1] for row in found.tables[0].rows} == {"qualifies", "unknown: not run", "unknown: interrupted"}
    assert f"--methods '{pending.label},{halted.label}," in words(found)


def test_what_was_refused_there_is_not_offered_to_be_measured(keep: Keep) -> None:
    names = list(registry.catalogue())
    refused = Law(names[0], 1, 1, stop_at=1, status=Status.UNSUPPORTED, reason="it has no causal form")
    absent = Law(names[1], 1, 1, stop_at=1, status=Status.MISSING, reason="not installed; pip install it")
    found = words(attnbench.advise(keep(timed(SDPA, refused, absent)), N=512))
    assert f"Unknown: {len(names) - 3} methods not measured there" in found
    assert f"--methods {names[2]},{names[3]},{names[4]} " in found
    assert "Not possible there: 2 methods; table.csv of the run says why." in found


def test_whose_numbers_these_are_is_said(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(**facts: object) -> str:
        # as a run stores them: torch is asked too
        stored = environment.gather() | {"threads": 2, "cpu_capability": "AVX512", "omp_num_threads": None} | facts
        return str(attnbench.advise(keep(timed(SDPA), environment=stored), N=512))

    assert ANOTHER not in said()
    assert ANOTHER in said(processor="Another")
    assert ANOTHER in said(cores=4096)
    # what was measured on a GPU is of this machine only where there is such a GPU
    monkeypatch.setattr(machine, "gpu", lambda: [machine.Finding("NVML", "not here")])
    assert ANOTHER in said(gpu="NVIDIA H100")
    monkeypatch.setattr(machine, "gpu", lambda: [machine.Finding("NVML", "1 device"), machine.Finding("NVIDIA H100", "idle")])
    assert ANOTHER not in said(gpu="NVIDIA H100")


def test_a_part_that_was_measured_elsewhere_is_of_its_own_machine(keep: Keep) -> None:
    run, here = timed(SDPA, lengths=(512, 1024)), environment.gather()
    surroundings = run.run().surroundings.model_copy(update={"facts": {"threads": 2}})
    part = Elsewhere(environment=here | {"threads": 2}, surroundings=surroundings)
    records = [
        record.model_copy(update={"environment": "here"}) if record.job.cell.problem.N == 1024 else record
        for record in run.records()
    ]
    there = here | {"processor": "Another"}
    source = keep(run, records, environment=there, surroundings=surroundings, elsewhere={"here": part})
    for N, is_here in ((1024, True), (512, False)):
        found = words(attnbench.advise(source, N=N))
        assert (ANOTHER not in found, "(Another)" not in found) == (is_here, is_here)


def test_what_was_not_measured_there_is_an_error_with_the_command_that_measures_it() -> None:
    with pytest.raises(attnbench.UsageError) as error:
        advice(N=700, causal=False)
    said = str(error.value)
    assert "nothing was measured at N = 700, forward, non-causal; there is nothing of that kind" in said
    assert said.endswith("--N 700 --workloads forward --non-causal")
    assert "measure in a run of its own, with 8 heads of 64 in float32: attnbench run --methods" in said
    with pytest.raises(attnbench.UsageError, match=r"there is: N = 256, 512, 1,024, .*16,384"):
        advice(N="2^20")


def test_no_command_is_told_for_models_which_a_suite_describes() -> None:
    found = words(attnbench.advise(RECALL, N=32, workload="train"))
    assert "methods not measured there" in found
    with pytest.raises(attnbench.UsageError, match=r"there is: N = 32$") as error:
        attnbench.advise(RECALL, N=33, workload="train")
    assert "attnbench run" not in f"{found} {error.value}"


COSTS = ("time", "energy", "first_call", "tokens", "flops_of_dense", "roof", "selection_share", "deterministic_cost", "speech")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"min": ["recal=0.9"]}, "min='recal': did you mean 'recall'"),
        ({"min": ["recall=high"]}, "min='recall=high': a quality is a number"),
        ({"memory": "much"}, "memory='much': write an amount of memory, as 8GiB or 500MB"),
        ({"by": "price"}, "by='price': there are: time, memory, state"),
        ({"workload": "backwards"}, "workload='backwards': did you mean"),
        ({"N": "512..1024"}, "one number is wanted"),
        *(({"max": [f"{cost}=1"]}, f"max='{cost}': .*there are: copy, recall, .*mass_recall, .*loss") for cost in COSTS),
    ],
)
def test_what_cannot_be_asked_is_told(asked: dict[str, object], said: str) -> None:
    with pytest.raises(attnbench.UsageError, match=said):
        advice(**asked)
