"""The receiver of docs/notifications.md works as it stands there."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.server.application import on_one
from tests.server.notifications.telling import Telling

PAGE = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text()
pytestmark = [on_one, pytest.mark.feature("M3.webhook")]


async def test_the_receiver_of_the_page_takes_our_messages_and_refuses_others(telling: Telling, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    program = tmp_path / "receiver.py"
    program.write_text(found[1])
    # The address is known only when the program runs, and it needs the secret before that.
    made = await telling.channel(url="http://127.0.0.1:1/")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), made["secret"], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 20))
        path = "/api/v1/notification-channels/ops"
        await telling.application.admin.patch(path, json={"url": f"http://127.0.0.1:{port}/"})
        await telling.announce("Job #7 failed")
        await telling.sending.step()
        assert (await telling.delivery())["answer_status"] == 204
        assert await asyncio.wait_for(process.stdout.readline(), 20) == b"Job #7 failed\n"
        await telling.application.admin.post(f"{path}/secret")
        answer = (await telling.application.admin.post(f"{path}/test")).json()
        assert answer["answer_status"] == 401, "it is signed with another secret now"
    finally:
        process.kill()
        await process.wait()
