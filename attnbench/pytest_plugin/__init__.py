"""`attention_benchmark`: a fixture that puts attentions through pytest-benchmark as the harness itself would call them.

pytest loads this each time it starts, so nothing here imports torch: a test that asks for the fixture does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from attnbench.pytest_plugin.marks import host_timer, with_timer
from attnbench.pytest_plugin.session import SESSION, Session
from attnbench.pytest_plugin.timer import Timer

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from attnbench.pytest_plugin.fixture import AttentionBenchmark


def pytest_configure(config: pytest.Config) -> None:
    """Begin to remember."""
    config.stash[SESSION] = Session()


# a hook of pytest-benchmark, which need not be there
@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, object]) -> None:
    """Beside what was timed goes what was not, with the reason."""
    if left_out := config.stash[SESSION].left_out:
        output_json["attnbench"] = {"left_out": left_out}


@pytest.fixture
def attention_timer(request: pytest.FixtureRequest) -> Timer:
    """A part of attention_benchmark: made before `benchmark`, which takes the timer of its mark and keeps it."""
    if not request.config.pluginmanager.hasplugin("pytest-benchmark"):
        pytest.fail("attention_benchmark needs pytest-benchmark: pip install pytest-benchmark", pytrace=False)
    timer = Timer(host_timer(request.node))
    with_timer(request.node, timer)
    return timer


@pytest.fixture
def attention_benchmark(
    request: pytest.FixtureRequest, attention_timer: Timer, benchmark: "BenchmarkFixture"
) -> "Iterator[AttentionBenchmark]":
    """Check, time and weigh an attention, called as ("linear.chunked", N=1024, causal=True, chunk=64)."""
    from attnbench.pytest_plugin.fixture import AttentionBenchmark

    made = AttentionBenchmark(benchmark, attention_timer, request.node, request.config.stash[SESSION])
    yield made
    # one that was refused, or failed before it was timed, is no benchmark that was forgotten
    benchmark.skipped = benchmark.skipped or made.called
