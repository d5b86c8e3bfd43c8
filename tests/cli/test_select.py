"""What the command line adds to a suite, and what of a suite's file it checks, on whichever device."""

from pathlib import Path

import pytest

from attnbench.cli.errors import UsageError
from attnbench.cli.select import select

OVERRIDDEN = """\
name: mine
device: cpu
axes: {N: 64}
methods: [softmax.sdpa]
on:
  cpu:
    methods:
      - %s
"""


def suite_file(folder: Path, method: str) -> str:
    file = folder / "mine.yaml"
    file.write_text(OVERRIDDEN % method)
    return str(file)


@pytest.mark.parametrize(("device", "shipped"), [("cpu", "linear.chunked"), ("cuda", "softmax.sdpa")])
def test_one_s_own_method_joins_those_of_every_device(tmp_path: Path, device: str, shipped: str) -> None:
    _, suite = select(suite_file(tmp_path, "linear.chunked"), ("my_attention:Mine",), None)
    assert [m.name for m in suite.resolved(device).methods] == [shipped, "my_attention:Mine"]


def test_an_unknown_method_under_a_device_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine\.yaml:8:9: .*no method 'linear\.chunky'; did you mean 'linear\.chunked'"):
        select(suite_file(tmp_path, "linear.chunky"), (), None)
