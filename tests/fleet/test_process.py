"""The fleet process as its server speaks with it: cancel unwinds, abort and silence undo nothing, a fault is an answer."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator

import pytest

from terracrew.fleet import messages, process
from terracrew.fleet.messages import (
    AbortJob,
    CallCloud,
    CancelJob,
    CheckWork,
    CloudAnswered,
    DeployWork,
    FoundCall,
    ProcessMessage,
    RunJob,
    ServerMessage,
    TokenAnswer,
    TokenWanted,
    WorkEnded,
)
from terracrew.fleet.process import FleetExit, FleetProcess
from tests.fleet.simulated_account import SimulatedAccount, deployment, identity
from tests.fleet.simulated_cloud import SimulatedCloud

pytestmark = pytest.mark.feature("W4.fleet")


class Peer:
    """The server's end of the socket."""

    def __init__(self, account: SimulatedAccount) -> None:
        self.account = account
        self._here, there = socket.socketpair()
        for each in (self._here, there):
            each.setblocking(False)
        self.process = asyncio.create_task(FleetProcess(there, SimulatedCloud).run())

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._here)

    def say(self, message: ServerMessage) -> None:
        self._writer.write(messages.encoded(message))

    def say_bytes(self, content: bytes) -> None:
        self._writer.write(content)

    def deploy(self) -> None:
        self.say(RunJob("fjb_1", 1, identity(self.account), DeployWork(deployment(), "token")))

    async def next(self, kind: type[ProcessMessage]) -> ProcessMessage:
        """Return the next message of a kind."""
        async with asyncio.timeout(20):
            while (body := await messages.receive(self._reader)) is not None:
                if isinstance(message := messages.of_process.decode(body), kind):
                    return message
        raise AssertionError("the process has ended")

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def peer() -> AsyncGenerator[Peer]:
    async with SimulatedAccount().serving() as account:
        made = Peer(account)
        await made.open()
        yield made
        made.close()
        async with asyncio.timeout(20):
            await asyncio.gather(made.process, return_exceptions=True)


async def test_a_canceled_deployment_removes_what_it_has_made(peer: Peer) -> None:
    peer.account.hold("put logs")
    peer.deploy()
    await peer.account.arrived("put logs")
    peer.say(CancelJob("fjb_1", 1))
    peer.say(CancelJob("fjb_1", 7))
    peer.say(CallCloud(1, identity(peer.account), FoundCall()))
    await peer.next(CloudAnswered)  # the cancel has come by then
    peer.account.release("put logs")
    assert await peer.next(WorkEnded) == WorkEnded("fjb_1", 1, "canceled")
    assert peer.account.made() == []


async def test_an_aborted_job_undoes_nothing_and_says_nothing(peer: Peer) -> None:
    peer.account.hold("put logs")
    peer.deploy()
    await peer.account.arrived("put logs")
    peer.say(AbortJob("fjb_1", 1))
    peer.say(CallCloud(1, identity(peer.account), FoundCall()))
    assert await peer.next(CloudAnswered)
    peer.account.release("put logs")
    peer.say(CallCloud(2, identity(peer.account), FoundCall()))
    assert await peer.next(CloudAnswered)
    assert peer.account.made()[-1] == "rnr_1/role"
    assert peer.account.count("remove role") == 0


async def test_a_refusal_is_the_end_of_the_job_in_the_words_of_the_cloud(peer: Peer) -> None:
    peer.account.refusals["put definition"] = "you are not authorized to register tasks"
    peer.deploy()
    assert await peer.next(WorkEnded) == WorkEnded("fjb_1", 1, "failed", "you are not authorized to register tasks")
    assert peer.account.made() == []


async def test_a_check_that_fails_says_how_many_did(peer: Peer) -> None:
    peer.account.refusals["list all"] = "list is not allowed"
    peer.say(RunJob("fjb_1", 1, identity(peer.account), CheckWork()))
    wanted = await peer.next(TokenWanted)
    assert isinstance(wanted, TokenWanted)
    peer.say(TokenAnswer(wanted.id, "signed"))
    assert await peer.next(WorkEnded) == WorkEnded("fjb_1", 1, "failed", "1 of 2 checks failed: list is not allowed")


async def test_a_token_that_the_server_does_not_sign_fails_the_job_with_its_reason(peer: Peer) -> None:
    peer.say(RunJob("fjb_1", 1, identity(peer.account), CheckWork()))
    wanted = await peer.next(TokenWanted)
    assert isinstance(wanted, TokenWanted)
    peer.say(TokenAnswer(wanted.id, problem="no request of this identity is being served"))
    ended = await peer.next(WorkEnded)
    assert ended == WorkEnded("fjb_1", 1, "failed", "no request of this identity is being served")


async def test_jobs_whose_leases_are_not_renewed_are_given_up(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be stopped for minutes, and another server then has the jobs."""
    exits: list[int] = []
    monkeypatch.setattr(process, "MAX_SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(os, "_exit", exits.append)
    peer.account.hold("put logs")
    peer.deploy()
    async with asyncio.timeout(20):
        while not exits:
            await asyncio.sleep(0.05)
    assert exits[0] == FleetExit.SILENT
    assert peer.account.count("remove role") == 0


async def test_something_that_is_no_message_of_the_server_ends_the_process(peer: Peer) -> None:
    peer.say_bytes(b"\0\0\0\2{}")
    async with asyncio.timeout(20):
        assert await peer.process == FleetExit.FAULTY
