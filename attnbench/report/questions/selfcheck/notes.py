"""What is said of a selfcheck in sentences: what was measured, what the figures mean, what else was seen."""

from attnbench.analyze.selfcheck import Calibration
from attnbench.report.conditions import machine
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, shorten
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Selfcheck
from attnbench.schema.units import seconds

_ALARMING = 0.05


def percent(share: float) -> str:
    """`0.4`, `9.9`, `12`, `100`, of a share; the sign is the reader's."""
    value = 100 * share
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"


def subject(plan: Selfcheck) -> str:
    """The method: where a slow-down was made on purpose, the one inside."""
    cell = plan.sides[0]
    return shorten(str(cell.params.get("method", cell.label)) if plan.injected else cell.label, 60)


def cell_words(plan: Selfcheck) -> str:
    """`forward, non-causal, float32, B=1, H=8, N=512, D=64, cpu`."""
    cell, p = plan.sides[0], plan.sides[0].problem
    mask = "causal" if p.causal else "non-causal"
    return f"{cell.workload.value}, {mask}, {p.dtype.value}, B={p.B}, H={p.H}, N={p.N}, D={p.D}, {cell.device}"


def about(found: Calibration) -> str:
    """What was compared, and what is right."""
    plan = found.plan
    if plan.injected:
        truth = f"side B waits {100 * plan.injected:g} % of each call, so SLOWER is right"
    else:
        truth = "nothing differs between the sides, so whatever is found to differ is a false alarm"
    call = f"{seconds(found.seconds)} a call" if found.seconds else "nothing measured"
    size = f"{plan.verdicts} verdicts x 2 sides x {plan.replicates} processes"
    return f"selfcheck of {subject(plan)}: {cell_words(plan)}; {call}; {size}; {truth}."


def notes(found: Calibration, run: RunInfo) -> list[str]:
    """In order of weight; each one line."""
    said = [*_losses(found), *([] if found.plan.injected else _alarms(found)), *_meaning(found), *_spread(found)]
    return [one_line(line) for line in [*said, *_flags(found), machine(Findings.of(run, ()))]]


def _losses(found: Calibration) -> list[str]:
    if not found.lost:
        return []
    return [
        f"{found.lost} of {found.plan.processes} processes gave no time, and their verdicts are left out"
        f"{f' ({shorten(found.reason, 200)})' if found.reason else ''}."
    ]


def _alarms(found: Calibration) -> list[str]:
    """Whether verdicts can be trusted here, and what a whole suite would have raised."""
    most = found.paired[-1]
    lines = []
    if most.significant.of and most.significant.interval.low > _ALARMING:
        lines.append(
            f"Warning: without a margin {percent(most.significant.share or 0)} % are told apart where 5 % should be: "
            "processes of one verdict are not independent here (attnbench doctor says what disturbs)."
        )
    if found.together.of:
        lines.append(
            f"Judged together, as a suite of {found.together.of} cells, {found.together.hits} would be told apart "
            f"(margin {100 * found.margin:g} %, {most.replicates} a side)."
        )
    return lines


def _meaning(found: Calibration) -> list[str]:
    if found.plan.injected:
        return ["In brackets: 95 % by Wilson. The slow-down is real: a wait within the call that is timed."]
    return [
        "In brackets: 95 % by Wilson. Found: of verdicts whose side B has its medians multiplied, the share that says SLOWER; "
        "9 in 10: the smallest slow-down that so many find.",
        "Fewer replicates a side: the rounds are cut into parts, and each part gives a verdict of its own.",
    ]


def _spread(found: Calibration) -> list[str]:
    lines = []
    if found.overall is not None and found.overall.interval is not None:
        i = found.overall.interval
        lines.append(f"B over A, all pairs: {found.overall.value:.4f} [{i.low:.4f}, {i.high:.4f}].")
    if found.processes is not None:
        lines.append(f"Medians of processes of one round and side vary by {percent(found.processes)} % (standard deviation).")
    if found.rounds is not None:
        lines.append(
            f"The rounds' means, minutes apart, span {percent(found.rounds)} %: "
            "such drift lies between two stored runs, and in no interval."
        )
    return lines


def _flags(found: Calibration) -> list[str]:
    said = [f"{flag} {percent(count / max(1, found.measured))} %" for flag, count in found.flags.items()]
    return [f"Processes marked: {', '.join(said)}."] if said else []
