"""Which suite, methods, labels, lengths and amounts a caller means, and what is said where there is no such thing."""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema.cell import Workload
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.suite import Suite
from attnbench.session.asked import Only, address, length, memory_share, narrowed, pick, pick_one, select, share
from attnbench.suite.load import load

LABELS = ("softmax.sdpa", "lsh.reformer(rounds=1)", "lsh.reformer(rounds=4)", "f(a=1, b=2)")


def suite(**changes: object) -> Suite:
    hashing, linear = {"name": "lsh.reformer", "params": {"rounds": (1, 4)}}, {"name": "linear.chunked", "when": "causal"}
    return Suite.model_validate({"name": "s", "axes": {"N": 64}, "methods": ("softmax.sdpa", hashing, linear), **changes})


@pytest.mark.parametrize(
    ("word", "labels"),
    [
        ("softmax.sdpa", ["softmax.sdpa"]),
        ("lsh.reformer(rounds=4)", ["lsh.reformer(rounds=4)"]),
        ("lsh.reformer( rounds=4 )", ["lsh.reformer(rounds=4)"]),
        ("f(a=1,b=2)", ["f(a=1, b=2)"]),
        ("lsh.reformer", ["lsh.reformer(rounds=1)", "lsh.reformer(rounds=4)"]),
    ],
)
def test_a_word_is_a_label_however_it_is_spaced_or_a_method_with_all_of_its_labels(word: str, labels: list[str]) -> None:
    assert pick(word, LABELS, "of") == labels


def test_an_unknown_name_and_several_where_one_is_wanted_are_refused_with_those_there_are() -> None:
    with pytest.raises(ArgumentError, match=r"of='softmax\.spda': .*did you mean 'softmax\.sdpa'.*there are: softmax\.sdpa, "):
        pick("softmax.spda", LABELS, "of")
    assert pick_one("softmax.sdpa", LABELS, "of") == "softmax.sdpa"
    with pytest.raises(ArgumentError, match=r"over='lsh\.reformer': name one of 'lsh\.reformer\(rounds=1\)', "):
        pick_one("lsh.reformer", LABELS, "over")


def test_the_methods_that_are_named_stay_as_they_are_and_those_that_the_suite_lacks_are_added_if_they_are_installed() -> None:
    found = narrowed(suite(), ("linear.chunked", "lsh.reformer(rounds=4)", "softmax.naive"), "of").methods
    assert [(m.name, m.when) for m in found] == [("lsh.reformer", None), ("linear.chunked", "causal"), ("softmax.naive", None)]
    assert found[0].params == {"rounds": (1, 4)}
    with pytest.raises(ArgumentError, match=r"method='linear\.chunky': no such method; did you mean 'linear\.chunked'"):
        narrowed(suite(), ("linear.chunky",), "method")


def test_a_device_with_methods_of_its_own_keeps_those_that_are_wanted_or_takes_the_suite_s() -> None:
    on = {"cpu": {"methods": ("softmax.naive",)}, "cuda": {"methods": ("linear.cuda", "softmax.sdpa")}}
    found = narrowed(suite(on=on), ("softmax.sdpa", "linear.cuda"), "of")
    assert [m.name for m in found.resolved("cpu").methods] == ["softmax.sdpa"]
    assert [m.name for m in found.resolved("cuda").methods] == ["linear.cuda", "softmax.sdpa"]
    found = narrowed(suite(on=on), ("softmax.sdpa", "linear.full", "softmax.naive"), "of")
    assert [m.name for m in found.resolved("cpu").methods] == ["softmax.naive", "softmax.sdpa", "linear.full"]


def test_the_narrowed_suite_can_be_stored_though_its_baseline_and_a_label_went() -> None:
    labels = {"softmax.sdpa": "FlashAttention", "lsh.reformer(rounds=4)": "LSH"}
    found = narrowed(suite(report={"baselines": ("softmax.sdpa",), "labels": labels}), ("lsh.reformer",), "of")
    assert Suite.model_validate_json(found.model_dump_json()) == found
    assert found.report.baselines == ()
    assert found.report.labels == {"lsh.reformer(rounds=4)": "LSH"}


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


