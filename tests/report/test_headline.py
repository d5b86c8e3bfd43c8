"""The sentence of result on runs whose truth is known; and how often it is wrong, over many of them."""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.headline import Statement, statement
from attnbench.analyze.sections import Section
from attnbench.report.conditions import short_machine
from attnbench.report.findings import Findings
from attnbench.report.headline import headline, headlines
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.model import Model
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import LOSS, OUTPUT_ERROR, PERPLEXITY, Status
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import compared
from tests.report.conftest import LENGTHS, Synthetic
from tests.report.conftest import Law as Made
from tests.report.drawn import found

BASE, OTHER, THIRD = "softmax.sdpa", "linear.chunked", "gated.gla"
CONDITIONS, MACHINE = "(forward, causal, float32)", ", on 2 cores (AMD EPYC 9B14)"
WHERE = f"{CONDITIONS}{MACHINE}"
NUMBER = r"N = ([\d,]+) \[([\d,]+)–([\d,]+)\]"
Law = Callable[[int], float]


@cache
def cell(method: str, N: int, workload: Workload) -> Cell:
    return Cell(method=method, problem=Problem(N=N, causal=True), workload=workload)


@dataclass(frozen=True)
class Truth:
    """What a call of each method truly takes; every process is off by a factor of its own."""

    laws: Mapping[str, Law]
    crossings: tuple[float, ...] = ()
    """Where the second method passes the first, or falls behind."""
    replicates: int = 5
    reach: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The lengths that a method runs at, where those are not all; at the others it is out of memory."""
    workload: Workload = Workload.FORWARD
    conditions: str = "float32"

    def section(self, seed: int) -> Section:
        source = random.Random(seed)
        cells = [self.summary(method, N, source) for N in LENGTHS for method in self.laws]
        return compared(Section(self.workload, True, self.conditions, tuple(cells)))

    def summary(self, method: str, N: int, source: random.Random) -> CellSummary:
        if N not in self.reach.get(method, LENGTHS):
            return CellSummary(cell(method, N, self.workload), Status.OOM_HOST.value, "memory limit reached")
        typical = self.laws[method](N)
        medians = {r: typical * math.exp(source.gauss(0, 0.03)) for r in range(self.replicates)}
        return CellSummary(cell(method, N, self.workload), OK, medians=medians)

    def faster(self, one: str, other: str, N: int) -> bool:
        return self.laws[one](N) < self.laws[other](N) * (1 - 1e-9)


def linear(N: int) -> float:
    return 1e-6 * N


def times(factor: float) -> Law:
    return lambda N: factor * linear(N)


def quadratic(crossing: float) -> Law:
    return lambda N: linear(N) * N / crossing


CROSSED = Truth({BASE: quadratic(3000), OTHER: linear}, (3000.0,))
EVERYWHERE = Truth({BASE: quadratic(100), OTHER: linear})
BEHIND = Truth({BASE: linear, OTHER: times(1.3)})
EQUAL = Truth({BASE: linear, OTHER: linear})
FAILS = replace(CROSSED, reach={OTHER: LENGTHS[:6]})
BASE_FAILS = replace(CROSSED, reach={BASE: LENGTHS[:6]})
APART = replace(CROSSED, reach={OTHER: LENGTHS[:4], BASE: LENGTHS[4:]})
# ahead of the linear law up to 4096 / 2.5, and again from 4096 * 2.5 on
TWICE = Truth({BASE: linear, OTHER: lambda N: linear(N) * 2.5 * math.exp(-abs(math.log(N / 4096)))}, (4096 / 2.5, 4096 * 2.5))
TWO_TIE = Truth({BASE: quadratic(3000), OTHER: linear, THIRD: linear}, (3000.0,))
DECODING = Truth(
    {BASE: times(1e-2), OTHER: lambda _: 3e-5}, (3000.0,), workload=Workload.DECODE, conditions="float32, largest B that fits"
)
INFO = Synthetic([]).run()


def findings(*sections: Section) -> Findings:
    return Findings(INFO, tuple(cell for section in sections for cell in section.summaries), sections, None)


def said(truth: Truth) -> str:
    return headline(findings(truth.section(1)))


# runs of known truth

FASTER = f"{OTHER} is faster than {BASE}"


@pytest.mark.parametrize("replicates", [5, 10])
def test_the_crossing_is_named_with_its_interval(replicates: int) -> None:
    text = said(replace(CROSSED, replicates=replicates))
    low, high = (int(end.replace(",", "")) for end in re.findall(NUMBER, text)[0][1:])
    assert low <= 3000 <= high
    assert re.sub(NUMBER, "N", text) == f"From N to 65,536, {FASTER} {WHERE}. Speed only."


LED = {
    "the other leads everywhere": (EVERYWHERE, f"From N = 512 to 65,536, {FASTER} {WHERE}."),
    "the baseline leads": (BEHIND, f"From N = 512 to 65,536, {BASE} is faster than {OTHER} {WHERE}."),
    "of two crossings the last stretch": (TWICE, f"From N to 65,536, {FASTER} {WHERE}."),
    # nothing is claimed beyond what both reached, and what failed is counted
    "the other fails": (FAILS, f"From N to 16,384, {FASTER} {WHERE}; no number: OOM 2."),
    "the baseline fails": (BASE_FAILS, f"From N to 16,384, {FASTER} {WHERE}; no number: OOM 2."),
    "the best two are tied where the baseline fails": (
        replace(TWO_TIE, reach={BASE: LENGTHS[:6], OTHER: LENGTHS[6:]}),
        f"From N to 16,384, {THIRD} is faster than {BASE}; at N = 65,536 it cannot be told from {OTHER} "
        f"{WHERE}; no number: OOM 8.",
    ),
    "the best of three leads the baseline over lengths, all at the longest": (
        Truth({BASE: quadratic(3000), THIRD: times(1.5), OTHER: linear}),
        f"From N to 65,536, {FASTER}, and than both others at N = 65,536 {WHERE}.",
    ),
    "the baseline is the best of three": (
        Truth({BASE: linear, OTHER: times(1.3), THIRD: times(1.5)}),
        f"At N = 65,536, {BASE} is faster than both others {WHERE}.",
    ),
    "what was timed is named": (
        DECODING,
        f"From N to 65,536, {FASTER} (decoding, causal, float32, largest B that fits){MACHINE}.",
    ),
    # below five it has no interval
    **{
        words: (replace(CROSSED, replicates=few), f"First look, {words}: from N = 4,096 to 65,536, {FASTER} {WHERE}.")
        for few, words in {1: "1 replicate", 4: "4 replicates"}.items()
    },
}


@pytest.mark.parametrize(("truth", "text"), LED.values(), ids=LED)
def test_the_sentence_says_who_leads_from_where_to_where(truth: Truth, text: str) -> None:
    assert re.sub(NUMBER, "N", said(truth)) == f"{text} Speed only."


@pytest.mark.parametrize(
    ("truth", "text"),
    [
        (replace(CROSSED, reach={OTHER: ()}), f"{BASE} alone has a number {CONDITIONS}; no number: OOM 8."),
        (Truth({BASE: linear}), f"{BASE} is the only method {CONDITIONS}."),
        (APART, f"no two methods have a number at the same length {CONDITIONS}; no number: OOM 8."),
    ],
)
def test_where_nothing_can_be_compared_it_says_why(truth: Truth, text: str) -> None:
    assert said(truth) == f"Nothing to compare: {text}"


def test_what_is_equal_cannot_be_told_apart_and_very_many_are_counted() -> None:
    where = re.escape(f"by time {WHERE}. Speed only.")
    assert re.fullmatch(rf"At N = 65,536, \S+ cannot be told from \S+ {where}", said(EQUAL))
    many = Truth({BASE: linear} | {f"m{i}": linear for i in range(6)})
    assert re.fullmatch(rf"At N = 65,536, \S+ cannot be told from [\w.]+, [\w.]+, [\w.]+ and 3 others {where}", said(many))
    found = re.search(rf"to 65,536, (\S+) is faster than {BASE}; at N = 65,536 it cannot be told from (\S+) \(", said(TWO_TIE))
    assert found
    assert set(found.groups()) == {OTHER, THIRD}


def test_where_nothing_was_measured_it_says_so_and_where_everything_failed_how(small: Synthetic) -> None:
    assert headline(findings()) == "Nothing was measured: the run has no cells."
    assert headlines(Findings.of(small.run(), [])) == ["Nothing can be told: no cell of 12 has a number (not run 12)."]
    laws = (Made("a", 1.0, 1.0, stop_at=1), Made("b", 1.0, 1.0, stop_at=1, status=Status.INCORRECT))
    run = Synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,))
    assert headline(found(run)) == "Nothing can be told: no cell of 4 has a number (OOM 2, wrong 2)."


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        (
            {BASE: 0.0, "lsh.a": 0.05, "lsh.b": 0.4, "lsh.c": 0.5},
            "At N = 1,024, lsh.a has a smaller error than both others (fidelity, causal, float32): "
            "output error 0.0510 [0.0500, 0.0520].",
        ),
        ({BASE: 0.0, "lsh.a": 0.05}, "Nothing to compare: lsh.a alone is not exact (fidelity, causal, float32)."),
    ],
)
def test_fidelity_is_told_of_what_is_not_exact_with_its_figure(errors: Mapping[str, float], text: str) -> None:
    cells = []
    for method, error in errors.items():
        scores = {OUTPUT_ERROR: {r: error * (1 + 0.01 * r) for r in range(5)}}
        cells += [CellSummary(cell(method, N, Workload.FIDELITY), OK, scores=scores) for N in (512, 1024)]
    assert headline(findings(compared(Section(Workload.FIDELITY, True, "float32", tuple(cells))))) == text


def test_of_what_three_seeds_are_enough_for_three_are_no_first_look() -> None:
    quality: dict[str, object] = {"workload": Workload.MODEL_QUALITY, "model": Model(config="small")}
    cells = [
        CellSummary(
            cell(method, 512, Workload.FORWARD).model_copy(update=quality), OK, scores={PERPLEXITY: dict(enumerate(each))}
        )
        for method, each in ((BASE, (4.0, 4.1, 4.2)), (OTHER, (8.0, 8.1, 8.2)))
    ]
    section = compared(Section(Workload.MODEL_QUALITY, True, "float32", tuple(cells)))
    assert headline(findings(section)).startswith(f"At N = 512, {BASE} ")


@pytest.mark.parametrize(
    ("device", "facts", "words"),
    [
        ("cpu", {"processor": "Intel(R) Xeon(R) Processor"}, "2 cores (Intel Xeon)"),
        ("cpu", {"processor": "Processor"}, "2 cores (Processor)"),
        # a GPU has no cores to count
        ("cuda", {"gpu": "NVIDIA H100 80GB HBM3", "cores": 16}, "NVIDIA H100 80GB HBM3"),
    ],
)
def test_a_machine_is_named_without_the_makers_noise(device: str, facts: dict[str, Scalar | None], words: str) -> None:
    there = INFO.surroundings.model_copy(update={"device": device, "facts": facts})
    assert short_machine(replace(findings(), run=INFO.model_copy(update={"surroundings": there}))) == words


# training

COPY = Training(task=Task.COPY, updates=1500, late_from=1000)


def learnt(losses: Mapping[str, Sequence[float]]) -> str:
    cells = []
    for method, values in losses.items():
        each = cell(method, 128, Workload.TRAIN).model_copy(update={"training": COPY})
        seeds = dict(enumerate(values))
        made = CellSummary(each, OK, medians=dict.fromkeys(seeds, 1e-2), scores={LOSS: seeds})
        cells.append(made if values else CellSummary(each, "budget", "too slow"))
    return headline(findings(compared(Section(Workload.TRAIN, True, "float32", tuple(cells)))))


def test_of_models_it_says_who_reaches_the_loss_of_the_exact_one() -> None:
    same = [0.50, 0.51, 0.49]
    losses = {BASE: same, "near": same, "too": same, "far": [0.90, 0.95, 0.85], "best": [0.30, 0.31, 0.29]}
    assert learnt({**losses, "noisy": [0.40, 0.90, 0.60], "failed": []}) == (
        "Copy, N=128, causal, float32: best ends below softmax.sdpa's loss; near and too reach it; far stays above it; "
        "whether noisy reaches it cannot be told (to 0.05 nats, 1,500 updates, 3 seeds); no number: budget 1."
    )
    for seeds, words in {1: "1 seed", 2: "2 seeds"}.items():
        assert learnt({BASE: [0.5] * seeds, "x": [0.9] * seeds}) == (
            "Copy, N=128, causal, float32: whether x reaches softmax.sdpa's loss cannot be told "
            f"(to 0.05 nats, 1,500 updates, {words}, and 3 are the fewest that tell)."
        )
    alone = "Nothing to compare: softmax.sdpa alone has a number (training, causal, float32); no number: budget 1."
    assert learnt({BASE: [0.5] * 3, "x": []}) == alone


def test_a_run_that_did_both_is_summed_up_by_what_was_learnt(generating: Synthetic) -> None:
    generating.workloads, generating.lengths = (Workload.GENERATE, Workload.TRAIN), (64,)
    first, *others = headlines(found(generating))
    assert headline(found(generating)) == first
    assert first.startswith("Pixels, digits, N=64, causal, float32, B=1: ")
    assert any("(generating, causal, float32" in text and text.endswith(" Speed only.") for text in others)


# how often it is wrong


def wrong(found: Statement, truth: Truth) -> bool:
    """Whether anything is claimed that is not true; an interval must hold the truth as it is shown, in round numbers."""
    best, reach = found.best, found.reach
    assert best is not None
    fastest = [label for label in truth.laws if not any(truth.faster(other, label, best.N) for other in truth.laws)]
    missed = fastest != [*best.labels] if best.alone else not set(best.labels) & set(fastest)
    if reach is None or missed:
        return missed
    if not all(truth.faster(best.labels[0], reach.over, N) for N in reach.led):
        return True
    if reach.start is None or reach.start.interval is None:
        return False
    interval = reach.start.interval
    return not any(interval.low <= N <= interval.high for N in truth.crossings)


def anywhere(seed: int, replicates: int) -> Truth:
    """A crossing between the second and the seventh length, sometimes at one that was measured."""
    source = random.Random(f"{seed}/{replicates}")
    N = source.choice((2048.0, 2 ** source.uniform(10, 15), 2 ** source.uniform(10, 15)))
    return Truth({BASE: quadratic(N), OTHER: linear}, (N,), replicates)


MANY: dict[str, Callable[[int], Truth]] = {
    "a crossing": lambda seed: anywhere(seed, 5),
    "a crossing, ten replicates": lambda seed: anywhere(seed, 10),
    "everywhere": lambda _: EVERYWHERE,
    "the baseline": lambda _: BEHIND,
    "equal": lambda _: EQUAL,
    "equal, ten replicates": lambda _: replace(EQUAL, replicates=10),
    "three equal": lambda _: Truth({BASE: linear, OTHER: linear, THIRD: linear}),
    "fails": lambda _: FAILS,
    "two crossings": lambda _: TWICE,
    "two tie": lambda _: TWO_TIE,
    "one near": lambda _: Truth({BASE: quadratic(3000), OTHER: linear, THIRD: times(1.03)}, (3000.0,)),
    "decoding": lambda _: DECODING,
}
CLEAR = set(MANY) - {"equal", "equal, ten replicates", "three equal", "two tie", "one near"}


@pytest.mark.parametrize("seeds", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_over_many_runs_of_each_kind_it_is_wrong_in_five_of_a_hundred_at_most_and_tells_what_is_clear(seeds: int) -> None:
    shares, silent = {}, set()
    for name, truth_of in MANY.items():
        truths = [truth_of(seed) for seed in range(seeds)]
        found = [statement(truth.section(seed)) for seed, truth in enumerate(truths)]
        shares[name] = sum(map(wrong, found, truths)) / seeds
        silent |= {name for said in found if said.reach is None}
    assert sum(shares.values()) / len(shares) <= 0.05, shares
    # an interval of 95 % misses in 5 % of all runs, and so in 5 % of so many give or take two standard errors
    assert max(shares.values()) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / seeds), shares
    assert silent & CLEAR == set()
