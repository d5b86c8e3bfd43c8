"""The configurations of whole models: those that ship, and those at a path, as transformers writes them."""

import importlib.resources
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attnbench.schema.errors import UsageError

# what a size is called in a config.json; GPT-2 and its like have names of their own
_NAMES = {
    "heads": ("num_attention_heads", "n_head"),
    "width": ("hidden_size", "n_embd"),
    "layers": ("num_hidden_layers", "n_layer"),
    "positions": ("max_position_embeddings", "n_positions"),
}


class ModelError(UsageError):
    """There is no configuration of that name, or it does not give its sizes; the message says what would be right."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model that a suite has to know: B sequences of N tokens pass `layers` layers with these heads."""

    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    positions: int


@cache
def sizes_of(config: str) -> Sizes:
    """Read the sizes of a model off its configuration. Raises ModelError."""
    file = file_of(config)
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found = {name: next(int(data[key]) for key in keys if key in data) for name, keys in _NAMES.items()}
        heads = found["heads"]
        return Sizes(
            heads=heads,
            # where all heads share one of k and v, GPTBigCode once wrote no number
            kv_heads=int(data.get("num_key_value_heads") or (1 if data.get("multi_query") else heads)),
            head_dim=int(data.get("head_dim") or found["width"] // heads),
            layers=found["layers"],
            positions=found["positions"],
        )
    except StopIteration:
        wanted = "; ".join(" or ".join(keys) for keys in _NAMES.values())
        raise ModelError(f"{file} is not the config.json of a language model: it has to give {wanted}") from None
    except (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read as the config.json of a model: {error}") from None


def file_of(config: str) -> Path:
    """Return the file of a configuration that ships, or of one at a path. Raises ModelError where there is none."""
    shipped = Path(str(importlib.resources.files("attnbench_suites"))) / "models"
    at = Path(config)
    for file in (shipped / f"{config}.json", at / "config.json", at):
        if file.is_file():
            return file
    known = ", ".join(sorted(file.stem for file in shipped.glob("*.json")))
    raise ModelError(f"there is no model {config!r}: write one of {known}, or the path of a config.json or its folder")
