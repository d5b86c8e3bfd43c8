"""FLOPs and bytes of the Linformers of two packages, operator by operator.

linformer 0.2.3 and linformer-pytorch 0.19.3. B batch, H heads, N tokens, S projected keys, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .options import Options


def cost_of_lucidrains(p: Problem, S: int, workload: Workload) -> Cost:
    """Compute the cost of one call, which holds scores, scaled scores and their softmax.

    einsum copies q, k and v where there are several samples.
    """
    rows = float(p.B * p.H * p.N)
    scores, row, few, matrices = rows * S, rows * p.D, 2.0 * p.B * p.H * S * p.D, 2.0 * S * p.N
    peak = few + 2 * scores + 2 * row
    if workload is Workload.FORWARD_BACKWARD:
        # copies of q, k and v in another order are kept
        copies = 3 * row if p.B > 1 else 0.0
        peak = max(peak + copies, few + 3 * scores + row + copies, 5 * row + few + matrices)
    return _cost(p, S, workload, matrices, peak)


def cost_of_tatp22(p: Problem, options: Options, workload: Workload) -> Cost:
    """Compute the cost of one call, head after head: without a backward it holds the scores of one head at a time."""
    S, unshared = options.slots(p.N), options.sharing == "none"
    matrices = (p.H if unshared else 1) * (1 if options.one_matrix else 2)
    parameters, token = float(matrices * S * (p.N + 1)), float(p.B * p.N)
    if workload is Workload.FORWARD_BACKWARD:
        peak = _tatp22_backward(p, S, parameters, shared=not unshared)
    else:
        peak = max(token * ((p.H - 1) * p.M + 3 * S) + p.B * S * p.D, 2 * token * p.H * p.M)
    return _cost(p, S, workload, parameters, peak)


def _tatp22_backward(p: Problem, S: int, parameters: float, *, shared: bool) -> float:
    """Count the numbers while the first, second or last head is differentiated, or when all gradients are joined."""
    token, matrix = float(p.B * p.N), float(S * p.N)
    output, gradients = token * p.H * p.M, token * (2 * p.D + p.M)
    # a head keeps its softmax, its projected keys and values, and with several samples k and v in another order
    kept = token * S + p.B * S * (p.D + p.M) + (token * (p.D + p.M) if p.B > 1 else 0)

    def moment(done: int) -> float:
        here = output + (p.H - done) * kept + done * gradients + token * (S + (0 if p.B > 1 else p.M))
        if not shared:
            return here + token * S + (2 * done + 1) * matrix
        # a gradient is added to what other heads gave the shared matrix
        return here + (parameters + 2 * matrix if done else token * S + matrix)

    end = output + p.H * gradients + token * p.H * max(p.D, p.M) + parameters
    return max(end, *(moment(done) for done in (0, min(1, p.H - 1), p.H - 1)))


def _cost(p: Problem, S: int, workload: Workload, parameters: float, peak: float) -> Cost:
    """Compute the cost from a peak: two products with a projection and two of attention, and four more each in the backward."""
    passes = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
    work = passes * 4.0 * p.B * p.H * p.N * S * (p.D + p.M)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=work,
        executed_flops=work,
        traffic_bytes=io_bytes(p, workload) + passes * parameters * p.dtype.bytes,
        peak_bytes=peak * p.dtype.bytes,
    )
