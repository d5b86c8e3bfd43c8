"""Texts for a paper about a run: what to cite, and a list of what readers have to be told, filled in from the records."""

import re
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.sections import grouped
from attnbench.analyze.statistics import ENOUGH
from attnbench.library.runs import RunLike, read
from attnbench.report.conditions import machine, measured, replication, shapes
from attnbench.report.findings import Findings
from attnbench.report.text.latex import escape
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import cells
from attnbench.report.text.table import wrapped
from attnbench.session.asked import one_of
from attnbench.store.files import write_named

_NUMBER = re.compile(r"\d{4}\.\d{4,5}")
_ARXIV = re.compile(rf"arXiv:({_NUMBER.pattern})")


@dataclass(frozen=True)
class Citation:
    """Entries for BibTeX, and the list."""

    bibtex: str
    checklist: str
    """Markdown: a point a line, ticked where the run answers it."""

    def form(self, name: str) -> bytes:
        """Return the content of a file whose name ends so: bib or md. Raises ArgumentError."""
        texts = {"bib": self.bibtex, "md": self.checklist}
        return texts[one_of(texts, name, "form")].encode()

    def save(self, *files: str | Path) -> None:
        """Write files, the form of each by its name. Raises ArgumentError for one that there is not, OSError."""
        for file in map(Path, files):
            write_named(file, self.form(file.suffix.removeprefix(".")))

    def __str__(self) -> str:
        """Write both for a terminal of 80 columns."""
        lines = "\n".join(wrapped(line) for line in self.checklist.splitlines())
        return f"{lines}\n\n{self.bibtex}"


def cite(run: RunLike) -> Citation:
    """Write what to cite of a run, and what to tell of it. Raises StoreError."""
    findings = read(run).findings
    return Citation(_bibtex(findings), _checklist(findings))


def _bibtex(findings: Findings) -> str:
    """Cite this project with the run, and the paper of each method, which BibTeX tools complete where it is on arXiv."""
    run = findings.run
    papers = grouped(
        (paper, name)
        for name, each in run.methods.items()
        for paper in _ARXIV.findall(each.paper) or filter(None, [each.paper])
    )
    commit = f", commit {str(run.git['commit'])[:12]}" if run.git.get("commit") else ""
    note = f"suite {run.suite.name}, digest {run.suite.digest}{commit}; run {run.id}"
    known = {"attnbench"}
    entries = [
        "@software{attnbench,\n  title = {attnbench: time, memory and quality of efficient attentions},\n"
        f"  author = {{{{The attnbench authors}}}},\n  year = {{{run.started[:4]}}},\n  note = {{{escape(note)}}}\n}}"
    ]
    for paper, names in sorted(papers.items()):
        key, lines = f"arxiv-{paper}", f"  archivePrefix = {{arXiv}},\n  eprint = {{{paper}}}"
        if not _NUMBER.fullmatch(paper):
            # a title may have no plain letter, or only those of another one
            plain = re.sub(r"[^a-z0-9]+", "-", paper.lower()).strip("-") or "paper"
            keys = (plain, *(f"{plain}-{number}" for number in range(2, 2 + len(papers))))
            key, lines = next(each for each in keys if each not in known), f"  title = {{{{{escape(paper)}}}}}"
        known.add(key)
        entries.append(f"@misc{{{key},\n{lines},\n  note = {{{escape(', '.join(names))}}}\n}}")
    return "\n\n".join(entries) + "\n"


def _checklist(findings: Findings) -> str:
    run, time = findings.run, findings.quantities["time"]
    ok = [summary for summary in findings.summaries if summary.ok]
    replicates = min((summary.replicates for summary in ok), default=0)
    flags = sorted({flag for summary in ok for flag in summary.flags})
    versions = [f"{name}: {each.version}" for name, each in run.methods.items() if each.version]
    known = {
        "Which suite": f"{run.suite.name}, digest {run.suite.digest}; `{one_line(run.command)}`",
        "On which machine": machine(run),
        "Which code": one_line("; ".join(versions)),
        "Which shapes": shapes(findings.summaries),
        "How often, and what the ranges are": replication(findings.summaries, time),
        "Which cells have no number": cells(findings.summaries),
    }
    lines = [f"- [x] {what}: {words}" for what, words in known.items()]
    lines += ["- [x] How it was measured:", *(f"  - {line}" for line in measured(findings)[:-1])]
    open_ = {
        f"At least {ENOUGH} replicates: this run has {replicates}, too few for intervals": replicates < ENOUGH,
        f"What the warnings mean for the numbers: {', '.join(flags)}": flags,
        "Code that was committed: this run was made with changes that were not": run.git.get("dirty"),
        "Whether the machine was otherwise idle": True,
        "That the methods compute different functions, and what each loses in quality": True,
        "Which baseline a speed-up is over, and why that one": True,
    }
    return "\n".join([*lines, *(f"- [ ] {words}" for words, applies in open_.items() if applies)]) + "\n"
