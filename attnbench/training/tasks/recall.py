"""Multi-query associative recall: keys are read with their values, which are asked for later.

Suffixes: B sequences, N tokens, P pairs, Q queries.
"""

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData

BLANK = 0
_POWER = 0.01


class Recall(TaskData):
    """`k1 v1 k2 v2 … _ k2 _ _ _ k1 …`: at a key that comes again, its value is to be said; nothing else is judged.

    Arora et al. 2023, arXiv:2312.04927, section 3 (MQAR). The keys of a sequence are all different, and so are its values;
    keys are 1 to symbols // 2, values the symbols above. What is no pair and no query is blank, and no value follows a query,
    so that no key is ever given another value: the random filling of the authors' own code can do that.
    """

    def __init__(self, N: int, symbols: int, pairs: int) -> None:
        self.N, self.pairs = N, pairs
        self.keys, self.values = symbols // 2, symbols - symbols // 2
        self.slots = (N - 2 * pairs) // 2
        if not (1 <= pairs <= self.keys and self.slots > 0):
            raise ValueError(f"{pairs} pairs need as many keys (there are {self.keys}) and N of {2 * pairs + 2} (it is {N})")
        self.name = f"recall of {pairs} pairs, {self.keys} keys and {self.values} values"
        self.alphabet = Alphabet(symbols + 1)
        # of any value; guessing among the values that were read is better: 1 / pairs
        self.chance = Chance.uniform(self.values)

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B sequences with a query for each pair, or as many as there is room for, at every second place."""
        key_BP = 1 + some(B, self.keys, self.pairs, generator)
        value_BP = 1 + self.keys + some(B, self.values, self.pairs, generator)
        queries = min(self.pairs, self.slots)
        asked_BQ = some(B, self.pairs, queries, generator).sort(1).values
        return recalled(key_BP, value_BP, asked_BQ, slots_of(B, self.slots, queries, generator), self.N)


def some(B: int, count: int, chosen: int, generator: torch.Generator) -> Tensor:
    """Draw for each of B rows `chosen` different numbers below `count`, in random order."""
    return torch.rand(B, count, generator=generator).topk(chosen).indices


def slots_of(B: int, slots: int, queries: int, generator: torch.Generator) -> Tensor:
    """Draw the slots of the queries one after the other without replacement, slot s with weight (s + 1)^(a - 1), a = 0.01.

    This is the power law of Arora et al. 2023, with the a of their code. It is drawn as by Efraimidis and Spirakis 2006, by
    exponential clocks, of which those with a greater weight tend to be earlier.
    """
    weight = torch.arange(1, slots + 1).double() ** (_POWER - 1)
    clock = -torch.log1p(-torch.rand(B, slots, generator=generator, dtype=torch.float64)) / weight
    return clock.topk(queries, largest=False).indices


def recalled(key_BP: Tensor, value_BP: Tensor, asked_BQ: Tensor, slot_BQ: Tensor, N: int) -> Batch:
    """Return the sequences of these pairs in which the q-th slot asks for the pair `asked[q]`."""
    pairs = torch.stack([key_BP, value_BP], dim=2).flatten(1)
    tokens = torch.nn.functional.pad(pairs, (0, N - pairs.shape[1]), value=BLANK)
    place_BQ = pairs.shape[1] + 2 * slot_BQ
    tokens.scatter_(1, place_BQ, key_BP.gather(1, asked_BQ))
    targets = torch.zeros_like(tokens).scatter_(1, place_BQ, value_BP.gather(1, asked_BQ))
    return Batch(tokens, targets, targets > 0)
