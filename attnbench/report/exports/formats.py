"""All formats by the name that the command line knows them by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from attnbench.report.exports import asv, flat, otava, parquet, pyperf, pytest_benchmark
from attnbench.report.exports.exchange import Export, Place, Source


@dataclass(frozen=True)
class Format:
    """A format: how it is written, and what it can hold."""

    file: str
    """The name of the file or folder where none is given."""
    make: Callable[[Sequence[Source]], Export]
    many: bool = False
    """Whether it holds more than one run."""
    raw: bool = False
    """Whether it holds samples."""
    folder: bool = False
    text: bool = True
    settle: Callable[[Export, Place], Export] | None = None
    """Fits an export to what is in its folder already; without it, files of one name are replaced."""


FORMATS: Mapping[str, Format] = {
    "pytest-benchmark": Format(pytest_benchmark.FILE, pytest_benchmark.make),
    "asv": Format(asv.FOLDER, asv.make, many=True, folder=True, settle=asv.settle),
    "otava": Format(otava.FOLDER, otava.make, many=True, folder=True),
    "pyperf": Format(pyperf.FILE, pyperf.make, raw=True),
    "github-action-benchmark": Format(flat.SMALLER, partial(flat.github_action, bigger=False)),
    "github-action-benchmark-bigger": Format(flat.BIGGER, partial(flat.github_action, bigger=True)),
    "bencher": Format(flat.BENCHER, flat.bencher),
    "parquet": Format(parquet.FILE, parquet.make, many=True, text=False),
    "parquet-records": Format(parquet.RECORDS, parquet.make_records, raw=True, text=False),
}
