"""Induction: say what followed the special token the first time.

Suffixes: B sequences, N tokens.
"""

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData

SPECIAL = 0


class Induction(TaskData):
    """`a b * c d e … *`: random symbols with the special token somewhere and again at the end, where `c` is to be said.

    Fu et al. 2023 (H3), arXiv:2212.14052, section 3.1, Table 1, after the induction heads of Olsson et al. 2022,
    arXiv:2209.11895. Symbols are 1 to `symbols`.
    """

    def __init__(self, N: int, symbols: int) -> None:
        if N < 3:
            raise ValueError(f"the special token, what follows it, and the special token again are 3; N is {N}")
        self.N, self.symbols = N, symbols
        self.name = f"induction over {symbols} symbols"
        self.alphabet = Alphabet(symbols + 1)
        self.chance = Chance.uniform(symbols)

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B sequences; the first special token is anywhere from the first place to the third from the end."""
        symbol_BN = torch.randint(1, self.symbols + 1, (B, self.N), generator=generator)
        return marked(symbol_BN, torch.randint(self.N - 2, (B,), generator=generator))


def marked(symbol_BN: Tensor, place_B: Tensor) -> Batch:
    """Return these symbols with the special token at one place and at the end."""
    row = torch.arange(len(symbol_BN))
    tokens, targets = symbol_BN.clone(), torch.zeros_like(symbol_BN)
    tokens[row, place_B] = SPECIAL
    tokens[:, -1] = SPECIAL
    targets[:, -1] = tokens[row, place_B + 1]
    return Batch(tokens, targets, targets > 0)
