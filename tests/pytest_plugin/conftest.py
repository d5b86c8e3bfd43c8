"""The fixture under test, in this session, where benchmarks are disabled; and one for which they are not."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.utils import NameWrapper

from attnbench.api import Attention
from attnbench.pytest_plugin.fixture import AttentionBenchmark
from attnbench.pytest_plugin.session import SESSION, Session, Timer

Call = Callable[..., Any]


@pytest.fixture
def session(request: pytest.FixtureRequest, plugins: Path) -> Iterator[Session]:
    """A session that remembers nothing yet, and the fixture attentions."""
    stash = request.config.stash
    before, stash[SESSION] = stash[SESSION], Session()
    yield stash[SESSION]
    stash[SESSION] = before


@pytest.fixture
def call(session: Session, attention_benchmark: AttentionBenchmark) -> Call:
    """The fixture, called on a small problem."""

    def _call(method: Any, **given: Any) -> Any:
        small = {} if isinstance(method, Attention) else {"N": 128, "H": 2, "D": 16}
        return attention_benchmark(method, **{"device": "cpu", **small, **given})

    return _call


@pytest.fixture
def enabled(session: Session, request: pytest.FixtureRequest) -> Callable[[], AttentionBenchmark]:
    """Makes the fixture anew for each call, where benchmarks are enabled; a test marks itself as QUICK."""
    ours = request.config._benchmarksession  # type: ignore[attr-defined]

    def _make() -> AttentionBenchmark:
        timer = Timer(time.perf_counter)
        options = {**ours.options, "timer": NameWrapper(timer), "max_time": 0.02, "min_rounds": 3}
        benchmark = BenchmarkFixture(
            request.node, add_stats=[].append, logger=ours.logger, warner=request.node.warn, disabled=False, **options
        )
        return AttentionBenchmark(benchmark, timer, request.node, session)

    return _make
