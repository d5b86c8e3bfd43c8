"""A run that is stored: its cells as a data frame, its tables, its figures and its page."""

import base64
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from attnbench.library.answers import Answer, title
from attnbench.report.findings import Findings
from attnbench.report.site.runs import Kind, kind_of
from attnbench.report.tables import of_kind
from attnbench.report.text.html import safe
from attnbench.schema.cell import Workload
from attnbench.schema.errand import main_pass
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import TableKind
from attnbench.session.asked import one_of, pick, several, split_names, word
from attnbench.session.reporter import Reporter
from attnbench.store.files import write_named
from attnbench.store.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from attnbench.report.drawing.sheet import Sheet

_LARGE = 20_000
TABLE_KINDS: tuple[str, ...] = tuple(name for each in get_args(TableKind) for name in (get_args(each) or (each,)))


@dataclass(frozen=True)
class Run:
    """A run that is stored. Printed, it is the summary of its report; in a notebook, its sentence of result and its tables.

    Everything is made from the records alone; nothing but `report` changes the disk.
    """

    folder: RunFolder

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @cached_property
    def info(self) -> RunInfo:
        """The suite, the command, the machine, the methods and the cells that were planned."""
        return self.folder.info()

    @cached_property
    def findings(self) -> Findings:
        """The findings that everything else is made from, computed once."""
        refused = list[str]()
        return Findings.of(self.info, self.folder.read(refused.append), refused)

    @property
    def measured(self) -> bool:
        """Whether any cell gave numbers."""
        if self.is_large:
            return any(record.ok and record.job.phase is main_pass(record.job.cell) for record in self.records())
        return any(summary.replicates for summary in self.findings.summaries)

    @property
    def is_large(self) -> bool:
        """Whether it has more cells than anybody reads in tables: then none are made unless they are asked for."""
        return len(self.info.cells) > _LARGE

    def records(self) -> Iterator[Record]:
        """Return the raw records with all their samples, in the order they were written."""
        return self.folder.read()

    def frame(self, *, replicates: bool = False) -> "pd.DataFrame":
        """Return a row a cell, also for those that failed; or a row a replicate. docs/data.md says what each column holds."""
        from attnbench.report import frame

        # the copy lies in one piece: pandas warns whoever adds a column to two hundred
        return (frame.replicate_frame if replicates else frame.frame)(self.findings).infer_objects().copy()

    def table(self, kind: str = "summary", *, workload: str | Sequence[str] = ()) -> Answer:
        """Return tables of a kind, one a section: as suites name them in `report.tables`. Raises ArgumentError."""
        one_of(TABLE_KINDS, kind, "kind")
        findings = self._narrowed(workload, ())
        return Answer(title(self.info), of_kind(findings, kind))

    def plot(  # noqa: PLR0913 - one parameter an option
        self,
        kind: str,
        *,
        style: str = "paper",
        width: str | None = None,
        height: str | None = None,
        workload: str | Sequence[str] = (),
        method: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        failures: bool = True,
    ) -> "Figures":
        """Draw figures of one kind: mostly one, but one a workload and a sheet. Raises ArgumentError, CannotDrawError."""
        from attnbench.report.drawing import style as styles
        from attnbench.report.figures.make import KINDS, drawn

        sheet = _sheet(style, width, height, failures=failures)
        one_of(KINDS, kind, "kind")
        with styles.applied(sheet.settings):
            drawings = drawn(self._narrowed(workload, method, labels), kind, sheet)
        sheets = [picture for drawing in drawings for picture in drawing.sheets]
        return Figures(sheets, sheet, tuple(drawing.caption for drawing in drawings))

    def draw(  # noqa: PLR0913 - one parameter an option
        self,
        kind: str | Sequence[str] = (),
        *,
        style: str = "paper",
        width: str | None = None,
        height: str | None = None,
        format: str | None = None,
        workload: str | Sequence[str] = (),
        method: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        failures: bool = True,
        reporter: Reporter | None = None,
    ) -> dict[str, bytes]:
        """Draw figures as files with captions, by name; of all kinds, where none is named, as far as the run has them.

        The reporter is told which of them cannot be drawn, and why. Raises ArgumentError, UsageError.
        """
        from attnbench.report.drawing.kinds import CannotDrawError
        from attnbench.report.drawing.sheet import Style
        from attnbench.report.figures.make import FORMATS, KINDS, USUAL, files

        kinds = [one_of(KINDS, each, "kind") for each in dict.fromkeys(several(kind))]
        sheet = _sheet(style, width, height, failures=failures)
        usual = "svg,png" if style == Style.WEB else "pdf,svg,png"
        formats = tuple(dict.fromkeys(split_names(usual if format is None else format)))
        if not formats or (strange := [form for form in formats if form not in FORMATS]):
            given = strange[0] if formats else repr(format)
            raise ArgumentError("format", given, f"there are: {', '.join(FORMATS)}; several as pdf,svg")
        findings = self._narrowed(workload, method, labels)
        found: dict[str, bytes] = {}
        for each in kinds or USUAL:
            # the command that draws this kind as it was drawn
            again = ["attnbench", "plot", self.path.as_posix(), "--kind", each, "--style", style]
            again += ["--width", width] if width else []
            again += ["--height", height] if height else []
            again += ["--format", format] if format else []
            again += [] if failures else ["--no-failures"]
            again += [text for name, called in (labels or {}).items() for text in ("--label", f"{name}={called}")]
            again += [text for one in several(workload) for text in ("--workload", one)]
            again += [text for one in several(method) for text in ("--methods", one)]
            try:
                found |= files(findings, each, sheet, formats, shlex.join(again))
            except CannotDrawError as error:
                if kinds:
                    raise ArgumentError("kind", each, str(error)) from None
                (reporter or Reporter()).say(f"{each}: not drawn: {error}")
        if not found:
            raise UsageError(f"{self.path}: there is nothing to draw")
        return found

    def report(self) -> list[Path]:
        """Write tables, plots and the page of the run into its folder; the paths. Raises StoreError."""
        from attnbench.report import write

        return write.write(self.path, self.findings)

    def summary(self, *, unicode: bool = True) -> str:
        """Return the sentence of result and the times of each section, for a terminal of 80 columns."""
        from attnbench.report import console

        return console.summary(self.findings, unicode=unicode)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<attnbench.Run {self.path}>"

    def _repr_html_(self) -> str:
        from attnbench.report.headline import headline

        return f"<p>{safe(headline(self.findings))}</p>{self.table().html()}"

    def _narrowed(
        self, workload: str | Sequence[str], method: str | Sequence[str], labels: Mapping[str, str] | None = None
    ) -> Findings:
        """Keep these workloads and methods, or all where none is named, under names of one's own. Raises ArgumentError."""
        findings = self.findings
        known = [*dict.fromkeys(summary.cell.method for summary in findings.summaries), *findings.labels]
        if labels:
            findings = findings.relabelled({one_of(known, name, "label"): text for name, text in labels.items()})
        workloads = [word(Workload, each, "workload") for each in several(workload)]
        own = list(dict.fromkeys(s.cell.workload for s in findings.summaries))
        if strange := [each for each in workloads if each not in own]:
            raise ArgumentError("workload", strange[0], f"the run has {', '.join(own) or 'none'}")
        named = [name for text in several(method) for name in split_names(text)]
        kept = dict.fromkeys(label for name in named for label in pick(name, findings.labels, "methods"))
        return findings.only(workloads, list(kept)) if workloads or kept else findings


