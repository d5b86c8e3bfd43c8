"""What timed calls were given, and what they gave: kept by chance, the moment that their time is taken.

B samples, H heads, N tokens, n rows, M value width.
"""

import random

import torch
from torch import Tensor

from attnbench.schema.outcome import Status
from attnbench.workloads.holding import WrongError
from attnbench.workloads.places import Place, tokens
from attnbench.workloads.setting import Setting, unique

_LOOKS = 4
"""All of the first samples are looked at, of later ones fewer and fewer: about this times the logarithm of their number."""
_ROWS_OF_A_LOOK, _TOKENS_OF_INPUTS = 4, 8


def output_of(setting: Setting, result: object) -> Tensor:
    """The output [B, H, n, M] of a call. Raises WrongError where the call gave something else."""
    o = result[0] if setting.gradient is not None and isinstance(result, tuple) and result else result
    p, device = setting.cell.problem, setting.inputs[-1].device
    shape, dtype = (p.B, p.H, p.N - setting.first_row, p.M), getattr(torch, p.dtype)
    right = f"{dtype} {list(shape)} on {device}"
    if not isinstance(o, Tensor):
        raise WrongError(f"a timed call gave {type(o).__name__} where {right} is right")
    if type(o) is not Tensor:
        # a subclass may compute when it is looked at, and have computed nothing yet
        raise WrongError(f"a timed call gave a {type(o).__name__} where a plain tensor is right")
    if o.shape != shape or o.dtype != dtype or o.device != device or o.layout is not torch.strided:
        raise WrongError(f"a timed call gave {o.dtype} {list(o.shape)} on {o.device} where {right} is right")
    return o.detach()


def rows_of(setting: Setting, result: object, place: Place) -> Tensor:
    """A copy of some rows of a call's output, [n, M]. Raises WrongError where the call gave something else."""
    rows: Tensor = output_of(setting, result)[place.b, place.h, [token - setting.first_row for token in place.at]].clone()
    return rows


class Witness:
    """Made before the method is called for the first time; told what the last call of each sample gave."""

    def __init__(self, setting: Setting) -> None:
        p, self.setting, self.source = setting.cell.problem, setting, random.SystemRandom()
        at = tokens(p.N, p.N, _ROWS_OF_A_LOOK, self.source, setting.first_row)
        self.place = Place(self.source.randrange(p.B), self.source.randrange(p.H), at)
        self.samples = 0
        self.seen: list[tuple[int, Tensor]] = []
        """Which set of inputs it was, and the rows at `place`, [n, M]."""
        self.wrong: WrongError | None = None
        self.note_inputs()

    def __call__(self, result: object) -> None:
        """Keep a few rows of it, perhaps."""
        self.samples += 1
        if self.wrong is None and self.source.random() * self.samples <= _LOOKS:
            try:
                self.seen.append((self.setting.turn, rows_of(self.setting, result, self.place)))
            except WrongError as error:
                self.wrong = error

    def note_inputs(self) -> None:
        """All sets of inputs are from now on to be what they are now."""
        tensors = [x for inputs in self.setting.sets for x in unique(list(inputs))]
        self._given = [(x, _layout(x), _some_tokens(x)) for x in tensors]

    def insist_on_inputs(self) -> None:
        """Raises WrongError where the method changed what it was given."""
        for x, layout, some in self._given:
            if _layout(x) != layout:
                raise WrongError(f"it changed its inputs: {list(layout[1])} became {list(x.shape)}", Status.UNFAIR)
            if not torch.equal(some, _some_tokens(x)):
                raise WrongError("it wrote into its inputs, so that calls were on other numbers", Status.UNFAIR)


def _layout(x: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    return x.data_ptr(), x.shape, x.stride()


def _some_tokens(x: Tensor) -> Tensor:
    return x.detach()[:, :, :: max(1, x.shape[2] // _TOKENS_OF_INPUTS)].clone()
