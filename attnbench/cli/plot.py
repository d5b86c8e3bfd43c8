"""`attnbench plot`: figures of a run for a paper, a talk or a page."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from attnbench.cli.choose import pick
from attnbench.cli.errors import UsageError
from attnbench.cli.outs import write_below
from attnbench.report.drawing.sheet import Sheet, Style, Width, sheet
from attnbench.report.figures.kinds import CannotDrawError, Kind
from attnbench.report.figures.make import FORMATS, files
from attnbench.report.figures.narrowed import narrowed
from attnbench.report.findings import Findings
from attnbench.report.text.names import ascii_only
from attnbench.report.text.plain import wrapped
from attnbench.schema.cell import Workload
from attnbench.store.run_folder import RunFolder

_Word = TypeVar("_Word", bound=StrEnum)
_USUAL = {Style.PAPER: ("pdf", "svg", "png"), Style.TALK: ("pdf", "svg", "png"), Style.WEB: ("svg", "png")}


@dataclass(frozen=True)
class Options:
    """What the command line said; None and empty where it said nothing."""

    run: Path
    kinds: tuple[str, ...] = ()
    style: str = Style.PAPER.value
    width: str | None = None
    formats: str | None = None
    workloads: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    out: Path | None = None


def plot(options: Options) -> None:
    """Write the figures and say where, and which cannot be drawn and why; raises UsageError, StoreError."""
    style = _word(Style, options.style, "--style")
    kinds = [_word(Kind, kind, "--kind") for kind in dict.fromkeys(options.kinds)]
    formats = _formats(options.formats, style)
    on = _sheet(style, options.width)
    workloads = [_word(Workload, workload, "--workload") for workload in options.workloads]
    folder = RunFolder(options.run)
    findings = _narrowed(Findings.of(folder.info(), folder.read()), workloads, options.methods)
    made = _made(findings, kinds, on, formats, options)
    if not made:
        raise UsageError(f"{options.run}: there is nothing to draw, as said above")
    if options.out is None:
        write_below(options.run, {f"figures/{name}": content for name, content in made.items()})
    else:
        write_below(options.out, made)


def _word(words: type[_Word], given: str, option: str) -> _Word:
    known = [word.value for word in words]
    if given not in known:
        meant = get_close_matches(given, known, n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        raise UsageError(f"{option} {given}: {hint}there are: {', '.join(known)}")
    return words(given)


def _formats(given: str | None, style: Style) -> tuple[str, ...]:
    if given is None:
        return _USUAL[style]
    wanted = tuple(dict.fromkeys(form.strip() for form in given.split(",") if form.strip()))
    if not wanted or (strange := [form for form in wanted if form not in FORMATS]):
        raise UsageError(
            f"--format {strange[0] if wanted else repr(given)}: there are: {', '.join(FORMATS)}; several as pdf,svg"
        )
    return wanted


def _sheet(style: Style, width: str | None) -> Sheet:
    if style is Style.TALK and width is not None:
        raise UsageError(f"--width {width}: a slide has one width, 16:9; leave it out with --style talk")
    return sheet(style, _word(Width, width or Width.DOUBLE.value, "--width"))


def _narrowed(findings: Findings, workloads: Sequence[Workload], methods: Sequence[str]) -> Findings:
    """Raises UsageError for a method or a workload that the run does not have."""
    own = list(dict.fromkeys(s.cell.workload for s in findings.summaries))
    if strange := [workload for workload in workloads if workload not in own]:
        raise UsageError(f"--workload {strange[0]}: the run has {', '.join(own) or 'none'}")
    named = [name for text in methods for name in _split(text)]
    labels = dict.fromkeys(label for name in named for label in pick(name, findings.labels, "--methods"))
    return narrowed(findings, workloads, list(labels)) if workloads or labels else findings


def _split(text: str) -> list[str]:
    """At commas outside brackets: `softmax.sdpa,lsh.reformer(bucket_size=64, rounds=4)` names two."""
    names, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += letter
    return [name.strip() for name in names if name.strip()]


def _made(findings: Findings, kinds: Sequence[Kind], on: Sheet, formats: Sequence[str], options: Options) -> dict[str, bytes]:
    """Of all kinds, if none is named: then those that the run cannot give are said, and are no error."""
    found: dict[str, bytes] = {}
    for kind in kinds or Kind:
        try:
            found |= files(findings, kind, on, formats, _again(options, kind))
        except CannotDrawError as error:
            if kinds:
                raise UsageError(f"--kind {kind}: {error}") from None
            _say(f"{kind}: not drawn: {error}")
    return found


def _again(options: Options, kind: Kind) -> str:
    """The command that draws one kind as it was drawn."""
    words = ["attnbench", "plot", options.run.as_posix(), "--kind", kind.value, "--style", options.style]
    words += ["--width", options.width] if options.width else []
    words += [word for workload in options.workloads for word in ("--workload", workload)]
    return shlex.join([*words, *(word for method in options.methods for word in ("--methods", method))])


def _say(text: str) -> None:
    unicode = "utf" in (sys.stderr.encoding or "ascii").lower()
    print(wrapped(text) if unicode else ascii_only(wrapped(text)), file=sys.stderr)
