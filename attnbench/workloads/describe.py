"""A method describes itself: what it is and lacks, which cells it can run and at what cost; and what the machine says."""

import hashlib
import inspect
import re
from functools import cache
from pathlib import Path

import torch

from attnbench import registry
from attnbench.api import Attention, Cost
from attnbench.measure import devices, roof
from attnbench.schema.cell import COMPILE, Batch, Cell, ClockMode, Inputs, Workload
from attnbench.schema.errand import Description, Inquiry, Prospect, Roof, Surroundings, Survey
from attnbench.schema.noun import in_words
from attnbench.schema.training import Task
from attnbench.training.reading import NOT_CAUSAL
from attnbench.workloads.check import check_cells
from attnbench.workloads.recording import Recording

_recording = cache(Recording.read)
_RELATIVE = re.compile(r"^\s*from (\.+)([\w.]*) import \(?([\w, ]*)", re.MULTILINE)


def describe(inquiry: Inquiry) -> Description:
    """Ask the class; nothing is built. Raises UnknownMethodError if it is unfinished, and whatever its import raises."""
    method = registry.load(inquiry.method)
    abstract: frozenset[str] = getattr(method, "__abstractmethods__", frozenset())
    if absent := [name for name in ("paper", "forward", "reference") if name in abstract or not hasattr(method, name)]:
        raise registry.UnknownMethodError(
            f"{inquiry.method} is not finished: it has no {', no '.join(absent)}; attnbench.api.Attention says what each is"
        )
    return Description(
        method=inquiry.method,
        paper=method.paper,
        tier=str(method.tier),
        causality=str(method.causality),
        is_softmax=method.is_softmax,
        summary=(inspect.getdoc(method) or "").partition("\n")[0],
        version=version(inquiry.method, method),
        parameters=parameters(method),
        missing=registry.missing(method),
        tunes=method.tunes,
        prospects=tuple(prospect(method, cell) for cell in inquiry.cells),
    )


def parameters(method: type[Attention]) -> tuple[str, ...]:
    """List what a method's constructor takes beside the problem; `**params` where it takes any and checks them itself."""
    accepted = inspect.signature(method).parameters.values()
    names = (f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in accepted)
    return tuple(name for name in names if name != "problem")


def prospect(method: type[Attention], cell: Cell) -> Prospect:
    """Return the reason why a cell cannot run, also where its parameters are bad, or else its cost.

    The cost of a model is unknown, because its attention is only a part of it, and so is that of a padded batch that is yet to
    be found, because the lengths of its rows follow from their number. That of a backward alone is what it adds to a
    forward; tokens that are verified cost as much as if they were decoded, but what all of them read is read once at least,
    and a method that keeps no state attends from all tokens once.
    """
    if cell.workload.has_whole_model and not method.grouped:
        # a model repeats its keys and values for a method that takes no groups
        cell = cell.reshaped(kv_heads=cell.problem.H)
    try:
        if reason := why_not(cell) or next(filter(None, map(method.refusal, cell.calls)), None):
            return Prospect(why_not=reason)
        return Prospect(cost=_cost(method, cell), checks=check_cells(method, cell))
    # OverflowError: a parameter may be larger than any float
    except (TypeError, ValueError, OverflowError) as error:
        return Prospect(why_not=in_words(error))


def _cost(method: type[Attention], cell: Cell) -> Cost | None:
    # our kernels choose their launches by the precision of products
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(cell.matmul_precision.value)
    try:
        if cell.workload is Workload.PREFILL:
            cost = method.prompt_cost(cell.problem, cell.params)
        else:
            cost = method.cost(cell.problem, cell.params, cell.call.workload)
        forward = method.cost(cell.problem, cell.params, Workload.FORWARD) if cell.workload is Workload.BACKWARD else None
    finally:
        torch.set_float32_matmul_precision(before)
    if cost is None or cell.workload.has_model or (cell.batch is Batch.LARGEST and cell.problem.padding):
        return None
    if cell.workload is Workload.BACKWARD:
        return forward and Cost(**{name: max(0.0, x - getattr(forward, name)) for name, x in cost})
    if cell.workload is Workload.VERIFY:
        once = {"traffic_bytes", *(("exact_flops", "executed_flops") if method.recomputes else ())}
        return Cost(**{name: x * (1 if name in once else cell.new_tokens) for name, x in cost})
    return cost


