"""`python -m tests.bench.heard_server …`: a server that receives heartbeats of the instances of `large`, as if they were connected to it.

Everything except the connections is the same as with that many real runners: each heartbeat is noted, and the server writes it.
"""

import asyncio

from terracrew.cli.main import main
from terracrew.server import app
from terracrew.server.connections.heartbeats import Heartbeats
from tests.bench import large

HEARTBEAT_SECONDS = 10.0
TURN_SECONDS = 0.1
_TURNS = round(HEARTBEAT_SECONDS / TURN_SECONDS)


class HeardInstances(Heartbeats):
    async def run(self) -> None:
        hearing = asyncio.create_task(self._hear())
        try:
            await super().run()
        finally:
            hearing.cancel()

    async def _hear(self) -> None:
        """Record a heartbeat of each instance every ten seconds, spread over that time."""
        while True:
            for turn in range(_TURNS):
                for number in range(1 + turn, large.RUNNERS + 1, _TURNS):
                    self.note(f"ins_{number:032}", 1)
                await asyncio.sleep(TURN_SECONDS)


if __name__ == "__main__":
    app.Heartbeats = HeardInstances
    main()
