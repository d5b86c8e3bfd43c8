"""What a selfcheck found, as tables for a page and as text for a terminal."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from attnbench.analyze.pooled import Rule
from attnbench.analyze.power import INJECTED, LIKELY, SOUGHT, SURE, Hits, Power, smallest
from attnbench.analyze.selfcheck import Calibration
from attnbench.report.questions.selfcheck.notes import about, notes, percent, subject
from attnbench.report.text.markdown import markdown
from attnbench.report.text.names import ascii_only
from attnbench.report.text.table import Table
from attnbench.schema.run import RunInfo

WIDTH = 80
_COLUMNS = 3
_PAIRED = "Paired: the sides ran one after the other, as in a gate"
_UNPAIRED = "Unpaired: the same processes, as two stored runs are compared"
_OTHERS = "Unpaired, by rules that throw the samples of all processes together"
_Figure = tuple[str, Callable[[Power], str]]
"""What it is called, and how it is read."""


@dataclass(frozen=True)
class _Form:
    """How an entry is written: in full on a page, in few letters on a terminal."""

    hits: Callable[[Hits], str]
    smallest: Callable[[Sequence[Hits], float], str]


def page(found: Calibration, run: RunInfo) -> str:
    """Markdown."""
    return markdown(tables(found, run), f"selfcheck of {subject(found.plan)}")


def tables(found: Calibration, run: RunInfo) -> list[Table]:
    """Paired and unpaired, by replicates; the notes stand below the first."""
    form = _Form(_hits_in_full, lambda hits, share: _smallest_in_short(hits, share).replace(",", ", "))
    words = (about(found), *notes(found, run))
    return [
        Table(_PAIRED, _headers(found.paired), _rows(found, found.paired, form), notes=words),
        Table(_UNPAIRED, _headers(found.unpaired), _rows(found, found.unpaired, form)),
        *([] if found.plan.injected else [Table(_OTHERS, _other_headers(found), _others(found, form))]),
    ]


def console(found: Calibration, run: RunInfo, *, unicode: bool = True) -> str:
    """At most 80 columns; the highest replicate counts, as far as they fit."""
    form = _Form(_hits_in_short, _smallest_in_short)
    lines = textwrap.wrap(about(found), WIDTH)
    for title, powers in ((_PAIRED, found.paired), (_UNPAIRED, found.unpaired)):
        shown = powers[-_COLUMNS:]
        lines += ["", title, *_grid(_headers(shown), _rows(found, shown, form))]
    if not found.plan.injected:
        lines += ["", _OTHERS, *_grid(_other_headers(found), _others(found, form))]
    said = [part for note in notes(found, run) for part in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]
    text = "\n".join([*lines, "", *said])
    return text if unicode else ascii_only(text)


def _grid(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    align = ("left", *("right" for _ in headers[1:]))
    return tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True).split("\n")


def _headers(powers: Sequence[Power]) -> tuple[str, ...]:
    return ("", *(f"{power.replicates} a side" for power in powers))


def _rows(found: Calibration, powers: Sequence[Power], form: _Form) -> tuple[tuple[str, ...], ...]:
    figures: list[_Figure] = [
        ("verdicts", lambda power: str(power.slower.of)),
        *(_of_an_injection(found, form) if found.plan.injected else _of_two_alike(found, form)),
        ("half-width of the interval", _half_width),
    ]
    return tuple((name, *(entry(power) for power in powers)) for name, entry in figures)


def _of_two_alike(found: Calibration, form: _Form) -> list[_Figure]:
    margin = f"{100 * found.margin:g}%"
    return [
        (f"false alarms, margin {margin}", lambda power: form.hits(power.alarms)),
        ("false alarms, no margin", lambda power: form.hits(power.significant)),
        (f"says SAME, margin {margin}", lambda power: form.hits(power.same)),
        *(_sought(number, form) for number in range(len(SOUGHT))),
        ("found 9 in 10, no margin", lambda power: form.smallest(power.bare, SURE)),
        ("found 8 in 10, no margin", lambda power: form.smallest(power.bare, LIKELY)),
        (f"found 9 in 10, margin {margin}", lambda power: form.smallest(power.at_margin, SURE)),
    ]


def _sought(number: int, form: _Form) -> _Figure:
    effect, margin = SOUGHT[number]
    return f"finds +{100 * effect:g}%, margin {100 * margin:g}%", lambda power: form.hits(power.sought[number])


def _of_an_injection(found: Calibration, form: _Form) -> list[_Figure]:
    return [
        (f"found SLOWER, margin {100 * found.margin:g}%", lambda power: form.hits(power.slower)),
        ("found SLOWER, no margin", lambda power: form.hits(power.bare[0])),
        ("said FASTER", lambda power: form.hits(power.faster)),
    ]


def _other_headers(found: Calibration) -> tuple[str, ...]:
    sought = (f"finds +{100 * effect:g}%" for effect, _ in SOUGHT)
    return (f"{found.plan.replicates} a side", "false alarms", *sought)


def _others(found: Calibration, form: _Form) -> tuple[tuple[str, ...], ...]:
    """With the same processes judged by their medians at the end, for comparison."""
    last = found.unpaired[-1]
    medians = Rule("medians of processes, no margin", last.significant, tuple(_bare(last, effect) for effect, _ in SOUGHT))
    entries = [[rule.alarms, *rule.sought] for rule in (*found.others, medians)]
    names = [rule.name for rule in (*found.others, medians)]
    return tuple((name, *map(form.hits, entry)) for name, entry in zip(names, entries, strict=True))


def _bare(power: Power, effect: float) -> Hits:
    return power.bare[INJECTED.index(effect)]


def _hits_in_full(hits: Hits) -> str:
    return "no verdicts" if hits.share is None else f"{hits.hits}/{hits.of} = {_hits_in_short(hits)}"


def _hits_in_short(hits: Hits) -> str:
    if hits.share is None:
        return "n/a"
    return f"{percent(hits.share)}% [{percent(hits.interval.low)},{percent(hits.interval.high)}]"


def _smallest_in_short(hits: Sequence[Hits], share: float) -> str:
    if not hits[0].of:
        return "n/a"
    found = smallest(hits, share)
    beyond = f">{percent(INJECTED[-1])}"
    if found.effect is None:
        return f"{beyond}%"
    low, high = (beyond if end is None else percent(end) for end in (found.low, found.high))
    return f"+{percent(found.effect)}% [{low},{high}]"


def _half_width(power: Power) -> str:
    return "n/a" if power.half_width is None else f"±{percent(power.half_width)}%"
