"""What a runner says first, for tests that speak to the server themselves."""

from typing import Any

import msgspec

from terracrew.protocol import version
from terracrew.protocol.messages import RunnerHello


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
