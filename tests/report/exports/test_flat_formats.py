"""github-action-benchmark and Bencher: flat lists of values, by the forms that both document."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnbench.report.exports.exchange import Source
from attnbench.report.exports.flat import bencher, github_action
from attnbench.report.findings import Findings
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Maker, content

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
    data: list[dict[str, Any]] = content(github_action([source], bigger=False))
    return data


def bmf(source: Source) -> dict[str, dict[str, dict[str, float]]]:
    data: dict[str, dict[str, dict[str, float]]] = content(bencher([source]))
    return data


@pytest.mark.parametrize(("replicates", "meaning"), [(2, "smallest and largest"), (5, "95 % t interval")])
def test_the_action_gets_milliseconds_with_their_range(maker: Maker, tiny: Synthetic, replicates: int, meaning: str) -> None:
    tiny.replicates = replicates
    source = maker.source(tiny)
    (entry,) = (each for each in github(source) if each["name"] == NAME)
    (summary,) = (s for s in source.findings.summaries if s.cell.params and s.cell.problem.N == 512)
    assert summary.median is not None
    assert entry["value"] == pytest.approx(1e3 * summary.median)
    assert entry["unit"] == "ms"
    assert entry["extra"] == f"{replicates} replicates; range: {meaning}"
    assert summary.time is not None
    low, high = summary.time.ends
    reach = max(high - summary.median, summary.median - low)
    assert float(entry["range"].removeprefix("± ")) == pytest.approx(1e3 * reach, rel=0.01)


def test_a_single_replicate_has_no_range(maker: Maker, tiny: Synthetic) -> None:
    tiny.replicates = 1
    source = maker.source(tiny)
    assert all("range" not in entry for entry in github(source))
    assert all(measure.keys() == {"value"} for measures in bmf(source).values() for measure in measures.values())


def test_figures_are_per_sample_of_the_batch(maker: Maker, tiny: Synthetic) -> None:
    one = bmf(maker.source(tiny))[NAME]
    tiny.tokens = 2048
    many = bmf(maker.source(tiny))[NAME.replace("N=512", "N=512/B=4")]
    assert many["host-rss-peak"] == one["host-rss-peak"]
    assert many["latency"]["value"] == pytest.approx(one["latency"]["value"], rel=0.2)


def test_a_failed_cell_is_left_out_and_said(maker: Maker, small: Synthetic) -> None:
    source = maker.source(small)
    names = [entry["name"] for entry in github(source)]
    failed = [s.cell for s in source.findings.summaries if not s.ok]
    assert len(failed) == 4
    assert not [name for name in names if "sparse.strided" in name or ("softmax.naive" in name and "N=2048" in name)]
    assert bmf(source).keys() == {"/".join(name.split("/")[:5]) for name in names}
    for export in (github_action([source], bigger=False), bencher([source])):
        assert [note.partition(":")[0] for note in export.notes] == ["left out", "left out"]
        assert "memory limit of 17.2 GB reached" in export.notes[1]


def test_memory_that_was_not_read_is_left_out(maker: Maker, tiny: Synthetic) -> None:
    records = [record for record in tiny.records() if record.job.phase.value != "memory"]
    source = Source(Findings.of(maker.run(tiny), records))
    assert not [entry for entry in github(source) if "host_rss_peak" in entry["name"]]
    assert not [measures for measures in bmf(source).values() if {"host-rss-peak", "memory"} & measures.keys()]


@pytest.mark.slow
def test_bencher_s_schema_takes_it(either: Synthetic, maker: Maker, tool: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(BMF))
    (tmp_path / "data.json").write_text(json.dumps(bmf(maker.source(either))))
    code = "import json, jsonschema; jsonschema.validate(*(json.load(open(f'{n}.json')) for n in ('data', 'schema')))"
    tool("jsonschema==4.*", "python", "-c", code, cwd=tmp_path)


@pytest.fixture(scope="module")
def zod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of node's with zod in it."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "zod@4"], cwd=folder, check=True, timeout=240)
    (folder / "check.js").write_text(ACTION)
    return folder


@pytest.mark.slow
def test_the_action_s_schema_takes_it(either: Synthetic, maker: Maker, zod: Path) -> None:
    data = github(maker.source(either))
    (zod / "data.json").write_text(json.dumps(data))
    done = subprocess.run(["node", "check.js", "data.json"], cwd=zod, check=True, timeout=240, capture_output=True, text=True)
    assert done.stdout == f"{len(data)}\n"


@pytest.mark.slow
@pytest.mark.parametrize("bad", [[], [{"name": "a", "value": None, "unit": "ms"}], [{"name": "a", "value": "", "unit": "ms"}]])
def test_the_action_s_schema_refuses_what_it_should(bad: list[object], zod: Path) -> None:
    (zod / "bad.json").write_text(json.dumps(bad))
    assert subprocess.run(["node", "check.js", "bad.json"], cwd=zod, check=False, capture_output=True, timeout=240).returncode
