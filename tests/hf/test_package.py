"""The package attnbench.hf: the page that shows it is run as it stands there; without transformers it says what to install."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_missing_extra_says_its_pip_line() -> None:
    code = "import sys; sys.modules['transformers'] = None; import attnbench.hf"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.endswith("MissingPackageError: attnbench.hf needs transformers: pip install 'attnbench[hf]'\n")


@pytest.mark.peers
def test_the_page_on_models_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    assert f"transformers {transformers.__version__}" in text
    shown: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), shown)
    assert (tmp_path / "swapped" / "config.json").is_file()
