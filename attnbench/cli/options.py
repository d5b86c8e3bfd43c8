"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

MOST_REPLICATES = 10**6
"""As many as a suite may have."""
SuiteArgument = Annotated[str, typer.Argument(help="A suite file, or the name of one that ships: quick, scaling.")]
Impls = Annotated[
    list[str], typer.Option("--impl", help="Add your own attention, as module:Class or file.py:Class. May be repeated.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; instead of the suite's own.")]
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Exit with 75 where another run is measuring on the device, instead of waiting for it."),
]
Margin = Annotated[str, typer.Option(help="The smallest effect that matters: 5% or 0.05. On a shared CI runner rather 25%.")]
AcrossMachines = Annotated[
    bool, typer.Option("--across-machines", help="Exit by the verdicts also where the two runs are of unlike machines.")
]
Outs = Annotated[list[Path], typer.Option("--out", help="Write .md, .tex, .csv, .png, .svg or .pdf. May be repeated.")]
HistoryArgument = Annotated[str, typer.Argument(help="A folder of runs, as results, or a URL as s3://bucket/runs.")]
RunArgument = Annotated[Path, typer.Argument(help="A run folder, as results/quick/20260102-030405-abcdef.")]
