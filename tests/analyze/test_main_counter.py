import pytest

from attnbench.analyze.main_counter import main_counter
from attnbench.schema.outcome import Counter
from tests.analyze.conftest import Writer, known

RSS, PROFILER = Counter(bytes=4096, source="VmHWM"), Counter(bytes=4000, source="profiler")
SAMPLED = Counter(bytes=17, source="psutil", reason="no reset of the high-water mark here")


NO_RESET = "host_rss_peak could not be used: no reset of the high-water mark here"
ON_GPU = {"torch_allocated_peak": Counter(bytes=7, source="allocator"), "host_rss_peak": Counter(bytes=None, source="VmHWM")}


@pytest.mark.parametrize(
    ("device", "counters", "name", "size", "note"),
    [
        pytest.param(
            "cpu", {"host_rss_peak": RSS, "torch_profiler_peak": PROFILER}, "host_rss_peak", 1024.0, "", id="resident"
        ),
        pytest.param(
            "cpu",
            {"host_rss_peak": SAMPLED, "torch_profiler_peak": PROFILER},
            "torch_profiler_peak",
            1000.0,
            NO_RESET,
            id="the profiler, where resident memory could only be sampled",
        ),
        pytest.param("cpu", {"host_rss_peak": SAMPLED}, "host_rss_peak", 17 / 4, "", id="sampled, with nothing better"),
        pytest.param("cuda:0", ON_GPU, "torch_allocated_peak", 7 / 4, "", id="what the allocator of a GPU gave"),
    ],
)
def test_the_counter_that_is_shown_is_the_usual_one_that_was_read_without_reserve(
    writer: Writer, device: str, counters: dict[str, Counter], name: str, size: float, note: str
) -> None:
    cell = writer.cell(device=device, B=4)
    found = writer.summary(cell, [1.0], writer.weighed(cell, 0, **counters))
    counter = known(main_counter([found]))
    assert (counter.name, counter.per_sample(found), counter.note) == (name, size, note)
    assert counter.source == counters[name].source


def test_a_reading_by_another_source_is_missing_with_its_reason(writer: Writer) -> None:
    cells = [writer.cell(N=N) for N in (64, 128, 256)]
    summaries = [writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=RSS)) for cell in cells[:2]]
    odd = writer.summary(cells[2], [1.0], writer.weighed(cells[2], host_rss_peak=SAMPLED))
    counter = known(main_counter([*summaries, odd]))
    assert counter.per_sample(odd) is None
    assert counter.why_not(odd) == "host_rss_peak was read differently: psutil"


def test_a_failed_cell_has_no_memory_to_show(writer: Writer) -> None:
    good, bad = writer.cell(), writer.cell(N=2048)
    ok = writer.summary(good, [1.0], writer.weighed(good, host_rss_peak=RSS))
    failed = writer.summary(bad, [], writer.failed(bad), writer.weighed(bad, host_rss_peak=RSS))
    counter = known(main_counter([ok, failed]))
    assert counter.per_sample(failed) is None
    assert "crashed" in counter.why_not(failed)


def test_without_any_reading_there_is_no_counter(writer: Writer) -> None:
    assert main_counter([]) is None
    assert main_counter([writer.summary(writer.cell(), [1.0])]) is None
