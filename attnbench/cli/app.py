"""The command line: one function a command; what a command needs is imported when it is called.

So `attnbench --help` answers at once, and nothing here imports torch, pandas or matplotlib.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from attnbench.cli.judging import judging
from attnbench.cli.options import MOST_REPLICATES, Device, Impls, NoWait, RunArgument, SuiteArgument
from attnbench.version import __version__

app = typer.Typer(
    name="attnbench",
    help="Time, memory and quality of efficient attentions, measured honestly and compared.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnbench {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Time, memory and quality of efficient attentions, measured honestly and compared."""


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one parameter an option
    suite: Annotated[str, typer.Argument(help="A suite file, or the name of one that ships; optional with --resume.")] = "",
    impl: Impls = [],  # noqa: B006 - typer copies it
    device: Device = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, max=MOST_REPLICATES, help="Processes per cell; instead of the suite's own.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("results"),
    resume: Annotated[Path | None, typer.Option(help="An interrupted run folder: measure what it lacks.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="A new interpreter per replicate, not a fork.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than 1000 cells.")] = False,
    no_wait: NoWait = False,
) -> None:
    """Measure a suite, and leave records, tables and plots in a run folder."""
    from attnbench.cli.run import Options, run_suite

    run_suite(Options(suite, tuple(impl), device, replicates, results, resume, fresh, yes, not no_wait))


@app.command()
def plan(suite: SuiteArgument, impl: Impls = [], device: Device = None) -> None:  # noqa: B006
    """Show the cells of a suite with predicted time and memory; nothing is measured."""
    from attnbench.cli.plan import show_plan

    show_plan(suite, tuple(impl), device)


@app.command()
def methods(impl: Impls = []) -> None:  # noqa: B006
    """List the attentions that are installed: tier, paper, what each can do, what is missing."""
    from attnbench.cli.methods import show_methods

    show_methods(tuple(impl))


@app.command()
def check(
    method: Annotated[str, typer.Argument(help="A method as `attnbench methods` lists it, or module:Class, or file.py:Class.")],
    n: Annotated[int, typer.Option("--N", min=1, max=2**22, help="Tokens of the calls that it is meant for.")] = 1024,
    width: Annotated[int, typer.Option(min=1, max=4096, help="Width of queries, keys and values.")] = 64,
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")] = "float32",
    param: Annotated[list[str], typer.Option("--param", help="A parameter, as stride=8. May be repeated.")] = [],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    no_wait: NoWait = False,
) -> None:
    """Hold a method against its own definition, and time nothing: exit 0 correct, 1 not correct, 2 bad input."""
    from attnbench.cli.check import Options
    from attnbench.cli.check import check as hold
    from attnbench.cli.errors import USAGE, explained

    # exit code 1 says that the method is not correct, and nothing else
    with explained(failed=USAGE):
        hold(Options(method, n, width, dtype, tuple(param), device, not no_wait))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are also put on one page, side by side.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the page of several goes. Default: report.html.", show_default=False)
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Remake tables, plots and the page of runs from their records alone."""
    from attnbench.cli.report import Options
    from attnbench.cli.report import report as remake

    remake(Options(tuple(runs), out, opens))


@app.command()
def plot(  # noqa: PLR0913, PLR0917 - one parameter an option
    run: RunArgument,
    kind: Annotated[
        list[str],
        typer.Option(
            help="scaling, memory, pareto, roofline, crossover, decode, ratio, curves, drawings; default: all. May be repeated."
        ),
    ] = [],  # noqa: B006
    style: Annotated[str, typer.Option(help="paper, talk or web.")] = "paper",
    width: Annotated[str | None, typer.Option(help="single or double: one column of a paper or both. Default: double.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of pdf, svg, png and pgf, as pdf,pgf. Default: pdf,svg,png; for the web svg,png.")
    ] = None,
    workload: Annotated[list[str], typer.Option(help="Only this one, as forward. May be repeated.")] = [],  # noqa: B006
    methods: Annotated[
        list[str], typer.Option(help="Only these, in this order, as softmax.sdpa,linear.chunked. May be repeated.")
    ] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="A folder. Default: figures/ in the run's own.", show_default=False)] = None,
) -> None:
    """Draw figures of a run for a paper, a talk or a page, each with a caption as text."""
    from attnbench.cli.plot import Options
    from attnbench.cli.plot import plot as draw

    draw(Options(run, tuple(kind), style, width, format, tuple(workload), tuple(methods), out))


@app.command()
def show(  # noqa: PLR0913, PLR0917 - one parameter an option
    method: Annotated[str, typer.Argument(help="A method as `attnbench methods` lists it, or module:Class, or file.py:Class.")],
    n: Annotated[int, typer.Option("--N", min=1, help="Tokens; at most 512.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Heads; at most 16.")] = 4,
    width: Annotated[int, typer.Option(min=1, max=4096, help="Width of queries, keys and values.")] = 16,
    param: Annotated[list[str], typer.Option("--param", help="A parameter, as stride=8. May be repeated.")] = [],  # noqa: B006
    causal: Annotated[
        bool | None, typer.Option("--causal/--non-causal", help="Default: causal where the method can.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of queries, keys and the method's own choices.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg; default: METHOD.png.", show_default=False)] = None,
) -> None:
    """Draw which key each query sees, and how much of it: a panel per head, queries down, keys across."""
    from attnbench.cli.show import Options
    from attnbench.cli.show import show as draw

    draw(Options(method, n, heads, width, tuple(param), causal, seed, out))


@app.command()
def site(
    results: Annotated[Path, typer.Argument(help="A folder with run folders at any depth, as results.")],
    out: Annotated[Path, typer.Argument(help="The folder that the site becomes; replaced as a whole once it is made.")],
    records: Annotated[bool, typer.Option("--records", help="Publish the raw records too.")] = False,
) -> None:
    """Make a folder of pages from all runs below a folder: an index, a page each, trends; for any static host."""
    from attnbench.cli.site import make_site

    make_site(results, out, records=records)


@app.command()
def published(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them, as results/reference.")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A .md file. Default: stdout.", show_default=False)] = None,
) -> None:
    """List the figures that others printed, with what runs came to beside each: reproduced, not reproduced, cannot tell."""
    from attnbench.cli.published import show_published

    show_published(tuple(runs), out)


@app.command()
def record(
    run: Annotated[Path, typer.Argument(help="A run that trained models.")],
    method: Annotated[str, typer.Option(help="Whose model, as tables show it.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .safetensors file.")],
    task: Annotated[str | None, typer.Option(help="Of several trainings, that of this task.", show_default=False)] = None,
    N: Annotated[int | None, typer.Option("--N", help="Of several trainings, that of this length.", show_default=False)] = None,
    replicate: Annotated[int, typer.Option(min=0, help="Of the seeds, which.")] = 0,
    sequences: Annotated[int, typer.Option(min=1, max=2**16, help="Held-out sequences that the model reads.")] = 8,
) -> None:
    """Record queries, keys and values of a trained model, for suites that say inputs: recorded."""
    from attnbench.cli.record import Options
    from attnbench.cli.record import record as record_inputs

    record_inputs(Options(run, method, out, task, N, replicate, sequences))


@app.command()
def doctor(no_wait: NoWait = False) -> None:
    """Look at this machine: GPU, NVML, clocks, versions, conflicts, and its roof."""
    from attnbench.cli.doctor import examine

    examine(wait=not no_wait)


app.add_typer(judging)


def main() -> None:
    """The console script."""
    from attnbench.cli.errors import explained

    if sys.stdout is None:
        # it was closed, and the next file that is opened would be taken for it
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as this process lives
    with explained():
        app()