class Figures(tuple["Figure", ...]):
    """Figures of matplotlib, each to be changed at will; in a notebook, pictures."""

    sheet: "Sheet"
    captions: tuple[str, ...]

    def __new__(cls, figures: Sequence["Figure"], sheet: "Sheet", captions: tuple[str, ...]) -> "Figures":
        """Keep figures with what they were drawn on, and a caption for each workload."""
        made = super().__new__(cls, figures)
        made.sheet, made.captions = sheet, captions
        return made

    def image(self, number: int = 0, form: str = "png") -> bytes:
        """Return one of them as png, svg or pdf. Raises ArgumentError."""
        from attnbench.report.drawing import images
        from attnbench.report.drawing import style as styles

        one_of(("png", "svg", "pdf"), form, "form")
        with styles.applied(self.sheet.settings):
            return images.images(self[number], (form,), self.sheet.dpi)[form]

    def save(self, *files: str | Path) -> None:
        """Write them, one a file, the form of each by its name. Raises ArgumentError where these are not as many, OSError."""
        if len(files) != len(self):
            raise ArgumentError("files", ", ".join(map(str, files)), f"there are {len(self)} figures; name a file for each")
        for number, file in enumerate(map(Path, files)):
            write_named(file, self.image(number, file.suffix.removeprefix(".")))

    def _repr_html_(self) -> str:
        encoded = (base64.b64encode(self.image(number)).decode() for number in range(len(self)))
        return "".join(f'<img src="data:image/png;base64,{text}" style="max-width:100%">' for text in encoded)


RunLike = Run | Path | str


def other_than_run(path: Path, info: RunInfo) -> str:
    """Say what a folder is that `run` cannot go on with; empty for the others."""
    match kind_of(info):
        case Kind.SELFCHECK:
            return f"it is a selfcheck, and goes on with: attnbench selfcheck --resume {shlex.quote(str(path))}"
        case Kind.LIMITS:
            return "it is a search of attnbench maxlen, which leaves no times"
        case Kind.COMPARISON:
            return "it is one side of a comparison, which was measured in turns with the other"
        case _:
            return ""


def read(run: RunLike) -> Run:
    """Read a stored run, by its folder. Raises StoreError where it is none."""
    if isinstance(run, Run):
        return run
    folder = RunFolder(Path(run))
    folder.info()
    return Run(folder)


def _sheet(style: str, width: str | None, height: str | None, *, failures: bool) -> "Sheet":
    from attnbench.report.drawing.sheet import Style, sheet

    try:
        return replace(sheet(word(Style, style, "style"), width, height), failures=failures)
    except ValueError as error:
        raise UsageError(str(error)) from None
