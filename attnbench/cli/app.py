"""The command line: one function a command; what a command needs is imported when it is called.

So `attnbench --help` answers at once, and nothing here imports torch, pandas or matplotlib.
"""

from pathlib import Path
from typing import Annotated

import typer

from attnbench.cli.judging import judging
from attnbench.cli.options import Device, Impls, RunArgument, SuiteArgument
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
    replicates: Annotated[int | None, typer.Option(min=1, help="Processes per cell; instead of the suite's own.")] = None,
    results: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("results"),
    resume: Annotated[Path | None, typer.Option(help="An interrupted run folder: measure what it lacks.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="A new interpreter per replicate, not a fork.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than 1000 cells.")] = False,
) -> None:
    """Measure a suite, and leave records, tables and plots in a run folder."""
    from attnbench.cli.run import Options, run_suite

    run_suite(Options(suite, tuple(impl), device, replicates, results, resume, fresh, yes))


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
def report(run: RunArgument) -> None:
    """Remake tables and plots of a run from its records alone."""
    from attnbench.cli.report import remake

    remake(run)


@app.command()
def show(  # noqa: PLR0913, PLR0917 - one parameter an option
    method: Annotated[str, typer.Argument(help="A method as `attnbench methods` lists it, or module:Class.")],
    n: Annotated[int, typer.Option("--N", min=1, help="Tokens; at most 512.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Heads; at most 16.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="Width of queries, keys and values.")] = 16,
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
def doctor() -> None:
    """Look at this machine: GPU, NVML, clocks, versions, conflicts, and its roof."""
    from attnbench.cli.doctor import examine

    examine()


app.add_typer(judging)


def main() -> None:
    """The console script."""
    from attnbench.cli.errors import explained

    with explained():
        app()
