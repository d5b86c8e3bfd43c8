"""One method at whatever batch and length a model calls it, with one set of weights and draws.

B rows, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor, nn

from attnbench import registry
from attnbench.api import Attention, Cell, Problem, Scalar, State, Workload, each_once
from attnbench.schema.cell import label
from attnbench.training.block import plainly
from attnbench.training.reading import difference

_KEPT = 32
"""The shapes that a method stays built for."""


class AtAnyLength(nn.Module):
    """`own` holds the weights, and is built for the longest sequence; those that are called share them.

    Raises what the registry raises, and UnsupportedError where the method would be another function at another length.
    """

    def __init__(self, method: str, params: dict[str, Scalar], problem: Problem, device: torch.device) -> None:
        super().__init__()
        self.method, self.params, self.label = method, params, label(method, params)
        self.own = self._build(problem, device)
        self._called: dict[tuple[object, ...], Attention] = {}
        # that another length is another function is said here, and not in the middle of a sequence
        self._sharing(problem.model_copy(update={"N": max(1, problem.N // 16)}), device)

    def forward(self, *inputs: Tensor, **choices: Tensor) -> Tensor:
        """Attend whole sequences, differentiable: [B, heads, N, ·] each -> [B, H, N, M]."""
        q = inputs[0]
        inputs = self._as_weights(inputs)
        with plainly(q):
            o: Tensor = self.built_for(q.shape[0], q.shape[2], inputs[0])(*inputs, **choices)
        return o.to(q.dtype)

    def begin(self, inputs: tuple[Tensor, ...], capacity: int) -> tuple[Tensor, State]:
        """Attend a prompt, and return the state after it, with room for so many tokens in all."""
        return self._with_state("prefill", inputs, capacity, capacity=capacity)

    def state_after(self, inputs: tuple[Tensor, ...], capacity: int) -> State:
        """Return the state after a prompt that nobody asks to be attended."""
        given = self._as_weights(inputs)
        with plainly(given[0]), torch.no_grad():
            return self._decoder(capacity, given[0]).state_after(*given, capacity=capacity)

    def go_on(self, inputs: tuple[Tensor, ...], state: State, capacity: int) -> tuple[Tensor, State]:
        """Attend one more token, which may change the given state, or several, and return the state after them."""
        return self._with_state("step" if inputs[0].shape[2] == 1 else "extend", inputs, capacity, state=state)

    def _with_state(self, way: str, inputs: tuple[Tensor, ...], room: int, **given: State) -> tuple[Tensor, State]:
        """Attend in one of the ways of a method that has room for so many tokens."""
        wide = self._as_weights(inputs)
        with plainly(wide[0]), torch.no_grad():
            o, state = getattr(self._decoder(room, wide[0]), way)(*wide, **given)
        return o.to(inputs[0].dtype), state

    def _as_weights(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Cast inputs to the dtype of the method's weights, which under autocast is not that of the inputs."""
        dtype = next((x.dtype for x in self.own.parameters() if x.is_floating_point()), inputs[-1].dtype)
        return each_once(inputs, lambda x: x.to(dtype))

    def _decoder(self, capacity: int, q: Tensor) -> Attention:
        """Return the method with room for so many tokens; whatever its batch, it takes any."""
        return self.built_for(1, capacity, q, Workload.DECODE)

    def built_for(self, B: int, N: int, q: Tensor, workload: Workload = Workload.FORWARD) -> Attention:
        """Return the method for this batch and length, in the dtype and on the device of q, with the weights of `own`."""
        key = (B, N, q.dtype, q.device, workload)
        if key not in self._called:
            if len(self._called) == _KEPT:
                del self._called[next(iter(self._called))]
            dtype = str(q.dtype).removeprefix("torch.")
            problem = Problem.model_validate({**self.own.problem.model_dump(), "B": B, "N": N, "dtype": dtype})
            self._called[key] = self._sharing(problem, q.device, workload)
        found = self._called[key]
        _share(self.own, found)
        return found.train(self.training)

    def _sharing(self, problem: Problem, device: torch.device, workload: Workload = Workload.FORWARD) -> Attention:
        # its own draws will be replaced, and change nothing that is drawn later
        with torch.random.fork_rng(devices=[]):
            found = self._build(problem, device, workload)
        mine, theirs = ({name: x.shape for name, x in each.state_dict().items()} for each in (self.own, found))
        if changed := next((name for name in mine if mine[name] != theirs.get(name)), None):
            shapes = " and ".join(str(list(each.get(changed, ()))) for each in (mine, theirs))
            raise self._another(problem, f"its {changed} would be {shapes}")
        _share(self.own, found)
        if changed := difference(self.own, found):
            raise self._another(problem, f"its {changed} follows from the length; give it as a parameter, if it is one")
        return found

    def _another(self, problem: Problem, why: str) -> registry.UnsupportedError:
        lengths = f"{self.own.problem.N} and {problem.N}"
        return registry.UnsupportedError(f"{self.label} is another function for {lengths} tokens, as a model needs: {why}")

    def _build(self, problem: Problem, device: torch.device, workload: Workload = Workload.FORWARD) -> Attention:
        cell = Cell(method=self.method, params=self.params, problem=problem, device=str(device), workload=workload)
        return registry.build_for(cell).to(device=device, dtype=getattr(torch, problem.dtype))


def _share(mine: nn.Module, theirs: nn.Module) -> None:
    """Let another build of a module have the very weights and draws of this one."""
    for one, other in zip(mine.modules(), theirs.modules(), strict=True):
        other._parameters.update(one._parameters)
        lasting = one._buffers.keys() - one._non_persistent_buffers_set
        other._buffers.update({name: one._buffers[name] for name in lasting})
