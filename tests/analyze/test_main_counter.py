from typing import TYPE_CHECKING

from attnbench.analyze.main_counter import main_counter
from attnbench.schema.outcome import Counter

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer

RSS, PROFILER = Counter(bytes=4096, source="VmHWM"), Counter(bytes=4000, source="profiler")
SAMPLED = Counter(bytes=17, source="psutil", reason="no reset of the high-water mark here")


def test_a_cpu_shows_resident_memory_per_sample(writer: "Writer") -> None:
    cell = writer.cell(B=4)
    found = writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=RSS, torch_profiler_peak=PROFILER))
    counter = main_counter([found])
    assert counter is not None
    assert (counter.name, counter.note, counter.per_sample(found)) == ("host_rss_peak", "", 1024.0)


def test_where_resident_memory_could_only_be_sampled_the_profiler_stands_in_and_it_says_so(writer: "Writer") -> None:
    cell = writer.cell()
    found = writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=SAMPLED, torch_profiler_peak=PROFILER))
    counter = main_counter([found])
    assert counter is not None
    assert counter.name == "torch_profiler_peak"
    assert counter.note == "host_rss_peak could not be used: no reset of the high-water mark here"


def test_what_can_only_be_sampled_is_shown_where_there_is_nothing_better(writer: "Writer") -> None:
    cell = writer.cell()
    counter = main_counter([writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=SAMPLED))])
    assert counter is not None
    assert (counter.name, counter.source) == ("host_rss_peak", "psutil")


def test_a_reading_by_another_source_is_missing_with_its_reason(writer: "Writer") -> None:
    cells = [writer.cell(N=N) for N in (64, 128, 256)]
    summaries = [writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=RSS)) for cell in cells[:2]]
    odd = writer.summary(cells[2], [1.0], writer.weighed(cells[2], host_rss_peak=SAMPLED))
    counter = main_counter([*summaries, odd])
    assert counter is not None
    assert counter.per_sample(odd) is None
    assert counter.why_not(odd) == "host_rss_peak was read differently: psutil"


def test_a_gpu_shows_what_its_allocator_gave(writer: "Writer") -> None:
    cell = writer.cell(device="cuda:0")
    allocated, none = Counter(bytes=7, source="CUDA allocator"), Counter(bytes=None, source="VmHWM", reason="a GPU")
    counter = main_counter(
        [writer.summary(cell, [1.0], writer.weighed(cell, torch_allocated_peak=allocated, host_rss_peak=none))]
    )
    assert counter is not None
    assert counter.name == "torch_allocated_peak"


def test_a_failed_cell_has_no_memory_to_show(writer: "Writer") -> None:
    good, bad = writer.cell(), writer.cell(N=2048)
    ok = writer.summary(good, [1.0], writer.weighed(good, host_rss_peak=RSS))
    failed = writer.summary(bad, [], writer.failed(bad), writer.weighed(bad, host_rss_peak=RSS))
    counter = main_counter([ok, failed])
    assert counter is not None
    assert counter.per_sample(failed) is None
    assert "crashed" in counter.why_not(failed)


def test_without_any_reading_there_is_no_counter(writer: "Writer") -> None:
    assert main_counter([]) is None
    assert main_counter([writer.summary(writer.cell(), [1.0])]) is None
