"""How every method that decodes is called."""

from inspect import Parameter, signature

import pytest

from attnbench import registry

DECODES = [name for name in registry.catalogue() if registry.load(name).decodes]


@pytest.mark.parametrize("name", DECODES)
def test_what_is_no_input_goes_by_keyword_whatever_the_number_of_inputs(name: str) -> None:
    kind = registry.load(name)
    for function, keyword in ((kind.prefill, "capacity"), (kind.step, "state")):
        own = {each: parameter.kind for each, parameter in signature(function).parameters.items()}
        asked = {each for each in own if each in {keyword, "choices"}}
        assert keyword in asked
        assert {own[each] for each in asked} == {Parameter.KEYWORD_ONLY}