def test_one_s_own_method_joins_those_of_every_device_and_an_unknown_one_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OVERRIDDEN % "linear.chunked")
    _, suite = select(str(file), ("my_attention:Mine",), None)
    assert named(suite.resolved("cpu")) == ["linear.chunked", "my_attention:Mine"]
    assert named(suite.resolved("cuda")) == ["softmax.sdpa", "my_attention:Mine"]
    file.write_text(OVERRIDDEN % "linear.chunky")
    with pytest.raises(UsageError, match=r"mine\.yaml:8:9: .*no method 'linear\.chunky'; did you mean 'linear\.chunked'"):
        select(str(file), (), None)


def test_a_dict_is_read_as_its_file_would_be() -> None:
    data = {"name": "mine", "axes": {"N": "2^6..2^8", "causal": True}, "methods": ["softmax.sdpa"]}
    _, suite = select(data, device="cpu", replicates=2)
    assert (suite.axes.N, suite.axes.causal, suite.device, suite.replicates) == ((64, 128, 256), (True,), "cpu", 2)
    with pytest.raises(UsageError, match=r"^suite: methods\.0\.nam: unknown key; did you mean 'name'"):
        select({**data, "methods": [{"nam": "softmax.sdpa"}]})
    with pytest.raises(UsageError, match=r"^suite: methods\.0\.name: no method 'softmax\.spda'; did you mean 'softmax\.sdpa'"):
        select({**data, "methods": ["softmax.spda"]})


def test_a_class_of_one_s_own_is_named_by_its_address() -> None:
    from attnbench.registry import load

    assert address(load("softmax.sdpa")) == "attnbench_impls.softmax.library.sdpa:SdpaSoftmax"
    with pytest.raises(ArgumentError, match="dict is not an attention"):
        address(dict)

    class Inner(load("softmax.sdpa")):  # type: ignore[misc]
        """An attention that no other process can import."""

    with pytest.raises(ArgumentError, match="put it into a file of its own"):
        address(Inner)


# lengths and amounts


READERS: dict[str, Callable[[str], float]] = {
    "limit": lambda text: length(text, "limit"),
    "memory": lambda text: memory_share(text, 16 * 2**30, "memory"),
    "margin": lambda text: share(text, "margin"),
}
MEMORY = {"0.7": 0.7, "70%": 0.7, " 70 % ": 0.7, "8GiB": 0.5, "8 gib": 0.5, "8192MiB": 0.5, "16GB": 1e9 / 2**30, "1": 1.0}
MARGINS = {"8%": 0.08, "0.08": 0.08, ".5": 0.5, " 3 % ": 0.03}
REFUSED = {
    "limit": ["", "x", "-1", "0", "2^99", "512..1024", "1.5", "max"],
    "memory": ["", "x", "0", "0%", "101%", "1.1", "17GiB", "0GiB", "8", "-1GiB", "8 GiBs", "8PiB", "nan", "inf"],
    "margin": ["", "0", "0%", "-3%", "+25 %", "x", "8", "1", "1001%", "nan", "1e400"],
}


@given(st.integers(1, 2**24), st.integers(0, 24))
def test_a_length_is_a_number_or_a_power(number: int, exponent: int) -> None:
    assert length(str(number), "limit") == number
    assert length(f"2^{exponent}", "limit") == 2**exponent


@pytest.mark.parametrize(("option", "texts"), [("memory", MEMORY), ("margin", MARGINS)])
def test_memory_is_a_share_or_an_amount_and_a_margin_is_a_percentage_or_a_fraction(
    option: str, texts: dict[str, float]
) -> None:
    assert {text: READERS[option](text) for text in texts} == pytest.approx(texts)
    assert share(0.08, "margin") == 0.08


