"""What the machine says of itself: the device that `auto` comes to, its facts, and its roof."""

from attnbench.measure import devices, roof
from attnbench.schema.errand import Roof, Surroundings, Survey


def survey(question: Survey) -> Surroundings:
    """Look, and measure a product and a copy per ceiling. Raises NoDeviceError where the device is not to be had."""
    device = devices.resolve(question.device)
    devices.require(device)
    facts = devices.facts(device)
    # before the roofs, whose blocks torch's allocator keeps
    free = devices.free_bytes(device)
    ceilings = {name: roof.measure(device, name) for name in question.ceilings}
    return Surroundings(
        device=device,
        facts=facts,
        memory_bytes=free,
        roof={name: Roof(**dict(zip(Roof.model_fields, found, strict=True))) for name, found in ceilings.items()},
    )
