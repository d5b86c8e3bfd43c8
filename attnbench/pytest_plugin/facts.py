"""What goes into a benchmark's `extra_info`, and the group that its table stands under."""

from attnbench.measure import devices
from attnbench.measure.reading import Reading
from attnbench.schema.cell import Cell
from attnbench.schema.outcome import Counter
from attnbench.version import __version__
from attnbench.workloads import footprint
from attnbench.workloads.describe import version
from attnbench.workloads.setting import Setting

_MAIN_COUNTER = {"cpu": "host_rss_peak", "cuda": "torch_allocated_peak"}


def group(cell: Cell) -> str:
    """All but the method: `forward causal float32 B=1 H=8 N=512 D=64 cpu`, so that a table compares methods."""
    p = cell.problem
    sizes = {"B": p.B, "H": p.H, "N": p.N, "D": p.D}
    sizes |= {"kv_heads": p.kv_heads} if p.kv_heads != p.H else {}
    sizes |= {"M": p.M} if p.M != p.D else {}
    padding = [f"padding={p.padding:g}"] if p.padding else []
    mask = "causal" if p.causal else "non-causal"
    return " ".join([cell.workload, mask, p.dtype, *(f"{name}={size}" for name, size in sizes.items()), *padding, cell.device])


def facts(setting: Setting) -> dict[str, object]:
    """Who was called, on what, under which conditions."""
    cell, method = setting.cell, setting.method
    return {
        "status": "ok",
        "method": cell.method,
        "params": cell.params,
        "tier": method.tier.value,
        "source": version(cell.method, type(method)),
        "workload": cell.workload.value,
        "shape": cell.problem.model_dump(mode="json"),
        "device": cell.device,
        "matmul_precision": cell.matmul_precision.value,
        "allocator": cell.allocator.value,
        "attnbench": __version__,
        **devices.facts(cell.device),
    }


def weigh(setting: Setting) -> dict[str, Reading]:
    """Memory by counter, in calls of their own that no clock sees."""
    probe = footprint.on_cuda if setting.cell.device_kind == "cuda" else footprint.on_cpu
    return footprint.sizes(setting) | probe(setting)


def memory_facts(cell: Cell, readings: dict[str, Reading]) -> dict[str, object]:
    """The counters in the form of a record; `peak_bytes` is the device's main one, None where it could not be read."""
    counters = {name: Counter(bytes=r.bytes, source=r.source, reason=r.reason) for name, r in readings.items()}
    main = _MAIN_COUNTER[cell.device_kind]
    return {
        "peak_bytes": counters[main].bytes,
        "peak_counter": main,
        "memory": {name: counter.model_dump(exclude_none=True) for name, counter in counters.items()},
    }
