"""A judgement of two runs, or of one run's methods, from which every form of the answer is made."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from attnbench.analyze.compare import EXACT, ORDER, Comparison, Pair, Terms, compare, same_cells, worst_first
from attnbench.analyze.main_counter import steady_counter
from attnbench.analyze.quantities import TIME, Quantity, Unit, quantities
from attnbench.analyze.speedup import strongest_exact
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.verdict import Verdict
from attnbench.report.conditions import commit
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, short_names, shorten
from attnbench.report.text.numbers import heading, percent
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.units import counted

_MOST = 12
"""Differences between two runs that are told one by one."""
_WORDS = {
    Unit.SECONDS: {Verdict.SLOWER: "SLOWER", Verdict.FASTER: "FASTER"},
    Unit.BYTES: {Verdict.SLOWER: "MORE", Verdict.FASTER: "LESS"},
}


@dataclass(frozen=True)
class Judgement:
    """Two sides with their names, what was found, and on which terms."""

    title: str
    names: tuple[str, str]
    """The names of the old and of the new side."""
    comparisons: tuple[Comparison, ...]
    terms: Terms
    remarks: tuple[str, ...] = ()
    """What else is different between the sides, in words."""

    @property
    def quantity(self) -> Quantity:
        """The figure, as the new side reads it."""
        return self.terms.quantity

    @cached_property
    def sorted(self) -> list[Comparison]:
        """Return the comparisons, what needs a look first."""
        return worst_first(self.comparisons)

    @cached_property
    def names_of_methods(self) -> dict[str, str]:
        """Return by label what tables call a method."""
        return short_names(dict.fromkeys(chain.from_iterable(row.pair.labels for row in self.comparisons)), 48)

    def called(self, comparison: Comparison) -> str:
        """Return what tables call the method; of two methods both, the new one first."""
        return " / ".join(self.names_of_methods[label] for label in comparison.pair.labels)

    @cached_property
    def everywhere(self) -> list[str]:
        """Return the conditions that hold of all cells, which are said once."""
        every = [conditions(row.pair.any.cell) for row in self.comparisons]
        return [words for words in next(iter(every), []) if all(words in each for each in every)]

    def own(self, comparison: Comparison) -> list[str]:
        """Return the conditions by which a cell differs from others, but for its method, workload, mask and length."""
        return [words for words in conditions(comparison.pair.any.cell) if words not in self.everywhere]

    @property
    def conclusion(self) -> str:
        """`1 SLOWER, 2 UNCLEAR, 9 SAME; 1 of more memory`, worst first."""
        counts = Counter(comparison.verdict for comparison in self.comparisons)
        words = [f"{counts[verdict]} {word(verdict, self.quantity.unit)}" for verdict in ORDER if counts[verdict]]
        memory = Counter(c.memory.verdict for c in self.comparisons if c.memory)
        more = [f"{memory[v]} of {w} memory" for v, w in ((Verdict.SLOWER, "more"), (Verdict.FASTER, "less")) if memory[v]]
        return "; ".join(filter(None, (", ".join(words) or "nothing to compare", ", ".join(more))))

    @cached_property
    def notes(self) -> list[str]:
        """Say how the numbers were made."""
        terms, quantity, timed = self.terms, self.quantity, self.quantity.name == TIME
        reach = percent(terms.margin)
        worse, better = (word(verdict, quantity.unit) for verdict in (Verdict.SLOWER, Verdict.FASTER))
        figure = " or ".join(dict.fromkeys(heading(quantity, row.pair.any.cell.workload) for row in self.comparisons))
        figure = figure or quantity.title
        about = f"{figure[0].upper()}{figure[1:]}, new over old; {'more' if quantity.more_is_better else 'less'} is better."
        ratios = [c.ratio for c in self.comparisons if c.ratio]
        if quantity.is_replicated and not ratios:
            lines = [f"{about} No pair of cells has a ratio."]
        elif quantity.is_replicated:
            fewest, most = (end(ratio.replicates for ratio in ratios) for end in (min, max))
            what = "replicates paired, as they were measured in turns" if terms.paired else "replicates not paired (Welch)"
            lines = [
                f"{about} Mean log-ratio of the replicates with its 95 % t interval, {what}; "
                f"n = {fewest if fewest == most else f'{fewest} to {most}'} a side; margin {reach}.",
                f"{worse}, {better}: p ≤ {terms.level:.3g} after Benjamini-Hochberg over {counted(len(ratios), 'ratio')}, "
                "and the effect beyond the margin. SAME: the interval lies within the margin. UNCLEAR: neither; more "
                "replicates may tell.",
            ]
            if fewest < ENOUGH:
                lines.append(f"Fewer than {ENOUGH} replicates somewhere: a first look.")
            if not terms.paired:
                lines.append(
                    "The sides were measured one after the other: what the machine did between them (drift, heat, other work) "
                    "is in no interval. `attnbench compare --live` measures them in turns."
                )
        else:
            mebibyte = " and 1 MiB of a call" if quantity.unit is Unit.BYTES and quantity.name not in EXACT else ""
            lines = [
                f"{about} It is read once a cell: a change counts beyond the margin of {reach}{mebibyte}, without statistics."
            ]
        if (counter := terms.counter) is not None:
            lines.append(
                f"Memory: {counter.name} ({one_line(counter.source)}) per sample; a change counts beyond the margin "
                "and 1 MiB of a call, without statistics: this counter is the same in every process."
            )
        elif timed:
            lines.append("Memory was not compared: no counter was read that is the same in every process.")
        if timed and any(c.pair.any.cell.workload is Workload.TRAIN for c in self.comparisons):
            lines.append("Of training the time of an update and its memory are judged, and not what was learnt.")
        return [*lines, *self.remarks]


def conditions(cell: Cell) -> list[str]:
    """`float32`, `B=4`, `H=8`, `D=64`, …: what is not the default of a cell, but for its method, workload, mask and length."""
    problem, given = cell.problem, cell.model_dump(mode="json", exclude_defaults=True, exclude={"method", "params", "workload"})
    usual = {"M": problem.D, "kv_heads": problem.H, "dtype": problem.dtype.value, "N": problem.N, "causal": problem.causal}
    # each side finds a largest batch of its own
    sizes = {axis: getattr(problem, axis) for axis in ("HD" if cell.batch is Batch.LARGEST else "BHD")}
    found = {**sizes, **given.pop("problem"), **given.pop("training", {}), **given.pop("model", {}), **given}
    words = (f"{name}={value}" for name, value in found.items() if usual.get(name) != value and name != "device")
    return [problem.dtype.value, *map(one_line, words)]


def word(verdict: Verdict, unit: Unit) -> str:
    """Return the word for a verdict: SLOWER and FASTER are of times, MORE and LESS of bytes, WORSE and BETTER of all else."""
    worse_or_better = {Verdict.SLOWER: "WORSE", Verdict.FASTER: "BETTER"}
    return _WORDS.get(unit, worse_or_better).get(verdict, verdict.value)


def judge_runs(old: Findings, new: Findings, margin: float, level: float, metric: str = TIME) -> Judgement:
    """Judge cells of one key against each other by one figure; paired where the two runs were measured in turns."""
    before, now = old.run, new.run
    every, pairs = [*old.summaries, *new.summaries], same_cells(old.summaries, new.summaries)
    figure, former = (quantities(every, run)[metric] for run in (now, before))
    in_turns = bool(now.interleaved) and now.interleaved == before.interleaved
    terms = Terms(figure, former, steady_counter(every) if metric == TIME else None, margin, level, paired=in_turns)
    found = compare(pairs, terms)
    # cells of one run may have been measured on unlike machines
    places = dict.fromkeys((p.old.environment, p.new.environment) for p in pairs if p.old and p.new and p.old.ok and p.new.ok)
    unlike = (before.on(then).differences(now.on(here)) for then, here in places or {("", ""): None})
    different = [shorten(line, 160) for line in dict.fromkeys(chain.from_iterable(unlike))]
    if len(different) > _MOST:
        different[_MOST:] = [f"{len(different) - _MOST} more differences stand in the two run.json"]
    left_out = [f"{side.run.id}: {line}" for side in (old, new) for line in side.left_out]
    remarks = (*left_out, *(f"Not alike: {line}." for line in different))
    title = f"{now.suite.name}: {now.id} against {before.id}"
    # a commit says more than a date
    names = (commit(before) or before.id, commit(now) or now.id)
    return Judgement(title, names, tuple(found), terms, remarks)


def judge_methods(findings: Findings, baseline: str | None, margin: float, level: float, metric: str = TIME) -> Judgement:
    """Judge every method against one label of the same run, or against the strongest exact softmax of each length."""
    pairs = []
    for section in findings.sections:
        for N in section.lengths:
            base = section.at(baseline, N) if baseline else strongest_exact(section, N)
            cells = (section.at(label, N) for label in section.series)
            pairs += [Pair(base, cell) for cell in cells if cell is not None and cell is not base]
    quantity, counter = findings.quantities[metric], steady_counter(findings.summaries) if metric == TIME else None
    terms = Terms(quantity, quantity, counter, margin, level, paired=True, of_methods=True)
    over = baseline or "the strongest exact softmax"
    title = f"{findings.run.suite.name}: methods against {over}, run {findings.run.id}"
    return Judgement(title, (over, "method"), tuple(compare(pairs, terms)), terms, tuple(findings.left_out))
