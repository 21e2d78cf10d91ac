"""Whatever a client with a valid credential sends, in any order, the server stays well and no other client notices.

The messages are made from the unions' own types, and then broken: numbers at their bounds, huge and odd strings, wrong types,
unknown fields, missing ones; binary frames whose headers lie.
"""

# hypothesis makes values of any type
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from terracrew.protocol import events, frames, messages
from terracrew.protocol.events import HEADER, KeptPlan, Kind, Output, OutputsRead, Result, StateFact, StepStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from tests import thoroughness
from tests.builders.job_rows import Instance
from tests.e2e.simulated_runner import batch
from tests.server.application import on_one
from tests.server.hub.hostile_clients import PING, AttackedHub, connected, no_errors, rest, say, staged
from tests.server.hub.hub_clients import Hub, executor_hello, ref_of

pytestmark = pytest.mark.feature("X4.bounded")
EXAMPLES = 60
NUMBERS = [0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**25, 1.5, -0.0, 1e308]
TEXTS = ["", "x", "\0", "a\0b", "\u202e", "ÿ" * 200, "job_" + "0" * 32, "../../x", "x" * 70_000, "PLAN", "\n", "%s{}$"]
VALUES = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.none(),
    st.booleans(),
    st.text(max_size=20),
    st.integers(),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)
DEEP = '{"type":"hello","oldest_protocol":1,"newest_protocol":1,"x":' + "[" * 20_000 + "]" * 20_000 + "}"


def broken(kind: Any, names: Sequence[Any]) -> st.SearchStrategy[str]:
    """JSON of a struct: what it should be, with some of its fields as they should not be."""
    config = kind.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    fields = {field.encode_name: _of(field.type, names) for field in msgspec.structs.fields(kind)}
    good = st.fixed_dictionaries(fields)
    bad = st.dictionaries(st.sampled_from([*fields, "type", "extra"]), VALUES, max_size=2)
    missing = st.sets(st.sampled_from([*fields, "none"]), max_size=1)

    def joined(parts: tuple[dict[str, Any], dict[str, Any], set[str]]) -> str:
        whole = {name: value for name, value in (tag | parts[0] | parts[1]).items() if name not in parts[2]}
        return msgspec.json.encode(whole).decode()

    return st.tuples(good, st.one_of(st.just({}), bad), st.one_of(st.just(set[str]()), missing)).map(joined)


