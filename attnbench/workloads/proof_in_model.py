"""The proof of a model's time or training: one layer's attention is compared with its definition on what the model gives it.

B samples, N tokens.
"""

import random
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from attnbench.api import Attention, each_once
from attnbench.schema.cell import Workload
from attnbench.schema.noun import Facts
from attnbench.training.reading import Anew
from attnbench.training.transformer import Transformer
from attnbench.workloads.decoding import Prompt, cut, repeated
from attnbench.workloads.holding import hold_gradients, hold_rows, weigh
from attnbench.workloads.prepare import Generation
from attnbench.workloads.proof import SHARE
from attnbench.workloads.setting import Setting, unique
from attnbench.workloads.truth import NoTruthError, Place, Truth, last_tokens, places
from attnbench.workloads.whole_model import WholeModel, swapped_layers

Looked = tuple[Truth, list[tuple[Place, Tensor]], list[tuple[Place, Tensor]], Sequence[Tensor]]
"""The definition, the rows of the output to compare with it, dL/do in a few of them, and the gradients that came of it."""


def prove_generation(setting: Generation, seconds: float) -> Facts:
    """Compare a layer's step after a prompt, or its forward where prefixes are read again; `seconds` are those of the job.

    Raises WrongError where rows are not by the definition, and whatever the method raises.
    """
    model, p = setting.model, setting.cell.problem
    attentions = setting.reader.attentions[p.N] if isinstance(setting.reader, Anew) else None
    tokens = torch.randint(model.alphabet.vocabulary, (p.B if attentions else 1, p.N), device=setting.cell.device)
    return _prove_a_layer(model, tokens, seconds, attentions, by_step=attentions is None)


def prove_training(model: Transformer, tokens: Tensor, seconds: float) -> Facts:
    """Compare a layer's forward and backward on a batch, int64 [B, N]. Raises as `prove_generation` does."""
    model.eval()
    return _prove_a_layer(model, tokens, seconds)


def prove_whole_model(setting: WholeModel, seconds: float) -> Facts:
    """Compare what a swapped layer does: prompt, forward and backward where the model learns, or a step. Raises the same."""
    begin, source, N = perf_counter(), random.SystemRandom(), setting.cell.problem.N
    swapped = swapped_layers(setting.model)
    if not swapped:
        return {"not_proven": "the model's own attention is that of transformers"}
    chosen = source.choice(swapped)
    attention, given = chosen.attention, list[tuple[Tensor, ...]]()
    tokens = torch.randint(setting.model.config.get_text_config().vocab_size, (1, N), device=setting.cell.device)
    heard = attention.register_forward_pre_hook(lambda _, inputs: given.append(inputs))
    setting.model.eval()
    with torch.no_grad():
        setting.model(tokens, use_cache=False)
    heard.remove()
    inputs = each_once(given[0], Tensor.clone)
    by_step, prompts = (setting.cell.workload is each for each in (Workload.MODEL_DECODE, Workload.MODEL_PREFILL))
    # a prompt too is read by the method that decodes, where it does
    decodes = by_step or (prompts and attention.own.decodes)
    method = attention.built_for(1, N, inputs[0], Workload.DECODE if decodes else Workload.FORWARD)
    alone = (Prompt if decodes else Setting)(setting.cell.reshaped(B=1), method, inputs)
    return _held(alone, chosen.layer, source, begin, seconds, by_step=by_step)


def _prove_a_layer(
    model: Transformer,
    tokens: Tensor,
    seconds: float,
    attentions: Sequence[Attention] | None = None,
    *,
    by_step: bool = False,
) -> Facts:
    """Compare the attention of one random layer on the inputs that the model gives it; `attentions` may replace its own."""
    begin, source = perf_counter(), random.SystemRandom()
    attentions = attentions or [block.attention for block in model.layers]
    layer = source.randrange(len(attentions))
    with torch.no_grad(), model.precision:
        x = model.embed(tokens)
        for block, attention in zip(model.layers[:layer], attentions, strict=False):
            x = block.onwards(x, block.attend(block.inputs(x), attention))
        inputs = model.layers[layer].inputs(x)
    return _held(Setting(model.cell, attentions[layer], inputs), layer, source, begin, seconds, by_step=by_step)


def _held(setting: Setting, layer: int, source: random.Random, begin: float, seconds: float, *, by_step: bool) -> Facts:
    """Compare a layer's attention with its definition; say how much was compared, and with which result."""
    compared, worst, left_out = 0, 0.0, 0
    try:
        truth, got, weighed, gradients = (_step if by_step else _forward)(setting, source)
        for number, (place, rows) in enumerate(got):
            if number and perf_counter() - begin > SHARE * seconds:
                left_out = len(got) - number
                break
            worst = max(worst, float(hold_rows(setting, truth, place, [rows], f"output of layer {layer}").max()))
            compared += len(rows)
        if weighed:
            hold_gradients(setting, truth, weighed, gradients, source)
    except NoTruthError as error:
        return {"not_proven": str(error), **({"rows_compared": compared, "row_error": worst} if compared else {})}
    proof: Facts = {"rows_compared": compared, "row_error": worst, "proof_seconds": perf_counter() - begin}
    return proof | ({"not_proven": f"{left_out} heads of layer {layer}"} if left_out else {})


def _step(setting: Setting, source: random.Random) -> Looked:
    """Make one step of a batch whose samples are all the same."""
    p, inputs = setting.cell.problem, setting.inputs
    with torch.inference_mode():
        _, state = setting.method.prefill(*cut(inputs, p.N - 1), capacity=p.N)
        token = each_once(cut(inputs, p.N, p.N - 1), lambda x: x.repeat(p.B, *(1 for _ in x.shape[1:])))
        o, _ = setting.method.step(*token, state=repeated(state, p.B))
    at = last_tokens(p.B, p.H, p.N, source, p.N - 1)
    truth = Truth(setting.method, inputs, setting.choices(source.getrandbits(31)))
    return truth, [(Place(0, x.h, x.at), o[x.b, x.h]) for x in at], [], ()


def _forward(setting: Setting, source: random.Random) -> Looked:
    """Make a forward, and a backward where the model learns."""
    p, seed = setting.cell.problem, source.getrandbits(31)
    at = places(p.B, p.H, p.N, setting.span, source)
    weighed: list[tuple[Place, Tensor]] = []
    gradients: Sequence[Tensor] = ()
    learns = setting.cell.workload.learns
    with torch.set_grad_enabled(learns):
        for x in unique(setting.inputs):
            x.requires_grad_(learns)
        torch.manual_seed(seed)
        o = setting.forward()
        if learns:
            g = torch.zeros_like(o)
            weighed = weigh(g, at[:1], setting.span, source)
            gradients = torch.autograd.grad(o, setting.leaves(), g, allow_unused=True, materialize_grads=True)
    truth = Truth(setting.method, setting.inputs, setting.choices(seed))
    return truth, [(x, o.detach()[x.b, x.h, list(x.at)]) for x in at], weighed, gradients
