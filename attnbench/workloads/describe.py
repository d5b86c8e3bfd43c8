"""What a method says of itself: who it is, what it lacks, which cells it can run and what they cost."""

import hashlib
import inspect
import re
from pathlib import Path

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Inquiry, Prospect
from attnbench.schema.noun import in_words
from attnbench.workloads import fidelity, generate, numerics
from attnbench.workloads.check import check_cells

_STATED = ("paper", "cost", "forward", "reference")
_SIBLING = re.compile(r"^\s*from \.\.(\w+)", re.MULTILINE)


def describe(inquiry: Inquiry) -> Description:
    """Ask the class; nothing is built. Raises UnknownMethodError for an unfinished one, and whatever its import raises."""
    method = registry.load(inquiry.method)
    if absent := lacking(method):
        raise registry.UnknownMethodError(
            f"{inquiry.method} is not finished: it has no {', no '.join(absent)}; attnbench.api.Attention says what each is"
        )
    return Description(
        method=inquiry.method,
        paper=method.paper,
        tier=str(method.tier),
        causality=str(method.causality),
        summary=(inspect.getdoc(method) or "").partition("\n")[0],
        version=version(inquiry.method, method),
        parameters=parameters(method),
        missing=registry.missing(method),
        prospects=tuple(prospect(method, cell) for cell in inquiry.cells),
    )


def lacking(method: type[Attention]) -> tuple[str, ...]:
    """What every attention has to state and this class does not, all of it at once."""
    abstract: frozenset[str] = getattr(method, "__abstractmethods__", frozenset())
    return tuple(name for name in _STATED if name in abstract or not hasattr(method, name))


def parameters(method: type[Attention]) -> tuple[str, ...]:
    """The names that its constructor takes beside the problem; `**params` of one that takes any and judges them itself."""
    accepted = inspect.signature(method).parameters.values()
    names = (f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in accepted)
    return tuple(name for name in names if name != "problem")


def prospect(method: type[Attention], cell: Cell) -> Prospect:
    """The method's own refusal of a cell, or its cost; parameters that it cannot use are refused in its own words.

    What a model costs is unknown: its attention is a part of it only.
    """
    try:
        if reason := fidelity.why_not(cell) or numerics.why_not(cell) or generate.why_not(cell) or method.refusal(cell.call):
            return Prospect(why_not=reason)
        cost = method.cost(cell.problem, cell.params, cell.call.workload)
        known = None if cell.workload.has_model else fidelity.with_weights(cost, cell)
        return Prospect(cost=known, checks=check_cells(method, cell))
    # a parameter beyond all floats is one that it cannot use
    except (TypeError, ValueError, OverflowError) as error:
        return Prospect(why_not=in_words(error))


def version(name: str, method: type[Attention]) -> str:
    """Distribution and version, and a digest of the source beside the class: what a result is a result of."""
    distribution = registry.find(name).dist
    installed = f"{distribution.name} {distribution.version}" if distribution else "unpackaged"
    packages = [f"{text.partition('>')[0]} {registry.installed_version(text)}" for text in method.requires]
    return ", ".join([installed, *packages, f"source {source_digest(method)}"])


def source_digest(method: type[Attention]) -> str:
    """Eight hex digits over the class's file; in a package, over its folder and those beside it that it imports."""
    file = Path(inspect.getfile(method))
    files = [file]
    if (file.parent / "__init__.py").exists():
        own = _sources(file.parent)
        files = [*own, *(each for name in _beside(own) for each in _sources(file.parent.parent / name))]
    digest = hashlib.sha256()
    for each in files:
        digest.update(each.name.encode() + each.read_bytes())
    return digest.hexdigest()[:8]


def _sources(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*") if each.suffix in {".py", ".cu"})


def _beside(sources: list[Path]) -> list[str]:
    """The packages beside their own that files import, by `from ..name import`."""
    found = (_SIBLING.findall(each.read_text()) for each in sources if each.suffix == ".py")
    return sorted({name for names in found for name in names})
