"""What a time is divided into, in words."""

from attnbench.schema.cell import Workload

_SEQUENCE = "per sequence"
_PER = {
    Workload.DECODE: "per token",
    Workload.DECODE_TOTAL: _SEQUENCE,
    Workload.TRAIN: _SEQUENCE,
    Workload.GENERATE: _SEQUENCE,
}


def per(workload: Workload) -> str:
    """`per sample` of the batch; in decoding the sample is one token, or a sequence of N, as it is with a model."""
    return _PER.get(workload, "per sample")
