"""Words of a command line that are lengths, shares and amounts of memory."""

import re

from pydantic import ValidationError

from attnbench.cli.errors import UsageError
from attnbench.schema.suite import Axes
from attnbench.schema.units import bytes_

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([KMGT]?)(i?)B\s*", re.IGNORECASE)
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*")
_PREFIXES = " KMGT"


def length(text: str, option: str) -> int:
    """`4096` or `2^12`, as in a suite; raises UsageError."""
    try:
        lengths = Axes.model_validate({"N": text}).N
    except ValidationError as error:
        raise UsageError(f"{option} {text}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    if len(lengths) != 1:
        raise UsageError(f"{option} {text}: one number is wanted, not a range")
    return lengths[0]


def share(text: str, option: str) -> float:
    """`8%` or `0.08`: a share above 0 and of at most 10; raises UsageError."""
    match = _SHARE.fullmatch(text)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value <= 10:
        raise UsageError(f"{option} {text}: write a share, for example 8% or 0.08")
    return value


def memory_share(text: str, free: int, option: str) -> float:
    """`0.7`, `70%` or `8GiB` as a share of the bytes that are free; raises UsageError, also where that is more than all."""
    if match := _SIZE.fullmatch(text):
        wanted: float = float(match[1]) * (1024 if match[3] else 1000) ** _PREFIXES.index(match[2].upper() or " ")
        asked = wanted / free
    elif match := _SHARE.fullmatch(text):
        asked = float(match[1]) / (100 if match[2] else 1)
    else:
        raise UsageError(f"{option} {text}: write a share of the memory that is free, or an amount: 0.7, 70% or 8GiB")
    if not 0 < asked <= 1:
        raise UsageError(f"{option} {text}: more than nothing and at most the {bytes_(free)} that are free")
    return asked
