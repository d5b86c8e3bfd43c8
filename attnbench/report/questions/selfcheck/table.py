"""The findings of a selfcheck: sentences, tables for a page, text for a terminal; and as JSON, every figure with its counts."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attnbench.analyze.selfcheck import INJECTED, LIKELY, SOUGHT, SURE, Calibration, Hits, Power, smallest
from attnbench.analyze.statistics import Interval
from attnbench.report.conditions import machine
from attnbench.report.text.markdown import markdown
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.numbers import in_percent
from attnbench.report.text.table import WIDTH, Table, plain
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Selfcheck
from attnbench.schema.units import seconds

_ALARMING = 0.05
_COLUMNS = 3
_PAIRED = "Paired: the sides ran one after the other, as in a gate"
_UNPAIRED = "Unpaired: the same processes, as two stored runs are compared"


def subject(plan: Selfcheck) -> str:
    """Name the method: where a slow-down was made on purpose, the one inside."""
    cell = plan.sides[0]
    return shorten(str(cell.params.get("method", cell.label)) if plan.injected else cell.label, 60)


def cell_words(plan: Selfcheck) -> str:
    """`forward, non-causal, float32, B=1, H=8, N=512, D=64, cpu`."""
    cell, p = plan.sides[0], plan.sides[0].problem
    return f"{cell.workload.words}, {p.mask}, {p.dtype.value}, B={p.B}, H={p.H}, N={p.N}, D={p.D}, {cell.device}"


def about(found: Calibration) -> str:
    """Say what was compared, and what is right."""
    plan = found.plan
    if plan.injected:
        truth = f"side B waits {100 * plan.injected:g} % of each call, so SLOWER is right"
    else:
        truth = "nothing differs between the sides, so whatever is found to differ is a false alarm"
    call = f"{seconds(found.seconds)} a call" if found.seconds else "nothing measured"
    size = f"{plan.verdicts} verdicts x 2 sides x {plan.replicates} processes"
    return f"selfcheck of {subject(plan)}: {cell_words(plan)}; {call}; {size}; {truth}."


def notes(found: Calibration, run: RunInfo) -> list[str]:
    """Return all notes, one line each, in order of weight."""
    plan, most, together, alike = found.plan, found.paired[-1], found.together, not found.plan.injected
    alarming = alike and most.significant.interval.low > _ALARMING
    flags = ", ".join(f"{flag} {in_percent(count / found.measured)} %" for flag, count in found.flags.items())
    reason = f" ({shorten(found.reason, 200)})" if found.reason else ""
    said = {
        f"{found.lost} of {plan.processes} processes gave no time, and their verdicts are left out{reason}.": found.lost,
        f"Warning: without a margin {in_percent(most.significant.share or 0)} % are told apart where 5 % should be: processes "
        "of one verdict are not independent here (attnbench doctor says what disturbs).": alarming,
        f"Judged together, as a suite of {together.of} cells, {together.hits} would be told apart "
        f"(margin {100 * found.margin:g} %, {most.replicates} a side).": alike and together.of,
        "In brackets: 95 % by Wilson. The slow-down is real: a wait within the call that is timed.": plan.injected,
        "In brackets: 95 % by Wilson. Found: of verdicts whose side B has its medians multiplied, the share that says SLOWER; "
        "9 in 10: the smallest slow-down that so many find.": alike,
        "Fewer replicates a side: the rounds are cut into parts, and each part gives a verdict of its own.": alike,
    }
    lines = [line for line, holds in said.items() if holds]
    if (overall := found.overall) and (interval := overall.interval):
        lines.append(f"B over A, all pairs: {overall.value:.4f} [{interval.low:.4f}, {interval.high:.4f}].")
    if (share := found.processes) is not None:
        lines.append(f"Medians of processes of one round and side vary by {in_percent(share)} % (standard deviation).")
    if found.rounds is not None:
        lines.append(
            f"The rounds' means, minutes apart, span {in_percent(found.rounds)} %: "
            "such drift lies between two stored runs, and in no interval."
        )
    lines += [f"Processes marked: {flags}."] if flags else []
    return [one_line(line) for line in [*lines, machine(run)]]


def page(found: Calibration, run: RunInfo) -> str:
    """Return the tables as Markdown."""
    return markdown(tables(found, run), f"selfcheck of {subject(found.plan)}")


def tables(found: Calibration, run: RunInfo) -> list[Table]:
    """Return paired and unpaired verdicts, by replicates; the notes are below the first table."""
    words = (about(found), *notes(found, run))
    return [
        Table(_PAIRED, *_grid(found, found.paired, in_full=True), notes=words),
        Table(_UNPAIRED, *_grid(found, found.unpaired, in_full=True)),
    ]


def console(found: Calibration, run: RunInfo) -> str:
    """Return at most 80 columns of text: the highest replicate counts, as far as they fit."""
    shown = [
        Table(_PAIRED, *_grid(found, found.paired[-_COLUMNS:], in_full=False), notes=tuple(notes(found, run))),
        Table(_UNPAIRED, *_grid(found, found.unpaired[-_COLUMNS:], in_full=False)),
    ]
    return f"{textwrap.fill(about(found), WIDTH)}\n\n{plain(shown)}"


def _grid(found: Calibration, powers: Sequence[Power], *, in_full: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the heads and a row a figure; shares in full have their counts, too."""
    margin = f"{100 * found.margin:g}%"
    hits: dict[str, list[Hits]]
    least: dict[str, tuple[list[tuple[Hits, ...]], float]] = {}
    if found.plan.injected:
        hits = {
            f"found SLOWER, margin {margin}": [power.slower for power in powers],
            "found SLOWER, no margin": [power.bare[0] for power in powers],
            "said FASTER": [power.faster for power in powers],
        }
    else:
        hits = {
            f"false alarms, margin {margin}": [power.alarms for power in powers],
            "false alarms, no margin": [power.significant for power in powers],
            f"says SAME, margin {margin}": [power.same for power in powers],
        }
        for i, (effect, at) in enumerate(SOUGHT):
            hits[f"finds +{100 * effect:g}%, margin {100 * at:g}%"] = [power.sought[i] for power in powers]
        bare = [power.bare for power in powers]
        least = {
            "found 9 in 10, no margin": (bare, SURE),
            "found 8 in 10, no margin": (bare, LIKELY),
            f"found 9 in 10, margin {margin}": ([power.at_margin for power in powers], SURE),
        }
    widths = ("n/a" if power.half_width is None else f"±{in_percent(power.half_width)}%" for power in powers)
    return ("", *(f"{power.replicates} a side" for power in powers)), (
        ("verdicts", *(str(power.slower.of) for power in powers)),
        *((name, *(_share(each, in_full=in_full) for each in row)) for name, row in hits.items()),
        *((name, *(_smallest(each, share, in_full=in_full) for each in row)) for name, (row, share) in least.items()),
        ("half-width of the interval", *widths),
    )


