"""The MKL's vector mathematics, which chooses a kernel for each function at its first call in a process.

Where two threads make that call at once, one of them may compute its share with a kernel of lower precision
(pytorch/pytorch#188792). A worker is a fresh process, so a method whose first such call is threaded could be found off by 1e-5.
"""

import torch

_FUNCTIONS = (torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos, torch.tanh, torch.erf)


def choose_kernels() -> None:
    """Make the first call of each function here, in one thread, on a single number."""
    for dtype in (torch.float32, torch.float64):
        for function in _FUNCTIONS:
            function(torch.ones(1, dtype=dtype))
