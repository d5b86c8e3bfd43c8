"""Methods that are built to be asked what they cost, and not to attend."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch

from attnbench.api import Problem, Scalar

Method = TypeVar("Method")


def on_paper(kind: Callable[..., Method], problem: Problem, params: Mapping[str, Scalar]) -> Method:
    """Build a method without drawing its parameters, which takes time and moves torch's generator.

    Raises what the constructor raises.
    """
    with torch.device("meta"):
        return kind(problem, **params)
