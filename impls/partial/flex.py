"""FlexAttention, compiled."""

import warnings
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention


def compiled() -> Any:  # noqa: ANN401 - as torch.compile
    """Compile for the one shape that it meets first; each other shape compiles again. It has to be told the scale."""
    with warnings.catch_warnings():
        # the compiler imports a part of torch that torch itself has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch.utils.mkldnn
    from torch._dynamo import config

    # after as many shapes, which are 8, torch would write all scores of others to memory, and not say so
    config.recompile_limit = config.accumulated_recompile_limit = 2**16
    function = torch.compile(flex_attention, dynamic=False)

    def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float, **rest: Any) -> Any:  # noqa: ANN401 - its keywords and results
        if q.device.type == "cpu" and q.shape[3] in {8, 16} and k.shape[2] % 16 == 8:
            # with vectors of 8, torch 2.13 takes the last 8 keys for 16 and writes beyond its scores; of width 9 it does not
            q, k = (F.pad(x, (0, 1)) for x in (q, k))
        return function(q, k, v, scale=scale, **rest)

    return attend
