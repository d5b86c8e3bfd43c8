"""What docs/models.md shows is run as it stands there."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_page_on_models_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    assert f"transformers {transformers.__version__}" in text
    shown: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), shown)
    assert (tmp_path / "swapped" / "config.json").is_file()
