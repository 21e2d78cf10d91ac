"""Makes applies that wrote states."""

import json

from tests.builders.deliveries import APPLIED, DONE
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner


def content(serial: int, size: int = 0) -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": "a", "padding": "x" * size}).encode()


async def applied(runner: SimulatedRunner, *states: bytes, module_id: str | None = None) -> SimulatedAttempt:
    """A finished apply that wrote these states, with serials from 1 on."""
    attempt = await written(runner, *states, module_id=module_id)
    await attempt.deliver(DONE)
    return attempt


async def written(runner: SimulatedRunner, *states: bytes, module_id: str | None = None) -> SimulatedAttempt:
    """An apply whose engine has ended, and whose result is still to come."""
    attempt = await runner.begun(module_id)
    for serial, state in enumerate(states, 1):
        await attempt.write(state, serial=serial)
    await attempt.deliver(APPLIED)
    return attempt
