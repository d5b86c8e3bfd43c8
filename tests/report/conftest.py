"""A synthetic run: records as the workers write them, from power laws with a little replicate noise, failures included."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Job, Pass, Roof, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import STATE_SOURCE, Counter, Failed, Measured, Series, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, ReportSpec, Suite

LENGTHS = tuple(2**i for i in range(9, 17))
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


LAWS = (
    Law("softmax.naive", 9e-3, 2.0, stop_at=2**14, reason="memory limit of 17.2 GB reached"),
    Law(
        "softmax.sdpa",
        3e-3,
        1.95,
        stop_at=2**16,
        status=Status.BUDGET,
        tier="library",
        reason="one call took 8.1 s, above the 7.5 s that a call may take",
    ),
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

    def run(self) -> RunInfo:
        cells = tuple(
            self.cell(law, N, causal, workload, dtype, H).model_copy(update={"batch": batch})
            for N in self.lengths
            for dtype in self.dtypes
            for causal in self.causal
            for H in self.heads
            for batch in self.batches
            for workload in self.workloads
            for law in self.laws
        )
        cells = tuple({cell.key: cell for cell in cells}.values())
        facts: dict[str, Scalar | None] = {
            "processor": "AMD EPYC 9B14",
            "cores": 2,
            "memory_gib": 24,
            "system": "Linux 6.1",
            "python": "3.11.7",
            "torch": "2.13.0+cpu",
            "threads": 2,
            "cpu_capability": "AVX512",
        }
        return RunInfo(
            id="20260102-030405-abcdef",
            suite=Suite(
                name="synthetic",
                device="cpu",
                axes=self.axes(),
                methods=tuple(Method(name=law.name) for law in self.laws) or (Method(name="none"),),
                workloads=self.workloads,
                replicates=self.replicates,
                report=self.report,
            ),
            command="attnbench run synthetic",
            started="2026-01-02T03:04:05+00:00",
            environment=facts,
            environment_digest="8f49cfc01159",
            surroundings=Surroundings(
                device="cpu",
                facts=facts,
                memory_bytes=2**34,
                roof={dtype: Roof(flops_per_second=9e10, bytes_per_second=1.7e10) for dtype in self.dtypes},
            ),
            methods={law.name: self.description(law) for law in self.laws},
            cells=cells,
            costs={cell.key: self.cost(cell) for cell in cells},
        )

    def axes(self) -> Axes:
        dtypes = tuple(DType(dtype) for dtype in self.dtypes)
        if Batch.LARGEST in self.batches:
            return Axes(N=self.lengths, B=(1, "max"), dtype=dtypes)
        return Axes(N=self.lengths, tokens=(self.tokens,), dtype=dtypes)

    def rows(self, law: Law, cell: Cell) -> int:
        """The batch that runs."""
        p = cell.problem
        return p.B if cell.batch is Batch.FIXED else max(1, law.fits * 1024 // p.N)

    def description(self, law: Law) -> Description:
        return Description(
            method=law.name, paper="arXiv:1706.03762", tier=law.tier, causality="full", summary="Invented.", version="0"
        )

    def cost(self, cell: Cell) -> Cost:
        p = cell.problem
        tokens = 1 if cell.workload is Workload.DECODE else p.N
        return Cost(
            nominal_flops=1.0,
            exact_flops=1.0,
            executed_flops=1.0,
            traffic_bytes=16.0 * p.B * p.H * tokens * p.D,
            peak_bytes=1.0,
        )

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
                    records += [self.record(cell, failed)] if replicate == 0 else []
                    continue
                if cell.batch is Batch.LARGEST and replicate == 0:
                    records += self.search(law, cell)
                records.append(self.record(cell, self.timed(law, cell, replicate), replicate))
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
        state = {"state_bytes": Counter(bytes=kept, source=STATE_SOURCE)} if cell.workload.decodes else {}
        return Measured(
            memory={
                **state,
                "input_bytes": Counter(bytes=12 * B * p.H * p.N * p.D, source="sum of the inputs' storages"),
                "host_rss_peak": Counter(bytes=peak, source="VmHWM of /proc/self/status after a reset, less VmRSS before"),
                "torch_profiler_peak": Counter(
                    bytes=peak - 4096, source="running sum of the memory events of torch's profiler"
                ),
                "torch_allocated_peak": _NO_GPU,
            }
        )

    def record(
        self,
        cell: Cell,
        outcome: Measured | Failed,
        replicate: int = 0,
        phase: Pass = Pass.TIME,
        attempt: int = 0,
        B: int | None = None,
    ) -> Record:
        job = Job(cell=cell, phase=phase, replicate=replicate, attempt=attempt, B=B)
        return Record(job=job, outcome=outcome, environment="8f49cfc01159", started="2026-01-02T03:04:06+00:00")


@pytest.fixture
def synthetic() -> type[Synthetic]:
    """The builder."""
    return Synthetic


@pytest.fixture
def law() -> type[Law]:
    """One method of a synthetic run."""
    return Law


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
    return Synthetic(laws, lengths=(512, 1024, 2048), workloads=(Workload.FORWARD,), causal=(True,))


@pytest.fixture
def small() -> Synthetic:
    """Every kind of entry in one small section."""
    laws = (
        Law("softmax.naive", 9e-3, 2.0, stop_at=2048, reason="memory limit of 17.2 GB reached"),
        Law("softmax.sdpa", 3e-3, 1.95, tier="library"),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}),
        Law("sparse.strided", 2e-3, 1.5, stop_at=1, status=Status.INCORRECT, reason="its check: o differs | 1e-6"),
    )
    return Synthetic(laws, lengths=(512, 1024, 2048), workloads=(Workload.FORWARD,), causal=(True,))


@pytest.fixture
def decoding() -> Synthetic:
    """Steps of a cache, of none and of a state of one size; one sequence, and as many as fit."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", fits=100, state=2**22),
        Law("softmax.recompute", 3e-1, 2.9, fits=300, state=2**21),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, fits=2000, state=2**17 + 2**11, state_is_fixed=True),
        Law("sparse.strided", 1, 1, stop_at=1, status=Status.UNSUPPORTED, reason="it does not decode token by token"),
    )
    return Synthetic(
        laws,
        lengths=(512, 1024, 2048),
        causal=(True,),
        workloads=(Workload.DECODE,),
        batches=(Batch.FIXED, Batch.LARGEST),
        report=ReportSpec(tables=("summary", "time", "state"), plots=("time", "state")),
    )
