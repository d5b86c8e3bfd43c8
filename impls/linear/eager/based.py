"""Based's linear attention in plain torch: the chunked form with the exponential's Taylor series as its map."""

from attnbench.api import Problem

from .chunked import ChunkedLinear


class BasedLinear(ChunkedLinear):
    """Causal linear attention with sim(q, k) = 1 + s + s²/2, s = q·k / √D: `linear.chunked` with feature_map=taylor.

    Arora et al. 2024, section 4.1, where D is 16; O(N (L + D²) M). The model's sliding windows and short convolutions are left
    out. Raises ValueError where chunk < 1 or eps < 0.
    """

    paper = "arXiv:2402.18668"

    def __init__(self, problem: Problem, chunk: int = 64, eps: float = 1e-6) -> None:
        super().__init__(problem, chunk, "taylor", eps)
