"""The commands that measure, or ask the methods; as in `app`, what a command needs is imported when it is called."""

import shlex
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attnbench
from attnbench.cli.options import (
    MOST_REPLICATES,
    AcrossMachines,
    Causal,
    Device,
    Fresh,
    Impls,
    Lengths,
    Margin,
    MethodArgument,
    NoWait,
    OnlyMethods,
    Outs,
    Params,
    Replicates,
    Results,
    SuiteArgument,
    Workloads,
    suite_names,
    words,
)
from attnbench.cli.terminal import (
    FAILED,
    IMAGES,
    TABLES,
    USAGE,
    Terminal,
    add_to_job_summary,
    at_work,
    check_outs,
    explained,
    print_answer,
    print_text,
    write_out,
)
from attnbench.schema.units import counted

if TYPE_CHECKING:
    from attnbench.library.submit import Submission
    from attnbench.session.scene import Measuring

measuring = typer.Typer()
_RESULTS = Path("results")
_GOES_WITH = {
    **dict.fromkeys(("address", "resource"), ("ray",)),
    **dict.fromkeys(("array", "sbatch", "wait", "dry_run"), ("slurm",)),
    **dict.fromkeys(("devices", "lanes", "no_wait"), ("",)),
    **dict.fromkeys(("shard", "fresh", "retry"), ("", "ray")),
}
"""Where options of `run` mean something; the empty word is this machine."""


