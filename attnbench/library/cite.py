"""What a paper says of a run: what to cite, and a list of what its readers have to be told, filled in from the records."""

import re
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.sections import grouped
from attnbench.analyze.statistics import ENOUGH
from attnbench.library.runs import RunLike, read
from attnbench.report.conditions import machine, measured, replication, shapes
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import cells
from attnbench.report.text.table import wrapped
from attnbench.store.files import write_named

_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


@dataclass(frozen=True)
class Citation:
    """Entries for BibTeX, and the list."""

    bibtex: str
    checklist: str
    """Markdown: a point a line, ticked where the run answers it."""

    def form(self, name: str) -> bytes:
        """Return the content of a file whose name ends so: bib or md. Raises KeyError."""
        return {"bib": self.bibtex, "md": self.checklist}[name].encode()

    def save(self, *files: str | Path) -> None:
        """Write files, the form of each by its name. Raises KeyError for one that there is not, OSError."""
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
    """Cite this project with the run, and the paper of each method, which BibTeX tools complete by its arXiv number."""
    run = findings.run
    papers = grouped((number, name) for name, each in run.methods.items() for number in _ARXIV.findall(each.paper))
    commit = f", commit {str(run.git['commit'])[:12]}" if run.git.get("commit") else ""
    note = f"suite {run.suite.name}, digest {run.suite.digest}{commit}; run {run.id}"
    entries = [
        "@software{attnbench,\n  title = {attnbench: time, memory and quality of efficient attentions},\n"
        f"  author = {{{{The attnbench authors}}}},\n  year = {{{run.started[:4]}}},\n  note = {{{note}}}\n}}"
    ]
    entries += [
        f"@misc{{arxiv-{number},\n  archivePrefix = {{arXiv}},\n  eprint = {{{number}}},\n  note = {{{', '.join(names)}}}\n}}"
        for number, names in sorted(papers.items())
    ]
    return "\n\n".join(entries).replace("_", r"\_") + "\n"


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