def why_not(cell: Cell) -> str | None:
    """Say why a cell's workload cannot be run, whatever the method; None where it can. Raises RecordingError."""
    p, searched = cell.problem, cell.batch is Batch.LARGEST
    is_speech = cell.training is not None and cell.training.task is Task.SPEECH
    drawn = "tokens are drawn one after the other, which no CUDA graph can capture; use another clock"
    if cell.workload.has_whole_model and registry.installed_version("transformers") is None:
        raise registry.MissingPackageError("whole models need transformers: pip install 'attnbench[hf]'")
    if cell.device_kind == "cpu" and cell.workload.is_timed and cell.clock not in {ClockMode.DEFAULT, ClockMode.WALL}:
        return f"a CPU has no {cell.clock.value!r} clock; use wall"
    drawn_anew = cell.inputs is not Inputs.RECORDED or cell.workload.has_model
    if not drawn_anew and (why := _recording(cell.recording).why_not(cell.laid.problem)):
        return why
    found: dict[Workload, list[tuple[bool, str]]] = {
        Workload.FIDELITY: [
            (p.padding > 0, "fidelity is measured without padding"),
            (searched, "fidelity needs a batch that is stated"),
            (p.dtype.bytes == 2, "fidelity is of the definition: float32 or float64"),
        ],
        Workload.BACKWARD: [
            (COMPILE in cell.method, "compiled gradients can be taken once for each forward; measure forward_backward"),
            (cell.clock.replays, "no CUDA graph can capture the gradients of a forward outside of it; use another clock"),
        ],
        Workload.VERIFY: [
            (cell.new_tokens >= p.N, f"{cell.new_tokens} new tokens leave none before them: N must be larger than new_tokens"),
        ],
        Workload.NUMERICS: [(searched, "numerics need a batch that is stated")],
        Workload.TRAIN: [
            (cell.clock not in {ClockMode.DEFAULT, ClockMode.WALL}, "updates are timed by the host's clock; set clock: wall"),
        ],
        Workload.GENERATE: [
            (is_speech, "speech is heard as a whole and not made token by token; generate another task"),
            (not p.causal, NOT_CAUSAL),
            (cell.clock.replays, drawn),
            (p.padding > 0, "sequences are made without padding"),
        ],
    }
    return next((why for wrong, why in found.get(cell.workload, []) if wrong), None)


def version(name: str, method: type[Attention]) -> str:
    """Return the versions of the method's packages, and a digest of its source."""
    distribution = registry.find(name).dist
    installed = f"{distribution.name} {distribution.version}" if distribution else "unpackaged"
    packages = [f"{text.partition('>')[0]} {registry.installed_version(text)}" for text in method.requires]
    return ", ".join([installed, *packages, f"source {source_digest(method)}"])


def source_digest(method: type[Attention]) -> str:
    """Return eight hex digits over the class's file; in a package, over its folder and all that it imports by dots."""
    file = Path(inspect.getfile(method))
    waiting, found = [file], set[Path]()
    if (file.parent / "__init__.py").exists():
        waiting = [each for each in file.parent.glob("*") if each.suffix in {".py", ".cu"}]
    while waiting:
        each = waiting.pop()
        if each in found or not each.is_file():
            continue
        found.add(each)
        for dots, module, names in _RELATIVE.findall(each.read_text(encoding="utf-8", errors="replace")):
            target = each.parents[: len(dots)][-1].joinpath(*filter(None, module.split(".")))
            # what is imported is a file, or the files of a folder
            waiting += [target.with_suffix(".py"), *(target / f"{name.strip()}.py" for name in names.split(","))]
    digest = hashlib.sha256()
    for each in sorted(found):
        digest.update(each.name.encode() + each.read_bytes())
    return digest.hexdigest()[:8]


def survey(question: Survey) -> Surroundings:
    """Look at the device, and measure each roof that is asked for. Raises NoDeviceError where there is no such device."""
    device = devices.resolve(question.device)
    devices.require(device)
    # memory is read before the roofs are measured, whose blocks torch's allocator keeps
    facts, free = devices.facts(device), devices.free_bytes(device)
    measured = {name: roof.measure(device, name) for name in question.ceilings}
    roofs = {name: Roof(**dict(zip(Roof.model_fields, speeds, strict=True))) for name, speeds in measured.items()}
    return Surroundings(device=device, facts=facts, memory_bytes=free, roof=roofs)