@measuring.command()
def run(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    suite: SuiteArgument = "",
    methods: OnlyMethods = [],  # noqa: B006 - typer copies it
    n: Lengths = [],  # noqa: B006
    workloads: Workloads = [],  # noqa: B006
    causal: Causal = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    devices: Annotated[str, typer.Option(help="GPUs that measure at the same time, as cuda:0,cuda:1, or all.")] = "",
    lanes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Lanes that share the cores of a CPU and measure at the same time.")
    ] = None,
    shard: Annotated[str, typer.Option(help="Only a share of the suite, as 3/8; attnbench merge makes one run of all.")] = "",
    replicates: Replicates = None,
    results: Results = _RESULTS,
    resume: Annotated[Path | None, typer.Option(help="An interrupted run folder, and no suite: measure what it lacks.")] = None,
    retry: Annotated[
        str, typer.Option(help="With --resume: measure again what failed: failed, or statuses, as timeout,crashed.")
    ] = "",
    on: Annotated[str, typer.Option(help="ray: in lanes on the nodes of a cluster. slurm: as an array of tasks.")] = "",
    address: Annotated[
        str | None, typer.Option(help="With --on ray: auto, host:port or ray://host:port. Default: one on this machine.")
    ] = None,
    resource: Annotated[
        str, typer.Option(help="With --on ray: what a lane takes one of. Default: GPU for a suite on CUDA, else a node.")
    ] = "",
    array: Annotated[int | None, typer.Option(min=1, max=10_000, help="With --on slurm: tasks. Default: 32 at most.")] = None,
    sbatch: Annotated[str, typer.Option(help="With --on slurm: further options, as '--gres=gpu:1 --time=2:00:00'.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="With --on slurm: until all tasks are over; then report.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --on slurm: print the script, submit nothing.")] = False,
    fresh: Fresh = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than 1000 cells.")] = False,
    no_wait: NoWait = False,
) -> None:
    """Measure a suite, or methods that are named, and leave records, tables and plots in a run folder."""
    from attnbench.library.measuring import Cluster
    from attnbench.session.asked import Only, one_of

    with at_work(yes=yes) as terminal:
        how: Measuring = {"impl": impl, "device": device, "replicates": replicates, "results": results}
        how |= {"fresh": fresh, "wait": not no_wait, "reporter": terminal}
        only: dict[str, Any] = {"methods": methods, "N": words(n), "workloads": words(workloads), "causal": causal}
        refuse_strays(one_of(["ray", "slurm"], on, "on") if on else on, context.params)
        if on == "slurm":
            asked = Only(**only)
            given = attnbench.submit(suite, resume=resume, only=asked, array=array, sbatch=sbatch, dry_run=dry_run, **how)
            follow(given, terminal, dry_run=dry_run, wait=wait)
            return
        nodes = Cluster(address, resource) if on else None
        made = attnbench.run(
            suite, resume=resume, retry=retry, **only, devices=words([devices]), lanes=lanes, shard=shard, cluster=nodes, **how
        )
        tell(made, terminal)
        refuse_nothing(made, terminal)


def tell(made: "attnbench.Run", terminal: Terminal) -> None:
    """Print the summary of a run, and say where it is; of a large one, by what tables are made."""
    if made.is_large:
        again = f"attnbench report {shlex.quote(str(made.path))}"
        terminal.say(f"{len(made.info.cells):,} cells: tables, plots and a page are made by {again}, which takes minutes")
        terminal.say(f"records: {made.path}")
        return
    print_text(made.summary)
    terminal.say("")
    terminal.say(f"records, tables and plots: {made.path}")


def report(made: "attnbench.Run", terminal: Terminal) -> None:
    """Tell a run that others measured, and leave a report of it unless it is large."""
    if not made.is_large:
        made.report()
    tell(made, terminal)


def refuse_nothing(made: "attnbench.Run", terminal: Terminal) -> None:
    """Exit with 1 where no cell was measured; a share of a suite may have none."""
    if made.info.cells and not made.measured:
        terminal.say("no cell was measured")
        sys.exit(FAILED)


def refuse_strays(on: str, given: Mapping[str, object]) -> None:
    """Raise UsageError for an option that says nothing where the run is measured; else it would be passed over in silence."""
    from attnbench.schema.errors import UsageError

    places = {"": "a run on this machine", "ray": "--on ray", "slurm": "--on slurm"}
    for option, where in _GOES_WITH.items():
        if given[option] and on not in where:
            raise UsageError(f"--{option.replace('_', '-')} goes with {' or '.join(places[each] for each in where)}")


def follow(given: "Submission", terminal: Terminal, *, dry_run: bool, wait: bool) -> None:
    """Say what was submitted; where wanted, wait for it and leave a report. Exit with 1 where it gave nothing or not all."""
    if dry_run:
        print(given.script, end="")
        return
    again = f"attnbench run --resume {shlex.quote(str(given.folder.path))} --on slurm"
    if given.submitted:
        tasks = f"{len(given.submitted)} of {counted(given.shards, 'task')}"
        terminal.say(f"submitted job {given.jobs[-1]}, {tasks}: {given.folder.path}")
    else:
        terminal.say(f"nothing is missing that is not in the queue: {given.folder.path}")
    if not wait:
        terminal.say(f"what is missing later is submitted by: {again}")
        return
    unfinished = given.wait(terminal.say)
    for line in given.endings(unfinished):
        terminal.say(line)
    made = given.run
    report(made, terminal)
    if unfinished:
        terminal.say(f"{counted(len(unfinished), 'shard')} unfinished; submit again with: {again}")
        sys.exit(FAILED)
    refuse_nothing(made, terminal)


@measuring.command()
def rerun(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    cell: Annotated[str, typer.Argument(help="The beginning of a key, as in the column cell of table.csv; or a method.")],
    replicates: Replicates = None,
    margin: Margin = "5%",
    results: Results = _RESULTS,
    no_wait: NoWait = False,
) -> None:
    """Measure a cell of a stored run once more, as its suite says, and compare both."""
    with at_work() as terminal:
        how: Measuring = {"replicates": replicates, "results": results, "wait": not no_wait, "reporter": terminal}
        made, verdict = attnbench.rerun(run, cell, margin=margin, **how)
        print(verdict)
        terminal.say(f"records, tables and plots: {made.path}")
        refuse_nothing(made, terminal)


@measuring.command()
def trace(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    cell: Annotated[str, typer.Argument(help="The beginning of a key, as in the column cell of table.csv.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .json file for chrome://tracing or Perfetto.")] = Path(
        "trace.json"
    ),
    marks: Annotated[
        bool, typer.Option("--marks", help="Write nothing; mark the call for nsys or ncu, which this command runs under.")
    ] = False,
    no_wait: NoWait = False,
) -> None:
    """Show which kernels one call of a stored run's cell runs, and write its timeline."""
    with at_work() as terminal:
        print(attnbench.trace(run, cell, out=None if marks else out, wait=not no_wait, reporter=terminal))


@measuring.command()
def merge(
    runs: Annotated[list[str], typer.Argument(help="Run folders that measured shards of one suite, or the URL of a history.")],
    results: Results = _RESULTS,
) -> None:
    """Make one run of several that measured shards of a suite, on whatever machines; those stay as they are."""
    with at_work() as terminal:
        report(attnbench.merge(*runs, results=results, reporter=terminal), terminal)


@measuring.command()
def plan(  # noqa: PLR0913, PLR0917 - one parameter an option
    suite: SuiteArgument = "",
    methods: OnlyMethods = [],  # noqa: B006
    n: Lengths = [],  # noqa: B006
    workloads: Workloads = [],  # noqa: B006
    causal: Causal = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    assume: Annotated[str, typer.Option(help="Plan for a GPU that is not here: a100, h100, h200, b200, l40s.")] = "",
) -> None:
    """Show the cells of a suite, or of methods that are named, with the least time that each takes; nothing is measured."""
    only: dict[str, Any] = {"methods": methods, "N": words(n), "workloads": words(workloads), "causal": causal}
    print(attnbench.plan(suite, **only, impl=impl, device=device, assume=assume))


@measuring.command()
def bundle(
    to: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    python: Annotated[str, typer.Option(help="The version of that machine's Python.")] = "3.12",
    platform: Annotated[str, typer.Option(help="The platform of its wheels, as pip names it.")] = "manylinux_2_28_x86_64",
    also: Annotated[list[str], typer.Option(help="A further requirement, as pip takes it; may be given again.")] = [],  # noqa: B006
) -> None:
    """Fill a folder that can be carried to a GPU without a network: this checkout, and wheels for that machine's Python."""
    print(attnbench.bundle(to, python=python, platform=platform, also=also))


suites = typer.Typer()
measuring.add_typer(suites, name="suites")


@suites.callback(invoke_without_command=True)
def suites_list(context: typer.Context) -> None:
    """List the suites that ship, or copy one to change it."""
    if context.invoked_subcommand is None:
        for name, about in attnbench.suites().items():
            print(name, textwrap.fill(about, 80, initial_indent=" " * 4, subsequent_indent=" " * 4), sep="\n")


@suites.command("copy")
def suites_copy(
    name: Annotated[str, typer.Argument(help="A suite that ships, as quick.", autocompletion=suite_names)],
    to: Annotated[Path | None, typer.Argument(help="The new file. Default: NAME.yaml.")] = None,
) -> None:
    """Copy a suite that ships into a file of one's own; what is there is never overwritten."""
    print(attnbench.copy_suite(name, to))


@measuring.command()
def methods(
    pattern: Annotated[str, typer.Argument(help="Only names that it fits, as 'linear.*'. Default: all.")] = "",
    family: Annotated[str, typer.Option(help="Only this family, as linear.")] = "",
    available: Annotated[bool, typer.Option("--available", help="Only those whose packages are all installed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    impl: Impls = [],  # noqa: B006
) -> None:
    """List the attentions that are installed: tier, paper, what each can do, what is missing."""
    import json

    from attnbench.schema.outcome import Failed

    found = attnbench.methods(pattern, family=family, available=available, impl=impl)
    if as_json:
        print(json.dumps({name: answer.model_dump(mode="json") for name, answer in found.items()}, indent=2))
        return
    for name, answer in found.items():
        if isinstance(answer, Failed):
            lines = [f"{answer.status}: {answer.reason}"]
        else:
            masks = {"none": "non-causal only", "full": "causal", "values_only": "causal for values only"}
            lines = [answer.summary, "; ".join([f"tier {answer.tier}", masks[answer.causality], answer.paper])]
            lines += [f"parameters: {', '.join(answer.parameters)}"] if answer.parameters else []
            lines += [f"missing: pip install {' '.join(map(repr, answer.missing))}"] if answer.missing else []
        print(name, *(textwrap.fill(line, 80, initial_indent=" " * 4, subsequent_indent=" " * 4) for line in lines), sep="\n")


@measuring.command()
def check(
    method: MethodArgument,
    n: Annotated[int, typer.Option("--N", min=1, max=2**22, help="Tokens of the calls that it is meant for.")] = 1024,
    width: Annotated[int, typer.Option(min=1, max=4096, help="Width of queries, keys and values.")] = 64,
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")] = "float32",
    param: Params = [],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    no_wait: NoWait = False,
) -> None:
    """Hold a method against its own definition, and time nothing: exit 0 correct, 1 not correct, 2 bad input."""
    from attnbench.session.asked import parameters

    # exit code 1 says that the method is not correct, and nothing else
    with explained(failed=USAGE):
        with at_work() as terminal:
            given = parameters(param)
            done = attnbench.check(
                method, N=n, width=width, dtype=dtype, param=given, device=device, wait=not no_wait, reporter=terminal
            )
        print(done)
        if not done.correct:
            print("not correct" if done.records else "nothing could be checked", file=sys.stderr)
            sys.exit(FAILED)
        print("correct, as far as these checks go")


@measuring.command()
def doctor(no_wait: NoWait = False) -> None:
    """Look at this machine: GPU, NVML, clocks, versions, conflicts, and its roof."""
    for finding in attnbench.doctor(wait=not no_wait, reporter=Terminal()):
        mark = {True: "ok  ", False: "BAD ", None: "    "}[finding.ok]
        print(f"{mark} {finding.name:<18} {finding.text}")


@measuring.command()
def selfcheck(  # noqa: PLR0913, PLR0917 - one parameter an option
    method: Annotated[str | None, typer.Option(help="Compared with itself. Default: softmax.sdpa.")] = None,
    n: Annotated[int | None, typer.Option("--N", min=1, max=2**24, help="Tokens. Default: 512.")] = None,
    causal: Annotated[bool | None, typer.Option("--causal", help="For methods that are causal only.")] = None,
    verdicts: Annotated[int | None, typer.Option(min=1, max=10**5, help="Default: 200.")] = None,
    replicates: Annotated[int | None, typer.Option(min=2, max=1000, help="Processes a side. Default: 10.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.01, help="Of each process. Default: 0.2.")] = None,
    margin: Annotated[str | None, typer.Option(help="The smallest effect that matters. Default: 5%.")] = None,
    inject: Annotated[
        str | None, typer.Option(help="Make one side really slower by so much, as 10%, and see whether it is found.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1. Default: auto.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the run folder is made. Default: results.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="An interrupted folder: measure what it lacks; a whole one: report again.")
    ] = None,
    no_wait: NoWait = False,
) -> None:
    """Measure one method under two names: false alarms, and the smallest slow-down found on this machine. Half an hour."""
    with at_work() as terminal:
        how: Measuring = {"device": device, "replicates": replicates, "wait": not no_wait, "reporter": terminal}
        if out is not None:
            how["results"] = out
        done = attnbench.selfcheck(
            method, N=n, causal=causal, verdicts=verdicts, seconds=seconds, margin=margin, inject=inject, resume=resume, **how
        )
    print(done)
    kept = f"{textwrap.fill(done.kept, 80)}\n" if done.kept else ""
    print(f"\n{kept}records and figures: {done.folder.path}")
    if not done.found.measured:
        print(f"error: nothing gave a time: {done.found.reason or 'no process was started'}", file=sys.stderr)
        sys.exit(FAILED)


@measuring.command()
def compare(  # noqa: PLR0913, PLR0917 - one parameter an option
    runs: Annotated[
        list[Path], typer.Argument(help="Two run folders, the old one first; or one: its methods are compared.")
    ] = [],  # noqa: B006
    baseline: Annotated[str | None, typer.Option(help="Of one run: the method that the others are compared with.")] = None,
    live: Annotated[str | None, typer.Option(metavar="GIT_REF", help="Measure this commit and the present in turns.")] = None,
    suite: Annotated[str | None, typer.Option(help="With --live: what to measure.")] = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    margin: Margin = "5%",
    replicates: Annotated[
        int | None, typer.Option(min=2, max=MOST_REPLICATES, help="With --live: a side, at most. Default: 20.")
    ] = None,
    results: Annotated[Path, typer.Option(help="With --live: where run folders are made.")] = _RESULTS,
    out: Outs = [],  # noqa: B006
    metric: Annotated[str, typer.Option(help="What is judged: time, first_call, flops, memory, output_error, ...")] = "time",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit as `attnbench gate` does.")] = False,
    across_machines: AcrossMachines = False,
    no_wait: NoWait = False,
) -> None:
    """Judge two runs, or the methods of one: FASTER, SLOWER, SAME or UNCLEAR, with intervals; lost cells; memory."""
    with explained(failed=USAGE if exit_code else FAILED):
        check_outs(out, (*TABLES, *IMAGES))
        with at_work() as terminal:
            how: Measuring = {"impl": impl, "device": device, "replicates": replicates, "results": results}
            how |= {"wait": not no_wait, "reporter": terminal}
            # without an exit code a difference between two machines is only told
            anywhere = across_machines or not exit_code
            done = attnbench.compare(
                *runs, baseline=baseline, live=live, suite=suite, margin=margin, metric=metric, across_machines=anywhere, **how
            )
        print_answer(str(done), out, done.form)
        if exit_code:
            sys.exit(done.code)


@measuring.command()
def gate(  # noqa: PLR0913, PLR0917 - one parameter an option
    suite: Annotated[str | None, typer.Argument(help="A suite file, or the name of one that ships.")] = None,
    base: Annotated[str | None, typer.Option(metavar="GIT_REF", help="The commit to measure against.")] = None,
    stored: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="BASE_RUN NEW_RUN", help="Judge two runs; measure nothing.")
    ] = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    margin: Margin = "5%",
    max_replicates: Annotated[
        int | None,
        typer.Option(min=2, max=MOST_REPLICATES, help="A side, at most; looked at after 5, 10, 20, ... Default: 20."),
    ] = None,
    results: Results = _RESULTS,
    across_machines: AcrossMachines = False,
    json: Annotated[Path | None, typer.Option(help="Write the judgement as JSON.")] = None,
    out: Outs = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """Judge if a change may pass: exit 0 fine, 1 regression, 2 no verdict (usage, machine, disk), 3 unclear, 4 cells lost."""
    from attnbench.report.questions.comparison.table import job_summary, judgement_json

    with explained(failed=USAGE):
        check_outs(out, (*TABLES, *IMAGES))
        with at_work() as terminal:
            how: Measuring = {"impl": impl, "device": device, "replicates": max_replicates, "results": results}
            how |= {"wait": not no_wait, "reporter": terminal}
            done = attnbench.gate(suite, base=base, stored=stored, margin=margin, across_machines=across_machines, **how)
        print_answer(f"{done}\n\n{done.headline}", out, done.form)
        if json is not None:
            write_out(json, judgement_json(done.judgement, done.code).encode(), "json")
        add_to_job_summary(job_summary(done.judgement, done.headline))
        sys.exit(done.code)


@measuring.command()
def crossover(  # noqa: PLR0913, PLR0917 - one parameter an option
    source: Annotated[str, typer.Argument(help="A run folder; with --measure a suite.")],
    of: Annotated[str | None, typer.Option(metavar="METHOD", help="Which method wins; default: each of the run.")] = None,
    over: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Against which; default: the suite's baseline, or the strongest exact softmax."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="time, memory, state, output_error, mass_recall, loss, accuracy, error_rate, bits, or a counter of the run."
        ),
    ] = "time",
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the two on the suite's lengths, then on lengths in between.")
    ] = False,
    resolution: Annotated[str, typer.Option(help="How well N is to be known, each way: 10% or 0.1.")] = "10%",
    max_points: Annotated[int, typer.Option(min=0, help="Lengths that are added to a section, at most.")] = 6,
    minutes: Annotated[float | None, typer.Option(min=0, help="After so many no length is added.")] = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_REPLICATES,
            help="With --measure: processes per cell; 5 and more give intervals. Default: 5.",
        ),
    ] = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    results: Annotated[Path, typer.Option(help="With --measure: where run folders are made.")] = _RESULTS,
    fresh: Fresh = False,
    out: Outs = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """Find from which length on one method is ahead of another, with intervals, of a stored run or measured for it."""
    check_outs(out, (*TABLES, *IMAGES))
    with at_work() as terminal:
        how: Measuring = {"impl": impl, "device": device, "replicates": replicates, "results": results}
        how |= {"fresh": fresh, "wait": not no_wait, "reporter": terminal}
        done = attnbench.crossover(
            source,
            of=of,
            over=over,
            metric=metric,
            measure=measure,
            resolution=resolution,
            max_points=max_points,
            minutes=minutes,
            **how,
        )
    print_answer(str(done), out, done.form)


@measuring.command()
def maxlen(  # noqa: PLR0913, PLR0917 - one parameter an option
    what: Annotated[list[str], typer.Argument(help="A suite, or methods; or the folder of an earlier search.")],
    method: Annotated[list[str], typer.Option("--method", help="Of the suite only this one. May be repeated.")] = [],  # noqa: B006
    memory: Annotated[
        str | None, typer.Option(help="What may be used, as 0.7 of what is free, or 8GiB; instead of the suite's own.")
    ] = None,
    limit: Annotated[str, typer.Option(help="The largest N that is tried, as 65536 or 2^16.")] = "2^22",
    batch: Annotated[bool, typer.Option("--batch", help="The largest batch at each length of the suite instead.")] = False,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    results: Results = _RESULTS,
    fresh: Fresh = False,
    out: Annotated[list[Path], typer.Option("--out", help="Write .md, .tex or .csv. May be repeated.")] = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """Search for the longest sequence, or the largest batch, that fits into memory and time; each trial a process."""
    check_outs(out, TABLES)
    with at_work() as terminal:
        how: Measuring = {"impl": impl, "device": device, "results": results}
        how |= {"fresh": fresh, "wait": not no_wait, "reporter": terminal}
        done = attnbench.maxlen(*what, method=method, memory=memory, limit=limit, batch=batch, **how)
    print_answer(str(done), out, done.form)
