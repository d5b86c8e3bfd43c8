"""The order of the index: by kind, suite and machine, the newest first; the two sides of a comparison together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.report.site.runs.kind import Kind
from attnbench.report.site.runs.survey import Found

Members = tuple[Found, ...]
"""What one card is about: a run; or of a comparison both sides, the older commit first."""


@dataclass(frozen=True)
class Machine:
    """The runs of one suite on one machine."""

    name: str
    shelf: str
    """Its folder on the site."""
    runs: tuple[Members, ...]


@dataclass(frozen=True)
class Suite:
    """All machines that a suite ran on, the one with the newest run first."""

    name: str
    source: str
    """As its newest run says."""
    machines: tuple[Machine, ...]

    @property
    def count(self) -> int:
        """Cards."""
        return sum(len(machine.runs) for machine in self.machines)


@dataclass(frozen=True)
class Part:
    """All suites of one kind of run, by name."""

    kind: Kind
    suites: tuple[Suite, ...]


def arrange(runs: Iterable[Members], addresses: Mapping[str, str]) -> list[Part]:
    """Kinds without a run are no part."""
    newest = sorted(runs, key=lambda members: (members[-1].entry.started, members[-1].place), reverse=True)
    kinds: dict[Kind, dict[str, list[Members]]] = {}
    for members in newest:
        kinds.setdefault(members[-1].kind, {}).setdefault(members[-1].entry.suite, []).append(members)
    order = [kind for kind in Kind if kind in kinds]
    return [Part(kind, tuple(_suite(each, addresses) for _, each in sorted(kinds[kind].items()))) for kind in order]


def _suite(runs: Sequence[Members], addresses: Mapping[str, str]) -> Suite:
    machines: dict[str, list[Members]] = {}
    for members in runs:
        machines.setdefault(members[-1].entry.machine, []).append(members)
    return Suite(
        name=runs[0][-1].entry.suite,
        source=runs[0][-1].source,
        machines=tuple(
            Machine(name, addresses[each[0][-1].place].rpartition("/")[0], tuple(each)) for name, each in machines.items()
        ),
    )


def together(found: Iterable[Found]) -> list[Members]:
    """Every run by itself, but for two that were measured in turns."""
    turns: dict[tuple[str, str, str], list[Found]] = {}
    for each in found:
        alone = each.interleaved or f"\0{each.place}"
        turns.setdefault((each.entry.suite, each.entry.machine, alone), []).append(each)
    return [members for each in turns.values() for members in _members(each)]


def _members(runs: Sequence[Found]) -> list[Members]:
    """One pair, where there is one older side and one newer."""
    sides = sorted(runs, key=lambda each: not each.entry.base)
    pair = len(sides) == 2 and sides[0].entry.base and not sides[1].entry.base
    return [tuple(sides)] if pair else [(each,) for each in sides]
