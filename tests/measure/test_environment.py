"""What numbers depend on besides the device, and the digest that names it."""

import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.measure import environment


def test_the_environment_tells_what_numbers_depend_on_and_the_same_when_it_is_gathered_twice() -> None:
    facts = environment.gather()
    assert facts == environment.gather()
    assert {"processor", "cores", "memory_gib", "system", "libc", "python", "torch", "numpy"} <= set(facts)
    assert facts["processor"]
    assert int(facts["cores"] or 0) >= 1


def test_the_digest_stays_the_same_for_ever_whatever_the_order_of_facts_and_changes_with_every_fact() -> None:
    orders: list[environment.Facts] = [{"python": "3.11.9", "cores": 2}, {"cores": 2, "python": "3.11.9"}]
    assert {environment.digest(facts) for facts in orders} == {"413cd32d27f7"}
    others: list[environment.Facts] = [{"torch": "2.13"}, {"torch": "2.14"}, {"torch": None}, {"torch": "2.13", "x": 1}, {}]
    assert len({environment.digest(facts) for facts in others}) == 5


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert environment.version("surely-not-installed-anywhere") is None
    assert environment.version("torch")


def test_a_processor_without_a_name_is_still_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "Path", lambda path: Path("not") / "there")
    monkeypatch.setattr("platform.processor", lambda: "")
    assert environment.processor()


def test_without_git_or_outside_a_checkout_there_is_no_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment.git_state(tmp_path) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.git_state(tmp_path) == {}


def test_a_checkout_is_clean_until_a_file_is_added(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    clean = environment.git_state(tmp_path)
    (tmp_path / "new").write_text("x")
    assert len(str(clean["commit"])) == 40
    assert not clean["dirty"]
    assert environment.git_state(tmp_path) == {"commit": clean["commit"], "dirty": True}


def test_gathering_never_imports_torch() -> None:
    code = (
        "import sys; from attnbench.measure import environment, host_conditions; "
        "environment.digest(environment.gather()); host_conditions.HostCounters.read(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
