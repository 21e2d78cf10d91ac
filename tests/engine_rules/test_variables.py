"""Arguments in environment variables: what is checked is what an engine reads."""

import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terracrew.engine_rules import flags
from terracrew.errors import Invalid
from tests.thoroughness import examples

pytestmark = pytest.mark.feature("J7.flags")
DESTROYS = '-var=x=$(" ) -destroy ;"'
"""One flag to `shlex`, and two to the parser of the engines: the second one is `-destroy`."""


def read_by_engines(line: str) -> list[str]:
    """This is a second form of the parser that OpenTofu and Terraform use (go-shellwords 1.0.12, with its defaults)."""
    words, word, has_word = list[str](), "", False
    is_escaped = is_double = is_single = is_back = is_dollar = False
    for each in line:
        if is_escaped:
            word, is_escaped, has_word = word + each, False, True
            continue
        if each == "\\":
            if is_single:
                word += each
            else:
                is_escaped = True
            continue
        if each in " \t\r\n":
            if is_single or is_double or is_back or is_dollar:
                word += each
            elif has_word:
                words.append(word)
                word, has_word = "", False
            continue
        if each == "`" and not (is_single or is_double or is_dollar):
            is_back = not is_back
        elif each == ")" and not (is_single or is_double or is_back):
            is_dollar = not is_dollar
        elif each == "(" and not (is_single or is_double or is_back):
            if is_dollar or not word.endswith("$"):
                raise ValueError("invalid command line string")
            word, is_dollar = word + "(", True
            continue
        elif each == '"' and not (is_single or is_dollar):
            has_word = has_word or is_double
            is_double = not is_double
            continue
        elif each == "'" and not (is_double or is_dollar):
            has_word = has_word or is_single
            is_single = not is_single
            continue
        elif each in ";&|<>" and not (is_single or is_double or is_back or is_dollar):
            has_word = has_word and not (each == ">" and word[:1].isdigit())
            break
        word, has_word = word + each, True
    if has_word:
        words.append(word)
    if is_escaped or is_single or is_double or is_back or is_dollar:
        raise ValueError("invalid command line string")
    return words


def test_the_parsers_read_some_lines_in_different_ways() -> None:
    assert shlex.split(DESTROYS) == ["-var=x=$( ) -destroy ;"]
    assert read_by_engines(DESTROYS) == ['-var=x=$(" )', "-destroy"]


@settings(max_examples=examples(2000), deadline=None)
@given(st.text(alphabet="a1 \t\n=-'\"\\`$;&|<>()#~*é\x0b\u00a0", max_size=20))
@example(DESTROYS)
@example("-var='a=$(x);\\d`'")
def test_what_is_accepted_is_what_the_engine_reads(text: str) -> None:
    """A plan that should only plan planned to destroy everything: `shlex` saw no `-destroy` in it."""
    try:
        flags.check_environment({"TF_CLI_ARGS_version": text})
    except Invalid:
        return
    assert shlex.split(text) == read_by_engines(text)


@pytest.mark.parametrize("text", ["-var='price=$5; \\d+ (a|b) `x`'", '-var="a;b&c|d<e>(f)$g`"', "-var=a=b -target=x.y"])
def test_between_quotes_everything_may_be_used(text: str) -> None:
    flags.check_environment({"TF_CLI_ARGS_plan": text})
    assert shlex.split(text) == read_by_engines(text)


@pytest.mark.parametrize("character", list("\\`$;&|<>()"))
def test_a_character_that_engines_read_as_part_of_a_command_is_named(character: str) -> None:
    with pytest.raises(Invalid, match=r"has the character .* outside of quotes") as refused:
        flags.check_environment({"TF_CLI_ARGS_plan": f"-var=a={character}"})
    assert f" {character} " in refused.value.message
    assert refused.value.details == {"field": "TF_CLI_ARGS_plan"}
