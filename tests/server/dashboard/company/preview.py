"""Serve the seeded pages to look at while working on them: `python -m tests.server.dashboard.company.preview [port]`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.server.dashboard.company.stage import Stage


async def main(port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), port)
        await stage.start()
        print(stage.link, flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await stage.stop()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7455))
