"""Files that are broken or meant to do harm: always a SuiteError that names the file, and soon."""

import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from attnbench.schema.suite import Suite
from attnbench.suite.load import SuiteError, load, shipped

BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi"))
HOSTILE: dict[str, str | bytes] = {
    "alias bomb": BOMB,
    "alias of itself": "a: &a [*a]\n",
    "alias as a key": "a: &a x\n*a : 1\n",
    "merge of itself": "a: &a\n  <<: *a\n",
    "small but deep lists": "[" * 30_000,
    "small but deep maps": "{a: " * 8_000,
    "small but deep dashes": "-  " * 10_000,
    "small but deep blocks": "\n".join(" " * i + "a:" for i in range(340)),
    "deeper than any suite": "name: " + "[" * 30 + "]" * 30,
    "python object": "!!python/object/apply:os.system ['echo harm']",
    "python name": "name: !!python/name:os.system ''",
    "binary tag": "name: !!binary aGFybQ==",
    "tag of a tag": "%TAG ! tag:yaml.org,2002:python/\n---\nname: !name:os.system ''",
    "bad tag": "name: !<",
    "two documents": "name: a\n---\nname: b\n",
    "newer yaml": "%YAML 9.9\n---\nname: a\n",
    "key that is a list": "[a, b]: 1",
    "key that is a map": "{a: 1}: 1",
    "2 MiB of text": "a" * 2**21,
    "most that is read, keys": "".join(f"a{i:05d}: 1\n" for i in range(2**16 // 10)),
    "most that is read, quoted": "a: '" + "x\n" * 32_000,
    "nul at the end": b"name: a\naxes: {N: 8}\nmethods: [m]\n\0",
    "not utf-8": b"name: \xff\xfe",
    "binary": bytes(range(256)) * 16,
    "empty": b"",
    "only a comment": "# name: a\n",
    "a list": "- name: a\n",
    "an escape beyond unicode": 'name: "\\UFFFFFFFF"',
    "half a surrogate": 'name: "\\ud800"\naxes: {N: 8}\nmethods: [m]\n',
    "an endless number": f"name: a\naxes: {{N: {'9' * 5000}}}\nmethods: [m]\n",
    "a wrong hexadecimal": "name: !!int 0xzz",
    "an empty number": "name: !!int ''",
}
# what the interpreter needs for the largest file that is read, with room for a slow machine
SECONDS = 6.0


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_a_suite_error_that_names_it(kind: str, tmp_path: Path) -> None:
    file, content = tmp_path / "x.yaml", HOSTILE[kind]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    start = time.process_time()
    with pytest.raises(SuiteError) as refused:
        load(str(file))
    assert time.process_time() - start < SECONDS
    assert all(line.startswith(f"{file}:") for line in str(refused.value).split("\n"))


def test_a_file_of_a_gibibyte_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(2**30)
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(SuiteError, match=str(file)):
            load(str(file))
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < SECONDS


VALID = [file.read_text() for file in shipped().values()] + [
    "name: a\naxes: {N: [8, 2^4..2^6], B: 2, M: 8, kv_heads: 4, allocator: [retain, system]}\n"
    "methods: [m, {name: n, params: {a: [1, x], b: 1.5}, when: a == 1 or N > 2^3}]\n"
    "on: {cuda: {replicates: 9, methods: [m]}}\nreport: {tables: [], plots: [time]}\n"
]
PIECES = [
    *("\n", " ", "  ", ": ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "!x ", "!!int ", "#", "'", '"', "|", ">", "%", "?"),
    *("2^", "..", "~", "\t", "\0", "é", "on", "1e9"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid suite in which a few places were cut out, doubled or replaced."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from([*PIECES, "", text[start:end] * 2]) | st.text(max_size=3))
        text = text[:start] + middle + text[end:]
    return text


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80) | mutated())
@example('"\\UFFFFFFFF"')
@example("? ? ?\n: : :")
def test_any_text_is_a_suite_or_a_suite_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        assert isinstance(load(str(file)).suite, Suite)
    except SuiteError as error:
        assert str(file) in str(error)  # noqa: PT017 - either is right
