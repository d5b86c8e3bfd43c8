"""Which methods and labels the words of a command line mean."""

import pytest

from attnbench.cli.choose import narrowed, pick, pick_one
from attnbench.cli.errors import UsageError
from attnbench.schema.suite import Suite

LABELS = ("softmax.sdpa", "lsh.reformer(rounds=1)", "lsh.reformer(rounds=4)", "f(a=1, b=2)")


def suite(**changes: object) -> Suite:
    methods = (
        "softmax.sdpa",
        {"name": "lsh.reformer", "params": {"rounds": (1, 4)}},
        {"name": "linear.chunked", "when": "causal"},
    )
    return Suite.model_validate({"name": "s", "axes": {"N": 64}, "methods": methods, **changes})


@pytest.mark.parametrize("word", ["lsh.reformer(rounds=4)", "lsh.reformer( rounds=4 )"])
def test_a_label_is_itself_however_it_is_spaced(word: str) -> None:
    assert pick(word, LABELS, "--of") == ["lsh.reformer(rounds=4)"]
    assert pick("f(a=1,b=2)", LABELS, "--of") == ["f(a=1, b=2)"]


def test_a_method_is_all_of_its_labels() -> None:
    assert pick("lsh.reformer", LABELS, "--of") == ["lsh.reformer(rounds=1)", "lsh.reformer(rounds=4)"]
    assert pick_one("softmax.sdpa", LABELS, "--of") == "softmax.sdpa"


def test_where_one_is_wanted_several_are_refused_with_their_names() -> None:
    with pytest.raises(UsageError, match=r"--over lsh\.reformer: name one of 'lsh\.reformer\(rounds=1\)', "):
        pick_one("lsh.reformer", LABELS, "--over")


def test_an_unknown_name_is_refused_with_what_was_meant_and_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"--of softmax\.spda: .*did you mean 'softmax\.sdpa'.*there are: softmax\.sdpa, "):
        pick("softmax.spda", LABELS, "--of")


def test_only_the_methods_that_are_named_stay_with_their_parameters_and_conditions() -> None:
    found = narrowed(suite(), ("linear.chunked", "lsh.reformer(rounds=4)"), "--of")
    assert [(m.name, m.when) for m in found.methods] == [("lsh.reformer", None), ("linear.chunked", "causal")]
    assert found.methods[0].params == {"rounds": (1, 4)}


def test_an_installed_method_that_the_suite_lacks_is_added() -> None:
    assert [m.name for m in narrowed(suite(), ("softmax.naive", "softmax.sdpa"), "--of").methods] == [
        "softmax.sdpa",
        "softmax.naive",
    ]


def test_a_method_that_is_nowhere_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--method linear\.chunky: no such method; did you mean 'linear\.chunked'"):
        narrowed(suite(), ("linear.chunky",), "--method")


def test_a_device_with_methods_of_its_own_keeps_those_that_are_wanted_or_takes_the_suite_s() -> None:
    on = {"cpu": {"methods": ("softmax.naive",)}, "cuda": {"methods": ("linear.cuda", "softmax.sdpa")}}
    found = narrowed(suite(on=on), ("softmax.sdpa", "linear.cuda"), "--of")
    assert [m.name for m in found.resolved("cpu").methods] == ["softmax.sdpa"]
    assert [m.name for m in found.resolved("cuda").methods] == ["linear.cuda", "softmax.sdpa"]


def test_the_narrowed_suite_can_be_stored_though_its_baseline_went() -> None:
    found = narrowed(suite(report={"baselines": ("softmax.sdpa",)}), ("lsh.reformer",), "--of")
    assert Suite.model_validate_json(found.model_dump_json()) == found
    assert found.report.baselines == ()
