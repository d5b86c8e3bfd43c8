"""GPUs that are not here: by their data sheets, so that a suite can be planned before one is at hand."""

from dataclasses import dataclass, field

from attnbench.places.station import LocalStation
from attnbench.schema.cell import Precision
from attnbench.schema.errand import Answer, Errand, Roof, Surroundings, Survey
from attnbench.schema.problem import DType


@dataclass(frozen=True)
class DataSheet:
    """The peaks that NVIDIA states for dense products, in TFLOP/s, for memory, in TB/s, and how much of it there is, in GB.

    No call can be faster, and real ones reach some two thirds of the products and nine tenths of the memory.
    """

    name: str
    half: float
    tf32: float
    float32: float
    float64: float
    memory_speed: float
    memory: float

    @property
    def surroundings(self) -> Surroundings:
        """The device as a survey of it would tell, with its peaks in the place of measured roofs."""
        flops = {
            DType.BFLOAT16.value: self.half,
            DType.FLOAT16.value: self.half,
            DType.FLOAT32.value: self.float32,
            **{f"{DType.FLOAT32.value}, matmul {rounded.value}": self.tf32 for rounded in (Precision.HIGH, Precision.MEDIUM)},
            DType.FLOAT64.value: self.float64,
        }
        speed = self.memory_speed * 1e12
        roofs = {name: Roof(flops_per_second=peak * 1e12, bytes_per_second=speed) for name, peak in flops.items()}
        return Surroundings(device="cuda:0", facts={"gpu": self.name}, memory_bytes=int(self.memory * 1e9), roof=roofs)


DATA_SHEETS = {
    "a100": DataSheet("A100 SXM 80 GB", half=312, tf32=156, float32=19.5, float64=19.5, memory_speed=2.04, memory=80),
    "h100": DataSheet("H100 SXM", half=990, tf32=495, float32=67, float64=67, memory_speed=3.35, memory=80),
    "h200": DataSheet("H200 SXM", half=990, tf32=495, float32=67, float64=67, memory_speed=4.8, memory=141),
    "b200": DataSheet("B200 SXM", half=2250, tf32=1125, float32=75, float64=37, memory_speed=7.7, memory=180),
    "l40s": DataSheet("L40S", half=362, tf32=183, float32=91.6, float64=1.4, memory_speed=0.864, memory=48),
}


@dataclass
class Elsewhere(LocalStation):
    """A GPU that is taken for granted: methods are asked here what they would do there."""

    sheet: DataSheet = field(kw_only=True)

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return what the data sheet says of the device, and what methods say of themselves."""
        if isinstance(errand, Survey):
            return self.sheet.surroundings, 0.0
        return super().ask(errand, timeout)
