from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.names import ascii_only, drawable, one_line, short_names, shorten


@given(st.lists(st.text(), unique=True, max_size=30), st.integers(8, 40))
def test_short_names_fit_on_one_line_and_are_all_different(labels: list[str], width: int) -> None:
    names = short_names(labels, width)
    assert len(set(names.values())) == len(labels)
    assert all(len(name) <= width and name == one_line(name) for name in names.values())


def test_a_long_name_keeps_both_ends() -> None:
    assert shorten("lsh.reformer_pytorch(rounds=4)", 25) == "lsh.reformer…ch(rounds=4)"


def test_control_characters_never_reach_a_terminal_or_a_file() -> None:
    assert one_line("a\x1b[31m\r\n\tb\u2028c") == "a [31m b c"


def test_signs_have_plain_letters_and_other_letters_a_question_mark() -> None:
    assert ascii_only("1 µs ±3% 2×…中") == "1 us +-3% 2x~?"


def test_letters_that_the_font_lacks_become_boxes() -> None:
    assert drawable("µ…中é") == "µ…□é"