@pytest.mark.parametrize(("option", "text"), [(option, text) for option, texts in REFUSED.items() for text in texts])
def test_what_is_none_is_refused_with_the_option(option: str, text: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        READERS[option](text)
    assert refused.value.as_option.startswith(f"--{option} {text}: ")
    assert str(refused.value).startswith(f"{option}={text!r}: ")
    assert option != "margin" or "for example 8% or 0.08" in str(refused.value)


@given(st.text(max_size=12), st.sampled_from(list(READERS)))
def test_whatever_is_written_the_answer_is_a_number_or_a_usage_error(text: str, option: str) -> None:
    with contextlib.suppress(ArgumentError):
        assert 0 < READERS[option](text) <= {"memory": 1, "margin": 10}.get(option, math.inf)


def asked_for(given: str = "", **only: Any) -> Suite:
    return select(given, only=Only(**only))[1]


def named(found: Suite) -> list[str]:
    return [method.name for method in found.methods]


def test_methods_lengths_and_workloads_are_a_suite_without_a_file() -> None:
    found = asked_for(methods=["linear.c*,softmax.sdpa"], N="512..2048", workloads=["forward", "decode"])
    assert named(found) == ["linear.chunked", "linear.cuda", "softmax.sdpa"]
    assert (found.axes.N, found.axes.causal) == ((512, 1024, 2048), (True,))
    assert found.workloads == (Workload.FORWARD, Workload.DECODE)
    assert asked_for(methods="linear.full", causal=False).axes.causal == (False,)
    with pytest.raises(UsageError, match="training is missing for cpu; train and generate need a model"):
        asked_for("quick", workloads=["train"])


TWICE = [("lsh.reformer", {"rounds": (2,)}), ("lsh.reformer", {"rounds": (8,)})]
BESIDE = [("lsh.reformer", {"across_buckets": (False,), "rounds": (8,)}), ("softmax.sdpa", {})]


@pytest.mark.parametrize(
    ("suite", "methods", "found"),
    [
        ("", "lsh.reformer(rounds=8, across_buckets=false), softmax.sdpa", BESIDE),
        ("", "lsh.reformer(rounds=8, across_buckets=False), softmax.sdpa", BESIDE),
        ("boundary-1", "lsh.reformer(rounds=8),softmax.sdpa", [TWICE[1], BESIDE[1]]),
        ("", "lsh.reformer(rounds=2),lsh.reformer(rounds=8)", TWICE),
        ("boundary-1", "lsh.reformer(rounds=2),lsh.reformer(rounds=8)", TWICE),
        ("", "lsh.reforme?(rounds=2)", TWICE[:1]),
        ("boundary-1", "lsh.reforme?(rounds=2)", TWICE[:1]),
        # variants of a suite that become one by what is asked for are one
        ("scaling", "linear.chunked(feature_map=favor)", [("linear.chunked", {"feature_map": ("favor",)})]),
    ],
)
def test_parameters_may_be_named_with_a_method_or_a_pattern_and_take_the_place_of_those_of_the_suite(
    suite: str, methods: str, found: list[tuple[str, dict[str, Any]]]
) -> None:
    asked = asked_for(suite, methods=methods).resolved("cuda")
    assert sorted(((method.name, dict(method.params)) for method in asked.methods), key=str) == found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_suite_is_narrowed_to_what_is_asked_for_on_every_device(device: str) -> None:
    found = asked_for("boundary-1", methods="linear.*", N=[700, "2^10"], workloads="forward", causal=True).resolved(device)
    assert {name.partition(".")[0] for name in named(found)} == {"linear"}
    assert (found.axes.N, found.axes.causal, found.workloads) == ((700, 1024), (True,), (Workload.FORWARD,))
    # what was not asked about stays as the suite has it
    assert found.axes.H == load("boundary-1").suite.resolved(device).axes.H


@pytest.mark.parametrize(
    ("given", "only", "said"),
    [
        ("", {"methods": "linear.chunky"}, r"methods='linear\.chunky': no method .*; did you mean 'linear\.chunked'"),
        ("", {"methods": "nowhere.*"}, r"methods='nowhere\.\*': no method has such a name"),
        ("quick", {"methods": "gated.*"}, r"methods='gated\.\*': no method of the suite has such a name"),
        ("quick", {"methods": "linear.chunky"}, r"methods='linear\.chunky': no such method"),
        ("", {"methods": "lsh.reformer(8)"}, r"methods='8': write it as name=value"),
        ("", {"methods": "softmax.sdpa", "N": "9..2"}, r"N='9\.\.2': the range '9\.\.2' is empty"),
        ("quick", {"methods": ""}, r"methods='': no method is named"),
        ("quick", {"N": 0}, r"N=0: "),
        ("quick", {"workloads": ""}, r"workloads='': '' is not known"),
        ("quick", {"N": ["512", "many"]}, r"N='512,many': 'many' is not a number"),
        ("quick", {"workloads": ["forwards"]}, r"workloads='forwards': 'forwards' is not known; write one of 'forward'"),
    ],
)
def test_what_cannot_be_asked_for_is_told_by_its_option(given: str, only: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        asked_for(given, **only)
