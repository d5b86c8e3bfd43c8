"""What the machine says of itself: the device that `auto` comes to, its facts, and its roof."""

from attnbench.measure import devices, roof
from attnbench.schema.errand import Roof, Surroundings, Survey


def survey(question: Survey) -> Surroundings:
    """Look, and measure a product and a copy per dtype. Raises NoDeviceError where the device is not to be had."""
    device = devices.resolve(question.device)
    devices.require(device)
    facts = devices.facts(device)
    ceilings = {dtype: roof.measure(device, dtype) for dtype in question.dtypes}
    return Surroundings(
        device=device,
        facts=facts,
        memory_bytes=devices.free_bytes(device),
        roof={d: Roof(flops_per_second=flops, bytes_per_second=rate) for d, (flops, rate) in ceilings.items()},
    )
