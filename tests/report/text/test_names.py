"""Names as they may be shown: of any width, on a terminal, in a file and in a figure."""

from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.text.names import ascii_only, drawable, one_line, short_names, shorten


@given(st.lists(st.text(), unique=True, max_size=30), st.integers(8, 40))
def test_short_names_fit_on_one_line_and_are_all_different(labels: list[str], width: int) -> None:
    names = short_names(labels, width)
    assert len(set(names.values())) == len(labels)
    assert all(len(name) <= width and name == one_line(name) for name in names.values())


def test_what_all_of_a_method_share_goes_first_and_else_the_middle() -> None:
    assert shorten("lsh.reformer_pytorch(rounds=4)", 25) == "lsh.reformer…ch(rounds=4)"
    labels = [f"linformer.linformer(k={k}, sharing=layerwise)" for k in (128, 256)]
    one = "lsh.reformer_pytorch(bucket_size=64, rounds=1)"
    names = short_names([*labels, "softmax.naive", one], 40)
    assert [names[label] for label in labels] == ["linformer.linformer(k=128, …)", "linformer.linformer(k=256, …)"]
    assert names["softmax.naive"] == "softmax.naive"
    assert names[one] == "lsh.reformer_pytorch…_size=64, rounds=1)"
    # no labels of a method
    longer = [f"{label}, N=4k, forward" for label in labels]
    assert short_names(longer, 20)[longer[0]] == "linformer.…, forward"


def test_letters_that_cannot_be_shown_have_a_place_all_the_same() -> None:
    # control characters never reach a terminal or a file
    assert one_line("a\x1b[31m\r\n\tb\u2028c") == "a [31m b c"
    # without Unicode signs have plain letters, and other letters a question mark
    assert ascii_only("1 µs ±3% 2×…中") == "1 us +-3% 2x~?"
    # what the font lacks becomes a box
    assert drawable("µ…中é") == "µ…□é"
