"""github-action-benchmark and Bencher: flat lists of values, by the forms that both document."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.report.exports import bencher, github_action
from attnbench.report.exports.exchange import ExportError, Source
from attnbench.report.findings import Findings

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic
    from tests.report.exports.conftest import Maker

NAME = "forward/causal/float32/N=512/linear.chunked(chunk=64)"

BMF = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        ".+": {
            "type": "object",
            "minProperties": 1,
            "patternProperties": {
                "^[a-z0-9-]{1,64}$": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        }
    },
    "propertyNames": {"maxLength": 1024},
}
"""Bencher's own schema (draft 7, patterns of objects down to numbers), and the lengths that its reference names."""

ACTION = """
import { readFileSync } from "node:fs";
import { z } from "zod";

const entry = z.object({
  name: z.string().min(1),
  value: z.number(),
  unit: z.string().min(1),
  range: z.string().optional(),
  extra: z.string().optional(),
}).strict();

const data = z.array(entry).min(1).parse(JSON.parse(readFileSync(process.argv[2], "utf8")));
if (new Set(data.map((each) => each.name)).size !== data.length) throw new Error("two entries of one name");
console.log(data.length);
"""


def github(source: Source) -> list[dict[str, Any]]:
    (content,) = github_action.make([source]).files.values()
    data: list[dict[str, Any]] = json.loads(content)
    return data


def bmf(source: Source) -> dict[str, dict[str, dict[str, float]]]:
    (content,) = bencher.make([source]).files.values()
    data: dict[str, dict[str, dict[str, float]]] = json.loads(content)
    return data


@pytest.mark.parametrize(("replicates", "meaning"), [(2, "smallest and largest"), (5, "95 % t interval")])
def test_the_action_gets_milliseconds_with_their_range(
    maker: "Maker", tiny: "Synthetic", replicates: int, meaning: str
) -> None:
    tiny.replicates = replicates
    source = maker.source(tiny)
    (entry,) = (each for each in github(source) if each["name"] == NAME)
    (summary,) = (s for s in source.findings.summaries if s.cell.params and s.cell.problem.N == 512)
    assert summary.median is not None
    assert entry["value"] == pytest.approx(1e3 * summary.median)
    assert entry["unit"] == "ms"
    assert entry["extra"] == f"median of {replicates} replicates; range: {meaning}"
    assert summary.interval is not None
    reach = max(summary.interval.high - summary.median, summary.median - summary.interval.low)
    assert float(entry["range"].removeprefix("± ")) == pytest.approx(1e3 * reach, rel=0.01)


def test_bencher_gets_nanoseconds_and_bytes_with_their_ends(maker: "Maker", tiny: "Synthetic") -> None:
    source = maker.source(tiny)
    measures = bmf(source)[NAME]
    (summary,) = (s for s in source.findings.summaries if s.cell.params and s.cell.problem.N == 512)
    assert summary.median is not None
    assert measures["latency"]["value"] == pytest.approx(1e9 * summary.median)
    assert measures["latency"]["lower_value"] <= measures["latency"]["value"] <= measures["latency"]["upper_value"]
    assert measures["host-rss-peak"] == {"value": summary.memory.bytes("host_rss_peak")}


def test_a_single_replicate_has_no_range(maker: "Maker", tiny: "Synthetic") -> None:
    tiny.replicates = 1
    source = maker.source(tiny)
    assert all("range" not in entry for entry in github(source))
    assert all(measures["latency"].keys() == {"value"} for measures in bmf(source).values())


def test_figures_are_per_sample_of_the_batch(maker: "Maker", tiny: "Synthetic") -> None:
    one = bmf(maker.source(tiny))[NAME]
    tiny.tokens = 2048
    many = bmf(maker.source(tiny))[NAME.replace("N=512", "N=512/B=4")]
    assert many["host-rss-peak"] == one["host-rss-peak"]
    assert many["latency"]["value"] == pytest.approx(one["latency"]["value"], rel=0.2)


def test_a_failed_cell_is_left_out_and_said(maker: "Maker", small: "Synthetic") -> None:
    source = maker.source(small)
    names = [entry["name"] for entry in github(source)]
    failed = [s.cell for s in source.findings.summaries if not s.ok]
    assert len(failed) == 4
    assert not [name for name in names if "sparse.strided" in name or ("softmax.naive" in name and "N=2048" in name)]
    assert not [entry for entry in github(source) if not entry["value"] > 0]
    assert bmf(source).keys() == {name for name in names if not name.endswith("host_rss_peak")}
    for export in (github_action.make([source]), bencher.make([source])):
        assert [note.partition(":")[0] for note in export.notes] == ["left out", "left out"]
        assert "memory limit of 17.2 GB reached" in export.notes[1]


def test_memory_that_was_not_read_is_left_out(maker: "Maker", tiny: "Synthetic") -> None:
    records = [record for record in tiny.records() if record.job.phase.value != "memory"]
    source = Source(Findings.of(maker.run(tiny), records))
    assert all(entry["unit"] == "ms" for entry in github(source))
    assert all(measures.keys() == {"latency"} for measures in bmf(source).values())


@pytest.mark.parametrize("make", [github_action.make, bencher.make])
def test_a_run_without_any_time_is_refused(make: Callable[..., object], maker: "Maker", hopeless: "Synthetic") -> None:
    with pytest.raises(ExportError, match="killed by signal 11"):
        make([maker.source(hopeless)])


@pytest.mark.slow
@pytest.mark.parametrize("made", ["small", "hostile"])
def test_bencher_s_schema_takes_it(
    made: str, request: pytest.FixtureRequest, maker: "Maker", tool: Callable[..., Path], tmp_path: Path
) -> None:
    synthetic: Synthetic = request.getfixturevalue(made)
    (tmp_path / "schema.json").write_text(json.dumps(BMF))
    (tmp_path / "data.json").write_text(json.dumps(bmf(maker.source(synthetic))))
    code = "import json, jsonschema; jsonschema.validate(*(json.load(open(f'{n}.json')) for n in ('data', 'schema')))"
    python = tool("jsonschema==4.*") / "bin" / "python"
    subprocess.run([str(python), "-c", code], cwd=tmp_path, check=True, timeout=240)


@pytest.fixture(scope="module")
def zod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of node's with zod in it."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "zod@4"], cwd=folder, check=True, timeout=240)
    (folder / "check.js").write_text(ACTION)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("made", ["small", "hostile"])
def test_the_action_s_schema_takes_it(made: str, request: pytest.FixtureRequest, maker: "Maker", zod: Path) -> None:
    data = github(maker.source(request.getfixturevalue(made)))
    (zod / "data.json").write_text(json.dumps(data))
    done = subprocess.run(["node", "check.js", "data.json"], cwd=zod, check=True, timeout=240, capture_output=True, text=True)
    assert done.stdout == f"{len(data)}\n"


@pytest.mark.slow
@pytest.mark.parametrize("bad", [[], [{"name": "a", "value": None, "unit": "ms"}], [{"name": "a", "value": "", "unit": "ms"}]])
def test_the_action_s_schema_refuses_what_it_should(bad: list[object], zod: Path) -> None:
    (zod / "bad.json").write_text(json.dumps(bad))
    assert subprocess.run(["node", "check.js", "bad.json"], cwd=zod, check=False, capture_output=True, timeout=240).returncode
