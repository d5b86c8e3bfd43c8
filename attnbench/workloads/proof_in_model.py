"""The proof of what a model was timed or trained with: its attention alone, at the very shape, on what the model gives it.

B samples, N tokens.
"""

import random
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.noun import Scalar
from attnbench.training.block import plainly
from attnbench.training.reading import Anew
from attnbench.training.transformer import Transformer
from attnbench.workloads.decoding import cut, prefill, repeated, step
from attnbench.workloads.generate import Generation
from attnbench.workloads.holding import hold_gradients, hold_rows, weigh
from attnbench.workloads.places import Place, last_tokens, places
from attnbench.workloads.proof import SHARE
from attnbench.workloads.setting import Inputs, Setting, unique
from attnbench.workloads.truth import NoTruthError, Truth

Facts = dict[str, Scalar | None]
_HEADS_OF_GRADIENTS = 1


def prove_generation(setting: Generation, seconds: float) -> Facts:
    """A layer's steps after a prompt, or its forward where prefixes are read anew; `seconds` are those of the job.

    Raises WrongError where rows are not by the definition, and whatever the method raises.
    """
    model, B = setting.model, setting.cell.problem.B
    anew = isinstance(setting.reader, Anew)
    attentions = setting.reader.attentions[setting.cell.problem.N] if isinstance(setting.reader, Anew) else _own(model)
    tokens = torch.randint(model.alphabet.vocabulary, (B if anew else 1, setting.cell.problem.N), device=setting.cell.device)
    return _Held(model, setting.cell, attentions, tokens, seconds).facts(steps=not anew)


def prove_training(model: Transformer, tokens: Tensor, seconds: float) -> Facts:
    """A layer's forward and backward on a batch, int64 [B, N]. Raises as `prove_generation`."""
    model.eval()
    return _Held(model, model.cell, _own(model), tokens, seconds).facts(steps=False)


def _own(model: Transformer) -> list[Attention]:
    return [block.attention for block in model.layers]


class _Held:
    """One layer's attention, by chance, and what it is given."""

    def __init__(self, model: Transformer, cell: Cell, attentions: Sequence[Attention], tokens: Tensor, seconds: float) -> None:
        self.begin, self.seconds, self.source = perf_counter(), seconds, random.SystemRandom()
        self.layer = self.source.randrange(len(attentions))
        self.inputs = _inputs(model, attentions, tokens, self.layer)
        self.setting = Setting(cell, attentions[self.layer], self.inputs)
        self.compared, self.worst, self.left_out = 0, 0.0, 0

    def facts(self, steps: bool) -> Facts:
        try:
            if steps:
                self._hold_step()
            else:
                self._hold_forward()
        except NoTruthError as error:
            return {"not_proven": str(error)}
        proof: Facts = {"rows_compared": self.compared, "row_error": self.worst, "proof_seconds": perf_counter() - self.begin}
        return proof | ({"not_proven": f"{self.left_out} heads of layer {self.layer}"} if self.left_out else {})

    def _hold_step(self) -> None:
        attention, p = self.setting.method, self.setting.cell.problem
        with torch.inference_mode():
            _, state = prefill(attention, cut(self.inputs, p.N - 1), p.N)
            o, _ = step(attention, _samples(cut(self.inputs, p.N, p.N - 1), p.B), repeated(state, p.B))
        at = last_tokens(p.B, p.H, p.N, self.source)
        # all samples are the first one
        self._rows(self._truth(self.inputs), [(Place(0, x.h, x.at), o[x.b, x.h]) for x in at])

    def _hold_forward(self) -> None:
        setting, p = self.setting, self.setting.cell.problem
        method, seed = setting.method, self.source.getrandbits(31)
        at, weighed = places(p.B, p.H, p.N, self._span, self.source), []
        learns = setting.cell.workload is Workload.TRAIN
        with torch.set_grad_enabled(learns):
            if learns:
                for x in unique(list(self.inputs)):
                    x.requires_grad_()
            torch.manual_seed(seed)
            o = method(*self.inputs)
            gradients: Sequence[Tensor] = ()
            if learns:
                g = torch.zeros_like(o)
                weighed = weigh(g, at[:_HEADS_OF_GRADIENTS], self._span, self.source)
                gradients = torch.autograd.grad(o, setting.leaves(), g, allow_unused=True, materialize_grads=True)
        torch.manual_seed(seed)
        truth = self._truth(self.inputs)
        self._rows(truth, [(x, o.detach()[x.b, x.h, list(x.at)]) for x in at])
        if weighed:
            hold_gradients(setting, truth, weighed, gradients, self.source)

    def _rows(self, truth: Truth, got: Sequence[tuple[Place, Tensor]]) -> None:
        for number, (place, rows) in enumerate(got):
            if number and perf_counter() - self.begin > SHARE * self.seconds:
                self.left_out = len(got) - number
                return
            off = hold_rows(self.setting, truth, place, [rows], f"output of layer {self.layer}")
            self.worst = max(self.worst, float(off.max()))
            self.compared += len(rows)

    def _truth(self, inputs: Inputs) -> Truth:
        method = self.setting.method
        with torch.no_grad():
            choices = None if method.rows_choose else method.choose(*inputs)
        return Truth(method, inputs, choices)

    @property
    def _span(self) -> int:
        return max(1, type(self.setting.method).span(self.setting.cell.problem, self.setting.cell.params))


@torch.no_grad()
def _inputs(model: Transformer, attentions: Sequence[Attention], tokens: Tensor, layer: int) -> Inputs:
    """What the attention of a layer is given, of all tokens, int64 [B, N]: [B, heads, N, ·] each."""
    with model.precision:
        x = model.embed(tokens)
        for block, attention in zip(model.layers[:layer], attentions, strict=False):
            inputs = block.inputs(x)
            with plainly(x):
                o = attention(*inputs)
            x = block.onwards(x, o)
        return model.layers[layer].inputs(x)


def _samples(inputs: Inputs, B: int) -> Inputs:
    """The one sample, B times; a tensor given twice stays one tensor."""
    many = {id(x): x.repeat(B, *(1 for _ in x.shape[1:])) for x in inputs}
    return tuple(many[id(x)] for x in inputs)
