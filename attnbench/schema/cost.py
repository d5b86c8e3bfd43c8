"""Cost: the work a call needs, by formula."""

from typing import Any

from pydantic import Field, model_validator

from attnbench.schema.noun import Noun


class Cost(Noun):
    """FLOPs (2 x multiply-adds, matrix products only) and bytes of one whole call.

    `nominal`: dense attention of this shape. `exact`: what the method's definition needs.
    `executed`: what this implementation does.
    """

    nominal_flops: float = Field(ge=0)
    exact_flops: float = Field(ge=0)
    executed_flops: float = Field(ge=0)
    traffic_bytes: float = Field(ge=0, description="least traffic to memory: each input read once, each output written once")

    @model_validator(mode="before")
    @classmethod
    def _drop_predicted_peak(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic passes whatever is to be validated
        """Drop the peak that older runs predicted and stored: memory is measured now."""
        return {name: each for name, each in data.items() if name != "peak_bytes"} if isinstance(data, dict) else data
