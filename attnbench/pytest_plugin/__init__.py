"""`attention_benchmark`: a fixture that puts attentions through pytest-benchmark as the harness itself would call them.

pytest loads this each time it starts, so nothing here imports torch: a test that asks for the fixture does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from attnbench.pytest_plugin.session import SESSION, Session, Timer, marked, option

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from attnbench.pytest_plugin.fixture import AttentionBenchmark


def pytest_configure(config: pytest.Config) -> None:
    """Begin an empty record of this session."""
    config.stash[SESSION] = Session()


# a hook of pytest-benchmark, which need not be there
@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, object]) -> None:
    """Add what was not timed, with the reasons, to pytest-benchmark's JSON."""
    if left_out := config.stash[SESSION].left_out:
        output_json["attnbench"] = {"left_out": left_out}


@pytest.fixture
def attention_timer(request: pytest.FixtureRequest) -> Timer:
    """Give the timer of attention_benchmark; it is made before `benchmark`, which reads its timer from its mark only once."""
    if not request.config.pluginmanager.hasplugin("pytest-benchmark"):
        pytest.fail("attention_benchmark needs pytest-benchmark: pip install pytest-benchmark", pytrace=False)
    host = option(request.node, "timer")
    if not callable(host):
        from pytest_benchmark.utils import load_timer

        host = load_timer(host).target
    timer = Timer(host)
    # all else that the mark says stays
    request.node.add_marker(pytest.mark.benchmark(**{**marked(request.node), "timer": timer}), append=False)
    return timer


@pytest.fixture
def attention_benchmark(
    request: pytest.FixtureRequest, attention_timer: Timer, benchmark: "BenchmarkFixture"
) -> "Iterator[AttentionBenchmark]":
    """Check and time an attention, and measure its memory; called as ("linear.chunked", N=1024, causal=True, chunk=64)."""
    from attnbench.pytest_plugin.fixture import AttentionBenchmark

    made = AttentionBenchmark(benchmark, attention_timer, request.node, request.config.stash[SESSION])
    yield made
    # pytest-benchmark warns of a benchmark that was not used: one that was refused or failed early is not meant
    benchmark.skipped = benchmark.skipped or made.called
