"""A synthetic run: records as the workers write them, from power laws with a little replicate noise, failures included."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from attnbench.analyze.quantities import Quantity, Unit, quantities
from attnbench.report.drawing import style
from attnbench.schema import outcome as names
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Job, Pass, Roof, Surroundings, main_pass
from attnbench.schema.figures import FIGURES
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import CURVE, LOSS, STATE_SOURCE, Counter, Failed, Measured, Series, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, ReportSpec, Suite, TrainingAxes
from attnbench.schema.training import LANGUAGE, PIXELS, Task, Training

LENGTHS = tuple(2**i for i in range(9, 17))
_FACTS: dict[str, Scalar | None] = {
    **{"processor": "AMD EPYC 9B14", "cores": 2, "memory_gib": 24, "system": "Linux 6.1", "python": "3.11.7"},
    **{"torch": "2.13.0+cpu", "threads": 2, "cpu_capability": "AVX512"},
}
_COUNTERS = {
    "input_bytes": "sum of the inputs' storages",
    "host_rss_peak": "VmHWM of /proc/self/status after a reset, less VmRSS before",
    "torch_profiler_peak": "running sum of the memory events of torch's profiler",
}
_NO_GPU = Counter(bytes=None, source="torch's CUDA allocator", reason="this cell ran on a CPU")


@dataclass
class Law:
    """A method whose time is `seconds` at N = 1024 and grows as N^power, until it fails from `stop_at` on."""

    name: str
    seconds: float
    power: float
    params: dict[str, Scalar] = field(default_factory=dict)
    stop_at: int | None = None
    status: Status = Status.OOM_HOST
    reason: str = ""
    only_causal: bool | None = None
    tier: str = "eager"
    fits: int = 64
    """The largest batch at N = 1024; half of it at twice the length."""
    state: int = 0
    """Bytes kept between tokens at N = 1024, by one sequence; in proportion to N."""
    state_is_fixed: bool = False
    learns: float = 0.05
    """Of a training: the loss that is left at the end, as a share of chance."""


_SLOW = "one call took 8.1 s, above the 7.5 s that a call may take"
LAWS = (
    Law("softmax.naive", 9e-3, 2.0, stop_at=2**14, reason="memory limit of 17.2 GB reached"),
    Law("softmax.sdpa", 3e-3, 1.95, stop_at=2**16, status=Status.BUDGET, tier="library", reason=_SLOW),
    Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}),
    Law(
        "linear.full", 1.1e-3, 1.02, only_causal=False, status=Status.UNSUPPORTED, reason="only the non-causal form is written"
    ),
    Law("lsh.reformer_pytorch", 15e-3, 1.08, {"rounds": 4}, stop_at=2**15, status=Status.CRASHED, reason="killed by signal 11"),
    Law("lsh.reformer_pytorch", 5e-3, 1.06, {"rounds": 1}),
    Law("sparse.strided", 2e-3, 1.5, stop_at=1, status=Status.INCORRECT, reason="its check: o differs by 0.3 | tolerance 1e-6"),
)


@dataclass
class Synthetic:
    """Builds a run and its records."""

    laws: Sequence[Law] = LAWS
    lengths: tuple[int, ...] = LENGTHS
    causal: tuple[bool, ...] = (True, False)
    workloads: tuple[Workload, ...] = (Workload.FORWARD, Workload.FORWARD_BACKWARD)
    dtypes: tuple[str, ...] = ("float32",)
    heads: tuple[int, ...] = (8,)
    replicates: int = 3
    tokens: int = 1
    batches: tuple[Batch, ...] = (Batch.FIXED,)
    """With a largest one among them, B is 1 or max, and nothing is said of tokens."""
    report: ReportSpec = field(default_factory=ReportSpec)
    trainings: tuple[Training, ...] = ()
    """The models of the workloads that have one; one cell each."""

    def run(self) -> RunInfo:
        axes = product(self.lengths, self.dtypes, self.causal, self.heads, self.batches, self.workloads)
        planned = (
            self.cell(law, N, causal, workload, dtype, H).model_copy(update={"batch": batch, "training": training})
            for N, dtype, causal, H, batch, workload in axes
            for training in (self.trainings if workload.has_model else (None,))
            for law in self.laws
        )
        cells = tuple({cell.key: cell for cell in planned}.values())
        batch: dict[str, Any] = {"B": (1, "max")} if Batch.LARGEST in self.batches else {"tokens": (self.tokens,)}
        about: dict[str, Any] = {"paper": "arXiv:1706.03762", "causality": "full", "summary": "Invented.", "version": "0"}
        return RunInfo(
            id="20260102-030405-abcdef",
            suite=Suite(
                name="synthetic",
                device="cpu",
                axes=Axes(N=self.lengths, dtype=tuple(map(DType, self.dtypes)), **batch),
                methods=tuple(Method(name=law.name) for law in self.laws) or (Method(name="none"),),
                workloads=self.workloads,
                replicates=self.replicates,
                report=self.report,
                training=TrainingAxes(task=tuple({t.task for t in self.trainings})) if self.trainings else None,
            ),
            command="attnbench run synthetic",
            started="2026-01-02T03:04:05+00:00",
            environment=_FACTS,
            environment_digest="8f49cfc01159",
            surroundings=Surroundings(
                device="cpu",
                facts=_FACTS,
                memory_bytes=2**34,
                roof={dtype: Roof(flops_per_second=9e10, bytes_per_second=1.7e10) for dtype in self.dtypes},
            ),
            methods={law.name: Description(method=law.name, tier=law.tier, **about) for law in self.laws},
            cells=cells,
            costs={cell.key: cost_of(cell) for cell in cells if not cell.workload.has_model},
        )

    def rows(self, law: Law, cell: Cell) -> int:
        """The batch that runs."""
        p = cell.problem
        return p.B if cell.batch is Batch.FIXED else max(1, law.fits * 1024 // p.N)

    def cell(self, law: Law, N: int, causal: bool, workload: Workload, dtype: str, H: int) -> Cell:
        problem = Problem(B=max(1, self.tokens // N), H=H, N=N, D=64, causal=causal, dtype=dtype)
        return Cell(method=law.name, params=law.params, problem=problem, workload=workload, device="cpu")

    def records(self) -> list[Record]:
        records = []
        for replicate in range(self.replicates):
            for cell in self.run().cells:
                law = next(law for law in self.laws if (law.name, law.params) == (cell.method, cell.params))
                failed = self.failed(law, cell)
                if failed is not None:
                    records += [self.record(cell, failed, phase=main_pass(cell))] if replicate == 0 else []
                    continue
                if cell.batch is Batch.LARGEST and replicate == 0:
                    records += self.search(law, cell)
                records.append(self.record(cell, self.measured(law, cell, replicate), replicate, main_pass(cell)))
                if replicate == 0:
                    records.append(self.record(cell, self.footprint(law, cell), phase=Pass.MEMORY))
        return records

    def search(self, law: Law, cell: Cell) -> list[Record]:
        B, full = self.rows(law, cell), Failed(status=Status.OOM_HOST, reason="memory limit of 17.2 GB reached")
        return [self.record(cell, o, phase=Pass.FIT, B=b) for b, o in ((B, Measured()), (2 * B, full), (4 * B, full))]

    def failed(self, law: Law, cell: Cell) -> Failed | None:
        if law.only_causal is not None and law.only_causal is not cell.problem.causal:
            return Failed(status=Status.UNSUPPORTED, reason=law.reason)
        if law.stop_at is None or law.stop_at > cell.problem.N:
            return None
        if law.stop_at == cell.problem.N or not law.status.monotonic:
            return Failed(status=law.status, reason=law.reason)
        return Failed(status=law.status, reason=f"not started: out of memory at N={law.stop_at}")

    def measured(self, law: Law, cell: Cell, replicate: int) -> Measured:
        timed = self.timed(law, cell, replicate)
        if cell.training is None:
            return timed
        layers = cell.training.layers
        facts = {**timed.facts, "parameters": 1000 * layers + 24 * len(cell.label), "layers": layers}
        if cell.workload is Workload.TRAIN:
            return self.learnt(law, cell, replicate, timed.model_copy(update={"facts": facts}))
        how = "whole prefix anew" if cell.method == "softmax.recompute" else "step by step"
        return timed.model_copy(update={"facts": {**facts, "generation": how}})

    def learnt(self, law: Law, cell: Cell, replicate: int, timed: Measured) -> Measured:
        """With a loss that falls from chance to what the law leaves of it."""
        model, left = cell.training, law.learns * random.Random(f"{cell.label}/{replicate}").uniform(0.9, 1.1)
        assert model is not None
        chance, guessed = chance_of(model)
        updates = [model.updates * i // model.evaluations for i in range(model.evaluations + 1)]
        losses = [chance * (left + (1 - left) * math.exp(-6 * update / model.updates)) for update in updates]
        seconds = [update * timed.samples["time"].values[0] for update in updates]
        values: dict[str, Sequence[float]] = {LOSS: losses[-1:], **dict(zip(CURVE, (updates, seconds, losses), strict=True))}
        if model.task in LANGUAGE:
            values[names.BITS] = [losses[-1] / math.log(2)]
        if guessed is not None:
            right = [1 - (1 - guessed) * loss / chance for loss in losses]
            values |= {names.ACCURACY: right[-1:], names.CURVE_ACCURACY: right}
        if model.task is Task.SPEECH:
            errors = [loss / chance for loss in losses]
            values |= {names.ERROR_RATE: errors[-1:], names.CURVE_ERROR_RATE: errors}
        facts: dict[str, Scalar | None] = {
            "updates": model.updates,
            "chance_loss": chance,
            **({"chance_error_rate": 1.0} if model.task is Task.SPEECH else {"chance_accuracy": guessed}),
            "data": model.images or model.task.value,
            "resumed_from": 0,
        }
        if model.images:
            values |= pictures_of(model, left)
            facts |= dict(zip(("image_rows", "image_columns", "levels"), PIXELS[model.images], strict=True))
        series = {name: Series(unit="1", values=tuple(map(float, found))) for name, found in values.items()}
        return timed.model_copy(update={"samples": {**timed.samples, **series}, "facts": {**timed.facts, **facts}})

    def timed(self, law: Law, cell: Cell, replicate: int) -> Measured:
        p, B = cell.problem, self.rows(law, cell)
        noise = random.Random(f"{cell.label}/{cell.workload}/{p.canonical()}/{replicate}")
        times = 3.0 if cell.workload is Workload.FORWARD_BACKWARD else 1.0
        times = times / p.N if cell.workload is Workload.DECODE else times
        typical = times * B * law.seconds * (p.N / 1024) ** law.power * (0.6 if p.causal else 1.0)
        typical = (typical + 4e-5) * noise.uniform(0.97, 1.05)
        samples = tuple(typical * noise.uniform(0.995, 1.01) for _ in range(12))
        return Measured(
            samples={"time": Series(unit="s", values=samples), "first_call": Series(unit="s", values=(typical * 4,))},
            facts={"clock": "wall", "stop": "stable", "batch": 1, "threads": 2, "B": B},
            flags=("noisy",) if noise.random() < 0.06 else (),
        )

    def footprint(self, law: Law, cell: Cell) -> Measured:
        p, B = cell.problem, self.rows(law, cell)
        peak = int(B * 4 * p.H * p.N * (p.N if law.power > 1.9 and law.name == "softmax.naive" else 256 * law.power))
        kept = B * law.state * (1024 if law.state_is_fixed else p.N) // 1024
        memory = {"state_bytes": Counter(bytes=kept, source=STATE_SOURCE)} if cell.workload.keeps_state else {}
        for (name, source), count in zip(_COUNTERS.items(), (12 * B * p.H * p.N * p.D, peak, peak - 4096), strict=True):
            memory[name] = Counter(bytes=count, source=source)
        return Measured(memory={**memory, "torch_allocated_peak": _NO_GPU})

    def record(
        self, cell: Cell, outcome: Measured | Failed, replicate: int = 0, phase: Pass = Pass.TIME, B: int | None = None
    ) -> Record:
        job = Job(cell=cell, phase=phase, replicate=replicate, B=B)
        return Record(job=job, outcome=outcome, environment="8f49cfc01159", started="2026-01-02T03:04:06+00:00")


def cost_of(cell: Cell) -> Cost:
    p = cell.problem
    traffic = 16.0 * p.B * p.H * (1 if cell.workload is Workload.DECODE else p.N) * p.D
    return Cost(nominal_flops=1.0, exact_flops=1.0, executed_flops=1.0, traffic_bytes=traffic)


def chance_of(model: Training) -> tuple[float, float | None]:
    """Loss and accuracy of who knows nothing; a pixel has no right answer, and speech has errors."""
    if model.task is Task.SPEECH:
        return math.log(model.symbols), None
    if model.images:
        return math.log(PIXELS[model.images][2]), None
    values = 256 if model.task is Task.BYTES else model.symbols
    return math.log(values), 1 / values


def pictures_of(model: Training, left: float) -> dict[str, Sequence[float]]:
    """Spots of light, each elsewhere; what a model makes of them is noisy by what it has not learnt."""
    rows, columns, levels = PIXELS[model.images]
    noise, places = random.Random(left), [(r, c) for r in range(rows) for c in range(columns)]
    spots = [
        [(levels - 1) * math.exp(-(((r / rows - 0.5) * 4) ** 2 + ((c / columns - 0.3 - i / 10) * 4) ** 2)) for r, c in places]
        for i in range(model.drawings)
    ]
    half = rows // 2 * columns

    def noisy(light: float) -> int:
        return min(levels - 1, max(0, round(light + noise.gauss(0, left * levels))))

    given = [[round(light) for light in spot] for spot in spots]
    drawn = [[noisy(light) for light in spot] for spot in spots]
    completed = [[*whole[:half], *map(noisy, spot[half:])] for whole, spot in zip(given, spots, strict=True)]
    found = {names.GIVEN: given, names.COMPLETED: completed, names.DRAWN: drawn}
    return {name: [light for image in each for light in image] for name, each in found.items() if each}


@pytest.fixture
def settings() -> Iterator[None]:
    """Those that figures are made with."""
    with style.applied():
        yield


@pytest.fixture
def new_figure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Quantity]:
    """Adds a figure to the vocabulary as one entry would: 1.5 of every cell that is ok."""

    def add(name: str, **about: Any) -> Quantity:
        new = Quantity(name, f"{name} of a cell", Unit.PLAIN, lambda cell: dict.fromkeys(cell.times, 1.5), **about)
        monkeypatch.setattr("attnbench.report.findings.FIGURES", (*FIGURES, name))
        known = quantities
        monkeypatch.setattr("attnbench.report.findings.quantities", lambda *given: {**known(*given), name: new})
        return new

    return add


HOSTILE = (
    "../../x",
    "<script>alert(1)</script>",
    "\\input{x}",
    "=cmd()",
    "_$x^2$_|`*[a](b)*`|" + "long" * 50,
    "中文\n名",
    "@x\t%#~&--",
)


@pytest.fixture
def hostile() -> Synthetic:
    """Methods whose names are markup, paths and formulas; the last one fails with such a reason."""
    laws = [Law(name, 1e-3 * (i + 1), 1.0) for i, name in enumerate(HOSTILE)]
    laws[-1] = Law(HOSTILE[-1], 1e-2, 2.0, stop_at=1024, reason="=a\nb | $x$ \\end{table*} <b> \x1b[31m")
    return Synthetic(laws, (512, 1024, 2048), (True,), (Workload.FORWARD,))


@pytest.fixture
def small() -> Synthetic:
    """Every kind of entry in one small section."""
    laws = (
        Law("softmax.naive", 9e-3, 2.0, stop_at=2048, reason="memory limit of 17.2 GB reached"),
        Law("softmax.sdpa", 3e-3, 1.95, tier="library"),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}),
        Law("sparse.strided", 2e-3, 1.5, stop_at=1, status=Status.INCORRECT, reason="its check: o differs | 1e-6"),
    )
    return Synthetic(laws, (512, 1024, 2048), (True,), (Workload.FORWARD,))


@pytest.fixture
def decoding() -> Synthetic:
    """Steps of a cache, of none and of a state of one size; one sequence, and as many as fit."""
    report = ReportSpec(tables=("summary", "time", "state"), plots=("time", "state"))
    laws = _keeping(3e-3, 3e-1, 2e-3, "it does not decode token by token")
    both = (Batch.FIXED, Batch.LARGEST)
    return Synthetic(laws, (512, 1024, 2048), (True,), (Workload.DECODE,), batches=both, report=report)


@pytest.fixture
def generating() -> Synthetic:
    """Images made by a cache, by none and by a state of one size; one sequence, and as many as fit."""
    report = ReportSpec(tables=("summary", "time", "speedup", "state"), plots=("time", "memory", "state"))
    made = Synthetic(_keeping(3e-1, 3e0, 2e-1, "it has no shorter length"), (64, 784, 3072), (True,), (Workload.GENERATE,))
    return replace(made, batches=(Batch.FIXED, Batch.LARGEST), trainings=(Training(task=Task.PIXELS),), report=report)


def _keeping(cached: float, recomputed: float, linear: float, reason: str) -> tuple[Law, ...]:
    return (
        Law("softmax.sdpa", cached, 1.95, tier="library", fits=100, state=2**22),
        Law("softmax.recompute", recomputed, 2.9, fits=300, state=2**21),
        Law("linear.chunked", linear, 1.0, {"chunk": 64}, fits=2000, state=2**17 + 2**11, state_is_fixed=True),
        Law("sparse.strided", 1, 1, stop_at=1, status=Status.UNSUPPORTED, reason=reason),
    )


LEARNT = ReportSpec(tables=("summary",), plots=("curves", "drawings"))


@pytest.fixture
def learning() -> Synthetic:
    """A copy task that most methods learn, three seeds each; one that is too slow, and one that cannot be trained."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", learns=0.01),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, learns=0.0102),
        Law("lsh.reformer", 9e-3, 1.1, {"rounds": 4}, learns=0.3),
        Law("sparse.strided", 2e-3, 1.5, stop_at=128, status=Status.BUDGET, reason="40 of 2,000 updates in 300 s"),
        Law("linformer.headwise", 2e-3, 1.5, stop_at=1, status=Status.UNSUPPORTED, reason="it is not causal | no"),
    )
    trainings = (Training(task=Task.COPY, updates=2000, late_from=1500),)
    return Synthetic(laws, (128,), (True,), (Workload.TRAIN,), tokens=128 * 64, trainings=trainings, report=LEARNT)


