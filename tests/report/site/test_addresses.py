"""Folders of the site: plain, apart from each other, and the same for the same runs."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.site.runs import Found, Kind, machine_words
from attnbench.report.site.shelf import INDEX, TREND, addresses
from attnbench.schema.history import Entry

NAMES = st.sampled_from(
    ["Quick", "quick", "QUICK", "index.html", "trend.html", "..", "../..", "a b", "a-b", "", "é", "x" * 200, "X" * 200]
)
WORDS = NAMES | st.text(max_size=20)


def found(place: str, suite: str, machine: str, run: str) -> Found:
    entry = Entry(place=place, suite=suite, machine=machine, run=run, started="2026-01-01T00:00:00+00:00")
    return Found(Path(place), entry, Kind.RUN, "", "", 0)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), unique=True, max_size=12))
def test_every_run_has_a_folder_of_its_own_whatever_it_is_called(names: list[tuple[str, str, str]]) -> None:
    runs = [found(f"run{number}", *each) for number, each in enumerate(names)]
    known = addresses(runs)
    assert addresses(reversed(runs)) == known
    folders = [known[each.place] for each in runs]
    assert len({folder.casefold() for folder in folders}) == len(runs)
    # and shares those above it only with runs of its suite and machine
    above = {folder.rpartition("/")[0].casefold() for folder in folders}
    assert len(above) == len({(suite, machine) for suite, machine, _ in names})
    for folder in folders:
        suite, machine, run = folder.split("/")
        assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name) for name in (suite, machine, run))
        assert suite.casefold() != INDEX
        assert run.casefold() != TREND


def test_usual_names_are_kept() -> None:
    known = addresses([found("a", "quick", "Intel(R) Xeon(R) Processor, 2 cores, 2 threads", "20260102-030405-abcdef")])
    assert known["a"] == "quick/intel-xeon-2-cores-2-threads/20260102-030405-abcdef"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 8 cores", "Intel Xeon Platinum 8481C, 8 cores"),
        ("AMD EPYC 9B14, 2 cores, 2 threads", "AMD EPYC 9B14, 2 cores, 2 threads"),
        ("NVIDIA H100 80GB HBM3, Intel(R) Xeon(R), 16 cores", "NVIDIA H100 80GB HBM3, Intel Xeon, 16 cores"),
        ("CPU", "CPU"),
        ("", "a machine without a name"),
    ],
)
def test_machines_are_called_by_short_words(machine: str, words: str) -> None:
    assert machine_words(machine) == words
