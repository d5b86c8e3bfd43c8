"""The parts of the page besides the tables of a run: all cells, what failed, curves in numbers, images, and facts."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from markupsafe import escape
from matplotlib.image import imsave

from attnbench.analyze.cells import OK, learning_curve
from attnbench.analyze.crossover import Versus
from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import TIME
from attnbench.analyze.roofline import placed
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baseline
from attnbench.report.conditions import commit
from attnbench.report.findings import Findings
from attnbench.report.page.board import Board, Place
from attnbench.report.page.columns import Column
from attnbench.report.questions.crossover.table import crossover_tables
from attnbench.report.questions.learning.figure import mosaic
from attnbench.report.questions.learning.words import CURVES, by_length, where
from attnbench.report.text.html import head, row, safe, trusted
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import Table
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.run import RunInfo, devices
from attnbench.schema.units import counted, length, three_digits

_LONGEST_REMARK = 300
_SIDE = 44
"""Pixels of the page that an image takes, more or less."""
_MISSING = "n/a"


def cell_table(board: Board, columns: Sequence[Column]) -> dict[str, Any]:
    """Return a row for every cell, failed ones with their reason; what is the same in every row is told once, above.

    The heads come with the key by which the script finds a column's numbers, and whether it is text.
    """
    identities = [_identity(board, place) for place in board.places]
    always = {"method", "N", "status"}
    names = list(identities[0]) if identities else sorted(always)
    kept = [name for name in names if name in always or len({each[name] for each in identities}) > 1]
    shown = [column for column in columns if not column.quantity.is_complement]
    texts = [column.texts for column in shown]
    rows = []
    for number, (place, own) in enumerate(zip(board.places, identities, strict=True)):
        count = str(place.summary.replicates) if place.summary.ok else ""
        rows.append(row([*(own[name] for name in kept), *(each[number] for each in texts), count, _remarks(board, place)]))
    forms = {"tier": "tier {}", "B": "B = {}"}
    told = [name for name in names if name not in (*kept, "run")]
    heads = [
        *((name, name, name not in {"N", "B"}) for name in kept),
        *((column.key, " or ".join(dict.fromkeys(column.shown_titles)), False) for column in shown),
        *(("n", "n", False), ("remarks", "remarks", True)),
    ]
    return {
        "heads": heads,
        # every text above went through `row`
        "body": trusted("".join(rows)),
        "constant": [forms.get(name, "{}").format(identities[0][name]) for name in told],
    }


def _identity(board: Board, place: Place) -> dict[str, str]:
    """Return what tells a cell from others, by column."""
    section, summary = board.groups[place.group].section, place.summary
    unknown = summary.cell.batch is Batch.LARGEST and "B" not in summary.facts
    return {
        "method": board.method_names[summary.cell.label],
        "tier": board.runs[place.run].tier(summary),
        "run": board.names[place.run],
        "workload": section.workload.value,
        "mask": section.mask,
        "conditions": section.conditions,
        "N": f"{summary.cell.problem.N:,}",
        "B": "max" if unknown else str(summary.B),
        "status": short(summary.status),
    }


def _remarks(board: Board, place: Place) -> str:
    """Say why a cell failed; or name the flags of its numbers, and whether they are above the roof."""
    summary = place.summary
    if not summary.ok:
        return shorten(summary.reason, _LONGEST_REMARK)
    at = placed(summary, board.runs[place.run].run)
    words = [*dict.fromkeys((*summary.flags, *summary.memory.flags)), *([at.warning] if at and at.above else [])]
    return shorten(", ".join(words), _LONGEST_REMARK)


def failures(board: Board, number: int) -> dict[str, Any]:
    """Return methods by lengths, the status in its place; methods that never failed are only counted."""
    group = board.groups[number]
    lines = {
        key[1:]: {board.places[cell].summary.cell.problem.N: cell for cell in cells}
        for key, cells in board.lines.items()
        if key[0] == number
    }
    failing = {key: line for key, line in lines.items() if not all(board.places[cell].summary.ok for cell in line.values())}
    rows = []
    for (run, method), line in failing.items():
        name = board.method_names[board.labels[method]]
        name = f"{name}, {board.names[run]}" if len(board.runs) > 1 else name
        entries = []
        for N in group.lengths:
            # a length that the suite does not have for the method stays empty; statuses are words of our own
            status = board.places[line[N]].summary.status if N in line else ""
            entries.append(f"<td class=s-{status} data-cell={line[N]}>{safe(short(status))}" if status else "<td>")
        rows.append(f"<tr><th scope=row>{safe(name)}{''.join(entries)}\n")
    caption = f'<caption class="unseen">{safe(f"What ran and what failed: {group.section.title}")}</caption>'
    heads = head(("method", *(length(N) for N in group.lengths)))
    table = f"<table class=map>{caption}{heads}<tbody>\n{''.join(rows)}</tbody></table>"
    whole = len(lines) - len(failing)
    words = "1 method ran at every length and is" if whole == 1 else f"{whole} methods ran at every length and are"
    told = _failed([board.places[cell].summary.status for line in lines.values() for cell in line.values()])
    return {
        "words": f"{told} {words} not listed." if failing and whole else told,
        # every text went through `safe`
        "grid": trusted(table if failing else ""),
        "reasons": list(
            dict.fromkeys(line for run, each in group.members for line in reasons(each.summaries, board.runs[run].names))
        ),
    }


def _failed(statuses: Sequence[str]) -> str:
    """Write `24 cells: 9 failed (6 budget, 3 OOM), 1 not run.`."""
    every = counted(len(statuses), "cell")
    failed = Counter(short(status) for status in statuses if status != OK and status not in UNFINISHED)
    not_run = sum(status in UNFINISHED for status in statuses)
    if not failed and not not_run:
        return f"{every}, all measured."
    parts = ", ".join(f"{count} {name}" for name, count in failed.most_common())
    told = f"{failed.total()} failed ({parts})" if failed else "none failed"
    return f"{every}: {told}{f', {not_run} not run' if not_run else ''}."


def crossovers(findings: Findings, section: Section) -> list[Table]:
    """Return from which length on methods win by time against the strongest exact one; nothing where there is none."""
    time, over = findings.quantities[TIME], baseline(section)
    if over is None or not any(time.values(cell) for cell in section.summaries):
        return []
    return crossover_tables(findings, [Versus(section, label, over, time) for label in section.series if label != over])


def curve_tables(findings: Findings, section: Section) -> list[Table]:
    """Return the curves of training in numbers, for those who do not see the chart, search or print it."""
    found = []
    for part in by_length(section) if section.workload is Workload.TRAIN else ():
        for name, (series, words) in CURVES.items():
            curves = {cell.cell.label: learning_curve(cell, series) for cell in part.summaries}
            known = {label: {each.update: each.middle for each in curve} for label, curve in curves.items() if curve}
            scale, sign = (1, "") if name == "loss" else (100, "%")
            rows = tuple(
                (f"{update:,.0f}", *(f"{three_digits(scale * c[update])}{sign}" if update in c else "" for c in known.values()))
                for update in sorted({update for curve in known.values() for update in curve})
            )
            if known:
                heads = ("updates", *(findings.names[label] for label in known))
                found.append(Table(f"{words[0].upper()}{words[1:]}: {where(part)}", heads, rows))
    return found


def drawings(findings: Findings, section: Section) -> list[dict[str, object]]:
    """Return the images of each method that was trained on some, by its first seed, as small PNG files within the page."""
    found: list[dict[str, object]] = []
    for cell in section.summaries if section.workload is Workload.TRAIN else ():
        images = mosaic(cell)
        if images is not None:
            at = f", N = {cell.cell.problem.N:,}" if len(section.lengths) > 1 else ""
            name, count = f"{findings.names[cell.cell.label]}{at}", len(images.given_ends)
            file, scale = BytesIO(), max(1, round(_SIDE / images.rows))
            imsave(file, images.pixels, format="png")
            rows, columns, _ = images.pixels.shape
            found.append(
                {
                    "name": name,
                    "address": f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}",
                    "words": f"{name}: {counted(count, 'image')} given, the same completed below their half, and as many drawn",
                    "width": columns * scale,
                    "height": rows * scale,
                }
            )
    return found


def environment(board: Board) -> Table:
    """Return where the runs were measured: facts by runs, and by the devices of a run that was measured on several."""
    known, heads = [], []
    for title, whole in zip(board.names, (findings.run for findings in board.runs), strict=True):
        for digest, device in (devices(whole) or {whole.environment_digest: ""}).items():
            run = whole.on(digest)
            facts = {"run": run.id, "started": run.started, "suite": run.suite.name, "source": run.suite.source}
            facts |= {"commit": commit(run), "device": run.surroundings.device}
            every = {**run.environment, **run.surroundings.facts}
            facts |= {name: _MISSING if value is None else str(value) for name, value in every.items()}
            for name, roof in run.surroundings.roof.items():
                flops, copied = three_digits(roof.flops_per_second / 1e9), three_digits(roof.bytes_per_second / 1e9)
                facts[f"roof, {name}"] = f"{flops} GFLOP/s in a large product, {copied} GB/s in a large copy"
            facts["environment"] = run.environment_digest
            known.append({name: text for name, text in facts.items() if text})
            heads.append(", ".join(filter(None, (title if len(board.runs) > 1 else "", device))))
    rows = tuple(
        (name, *(facts.get(name, _MISSING) for facts in known)) for name in dict.fromkeys(name for f in known for name in f)
    )
    return Table("Environment", ("fact", *(heads if len(known) > 1 else ("value",))), rows)


def methods(board: Board) -> Table:
    """Return what each method says of itself."""
    found: dict[str, tuple[str, ...]] = {}
    for findings in board.runs:
        for name, about in findings.run.methods.items():
            found.setdefault(name, (name, about.tier, about.summary, about.paper, about.version))
    return Table("Methods", ("method", "tier", "what it is", "paper", "version"), tuple(found.values()))


def again(run: RunInfo) -> dict[str, Any]:
    """Return how a run is made once more: the command as it was given, at its commit, and the suite as it was resolved."""
    known = run.git.get("commit")
    checkout = [f"git checkout {one_line(str(known))}"] if known else []
    changed = "; the checkout had changes that were not committed" if run.git.get("dirty") else ""
    return {
        "commands": escape("\n".join([*checkout, one_line(run.command)])),
        "about": f"Run {run.id}, environment {run.environment_digest}{changed}.",
        # JSON is YAML too
        "suite": escape(json.dumps(run.suite.model_dump(mode="json", exclude_defaults=True), indent=1)),
    }
