"""torch.compile takes every method in plain torch as it is, and compiles nothing anew for new values."""

import pytest
import torch
from torch._dynamo.utils import counters

from attnbench.api import Tier
from attnbench.forms import _from_nothing
from tests.impls.contract.calls import Call, evaluated, mapped, same
from tests.impls.contract.subjects import Variant, each

ALL = each(lambda x: x.kind.tier is Tier.EAGER and x.params == x.method.variants[:2][-1])
# of each family but the two that take longest; all take minutes
ONES = {family: one for one in ALL if (family := one.values[0].name.partition(".")[0]) not in {"vq", "delta"}}.values()


@torch._dynamo.config.patch(recompile_limit=2**16, accumulated_recompile_limit=2**16)  # beyond them torch does not compile
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of what it does itself
@pytest.mark.parametrize("variant", [x if x in ONES else x._replace(marks=(*x.marks, pytest.mark.slow)) for x in ALL])
@pytest.mark.parametrize("as_code", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_compiled_it_is_the_same_and_new_values_compile_nothing_anew(variant: Variant, as_code: bool) -> None:
    torch._dynamo.reset()
    call, graphs = Call(variant, variant.some(64, B=1, H=2)), []
    compiled = torch.compile(call.method, dynamic=False, backend=_from_nothing if as_code else "aot_eager")
    for seed in range(4):
        inputs = mapped(call.drawn(seed), lambda x: x.requires_grad_(call.g is not None))
        with torch.random.fork_rng(devices=[]):  # both draw the same
            got = evaluated(compiled, inputs, call.g, list(call.method.parameters()))
        same(got, evaluated(call.method, inputs, call.g, list(call.method.parameters())), call.off_by)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[1] == graphs[-1] > 0  # the second call may have another layout
