"""The names of the figures of a cell, as suites and commands write them; `analyze/quantities.py` says what each is."""

from typing import Literal, get_args

_Times = Literal["time", "first_call", "tokens", "throughput", "attention_share", "selection_share"]
_Costs = Literal[_Times, "energy", "memory", "state", "flops", "traffic", "roof", "flops_of_dense"]
_Fidelity = Literal["mass_recall", "top_overlap", "cosine", "output_error", "missed_mass"]
_Rounding = Literal["rounding", "worst_row", "gradient_rounding", "drift"]
_Differences = Literal["batch_difference", "step_difference", "run_difference", "deterministic_cost"]
_Learnt = Literal["loss", "accuracy", "wrong", "error_rate", "bits"]
_Said = Literal["perplexity", "divergence", "mqar", "needle"]
Figure = Literal[_Said, _Costs, _Fidelity, _Rounding, _Differences, _Learnt]
OverLengths = Literal["growth", "memory_growth", "longest"]
"""What is read off all lengths of a method together, to be held against printed figures."""
FIGURES: tuple[str, ...] = get_args(Figure)
OVER_LENGTHS: tuple[str, ...] = get_args(OverLengths)
