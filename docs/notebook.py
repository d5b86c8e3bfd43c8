"""A run, its cells as a data frame, and a picture of one's own; each paragraph is a cell of a notebook."""

# %% Measure a suite: its name, its file, or a dict as the file would hold it. `attnbench.read(folder)` opens a stored run.
import attnbench

suite = {"name": "mine", "axes": {"N": "2^7..2^9", "causal": True}, "methods": ["softmax.sdpa", "linear.chunked"]}
run = attnbench.run({**suite, "budget": {"seconds": 0.1}}, device="cpu", replicates=2)

# %% One row a cell; docs/data.md says what each column holds.
frame = run.frame()
measured = frame[(frame.status == "ok") & (frame.workload == "forward")]

# %% A picture of one's own: time per token against length.
per_token = measured.assign(us=1e6 * measured.time_s / measured.N).pivot(index="N", columns="method", values="us")
per_token.plot(logx=True, logy=True, marker="o", ylabel="µs per token").figure.savefig("per_token.png")
