"""The identity of a state, asked from an engine of another package that fails in its own way."""

from collections.abc import Iterator

import msgspec
import pytest

from terracrew import plugins
from terracrew.errors import Invalid
from terracrew.executor.engines.contract import StateIdentity
from terracrew.executor.state import identity, states
from terracrew.protocol.events import StateFact


class _FaultyEngine:
    name = "faulty"

    def __init__(self) -> None:
        self.answer: object = None

    def identify_state(self, content: bytes) -> StateIdentity:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    def emptied_state(self, content: bytes) -> bytes:
        raise KeyError("serial")


ENGINE = _FaultyEngine()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[_FaultyEngine]:
    monkeypatch.setitem(plugins.BUILT_IN[plugins.ENGINES], "faulty", f"{__name__}:ENGINE")
    plugins.load.cache_clear()
    yield ENGINE
    plugins.load.cache_clear()


@pytest.mark.parametrize(
    "answer",
    [
        KeyError("serial"),
        RecursionError(),
        OSError("no file \udcff"),
        None,
        StateIdentity("1", "a"),  # type: ignore[arg-type]
        StateIdentity(-1, "a"),
        StateIdentity(1, "\udcff"),
        StateIdentity(1, "a", -1),
    ],
    ids=[
        "an error",
        "too deep",
        "an error with half of a character",
        "nothing",
        "a serial that is a text",
        "a negative serial",
        "a lineage with half of a character",
        "a negative number of resources",
    ],
)
def test_every_failure_of_an_engine_is_a_problem_of_the_state_and_ends_there(
    engine: _FaultyEngine, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A plug-in raised KeyError, and the delivery of the dead attempt's state crashed and was started again, for ever."""
    engine.answer = answer
    found, problem = identity.read_leftover("faulty", b"a state", is_kept_here=True)
    assert found == StateIdentity(0, "")
    assert "the engine 'faulty' failed to read this state" in problem
    assert "failed to read this state" in caplog.text
    fact = states.fact_of("", b"a state", found, problem, "errored", is_inline=False)
    assert msgspec.json.decode(msgspec.json.encode(fact), type=StateFact) == fact, "the server reads it"


def test_a_problem_that_the_engine_explains_is_kept_as_it_is(engine: _FaultyEngine) -> None:
    engine.answer = Invalid("this is not a state of mine")
    assert identity.read_leftover("faulty", b"", is_kept_here=True) == (
        StateIdentity(0, ""),
        "this is not a state of mine",
    )


def test_a_state_of_an_engine_that_is_not_installed_any_more_is_kept_with_the_reason() -> None:
    found, problem = identity.read_leftover("absent", b"a state", is_kept_here=True)
    assert found == StateIdentity(0, "")
    assert "there is no engine 'absent' here" in problem


def test_a_state_that_cannot_be_emptied_is_refused_with_the_reason(engine: _FaultyEngine) -> None:
    with pytest.raises(Invalid, match="failed to empty its state: KeyError"):
        identity.emptied(engine.name, b"a state")


@pytest.mark.feature("J12.sensitive", "L5.executor")
def test_the_sensitive_outputs_of_a_state_are_found_and_anything_else_has_none() -> None:
    outputs = {"password": {"value": {"deep": "hunter2"}, "sensitive": True}, "name": {"value": "web"}}
    content = msgspec.json.encode({"version": 4, "serial": 1, "lineage": "a", "outputs": outputs})
    assert identity.sensitive_outputs("tofu", content) == {"password": {"deep": "hunter2"}}
    for other in (b"", b"nonsense", b"[]", b'{"outputs": [1]}', b'{"encrypted_data": "x"}', b'{"outputs":' * 5000):
        assert identity.sensitive_outputs("tofu", other) == {}
