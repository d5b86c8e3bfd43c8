"""`attnbench record`: queries, keys and values of a model that a run has trained, as inputs for other cells."""

from dataclasses import dataclass
from pathlib import Path

from attnbench.cli.choose import pick_one
from attnbench.cli.errors import UsageError
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Cell, Workload
from attnbench.store.run_folder import RunFolder
from attnbench.training.files import checkpoint_of


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    run: Path
    method: str
    out: Path
    task: str | None = None
    N: int | None = None
    replicate: int = 0
    sequences: int = 8


def record(options: Options) -> None:
    """Write the file and say what it holds; raises UsageError and StoreError."""
    if options.out.suffix != ".safetensors":
        raise UsageError(f"--out {options.out}: the name must end in .safetensors")
    folder = RunFolder(options.run)
    checkpoint = _checkpoint(folder, _cell(options, folder.info().cells), options.replicate)
    # torch takes seconds to import; what was wrong so far is said before
    from attnbench.training.recorder import RecordingError, record_file

    try:
        shapes = record_file(checkpoint, options.out, options.sequences)
    except RecordingError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--out {options.out}: {error.strerror}") from None
    print(f"{options.out}: {', '.join(f'{name} {list(shape)}' for name, shape in shapes.items())}")


def _cell(options: Options, cells: tuple[Cell, ...]) -> Cell:
    """The one training that is meant; raises UsageError."""
    trained = [cell for cell in cells if cell.workload is Workload.TRAIN and cell.training is not None]
    if not trained:
        raise UsageError(f"{options.run}: nothing was trained in this run")
    label = pick_one(options.method, {cell.label: None for cell in trained}, "--method")
    meant = [cell for cell in trained if cell.label == label and _fits(options, cell)]
    if not meant:
        there = sorted({_words(cell) for cell in trained if cell.label == label})
        raise UsageError(f"{options.run}: no such training of {one_line(label)}; there are: {'; '.join(there)}")
    if len(meant) > 1:
        found = "; ".join(_words(cell) for cell in meant)
        raise UsageError(f"{options.run}: several trainings of {one_line(label)}; choose one by --task and --N: {found}")
    return meant[0]


def _fits(options: Options, cell: Cell) -> bool:
    assert cell.training is not None
    return options.task in {None, cell.training.task.value} and options.N in {None, cell.problem.N}


def _words(cell: Cell) -> str:
    assert cell.training is not None
    return f"{cell.training.task} with N={cell.problem.N} and {cell.training.layers} layers"


def _checkpoint(folder: RunFolder, cell: Cell, replicate: int) -> Path:
    file = checkpoint_of(folder.checkpoints, cell, replicate)
    if not file.is_file():
        raise UsageError(f"{file} is not there: replicate {replicate} was not trained, or its weights are elsewhere")
    return file
