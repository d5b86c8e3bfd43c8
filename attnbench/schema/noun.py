"""Noun: the frozen, strict base of everything that is stored or sent."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Strict

Scalar = bool | int | float | str
"""What a method parameter or a recorded fact may be."""

_T = TypeVar("_T")
# enum members may be written as plain strings in Python, as they are in JSON
Lax = Annotated[_T, Strict(False)]


class Noun(BaseModel):
    """Immutable data; an unknown field or a value of the wrong type is an error."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")
