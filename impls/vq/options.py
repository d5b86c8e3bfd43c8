"""The parameters of attention over quantised keys."""

import math
from dataclasses import dataclass

NONE, RELATIVE = "none", "relative"
SERIAL, MATMUL, SCAN = "serial", "matmul", "scan"


@dataclass(frozen=True)
class Quantisation:
    """The options by which keys become codes. Raises ValueError on bad values.

    `codes`: rows of a head's codebook. `normalise`: divide q and k by their root mean square. `tau`: both are then divided by
    its root, so that q·k is divided by tau; None: √D.
    """

    codes: int = 512
    normalise: bool = True
    tau: float | None = None

    def __post_init__(self) -> None:
        refuse_bad_counts(codes=self.codes)
        refuse_bad_flags(normalise=self.normalise)
        if self.tau is not None and (isinstance(self.tau, bool | str) or not 0 < self.tau < math.inf):
            raise ValueError(f"tau={self.tau!r}: must be a finite number above 0, or left out for the root of D")

    def factor(self, D: int) -> float:
        """Compute tau^-½."""
        return 1 / math.sqrt(math.sqrt(D) if self.tau is None else self.tau)


@dataclass(frozen=True)
class VQOptions(Quantisation):
    """The parameters of `Quantisation`, and how codes are attended. Raises ValueError on bad values.

    `block`: tokens of a block; a query sees its own and the one before key by key. `bias`: what is added to their scores,
    "none" or "relative" (Dai et al. 2019). `reduction`: how the tables of all blocks are summed up, "serial", "matmul" or
    "scan". `gradient_through_table`: whether values in the table get a gradient.
    """

    block: int = 512
    bias: str = NONE
    reduction: str = SERIAL
    gradient_through_table: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_bad_counts(block=self.block)
        refuse_bad_flags(gradient_through_table=self.gradient_through_table)
        _refuse_other("bias", self.bias, (NONE, RELATIVE))
        _refuse_other("reduction", self.reduction, (SERIAL, MATMUL, SCAN))


def refuse_bad_counts(**counts: int) -> None:
    """Raise ValueError unless each is a whole number, 1 or more."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r}: must be a whole number, 1 or more")


def refuse_bad_flags(**flags: bool) -> None:
    """Raise ValueError unless each is true or false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name}={value!r}: must be true or false")


def _refuse_other(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(known)}")