@pytest.fixture
def picturing() -> Synthetic:
    """Small images that are learnt, drawn and completed; one method fails."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", learns=0.05),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, learns=0.08),
        Law("sparse.strided", 2e-3, 1.5, stop_at=1, status=Status.ERROR, reason="the loss is no number after update 12"),
    )
    trainings = (Training(task=Task.PIXELS, updates=2000, drawings=6),)
    return Synthetic(laws, (64,), (True,), (Workload.TRAIN,), tokens=64 * 32, trainings=trainings, report=LEARNT)


@pytest.fixture
def hearing(learning: Synthetic) -> Synthetic:
    """Speech that most methods learn."""
    return replace(learning, causal=(False,), trainings=(Training(task=Task.SPEECH, updates=2000, late_from=1500),))


@pytest.fixture
def both() -> Synthetic:
    """Small images that are learnt, and made one by one and as many as fit."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", learns=0.60, state=2**22),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, learns=0.62, state=2**17, state_is_fixed=True, fits=2000),
        Law("lsh.reformer", 9e-3, 1.1, {"rounds": 1}, learns=0.66, state=2**20),
    )
    workloads, trainings = (Workload.TRAIN, Workload.GENERATE), (Training(task=Task.PIXELS, updates=2000),)
    batches = (Batch.FIXED, Batch.LARGEST)
    return Synthetic(laws, lengths=(64,), causal=(True,), workloads=workloads, trainings=trainings, batches=batches)