def _of(kind: Any, names: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Values that a field would take, as JSON has them."""
    text = str(kind)
    if "AttemptRef" in text:
        refs = [msgspec.to_builtins(ref) for ref in names if isinstance(ref, AttemptRef)]
        return st.lists(st.sampled_from(refs), max_size=4)
    if "dict" in text:
        return st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
    if "bool" in text:
        return st.booleans()
    if "int" in text:
        return st.one_of(st.integers(0, 3), st.integers(0, 2**53 - 1))
    return st.sampled_from([name for name in names if isinstance(name, str)] + TEXTS)


RECORD = st.builds(
    lambda size, kind, stream, step, time, payload: (
        HEADER.pack(len(payload) if size is None else size, kind, stream, step, time) + payload
    ),
    st.one_of(st.none(), st.sampled_from([0, 1, 15, 2**31, 2**32 - 1])),
    st.sampled_from([0, 1, 2, 3, 4, 255]),
    st.integers(0, 255),
    st.sampled_from([0, 5, 9, 10, 60, 200, 65535]),
    st.one_of(st.floats(), st.just(1.0)),
    st.one_of(
        st.binary(max_size=40),
        *(broken(kind, TEXTS).map(str.encode) for kind in (*get_args(events.Fact), StateFact, KeptPlan)),
        broken(StateFact, TEXTS).map(lambda head: head.encode() + b"\n" + b"x" * 40),
    ),
)


def _frame(first: int, count: int | None, records: list[bytes], cut: int | None) -> bytes:
    return frames.pack(first, len(records) if count is None else count, b"".join(records))[:cut]


FRAMES = st.one_of(
    st.binary(max_size=200),
    st.builds(
        _frame,
        st.sampled_from([0, 1, 2, 3, 2**53 - 1]),
        st.sampled_from([None, None, None, 0, 1, 2**40]),
        st.lists(RECORD, max_size=4),
        st.sampled_from([None, None, None, 1, 20, 40]),
    ),
    st.builds(lambda size, rest: struct.pack(">H", size) + rest, st.integers(0, 65535), st.binary(max_size=50)),
)


async def tried(hub: Hub, token: str, said: Sequence[Any]) -> list[dict[str, Any]]:
    """Say all of it; what was told. Whoever is not refused is let go."""
    async with connected(hub, {"Authorization": f"Bearer {token}"}) as client:
        with suppress(ConnectionClosed):
            for each in said:
                await say(client, each)
            # No message of this protocol: the connection ends when all before it is dealt with.
            await say(client, "bye")
        return await rest(client)


class Attacker:
    """Runs examples against a stage, and looks after each of them."""

    def __init__(self, attacked: AttackedHub, before: dict[str, Any]) -> None:
        self.stage, self.before = attacked, before
        self.loop = asyncio.get_running_loop()

    def fuzz(self, strategy: st.SearchStrategy[Any], attack: Any, examples: int = EXAMPLES) -> None:
        """In a thread, since hypothesis calls and does not await."""

        @given(strategy)
        @settings(
            max_examples=thoroughness.examples(examples),
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.function_scoped_fixture,
            ],
        )
        def holds(said: Any) -> None:
            asyncio.run_coroutine_threadsafe(self._one(said, attack), self.loop).result(60)

        holds()

    async def _one(self, said: Any, attack: Any) -> None:
        with no_errors():
            token, all_of_it = await attack(said)
            told = await tried(self.stage.hub, token, all_of_it)
            await self.stage.at_rest()
        assert [each for each in told if each.get("code") == "internal" or each["type"] == "granted"] == []

    async def unchanged(self) -> None:
        after = await self.stage.everything()
        assert [name for name in self.before if self.before[name] != after[name]] == []
        assert await self.stage.is_undisturbed() == ""


@pytest.fixture
async def attacked(hub: Hub) -> Any:
    async with staged(hub) as attacked:
        yield Attacker(attacked, await attacked.everything())


async def test_no_message_of_a_runner_upsets_the_server(attacked: Attacker) -> None:
    stage = attacked.stage
    token, hello = stage.runners["another runner"]
    names = [*stage.refs, stage.queued, hello.runner_id, *(ref.job_id for ref in stage.refs)]
    kinds = [broken(kind, names) for kind in get_args(messages.FromRunner)]

    async def attack(said: tuple[bool, list[str]]) -> tuple[str, list[Any]]:
        return token, [*([hello] if said[0] else []), *said[1]]

    await asyncio.to_thread(
        attacked.fuzz,
        st.tuples(st.sampled_from([True, True, False]), st.lists(st.one_of(kinds), min_size=1, max_size=4)),
        attack,
    )
    await attacked.unchanged()


async def test_no_message_and_no_frame_of_an_executor_upsets_the_server(attacked: Attacker) -> None:
    stage = attacked.stage
    granted = stage.executors["another job's executor"]
    own = executor_hello(ref_of(granted))
    names = [*stage.refs, granted.spec.job_id, *(ref.job_id for ref in stage.refs)]
    kinds = [broken(kind, names) for kind in get_args(messages.FromExecutor)]

    async def attack(said: tuple[bool, list[Any]]) -> tuple[str, list[Any]]:
        return granted.credentials.hub, [*([own] if said[0] else []), *said[1]]

    said = st.lists(st.one_of(FRAMES, FRAMES, *kinds), min_size=1, max_size=4)
    await asyncio.to_thread(
        attacked.fuzz, st.tuples(st.sampled_from([True, True, True, False]), said), attack, 2 * EXAMPLES
    )
    await attacked.unchanged()


async def test_valid_messages_in_any_order_change_nothing_but_their_own_job(attacked: Attacker) -> None:
    """Each example has an attempt of its own, which may do with it whatever it likes."""
    stage, jobs = attacked.stage, attacked.stage.hub.crew.rows
    instance = await jobs.runner(slots=1000)
    stage.not_ours |= {instance.id, instance.runner_id}
    kept = KeptPlan(0, "ab" * 32, 2, "/w")
    frame = st.sampled_from(
        [
            (StepStatus(Step.PLAN, "RUNNING"),),
            ("a line\n",),
            (Result("WAITING"),),
            (Result("WAITING", kept=kept),),
            (Result("SUCCEEDED", kept=kept),),
            (Result("SUCCEEDED"), "after the end\n", Result("FAILED")),
            (OutputsRead({"a": Output(1)}, "ab"),),
            ("a\n", Result("CANCELED")),
        ]
    )
    begin = st.builds(messages.Begin, st.integers(0, 2), st.sampled_from([None, 0, 1, 2]))
    words = st.one_of(begin, st.just("hello"), st.tuples(st.sampled_from(["next", "again", "gap"]), frame))

    async def attack(said: tuple[bool, str, list[Any]]) -> tuple[str, list[Any]]:
        granted = await _own(stage, instance, said[1])
        hello = executor_hello(ref_of(granted))
        out: list[Any] = [hello] if said[0] else []
        number = 1
        for each in said[2]:
            if isinstance(each, tuple):
                how, facts = each
                out.append(batch({"next": number, "again": max(1, number - 1), "gap": number + 5}[how], *facts))
                number += len(facts) if how == "next" else 0
            else:
                out.append(hello if each == "hello" else each)
        return granted.credentials.hub, out

    order = st.tuples(
        st.sampled_from([True, True, True, False]), st.sampled_from(["PLAN", "APPLY"]), st.lists(words, max_size=5)
    )
    await asyncio.to_thread(attacked.fuzz, order, attack)
    await attacked.unchanged()


async def _own(attacked: AttackedHub, instance: Instance, kind: str) -> messages.Granted:
    module_id = await instance.rows.module()
    job_id = await instance.rows.job(module_id, kind=kind)
    attacked.not_ours |= {module_id, job_id}
    return await instance.has(job_id)


# ---- what was found so


@pytest.mark.feature("C3.hello")
@pytest.mark.parametrize(
    "frame",
    [DEEP, b"\xff\xfe{}", DEEP.encode(), '{"type":"' + "x" * 900_000 + '"}'],
    ids=["deep", "latin", "binary", "long"],
)
@on_one
async def test_a_hello_that_cannot_be_read_is_refused_in_short_words(hub: Hub, frame: str | bytes) -> None:
    """Deep JSON and bytes that are no UTF-8 were errors of the server's own; a long tag came back whole."""
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        with no_errors():
            for token in (await hub.token(), granted.credentials.hub):
                (told,) = await tried(hub, token, [frame])
                assert told["code"] == "invalid"
                assert len(told["message"]) < 1000


@pytest.mark.parametrize(
    "payload",
    [
        '{"type":"step","step":"plan","status":"RUNNING","exit_code":99999999999999999999}',
        '{"type":"plan","add":99999999999999999999}',
        '{"type":"result","status":"WAITING","kept":{"state_version":99999999999999999999,"sha256":"ab","size":1,"path":"/x"}}',
        '{"type":"outputs","sha256":"a\\u0000b","outputs":{}}',
        '{"type":"outputs","sha256":"ab","outputs":{"a":{"value":' + "[" * 5000 + "]" * 5000 + "}}}",
        '{"type":"engine","name":"x","version":"\\ud800"}',
    ],
    ids=["exit code", "count", "version", "nul", "deep", "surrogate"],
)
async def test_a_fact_that_no_database_could_hold_is_passed_over_with_a_note(hub: Hub, payload: str) -> None:
    """They were errors of the server's own. Then they were refused, came again for ever, and the job never ended."""
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        record = events.pack(Kind.FACT, 2, Step.PLAN, 1.0, payload.encode())
        with no_errors():
            async with hub.executor(granted) as executor:
                await executor.connection.send(frames.pack(1, 1, record))
                assert (await executor.get("ack"))["mark"] == 1
                ended = events.pack_fact(events.Result("FAILED", "so it ended"), Step.PLAN, 1.0)
                await executor.connection.send(frames.pack(2, 1, ended))
                assert (await executor.get("ack"))["mark"] == 2
        note = await hub.crew.app.scalar("SELECT text FROM notes WHERE job_id = :id", id=granted.spec.job_id)
        assert "event 1 cannot be read" in note
        status = await hub.crew.app.scalar("SELECT status FROM jobs WHERE id = :id", id=granted.spec.job_id)
        assert status == "FAILED"


@pytest.mark.feature("C3.hello")
@pytest.mark.parametrize(
    "hello",
    [
        {"instance": "a\0b"},
        {"version": "v" * 101},
        {"version": "\0"},
        {"engines": {"tofu\0": "1"}},
        {"engines": {"tofu": "1" * 101}},
        {"engines": {str(n): "1" for n in range(30)}},
        {"engine_versions": {"tofu": ["1\0"]}},
        {"engine_versions": {"tofu": [str(n) for n in range(30)]}},
        {"engine_versions": {str(n): ["1"] for n in range(30)}},
        {"installable_engines": ["t" * 101]},
        {"installable_engines": [str(n) for n in range(30)]},
        {"instance": ""},
        {"capacity": 0},
    ],
    ids=lambda hello: next(iter(hello)),
)
async def test_a_hello_with_odd_words_in_it_is_refused(hub: Hub, hello: dict[str, Any]) -> None:
    with no_errors():
        async with hub.connected(await hub.token()) as client:
            told = await client.ask(hub.hello(**hello))
    assert (told["type"], told["code"]) == ("refused", "invalid")


async def test_words_on_no_job_at_all_are_refused_and_are_no_error(hub: Hub) -> None:
    """A journal entry of a job whose id is none was a task that failed."""
    with no_errors():
        for message in (
            messages.Gone("x", 1, True, ""),
            messages.HandBack("-", 1, ""),
            messages.Gone("mod_1", 1, False, ""),
        ):
            async with hub.runner(attempts=[AttemptRef("x", 1)]) as runner:
                assert (await runner.ask(message))["code"] == "invalid"
        async with hub.runner() as runner:
            assert (await runner.ask(PING))["type"] == "settled"
