"""docs/methods.md lists what is installed; RENEW=1 writes it anew after a method was added or changed."""

import os
from itertools import groupby, product
from pathlib import Path

from attnbench import registry
from attnbench.api import Attention, Cell, DType, Problem, Workload
from attnbench.workloads.describe import parameters

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "methods.md"
ABOUT = """# Methods

Every attention that comes with attnbench, by family. `attnbench methods` prints the same for what is installed on your machine,
with your own and with what is missing; the README of a family has its mathematics. *Masks* says whether a method attends
causally, to everything, or both; *decodes*, whether it can go on token by token, with its state measured. A method of another
project's package runs once that package is installed: [peers.md](peers.md) says how.

*Tier*: `eager` is plain torch, `compiled` torch.compile, `triton` and `cuda` kernels, `library` those of torch or of a package.
Values and defaults of parameters stand in the family's README. B batch, H heads, N tokens, D and M widths of keys and values, L
tokens of a chunk or block, S codes, landmarks or projected keys, C width of φ.
"""
HEADER = (
    "| method | what it computes | tier | masks | decodes | parameters | paper | needs |\n|---|---|---|---|---|---|---|---|"
)


def page() -> str:
    """The whole page, from what each class says of itself."""
    parts = [ABOUT]
    for family, names in groupby(registry.catalogue(), lambda name: name.partition(".")[0]):
        rows = "\n".join(row(name, registry.load(name)) for name in names)
        parts.append(f"## {family}\n\nIts mathematics: [impls/{family}](../impls/{family}/README.md).\n\n{HEADER}\n{rows}\n")
    return "\n".join(parts)


def row(name: str, method: type[Attention]) -> str:
    """One method as a line of its family's table."""
    about = " ".join((method.__doc__ or "").strip().split("\n\n")[0].split())
    number = method.paper.removeprefix("arXiv:")
    paper = f"[{number}](https://arxiv.org/abs/{number})" if number != method.paper else method.paper
    takes, needs = (", ".join(f"`{each}`" for each in some) for some in (parameters(method), method.requires))
    cells = (f"`{name}`", about, method.tier, masks(method), "yes" if method.decodes else "", takes, paper, needs)
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in cells)} |"


def masks(method: type[Attention]) -> str:
    """`causal`, `full` or `both`: what the class takes on some device, in some dtype, with or without grouped heads."""
    kinds = product(
        (DType.FLOAT32, DType.BFLOAT16), (16, 1), ("cpu", "cuda"), (Workload.FORWARD, Workload.DECODE), (True, False)
    )
    taken = set()
    for dtype, kv_heads, device, workload, causal in kinds:
        problem = Problem(B=1, H=16, N=128, D=64, dtype=dtype, kv_heads=kv_heads, causal=causal)
        if method.refusal(Cell(method="any", problem=problem, device=device, workload=workload)) is None:
            taken.add("causal" if causal else "full")
    return "both" if len(taken) == 2 else "".join(taken) or "none"


def test_the_page_of_methods_lists_what_is_installed() -> None:
    if os.environ.get("RENEW"):
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8"), "RENEW=1 pytest tests/test_methods_page.py writes it anew"
