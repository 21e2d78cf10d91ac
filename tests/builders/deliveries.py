"""Builds what a runner says first, the events of an executor, and the batches in which it delivers them."""

import time
from typing import Any

import msgspec

from terracrew.protocol import events, version
from terracrew.protocol.events import (
    Kind,
    Record,
    Result,
    StateFact,
    StepStatus,
    Stream,
)
from terracrew.protocol.messages import AttemptRef, RunnerHello
from terracrew.protocol.spec import Step
from terracrew.server.jobs.attempts.ingest import Delivery
from terracrew.server.logs import chunks
from terracrew.server.state.model import Received


def log(text: str | bytes, time_: float | None = None) -> Record:
    payload = text.encode() if isinstance(text, str) else text
    return _record(events.pack(Kind.LOG, Stream.OUTPUT, Step.PLAN, time_ or time.time(), payload))


def fact(value: events.Fact) -> Record:
    return _record(events.pack_fact(value, Step.PLAN, time.time()))


def state(serial: int, lineage: str = "a") -> tuple[Record, Received]:
    fact = StateFact(sha256=f"{serial}", size=2, serial=serial, lineage=lineage, is_inline=True)
    return _record(events.pack_state(fact, b"xx", Step.APPLY, time.time())), Received(fact, b"sealed", None)


def _record(packed: bytes) -> Record:
    return next(events.unpack(packed))


def delivery(ref: AttemptRef, first: int, *records: Record, received: dict[int, Received] | None = None) -> Delivery:
    return Delivery(
        ref.job_id, ref.attempt, first, list(records), received or {}, chunks.pack(list(enumerate(records, first)))
    )


RUNNING = fact(StepStatus(Step.PLAN, "RUNNING"))
APPLIED = fact(StepStatus(Step.APPLY, "SUCCEEDED", 0))
DONE = fact(Result("SUCCEEDED"))


def runner_hello(runner_id: str, /, **changes: Any) -> RunnerHello:
    hello = RunnerHello(
        runner_id=runner_id,
        instance="one",
        instance_key="k" * 32,
        version="0.1.0",
        oldest_protocol=version.OLDEST_VERSION,
        newest_protocol=version.NEWEST_VERSION,
        capacity=4,
        engines={"tofu": "1.12.6"},
        attempts=[],
    )
    return msgspec.structs.replace(hello, **changes)
