"""A secret is masked in every form in which programs print it."""

import base64
import html
import json
import subprocess
import urllib.parse
from collections.abc import Callable
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.masking import facts
from terracrew.masking.redactor import MAX_ENCODED_BYTES, Redactor
from terracrew.protocol.events import Output, OutputsRead, PlanSummary, ResourceChange, Result, StepStatus
from terracrew.protocol.spec import Step

SECRET = "pä\"s<s>&w/o+r'd \\ 1?"
FORMS: list[Callable[[str], str]] = [
    lambda text: text,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    urllib.parse.quote,
    urllib.parse.quote_plus,
    lambda text: urllib.parse.quote(text, safe=""),
    html.escape,
    quoteattr,
]


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize("form", FORMS)
def test_an_escaped_secret_is_masked(form: Callable[[str], str]) -> None:
    """The value printed by `jsonencode` or in a URL passed, as only the plain text was searched for."""
    masked = Redactor([SECRET]).mask_text(f"before {form(SECRET)} after")
    assert masked.replace('"', "").replace("'", "") == "before *** after"


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize("script", ['printf %q "$1"', 'echo "${1@Q}"', "x=$1; declare -p x", 'set -x; true "$1"'])
@pytest.mark.parametrize("secret", [SECRET, "to$ken`with,all|of;them{!}*[0]^(1)~#", "~#only-at-the-start"])
def test_a_secret_that_a_shell_has_quoted_is_masked(script: str, secret: str) -> None:
    done = subprocess.run(["bash", "-c", script, "bash", secret], capture_output=True, text=True, check=True)
    masked = Redactor([secret]).mask_text(done.stdout + done.stderr)
    assert "***" in masked
    assert not any(part in masked for part in (secret[-5:], "with", "start", "w/o"))


@pytest.mark.feature("L5.executor")
@given(st.text("abcXYZ019-_=+/é", min_size=8, max_size=40), st.binary(max_size=7), st.binary(max_size=7))
def test_the_base64_of_anything_that_contains_a_secret_shows_none_of_it(
    secret: str, before: bytes, after: bytes
) -> None:
    """The base64 of the job's token passed."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + secret.encode() + after)
        masked = Redactor([secret]).mask(text)
        assert b"***" in masked
        start, _, rest = masked.partition(b"***")
        end = rest.rpartition(b"***")[2]
        # What is left at each side was made of what stands beside the secret, and of at most some bits of it.
        assert len(start) <= len(before) * 8 / 6 + 2
        assert len(end) <= len(after) * 8 / 6 + 5


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize("columns", [64, 76])
def test_wrapped_base64_of_a_long_secret_is_masked(columns: int) -> None:
    secret = "".join(f"{number:04d}" for number in range(100))
    text = base64.b64encode(secret.encode()).decode()
    lines = [text[at : at + columns] for at in range(0, len(text), columns)]
    masked = Redactor([secret]).mask("\n".join(lines[:-1]).encode())
    assert set(masked.split()) == {b"***"}


@pytest.mark.feature("L5.executor")
def test_the_texts_of_facts_are_masked_and_their_statuses_are_not() -> None:
    """A module whose secret was the word FAILED could not report its result: the status was masked with the message."""
    redactor = Redactor(["FAILED", "hunter2-hunter2"])
    result = facts.masked(Result("FAILED", "apply failed: the password hunter2-hunter2 is wrong"), redactor)
    assert result == Result("FAILED", "apply failed: the password *** is wrong")
    plan = PlanSummary(
        add=1, resources=[ResourceChange('a["hunter2-hunter2"]', "create", "imported from hunter2-hunter2")]
    )
    masked = facts.masked(plan, redactor)
    assert masked == PlanSummary(add=1, resources=[ResourceChange('a["***"]', "create", "imported from ***")])
    step = StepStatus(Step.APPLY, "FAILED", 1)
    assert facts.masked(step, redactor) is step


@pytest.mark.feature("J12.sensitive", "L5.executor")
def test_an_output_that_holds_a_secret_is_sensitive_and_whole() -> None:
    redactor = Redactor(["hunter2-hunter2"])
    read = OutputsRead({"address": Output("https://u:hunter2-hunter2@host"), "name": Output("web")}, "0")
    hidden = facts.hide_outputs(read, redactor)
    assert hidden.outputs["address"] == Output("https://u:hunter2-hunter2@host", is_sensitive=True)
    assert hidden.outputs["name"] == Output("web")
    assert facts.hide_outputs(read, Redactor([])) is read


@pytest.mark.feature("L5.executor")
def test_a_very_long_secret_is_masked_as_it_is() -> None:
    secret = "".join(f"{number:06d}" for number in range(MAX_ENCODED_BYTES))
    masked = Redactor(["before-it", secret]).mask(f"<{secret}> before-it".encode())
    assert set(masked) == set(b"<*> ")
