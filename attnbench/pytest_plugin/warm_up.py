"""What comes before the first round: pytest-benchmark counts its rounds by the very first call that it sees."""

import time

from attnbench.measure.clock import Call, Clock
from attnbench.measure.loop import steady
from attnbench.schema.noun import Scalar
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.setting import Setting


def first_look(setting: Setting) -> dict[str, Scalar]:
    """What the method notes of its first call: which kernel it reached. Of a sequence, one token is enough."""
    look = setting.first_token if isinstance(setting, Sequence) else setting.call
    with setting.method.observe() as noted:
        look()
    return dict(noted)


def warm_up(call: Call, clock: Clock, seconds: float) -> None:
    """Call until the times are steady, for so many seconds at most."""
    end, values = time.perf_counter() + seconds, list[float]()
    while not steady(values) and time.perf_counter() < end:
        values.append(clock.sample(call, 1))
