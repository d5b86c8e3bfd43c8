"""Model: a whole model of transformers, in which a method stands where some layers have their attention."""

from pydantic import Field

from attnbench.schema.noun import Noun


class Model(Noun):
    """A causal language model, built from its configuration without a download."""

    config: str = Field(description="llama-10m or another one that ships, or a folder or file with the config.json of a model")
    weights: str = Field(default="", description="a folder with the model's weights; empty for random ones")
    own_every: int = Field(default=0, ge=0, description="every n-th layer keeps the model's own attention; 0: none does")
    text: str = Field(default="", description="a file or folder of text to be judged on; empty for Python's own sources")
    learnt: int = Field(default=0, ge=0, description="updates on the text before all else, of a model without weights")
    matched: int = Field(default=0, ge=0, description="updates in which swapped layers learn to give what they replace")
    tuned: int = Field(default=0, ge=0, description="updates of low rank on the text, after the swap")


TIMED = ("config", "weights", "own_every")
"""The fields that matter where a model is timed; how well it speaks costs nothing."""
