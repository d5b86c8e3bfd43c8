"""What numbers depend on besides the device, and the digest that names it."""

import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.measure import environment


def test_the_environment_is_the_same_when_it_is_gathered_twice() -> None:
    first, second = environment.gather(), environment.gather()
    assert first == second
    assert environment.digest(first) == environment.digest(second)


def test_the_environment_tells_what_numbers_depend_on() -> None:
    facts = environment.gather()
    assert {"processor", "cores", "memory_gib", "system", "libc", "python", "torch", "numpy"} <= set(facts)
    assert facts["processor"]
    assert isinstance(facts["cores"], int)
    assert facts["cores"] >= 1


def test_the_digest_does_not_depend_on_the_order_of_the_facts() -> None:
    assert environment.digest({"a": 1, "b": None}) == environment.digest({"b": None, "a": 1})


def test_the_digest_is_twelve_hex_digits_that_stay_the_same_for_ever() -> None:
    assert environment.digest({"python": "3.11.9", "cores": 2}) == "413cd32d27f7"


@pytest.mark.parametrize("changed", [{"torch": "2.14"}, {"torch": None}, {"torch": "2.13", "extra": 1}, {}])
def test_the_digest_changes_with_every_fact(changed: environment.Facts) -> None:
    assert environment.digest(changed) != environment.digest({"torch": "2.13"})


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert environment.version("surely-not-installed-anywhere") is None
    assert environment.version("torch")


def test_a_processor_without_a_name_is_still_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "Path", lambda path: Path("not") / "there")
    monkeypatch.setattr("platform.processor", lambda: "")
    assert environment.processor()


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_a_folder_outside_a_checkout_has_no_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "plain"
    folder.mkdir()
    assert environment.git_state(folder) == {}


def test_without_git_there_is_no_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.git_state(tmp_path) == {}


def test_a_checkout_is_clean_until_a_file_is_added(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    clean = environment.git_state(tmp_path)
    (tmp_path / "new").write_text("x")
    dirty = environment.git_state(tmp_path)
    assert len(str(clean["commit"])) == 40
    assert (clean["dirty"], dirty["dirty"]) == (False, True)
    assert clean["commit"] == dirty["commit"]


def test_gathering_never_imports_torch() -> None:
    code = (
        "import sys; from attnbench.measure import environment, host_conditions; "
        "environment.digest(environment.gather()); host_conditions.HostCounters.read(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
