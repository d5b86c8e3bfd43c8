"""The factor of q·k̂, for the two forms of LSH attention that are in use."""

from attnbench.api import Problem, default_scale

PACKAGE, PAPER = "package", "paper"


def scale_of(temperature: str, problem: Problem) -> float:
    """Return 1 / √D, or 1 for "paper". Raises ValueError on any other temperature.

    Kitaev et al. 2020 omit 1 / √D from eq. 2 on "for clarity". reformer-pytorch and pytorch-fast-transformers have it; trax and
    Hugging Face compute the equations as printed.
    """
    if temperature not in (PACKAGE, PAPER):
        raise ValueError(f"temperature={temperature!r}: must be {PACKAGE!r} or {PAPER!r}")
    return default_scale(problem) if temperature == PACKAGE else 1.0
