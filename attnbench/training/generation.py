"""Generation: sequences that a model makes token by token, and images among them.

B sequences, N tokens.
"""

import torch
from torch import Tensor

from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN
from attnbench.training import logistics
from attnbench.training.block import evaluating
from attnbench.training.reading import Reader, reader_of
from attnbench.training.tasks import Alphabet
from attnbench.training.transformer import Transformer


def generate(
    model: Transformer, B: int, N: int, given: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Make B sequences of N tokens, int64 [B, N], that begin with `given` [B, n].

    Tokens are drawn by the generator; without one, each is the likeliest. Raises ValueError where the sequences do not fit
    the model, and what `reader_of` raises.
    """
    if N > model.cell.problem.N:
        raise ValueError(f"the model has positions for {model.cell.problem.N} tokens, not for {N}")
    with evaluating(model):
        return write(reader_of(model, B), N, given, generator)


@torch.inference_mode()
def write(reader: Reader, N: int, given: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Make sequences as `generate` does, by a reader that is reset first."""
    alphabet, device = reader.model.alphabet, reader.model.cell.device
    tokens = torch.empty(reader.B, N, dtype=torch.int64, device=device)
    n = 0 if given is None else given.shape[1]
    if given is not None:
        tokens[:, :n] = given
    if n >= N:
        return tokens
    reader.begin()
    said = reader.read(torch.cat([first_tokens(reader), tokens[:, :n]], dim=1))
    for t in range(n, N):
        tokens[:, t] = choose(said, alphabet, generator)
        if t + 1 < N:
            said = reader.read(tokens[:, t : t + 1])
    return tokens


def first_tokens(reader: Reader) -> Tensor:
    """Return the token before each sequence: the start, or 0 for an alphabet without one; int64 [B, 1]."""
    return torch.full((reader.B, 1), reader.model.alphabet.start or 0, dtype=torch.int64, device=reader.model.cell.device)


def choose(said: Tensor, alphabet: Alphabet, generator: torch.Generator | None) -> Tensor:
    """Draw a token, or take the likeliest without a generator; never the start: [B, outputs] -> int64 [B]."""
    if alphabet.levels is not None:
        if generator is None:
            return logistics.log_probs(said, alphabet.levels).argmax(-1)
        return logistics.sample(said, alphabet.levels, generator)
    weights = said.to(torch.promote_types(said.dtype, torch.float32), copy=True)
    if alphabet.start is not None:
        weights[:, alphabet.start] = float("-inf")
    if generator is None:
        return weights.argmax(-1)
    return torch.multinomial(weights.softmax(-1), 1, generator=generator).squeeze(-1)


def draw_images(model: Transformer, images: Tensor, given: int, seed: int) -> dict[str, tuple[float, ...]]:
    """Draw as many images as are given, int64 [count, N], and complete each from its first `given` pixels.

    Returns the pixels of both and of the given images. Raises what `generate` raises.
    """
    count, N = images.shape
    images = images.to(model.cell.device)
    source = torch.Generator(device=model.cell.device).manual_seed(seed)
    found = {
        DRAWN: generate(model, count, N, generator=source),
        COMPLETED: generate(model, count, N, given=images[:, :given], generator=source),
        GIVEN: images,
    }
    return {name: tuple(float(pixel) for pixel in tokens.flatten().tolist()) for name, tokens in found.items()}
