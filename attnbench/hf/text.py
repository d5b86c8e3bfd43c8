"""The text that a model of transformers learns from and is judged on. B, S sequences, N tokens, T tokens of a text."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer

from attnbench.hf.refusals import CannotError
from attnbench.schema.noun import in_words
from attnbench.training.tasks.task_data import evenly_among
from attnbench.training.tasks.text import python_sources, read_corpus

_TOKENIZERS = ("tokenizer*", "vocab.*", "*.model", "*.tiktoken")
"""Files of a folder in which a tokenizer may be: transformers' own, and those that packages before it wrote."""


@dataclass(frozen=True)
class Text:
    """Tokens to learn from and tokens that are held out, int64 [T] each."""

    name: str
    learnt: Tensor
    held_out: Tensor

    def sequences(self, S: int, N: int) -> Tensor:
        """Return windows spread evenly over what is held out, int64 [S, N], fewer where there are fewer. Raises CannotError."""
        if len(self.held_out) < N:
            raise CannotError(f"{self.name}: what is held out has {len(self.held_out):,} tokens; N={N:,} needs as many")
        starts = evenly_among(S, len(self.held_out) - N + 1)
        return self.held_out[starts[:, None] + torch.arange(N)]


def text_of(file: str, tokenizer: str = "") -> Text:
    """Read a file or a folder of text, or Python's own sources, with the tokenizer in a folder; where none is there, as bytes.

    Raises FileNotFoundError and ValueError where it cannot be read, and CannotError where the tokenizer cannot.
    """
    corpus = read_corpus(file) if file else python_sources()
    if not tokenizer or not any(file for kind in _TOKENIZERS for file in Path(tokenizer).glob(kind)):
        return Text(f"bytes of {corpus.name}", corpus.training.long(), corpus.rest.long())
    try:
        reader = AutoTokenizer.from_pretrained(tokenizer)
    except Exception as error:
        # whatever a format that needs a package of its own, or a damaged file, raises
        raise CannotError(f"{tokenizer}: its tokenizer cannot be read: {in_words(error)}") from error
    parts = (bytes(x.tolist()).decode(errors="replace") for x in (corpus.training, corpus.rest))
    learnt, held_out = (torch.tensor(reader(part, add_special_tokens=False)["input_ids"]) for part in parts)
    return Text(f"tokens of {corpus.name}", learnt, held_out)


def drawn(tokens: Tensor, N: int, B: int, seed: int) -> Iterator[Tensor]:
    """Draw batches of sequences from a text, int64 [T], without end: int64 [B, N]. Raises CannotError unless T > N."""
    if tokens.dim() != 1 or len(tokens) <= N:
        raise CannotError(f"the text is {list(tokens.shape)}; it must be [T] with T > N={N}")
    source, within = torch.Generator().manual_seed(seed), torch.arange(N)
    return (tokens[torch.randint(len(tokens) - N, (B, 1), generator=source) + within] for _ in count())
