"""A program that measures nothing: it takes the lane of the CPU, or that of the GPU it is given, says so, and keeps it."""

import signal
import sys

from attnbench.places.lane import Lane
from attnbench.schema.errand import Surroundings
from attnbench.schema.noun import Scalar

FACTS: dict[str, Scalar | None] = {"gpu_uuid": sys.argv[1]} if len(sys.argv) > 1 else {}

with Lane().held(Surroundings(device="cpu", facts=FACTS, memory_bytes=1, roof={})):
    sys.stdout.write("held\n")
    sys.stdout.flush()
    signal.pause()
