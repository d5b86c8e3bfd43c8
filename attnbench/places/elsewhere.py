"""GPUs that are not here: by their data sheets, so that a suite can be planned before one is at hand."""

from dataclasses import dataclass, field

from attnbench.places.station import LocalStation
from attnbench.schema.cell import Precision
from attnbench.schema.errand import Answer, Errand, Roof, Surroundings, Survey
from attnbench.schema.problem import DType


def _sheet(
    name: str, *, half: float, tf32: float, float32: float, float64: float, memory_speed: float, memory: float
) -> Surroundings:
    """Return a device as a survey of it would tell, with what NVIDIA states in the place of measured roofs.

    The peaks of dense products are in TFLOP/s, that of memory is in TB/s, and how much of it there is in GB. No call can be
    faster, and real ones reach some two thirds of the products and nine tenths of the memory.
    """
    flops = {
        DType.BFLOAT16.value: half,
        DType.FLOAT16.value: half,
        DType.FLOAT32.value: float32,
        **{f"{DType.FLOAT32.value}, matmul {rounded.value}": tf32 for rounded in (Precision.HIGH, Precision.MEDIUM)},
        DType.FLOAT64.value: float64,
    }
    roofs = {key: Roof(flops_per_second=peak * 1e12, bytes_per_second=memory_speed * 1e12) for key, peak in flops.items()}
    return Surroundings(device="cuda:0", facts={"gpu": name}, memory_bytes=int(memory * 1e9), roof=roofs)


DATA_SHEETS = {
    "a100": _sheet("A100 SXM 80 GB", half=312, tf32=156, float32=19.5, float64=19.5, memory_speed=2.04, memory=80),
    "h100": _sheet("H100 SXM", half=990, tf32=495, float32=67, float64=67, memory_speed=3.35, memory=80),
    "h200": _sheet("H200 SXM", half=990, tf32=495, float32=67, float64=67, memory_speed=4.8, memory=141),
    "b200": _sheet("B200 SXM", half=2250, tf32=1125, float32=75, float64=37, memory_speed=7.7, memory=180),
    "l40s": _sheet("L40S", half=362, tf32=183, float32=91.6, float64=1.4, memory_speed=0.864, memory=48),
}


@dataclass
class Elsewhere(LocalStation):
    """A GPU that is taken for granted: methods are asked here what they would do there."""

    sheet: Surroundings = field(kw_only=True)

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return what the data sheet says of the device, and what methods say of themselves."""
        return (self.sheet, 0.0) if isinstance(errand, Survey) else super().ask(errand, timeout)
