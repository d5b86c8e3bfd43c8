"""CTC: how likely a text is over all its alignments with the frames, what a model wrote down, and how many errors are in it.

Graves et al. 2006, section 3. At each frame a symbol or the blank is said; of a symbol that is said again right away, and of
blanks, nothing is written. B utterances, N frames.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.training.tasks import Batch

BLANK = 0


def nats(said: Tensor, batch: Batch) -> Tensor:
    """Return -log p of each text, 0 where no symbol is judged: [B, N, outputs] -> [B], in float32 at least."""
    wide = said.to(torch.promote_types(said.dtype, torch.float32))
    symbols = batch.judged.sum(1)
    frames = torch.full_like(symbols, said.shape[1])
    each = F.ctc_loss(wide.log_softmax(-1).transpose(0, 1), batch.targets, frames, symbols, BLANK, reduction="none")
    return each.masked_fill(symbols == 0, 0)


def written(said: Tensor) -> list[list[int]]:
    """Return what is written down by the likeliest of each frame: [B, N, outputs] -> B texts."""
    return [[symbol for symbol, _ in groupby(row) if symbol != BLANK] for row in said.argmax(-1).tolist()]


def edits(text: Sequence[int], reference: Sequence[int]) -> int:
    """Count the fewest symbols to insert, to leave out or to replace that turn one text into the other (Levenshtein 1966)."""
    row = list(range(len(reference) + 1))
    for i, symbol in enumerate(text):
        above, row = row, [i + 1]
        for j, wanted in enumerate(reference):
            row.append(min(above[j] + (symbol != wanted), above[j + 1] + 1, row[j] + 1))
    return row[-1]


def errors(said: Tensor, batch: Batch) -> int:
    """Count the edits between what is written down and the texts, over all utterances of which a symbol is judged."""
    texts = [row[judged].tolist() for row, judged in zip(batch.targets, batch.judged, strict=True)]
    return sum(edits(found, text) for found, text in zip(written(said), texts, strict=True) if text)
