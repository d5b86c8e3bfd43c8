"""What a time is divided into, in words."""

from attnbench.schema.cell import Workload

_PER = {Workload.DECODE: "per token", Workload.DECODE_TOTAL: "per sequence"}


def per(workload: Workload) -> str:
    """`per sample` of the batch; in decoding the sample is one token, or a sequence of N."""
    return _PER.get(workload, "per sample")
