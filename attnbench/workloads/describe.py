"""What a method says of itself: who it is, what it lacks, which cells it can run and what they cost."""

import hashlib
import inspect
from pathlib import Path

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Inquiry, Prospect
from attnbench.workloads.check import check_cell


def describe(inquiry: Inquiry) -> Description:
    """Ask the class; nothing is built. Raises whatever its import raises."""
    method = registry.load(inquiry.method)
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


def parameters(method: type[Attention]) -> tuple[str, ...]:
    """The names that its constructor takes beside the problem."""
    return tuple(name for name in inspect.signature(method).parameters if name != "problem")


def prospect(method: type[Attention], cell: Cell) -> Prospect:
    """The method's own refusal of a cell, or its cost; parameters that it cannot use are refused in its own words."""
    try:
        if reason := method.refusal(cell):
            return Prospect(why_not=reason)
        cost = method.cost(cell.problem, cell.params, cell.workload)
        return Prospect(cost=cost, check=check_cell(method, cell))
    except (TypeError, ValueError) as error:
        return Prospect(why_not=str(error))


def version(name: str, method: type[Attention]) -> str:
    """Distribution and version, and a digest of the source beside the class: what a result is a result of."""
    distribution = registry.find(name).dist
    installed = f"{distribution.name} {distribution.version}" if distribution else "unpackaged"
    packages = [f"{text.partition('>')[0]} {registry.installed_version(text)}" for text in method.requires]
    return ", ".join([installed, *packages, f"source {source_digest(method)}"])


def source_digest(method: type[Attention]) -> str:
    """Eight hex digits over the class's file, and over its folder where that is a package."""
    file = Path(inspect.getfile(method))
    folder = file.parent
    sources = [each for each in folder.iterdir() if each.suffix in {".py", ".cu"}]
    files = sorted(sources) if (folder / "__init__.py").exists() else [file]
    digest = hashlib.sha256()
    for each in files:
        digest.update(each.name.encode() + each.read_bytes())
    return digest.hexdigest()[:8]
