"""The work of a child for each kind of errand.

Importing this file imports all that children need: the warm server does so once, and a fresh interpreter before its memory is
limited. The address space of libraries must not count as a method's memory: a torch built for CUDA takes gigabytes of it.
"""

import importlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch

# torch imports this, and with it sympy, in the first backward of a process, which would count that as the method's
import torch.fx.experimental.symbolic_shapes

from attnbench.schema.errand import Answer, Errand, Inquiry, Job, Pass, Survey
from attnbench.schema.outcome import Failed, Measured
from attnbench.workloads import check, describe, fidelity, footprint, model_quality, numerics, timing, tracing, train

if torch.backends.cuda.is_built():
    # half of the methods for a GPU need both, and each takes a second to import, the second of them in the first backward of an
    # operator that has a gradient of its own; neither looks for a GPU before it launches a kernel
    for module in ("triton", "torch._dynamo"):
        with suppress(ImportError):
            importlib.import_module(module)


def do(errand: Errand, mark: Callable[[], object]) -> Answer:
    """Do an errand; `mark` is called where sampling begins and where it ends."""
    if isinstance(errand, Inquiry):
        return describe.describe(errand)
    if isinstance(errand, Survey):
        return describe.survey(errand)
    passes: dict[Pass, Callable[[Job], Measured | Failed]] = {
        Pass.CHECK: check.check,
        Pass.FIT: footprint.fit,
        Pass.TIME: partial(timing.measure_time, mark=mark),
        Pass.MEMORY: footprint.measure_memory,
        Pass.FIDELITY: fidelity.measure_fidelity,
        Pass.NUMERICS: numerics.measure_numerics,
        Pass.TRAIN: train.measure_training,
        Pass.QUALITY: model_quality.measure_quality,
        Pass.TRACE: tracing.trace,
    }
    return passes[errand.phase](errand)
