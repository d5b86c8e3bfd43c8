"""Copy: read a word, and say it again.

Suffixes: B sequences, N tokens, W symbols of a word.
"""

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData

SEPARATOR = 0


class Duplication(TaskData):
    """`0 w 0 w`: the separator, a word of N / 2 - 1 random symbols, and both again; the second word is judged.

    Kitaev et al. 2020, arXiv:2001.04451, Table 2 (there N = 1024, and 127 symbols), which Katharopoulos et al. 2020,
    arXiv:2006.16236, section 4.1, take up with N = 128 and 10 symbols. Their published code draws the length of each word, from
    N / 4 on: `shortest` does that, and separators follow. Symbols are 1 to `symbols`.
    """

    def __init__(self, N: int, symbols: int, shortest: int | None = None) -> None:
        if N < 4 or N % 2:
            raise ValueError(f"a sequence of two separators and twice the same word is even and at least 4; N is {N}")
        longest = N // 2 - 1
        self.symbols, self.longest, self.shortest = symbols, longest, longest if shortest is None else shortest
        if not 1 <= self.shortest <= longest:
            raise ValueError(f"words of N={N} have 1 to {longest} symbols, not {shortest}")
        lengths = f"{longest}" if self.shortest == longest else f"{shortest} to {longest}"
        self.name = f"copy of {lengths} symbols out of {symbols}"
        self.alphabet = Alphabet(symbols + 1)
        self.chance = Chance.uniform(symbols)

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B words, each symbol independently."""
        word_BW = torch.randint(1, self.symbols + 1, (B, self.longest), generator=generator)
        return duplicated(word_BW, torch.randint(self.shortest, self.longest + 1, (B,), generator=generator))


def duplicated(word_BW: Tensor, length_B: Tensor) -> Batch:
    """Return the sequences of the first `length` symbols of these words; at each position the next symbol is judged."""
    B, longest = word_BW.shape
    place, length = torch.arange(2 * longest + 2).expand(B, -1), length_B[:, None]
    # the place of a symbol in its word; the two words begin behind the two separators
    inside = torch.where(place <= length, place - 1, place - length - 2)
    is_symbol = (inside >= 0) & (inside < length)
    tokens = torch.where(is_symbol, word_BW.gather(1, inside.clamp(0, longest - 1)), SEPARATOR)
    judged = (place > length) & (place <= 2 * length)
    return Batch(tokens, tokens.roll(-1, dims=1).masked_fill(~judged, 0), judged)
