"""One method held against its own definition, as before it is timed in a run; nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Unpack

from attnbench import registry
from attnbench.places.place import carry_out
from attnbench.report.text.names import one_line
from attnbench.schedule.ledger import Ledger, check_group
from attnbench.schedule.rounds import checks
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured
from attnbench.schema.record import Record
from attnbench.session.asked import address, is_method, unknown_parameters, validated
from attnbench.session.scene import How, Measuring, Scene

_PADDING = 0.25


@dataclass(frozen=True)
class Check:
    """The result of holding a method against its definition: the kinds of calls, and a record for each shape."""

    cells: tuple[Cell, ...]
    records: tuple[Record, ...]
    refusals: Mapping[str, Failed]

    @property
    def correct(self) -> bool:
        """Whether something was checked, and nothing of it was wrong."""
        return bool(self.records) and all(record.ok for record in self.records)

    def __str__(self) -> str:
        """Say for each kind of call why it was not checked, or what came of it at each shape."""
        lines = [self.cells[0].label]
        for cell in self.cells:
            p = cell.problem
            how = "causal, token by token" if cell.workload.decodes else "causal" if p.causal else "not causal"
            kind = f"{how}, padded" if p.padding else how
            records = [record for record in self.records if check_group(record.job.cell) == check_group(cell)]
            refusal = self.refusals.get(cell.key)
            if refusal is not None or not records:
                why = one_line(refusal.reason) if refusal else "it takes no length that is short enough"
                lines.append(f"  {kind}: not checked: {why}")
            for record in records:
                p, outcome = record.job.cell.problem, record.outcome
                grads = "with gradients, " if record.job.cell.workload is Workload.FORWARD_BACKWARD else ""
                where = f"{kind}, {grads}B={p.B}, H={p.H}, N={p.N}"
                if isinstance(outcome, Measured):
                    share = float(outcome.facts["error"] or 0) / float(outcome.facts["tolerance"] or 1)
                    worst = outcome.facts["worst"]
                    lines.append(f"  {where}: correct; at most {share:.0%} of the error that is allowed, in {worst}")
                else:
                    lines.append(f"  {where}: {outcome.status}: {one_line(outcome.reason)}")
                    lines += [f"      {line}" for line in outcome.detail.rstrip().splitlines()]
        return "\n".join(lines)


def check(
    method: str | type,
    *,
    N: int = 1024,
    width: int = 64,
    dtype: str = "float32",
    param: Mapping[str, Scalar] | None = None,
    **how: Unpack[Measuring],
) -> Check:
    """Hold every kind of call that a method can make against its own definition, and time nothing.

    Raises UsageError, ScoutError, LaneTakenError.
    """
    asked, params = How.of(how, "check", method, without=("impl", "replicates")), param or {}
    name = address(method) if isinstance(method, type) else method
    if not is_method(name):
        raise UsageError(registry.no_method(name))
    suite = validated(
        {
            "name": "check",
            "device": asked.device or "auto",
            "axes": {"N": N, "D": width, "dtype": dtype, "causal": (False, True), "padding": (0.0, _PADDING)},
            "methods": ({"name": name, "params": {each: (value,) for each, value in params.items()}},),
            "workloads": ("forward", "decode"),
        },
        {"N": N, "D": width, "dtype": dtype, "device": asked.device, "params": params},
        {"D": "width"},
    )
    with Scene(asked) as scene:
        scouted = scene.scout(suite, roof=False)
        if (failed := scouted.failures.get(name)) is not None:
            raise UsageError(f"{name}: {failed.reason}")
        description = scouted.descriptions[name]
        if description.missing:
            raise UsageError(registry.pip_line(name, description.missing))
        for each, why in unknown_parameters(params, description.parameters).items():
            raise ArgumentError("param", each, why)
        # decoding is causal and without padding
        kinds = tuple(c for c in scouted.cells if not c.workload.decodes or (c.problem.causal and not c.problem.padding))
        scouted = replace(scouted, cells=kinds)
        info = scene.describe(scouted)
        made = carry_out(checks(scouted.jobs(info, Ledger())), scene.place(info))
        return Check(kinds, tuple(record for _, record in made), scouted.refusals())
