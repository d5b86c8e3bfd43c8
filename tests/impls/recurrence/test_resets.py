"""A gate that forgets all, as at the end of a document, leaves float32 with the digits that it has without one."""

import pytest
import torch

from attnbench import Problem
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant

GATES = {
    **{"gated.mamba2": 3, "gated.gla": 3, "delta.gated_deltanet": 4, "delta.kda": 4, "delta.rwkv7": 3},
    **{"delta.gated_deltanet2": 5, "delta.comba": 4, "delta.gated_deltaproduct": 6, "delta.mesa": 4},
    **{"gated.gsa": 3, "gated.log_linear": 3, "gated.mamba3": 4},
}
"""Where its log decays (of mamba2: its time steps) stand among a method's inputs."""


@pytest.mark.parametrize("function", ["forward", "reference"])
@pytest.mark.parametrize("nats", [300.0, 3000.0])
@pytest.mark.parametrize("name", GATES)
def test_what_follows_a_reset_is_as_exact_as_without_one(name: str, nats: float, function: str) -> None:
    """All gates lose that many nats at every 20th token."""
    call = Call(Variant(name), Problem(B=1, H=2, N=256, D=16, causal=True))
    with torch.no_grad():
        if name == "gated.mamba2":
            call.method.A_log.zero_()
        call.inputs[GATES[name]][:, :, 19::20] = nats if name == "gated.mamba2" else -nats
    # the output and the gradients of inputs, not that of A_log, in which the large steps themselves are added
    kept = 1 + len(call.inputs)
    for got, right in zip(call.results(function)[:kept], call.exact()[:kept], strict=True):
        assert torch.linalg.vector_norm(got - right) <= 4e-6 * torch.linalg.vector_norm(right)
