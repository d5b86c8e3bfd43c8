"""Answers: what a question came to, as text, Markdown, LaTeX, HTML, CSV, a data frame and, where there is one, a picture."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench.analyze.compare import Exit, exit_of
from attnbench.analyze.quantities import TIME
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table, console
from attnbench.report.text import latex, markdown
from attnbench.report.text.html import safe, table_html
from attnbench.report.text.numbers import percent
from attnbench.report.text.table import Table, csv_text, plain
from attnbench.schema.run import RunInfo
from attnbench.session.asked import one_of
from attnbench.store.files import write_named

if TYPE_CHECKING:
    import pandas as pd

_WORDS = {
    Exit.FINE: "nothing became {} beyond the margin of {}",
    Exit.REGRESSION: "{} beyond the margin of {}",
    Exit.UNCLEAR: "not clear: the noise is larger than what the replicates can resolve",
    Exit.LOST: "cells that used to give numbers are lost",
}
_NOTHING_JUDGED = "nothing was judged: no cell has numbers on both sides that make a ratio"


def title(run: RunInfo) -> str:
    """Return the title of a page of tables on a run."""
    return f"{run.suite.name}, run {run.id}"


@dataclass(frozen=True)
class Answer:
    """Tables of a run, or what a question came to. Printed, it is text for a terminal; in a notebook, tables."""

    title: str
    tables: Sequence[Table]
    own_text: Callable[[], str] | None = field(default=None, repr=False)
    """What a terminal shows, where that is something else than the tables."""
    own_csv: Callable[[], str] | None = field(default=None, repr=False)
    """Its numbers in SI units, where it has some that the tables round."""
    own_image: Callable[[str], bytes] | None = field(default=None, repr=False)
    """A picture, as png, svg or pdf, where it has one."""

    def markdown(self) -> str:
        """Return a page of Markdown."""
        return markdown.markdown(self.tables, self.title)

    def latex(self) -> str:
        """Write the tables for a paper."""
        return latex.latex(self.tables)

    def html(self) -> str:
        """Write the tables, each with its notes below."""
        notes = ["".join(f"<li>{safe(note)}</li>" for note in table.notes) for table in self.tables]
        each = zip(self.tables, notes, strict=True)
        return "".join(f"<h4>{safe(table.title)}</h4>{table_html(table)}<ul>{below}</ul>" for table, below in each)

    def csv(self) -> str:
        """Write its numbers in SI units; of a run's tables what they show, one below the other."""
        if self.own_csv:
            return self.own_csv()
        return csv_text(row for table in self.tables for row in (table.headers, *table.rows))

    def frame(self) -> "pd.DataFrame":
        """Return the CSV as a data frame; of a run's tables, whose columns differ, with the title of each in `table`."""
        import pandas as pd

        if self.own_csv:
            return pd.read_csv(io.StringIO(self.own_csv()))
        each = (pd.read_csv(io.StringIO(csv_text((t.headers, *t.rows)))).assign(table=t.title) for t in self.tables)
        return pd.concat(each, ignore_index=True) if self.tables else pd.DataFrame()

    def form(self, name: str) -> bytes:
        """Return the content of a file whose name ends so: md, tex, csv, html, or a picture. Raises ArgumentError."""
        texts = {"md": self.markdown, "tex": self.latex, "csv": self.csv, "html": self.html}
        one_of([*texts, *(("png", "svg", "pdf") if self.own_image else ())], name, "form")
        return texts[name]().encode() if name in texts or not self.own_image else self.own_image(name)

    def save(self, *files: str | Path) -> None:
        """Write files, the form of each by its name. Raises ArgumentError for one that there is not, OSError."""
        for file in map(Path, files):
            write_named(file, self.form(file.suffix.removeprefix(".")))

    def __str__(self) -> str:
        return self.own_text() if self.own_text else plain(self.tables)

    def _repr_html_(self) -> str:
        return self.html()


@dataclass(frozen=True)
class Comparison(Answer):
    """Verdicts on the cells of two sides."""

    judgement: Judgement = field(kw_only=True, repr=False)

    @classmethod
    def of(cls, judgement: Judgement) -> "Comparison":
        """Write a judgement in all its forms."""

        def image(form: str) -> bytes:
            # matplotlib takes a second to import
            from attnbench.report.questions.comparison.figure import ratio_plot

            return ratio_plot(judgement, form)

        forms = (lambda: console(judgement), lambda: comparison_csv(judgement), image)
        return cls("Comparison", [comparison_table(judgement)], *forms, judgement=judgement)

    @property
    def code(self) -> Exit:
        """All verdicts together, as `attnbench gate` ends."""
        return exit_of(self.judgement.comparisons)

    @property
    def headline(self) -> str:
        """The code in words, with the margin."""
        code, timed = self.code, self.judgement.quantity.name == TIME
        worse = "worse" if not timed else "slower" if code is Exit.FINE else "slower, or of more memory,"
        words = _WORDS[code].format(worse, percent(self.judgement.terms.margin))
        if code is Exit.UNCLEAR:
            unclear = [comparison for comparison in self.judgement.comparisons if comparison.verdict is Verdict.UNCLEAR]
            if not any(comparison.ratio for comparison in self.judgement.comparisons):
                words = _NOTHING_JUDGED
            elif not any(comparison.ratio for comparison in unclear):
                words = f"not clear: {unclear[0].reason}"
        return f"{code.name}: {words}"
