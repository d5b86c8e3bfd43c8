"""Recorded inputs: queries, keys and values that a trained model made, from a safetensors file.

S sequences, X heads of all layers, T tokens, D query/key width, M value width.
"""

import importlib.resources
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnbench.schema.problem import Problem

NAMES = ("q", "k", "v")


class RecordingError(ValueError):
    """A file of recorded inputs cannot be read or does not fit; the message says what it holds and what would fit."""


@dataclass(frozen=True)
class Recording:
    """q, k [S, X, T, D] and v [S, X, T, M]; a file of three dimensions is one sequence, more than four are joined into S."""

    file: str
    q: Tensor
    k: Tensor
    v: Tensor

    @classmethod
    def read(cls, name: str) -> Self:
        """Read a file, or the one that ships where no name is given. Raises RecordingError."""
        path, file = Path(name) if name else shipped(), name or "suites/recorded/bytes.safetensors"
        try:
            with safe_open(path, framework="pt") as opened:
                if lacking := sorted(set(NAMES) - set(opened.keys())):
                    held = ", ".join(opened.keys()) or "nothing"
                    raise RecordingError(f"{file}: holds {held}; recorded inputs need q, k and v, and {lacking[0]} is missing")
                tensors = {each: opened.get_tensor(each) for each in NAMES}
        except (OSError, SafetensorError) as error:
            raise RecordingError(f"{file}: cannot be read as safetensors: {error}") from None
        for each, x in tensors.items():
            if x.dim() < 3 or not x.is_floating_point():
                held = f"{each} is {x.dtype} {list(x.shape)}"
                raise RecordingError(f"{file}: {held}; floating-point numbers [sequences, heads, tokens, width] are right")
        q, k, v = (tensors[each].reshape(-1, *tensors[each].shape[-3:]) for each in NAMES)
        if q.shape != k.shape or k.shape[:3] != v.shape[:3] or 0 in (*q.shape, *v.shape):
            held = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
            raise RecordingError(f"{file}: holds {held}; they must be of the same sequences, heads and tokens, q as wide as k")
        return cls(file, q, k, v)

    @property
    def sequences(self) -> int:
        """The number of sequences."""
        return self.q.shape[0]

    def why_not(self, problem: Problem) -> str | None:
        """Say why the recording does not fit, and what would; None where it does."""
        sequences, heads, tokens, D = self.q.shape
        p, M = problem, self.v.shape[-1]
        wanted = {"B": (p.B, sequences), "H": (p.H, heads), "N": (p.N, tokens)}
        wrong = [f"{name} at most {most}" for name, (asked, most) in wanted.items() if asked > most]
        wrong += [f"{name} to {there}" for name, asked, there in (("D", p.D, D), ("M", p.M, M)) if asked != there]
        if not wrong:
            return None
        held = f"{sequences} sequences of {heads} heads and {tokens} tokens, keys {D} wide and values {M}"
        asked = f"B={p.B}, H={p.H}, N={p.N}, D={p.D}, M={p.M}"
        return f"{self.file}: holds {held}, which does not fit {asked}; set {', '.join(wrong)}"

    def cut(self, problem: Problem, sequences: Tensor) -> dict[str, Tensor]:
        """Return the first N tokens of these sequences, and H heads spread evenly over all. Raises RecordingError.

        q is [B, H, N, D], k and v are [B, K, N, ·]: where heads of q share one of k, it is that of the first of them.
        """
        if why := self.why_not(problem):
            raise RecordingError(why)
        heads = torch.arange(problem.H) * self.q.shape[1] // problem.H
        shared = heads[:: problem.H // problem.kv_heads]
        chosen = {"q": (self.q, heads), "k": (self.k, shared), "v": (self.v, shared)}
        return {name: x[sequences][:, own, : problem.N] for name, (x, own) in chosen.items()}


def shipped() -> Path:
    """Return the recording that comes with the project."""
    return Path(str(importlib.resources.files("attnbench_suites"))) / "recorded" / "bytes.safetensors"
