"""FlexAttention, compiled."""

import warnings
from typing import Any

from torch.nn.attention.flex_attention import flex_attention


def compiled() -> Any:  # noqa: ANN401 - torch.compile gives what it was given
    """Compile for the one shape that it meets first; each other shape compiles again."""
    with warnings.catch_warnings():
        # the compiler imports a part of torch that torch itself has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch.utils.mkldnn
    from torch._dynamo import config

    # after as many shapes, which are 8, torch would write all scores of others to memory, and not say so
    config.recompile_limit = config.accumulated_recompile_limit = 2**16
    return torch.compile(flex_attention, dynamic=False)
