"""A method refuses what it cannot do in a model; nothing is ignored."""

from typing import Any

from attnbench.schema.errors import UsageError

# what models tell every attention, and what changes nothing for a method here
_HARMLESS = frozenset({
    "cache_position", "num_items_in_batch", "output_hidden_states", "position_embeddings", "position_ids", "return_dict",
    "token_type_ids", "use_cache",
})  # fmt: skip


class CannotError(UsageError, ValueError):
    """A model asks for what a method or its place in the model cannot give; the message says what, and what would be right."""


def refuse_unknown(name: str, dropout: float, others: dict[str, Any]) -> None:
    """Raise CannotError on whatever changes an attention beyond its queries, keys, values and mask."""
    if dropout:
        raise CannotError(f"{name}: it drops no weights out; read the model with attention_dropout=0 (GPT-2: attn_pdrop)")
    if others.get("output_attentions"):
        raise CannotError(f"{name}: it has no attention weights to give; set output_attentions=False")
    for key, value in others.items():
        if key not in _HARMLESS and value is not None and value is not False:
            given = type(value).__name__ if hasattr(value, "shape") else repr(value)
            raise CannotError(
                f"{name}: the model asks for {key}={given}, which no method here knows; keep the model's own attention"
            )
