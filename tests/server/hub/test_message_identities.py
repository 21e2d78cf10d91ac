"""Every message of the hub is refused or has no effect if its sender may not send it, and the runner at work is undisturbed.

The messages come from the unions, so that a new one is tried as soon as it exists: what an attacker would say with it has to be
told here.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from terracrew.protocol import events, frames, messages
from terracrew.protocol.events import (
    EngineUsed,
    KeptPlan,
    Output,
    OutputsRead,
    PlanSummary,
    Result,
    StateFact,
    StepStatus,
)
from terracrew.protocol.spec import Step
from terracrew.server.hub.runners import ended_attempts
from tests.e2e.simulated_runner import batch
from tests.server.hub.hostile_clients import PING, AttackedHub, connected, no_errors, rest, say, staged
from tests.server.hub.hub_clients import Client, Hub, executor_hello, ref_of

Attack = Callable[[AttackedHub], list[Any]]
LEAVE_IT = "none of your business"

FROM_RUNNER: dict[type[msgspec.Struct], Attack] = {
    messages.RunnerHello: lambda it: [
        it.hub.hello(),
        it.hub.hello(attempts=it.refs),
        it.hub.hello(instance="two", instance_key="x" * 32),
    ],
    messages.Heartbeat: lambda it: [
        *(messages.Heartbeat("0.1.0", is_draining, it.refs) for is_draining in (True, False)),
        messages.Heartbeat(
            "0.1.0", False, it.refs, starting=[messages.WaitingStart(*_of(ref), LEAVE_IT) for ref in it.refs]
        ),
    ],
    messages.HandBack: lambda it: [messages.HandBack(*_of(ref), LEAVE_IT) for ref in it.refs],
    messages.Gone: lambda it: [messages.Gone(*_of(ref), saw, LEAVE_IT) for ref in it.refs for saw in (True, False)],
    messages.Credits: lambda _: [messages.Credits(1000, 0), messages.Credits(1 << 50, 1 << 50)],
    messages.Leave: lambda _: [messages.Leave(), messages.Leave(1e300)],
    messages.UpdateReport: lambda it: [
        messages.UpdateReport(it.update_id, "done", "trial", LEAVE_IT),
        messages.UpdateReport(it.queued, "failed", "fetch", LEAVE_IT),
    ],
    messages.TrialReport: lambda _: [
        messages.TrialReport(True, LEAVE_IT),
        messages.TrialReport(False, LEAVE_IT, 1e300),
    ],
    messages.Renew: lambda it: [messages.Renew(it.working.credentials.hub), messages.Renew(it.working.credentials.api)],
}
FROM_EXECUTOR: dict[type[msgspec.Struct], Attack] = {
    messages.ExecutorHello: lambda it: [executor_hello(ref) for ref in it.refs],
    messages.Begin: lambda _: [messages.Begin(0), messages.Begin(0, 1), messages.Begin(1, 2)],
}
FACTS: dict[type[msgspec.Struct], Any] = {
    StepStatus: StepStatus(Step.APPLY, "RUNNING"),
    events.SourceResolved: events.SourceResolved("ab", LEAVE_IT),
    PlanSummary: PlanSummary(add=5),
    events.PlanDescribed: events.PlanDescribed("ab" * 32, b"{}"),
    events.PlanShown: events.PlanShown("ab" * 32, b"{}"),
    events.PlanCost: events.PlanCost(1.0, 2.0, "EUR"),
    OutputsRead: OutputsRead({"a": Output(1)}, "ab"),
    EngineUsed: EngineUsed("tofu", "9"),
    events.OutputMissing: events.OutputMissing(),
    Result: Result("SUCCEEDED", LEAVE_IT),
}


def _of(ref: messages.AttemptRef) -> tuple[str, int]:
    return ref.job_id, ref.attempt


def attacks(attacked: AttackedHub, first: int = 3) -> list[Any]:
    """Everything that can be said, by whichever kind of client; events from this number on."""
    said = [each for union in (FROM_RUNNER, FROM_EXECUTOR) for attack in union.values() for each in attack(attacked)]
    state = events.pack_state(StateFact("ab", 2, 9, "a", is_inline=True), b"x" * 40, Step.APPLY, 1.0)
    return [*said, batch(first, *FACTS.values()), batch(first, "a line\n"), frames.pack(first, 1, state)]


def test_every_message_and_every_fact_is_tried() -> None:
    """What is missing here would be tried by an attacker only."""
    assert set(get_args(messages.FromRunner)) == set(FROM_RUNNER)
    assert set(get_args(messages.FromExecutor)) == set(FROM_EXECUTOR)
    assert set(get_args(events.Fact)) == set(FACTS)


async def differences(attacked: AttackedHub, before: dict[str, Any]) -> list[str]:
    await attacked.at_rest()
    after = await attacked.everything()
    return [name for name in before if before[name] != after[name]]


async def harm(attacked: AttackedHub, before: dict[str, Any], who: str) -> list[str]:
    """What somebody has changed or disturbed."""
    changed, disturbed = await differences(attacked, before), await attacked.is_undisturbed()
    return [f"after {who}: {changed} {disturbed}"] if changed or disturbed else []


@pytest.mark.feature("X2.enforced")
async def test_who_has_no_place_here_is_refused_at_the_door(hub: Hub) -> None:
    """The first thing that they say is the last, whatever it is."""
    wrong: list[str] = []
    async with staged(hub) as attacked:
        before = await attacked.everything()
        for who, headers in attacked.headers.items():
            for message in attacks(attacked):
                with no_errors():
                    async with connected(hub, headers) as client:
                        with suppress(ConnectionClosed):
                            await say(client, message)
                        told = await rest(client)
                if [each["type"] for each in told] != ["refused"] or told[0]["code"] == "internal":
                    wrong.append(f"{who} said {message!r:.100} and was told {told}")
            wrong += await harm(attacked, before, who)
    assert not wrong, "\n".join(wrong)


@pytest.mark.feature("S1.assigned", "X2.enforced")
async def test_a_runner_speaks_for_nobody_but_itself(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[str] = []
    async with staged(hub) as attacked:
        monkeypatch.setattr(
            ended_attempts, "LEAVING_SECONDS", 0.05
        )  # for the attacks; the staging reports an end itself
        before = await attacked.everything()
        for who, (token, hello) in attacked.runners.items():
            for message in attacks(attacked):
                wrong += await tried(hub, who, token, hello, message)
            wrong += await harm(attacked, before, who)
    assert not wrong, "\n".join(wrong)


async def tried(hub: Hub, who: str, token: str, hello: msgspec.Struct, message: Any) -> list[str]:
    """What is wrong with the answers to a client that says this when it is welcome, or as its hello."""
    with no_errors():
        told = await _inside(hub, token, hello, message)
    bad = [each for each in told if each["type"] in ("granted", "begun") or each.get("code") == "internal"]
    if isinstance(message, type(hello)):
        async with hub.connected(token) as client:
            answer = await client.ask(message)
        if answer["type"] != "refused" or answer["code"] not in ("not_found", "forbidden"):
            bad.append(answer)
    return [f"{who} said {message!r:.100} and was told {bad}"] if bad else []


async def _inside(hub: Hub, token: str, hello: msgspec.Struct, message: Any) -> list[dict[str, Any]]:
    """What somebody is told who is welcome as what it is, and then says this."""
    async with connected(hub, {"Authorization": f"Bearer {token}"}) as client:
        assert (await client.ask(hello))["type"] == "welcome"
        with suppress(ConnectionClosed):
            await say(client, message)
            await client.send(PING)
        return await _up_to_the_ping(client)


async def _up_to_the_ping(client: Client) -> list[dict[str, Any]]:
    told = await rest(client, until="settled")
    while told and told[-1]["type"] == "settled" and told[-1]["job_id"] != PING.job_id:
        told += await rest(client, until="settled")
    return told


@pytest.mark.feature("X4.executor")
async def test_an_executor_reaches_nothing_but_its_own_attempt(hub: Hub) -> None:
    wrong: list[str] = []
    async with staged(hub) as attacked:
        before = await attacked.everything()
        for who, granted in (attacked.executors | {"a superseded executor": attacked.superseded}).items():
            own = executor_hello(ref_of(granted))
            for message in attacks(attacked, first=1 if granted is not attacked.superseded else 3):
                wrong += await tried(hub, who, granted.credentials.hub, own, message)
            wrong += await harm(attacked, before, who)
    assert not wrong, "\n".join(wrong)


@pytest.mark.feature("C2.superseded", "C4.idempotent", "O3.fenced", "X4.executor")
async def test_a_superseded_executor_is_told_so_and_can_only_leave_notes(hub: Hub) -> None:
    async with staged(hub) as attacked:
        before = await attacked.everything()
        async with hub.connected(attacked.superseded.credentials.hub) as client:
            assert (await client.ask(executor_hello(ref_of(attacked.superseded))))["is_superseded"]
            for plan in (None, 1, 2):
                assert (await client.ask(messages.Begin(0, plan)))["code"] == "superseded"
            kept = Result("WAITING", kept=KeptPlan(0, "ab", 2, "/x"))
            await client.connection.send(batch(3, *FACTS.values()))
            assert (await client.get("ack"))["mark"] == 2 + len(FACTS)
            await client.connection.send(batch(3 + len(FACTS), kept))  # of a plan that is not stored
            assert (await rest(client))[-1]["type"] == "refused"
        assert await differences(attacked, before) == []
        assert await attacked.is_undisturbed() == ""


@pytest.mark.feature("X2.enforced")
async def test_a_runner_that_names_anothers_attempt_does_not_silence_that_one(hub: Hub) -> None:
    """Once its naming took the place of the owner's in the batch, and other servers never heard of the attempt."""
    async with staged(hub) as attacked:
        ref = ref_of(attacked.waiting)
        heard = "SELECT heard_at FROM attempts WHERE job_id = :id"
        beat = messages.Heartbeat("0.1.0", is_draining=False, attempts=[ref])
        token, hello = attacked.runners["another runner"]
        async with hub.connected(token) as other:
            await other.ask(hello)
            for client in (attacked.victim, other):
                await client.send(beat)
                await client.ask(PING)
            before = await hub.crew.app.scalar(heard, id=ref.job_id)
            await hub.server.heartbeats.step()
            assert await hub.crew.app.scalar(heard, id=ref.job_id) != before
