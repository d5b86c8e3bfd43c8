"""All formats by the name that the command line knows them by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.report.exports import bencher, github_action, otava, pyperf, pytest_benchmark
from attnbench.report.exports.asv import folder as asv_folder
from attnbench.report.exports.asv import results as asv
from attnbench.report.exports.exchange import Export, Place, Source


@dataclass(frozen=True)
class Format:
    """`file` is the name where none is given."""

    file: str
    make: Callable[[Sequence[Source]], Export]
    many: bool = False
    """Whether it holds more than one run."""
    raw: bool = False
    """Whether it holds samples."""
    folder: bool = False
    text: bool = True
    settle: Callable[[Export, Place], Export] | None = None
    """Fits an export to what is in its folder already; without it, files of one name are replaced."""


def _parquet(sources: Sequence[Source]) -> Export:
    # pandas takes a second to import, and the others do without
    from attnbench.report.exports import parquet

    return parquet.make(sources)


FORMATS: Mapping[str, Format] = {
    "pytest-benchmark": Format(pytest_benchmark.FILE, pytest_benchmark.make),
    "asv": Format(asv.FOLDER, asv.make, many=True, folder=True, settle=asv_folder.settle),
    "otava": Format(otava.FOLDER, otava.make, many=True, folder=True),
    "pyperf": Format(pyperf.FILE, pyperf.make, raw=True),
    "github-action-benchmark": Format(github_action.FILE, github_action.make),
    "bencher": Format(bencher.FILE, bencher.make),
    "parquet": Format("cells.parquet", _parquet, many=True, text=False),
}
