"""What a paper cites and has to tell of a run: filled in from its records, and open where only its author knows."""

import re
from pathlib import Path

import attnbench

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores"


def test_every_method_s_paper_is_cited_once_with_the_run_and_its_suite() -> None:
    run = attnbench.read(REFERENCE / "crossover")
    bibtex = attnbench.cite(run).bibtex
    keys = re.findall(r"^@\w+\{(.+),$", bibtex, re.MULTILINE)
    papers = {description.paper for description in run.info.methods.values()}
    assert len(keys) == len(set(keys)) == 1 + len(papers)
    assert run.info.id in bibtex
    assert run.info.suite.digest in bibtex
    assert r"vq.blockwise" in bibtex
    assert bibtex.count("{") == bibtex.count("}")


def test_what_the_run_knows_is_ticked_and_what_only_its_author_knows_is_open() -> None:
    said = attnbench.cite(REFERENCE / "crossover").checklist
    assert "- [x] On which machine: Device cpu, Intel" in said
    assert "- [x] Which cells have no number: 175 cells: 174 ok, 1 failed" in said
    assert "- [ ] Whether the machine was otherwise idle" in said
    assert "noisy" in said
    assert "replicates: this run has" not in said
    first_look = attnbench.cite(REFERENCE / "atlas").checklist
    assert "- [ ] At least 5 replicates: this run has 2" in first_look
    assert "- [ ] Code that was committed" in first_look


def test_both_are_files(tmp_path: Path) -> None:
    attnbench.cite(REFERENCE / "crossover").save(tmp_path / "a.bib", tmp_path / "a.md")
    assert (tmp_path / "a.bib").read_text().startswith("@software{attnbench,")
    assert (tmp_path / "a.md").read_text().startswith("- [x] Which suite")