def _share(hits: Hits, *, in_full: bool) -> str:
    if hits.share is None:
        return "no verdicts" if in_full else "n/a"
    share = f"{in_percent(hits.share)}% [{in_percent(hits.interval.low)},{in_percent(hits.interval.high)}]"
    return f"{hits.hits}/{hits.of} = {share}" if in_full else share


def _smallest(hits: Sequence[Hits], share: float, *, in_full: bool) -> str:
    if not hits[0].of:
        return "n/a"
    found = smallest(hits, share)
    beyond = f">{in_percent(INJECTED[-1])}"
    if found.effect is None:
        return f"{beyond}%"
    low, high = (beyond if end is None else in_percent(end) for end in (found.low, found.high))
    return f"+{in_percent(found.effect)}% [{low},{' ' if in_full else ''}{high}]"


def as_json(found: Calibration, run: RunInfo) -> str:
    """Return strict JSON; null where there is no figure. Shares, not per cent; seconds."""
    overall = found.overall
    data = {
        "schema_version": 2,
        "run": run.id,
        "environment": run.environment_digest,
        "device": run.surroundings.device,
        "method": subject(found.plan),
        "cell": cell_words(found.plan),
        "verdicts": found.plan.verdicts,
        "replicates": found.plan.replicates,
        "margin": found.margin,
        "injected": found.plan.injected,
        "seconds": found.seconds,
        "processes_sd": found.processes,
        "rounds_span": found.rounds,
        "lost": found.lost,
        "reason": found.reason,
        "flags": dict(found.flags),
        "together": _hits(found.together),
        "overall": None if overall is None else {"ratio": overall.value, **_ends(overall.interval)},
        "noise_floor": [{"replicates": replicates, "effect": effect} for replicates, effect in found.floor],
        "paired": [_power(power) for power in found.paired],
        "unpaired": [_power(power) for power in found.unpaired],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _power(power: Power) -> dict[str, Any]:
    curve = zip(INJECTED, power.at_margin, power.bare, strict=True)
    sought = zip(SOUGHT, power.sought, strict=True)
    return {
        "replicates": power.replicates,
        **{name: _hits(getattr(power, name)) for name in ("faster", "slower", "alarms", "significant", "same")},
        "half_width": power.half_width,
        "sought": [{"injected": effect, "margin": margin, **_hits(hits)} for (effect, margin), hits in sought],
        "curve": [{"injected": x, "at_margin": _hits(at), "no_margin": _hits(bare)} for x, at, bare in curve],
        "smallest": {
            "sure_no_margin": asdict(smallest(power.bare, SURE)),
            "likely_no_margin": asdict(smallest(power.bare, LIKELY)),
            "sure_at_margin": asdict(smallest(power.at_margin, SURE)),
        },
    }


def _hits(hits: Hits) -> dict[str, Any]:
    return {**asdict(hits), "share": hits.share, **_ends(hits.interval if hits.of else None)}


def _ends(interval: Interval | None) -> dict[str, Any]:
    return {"low": interval and interval.low, "high": interval and interval.high}
