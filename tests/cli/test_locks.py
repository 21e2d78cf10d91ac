"""`terracrew module lock` and `unlock`: a person locks a module by hand, and another one removes the lock by force."""

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("J15.lock")
LOCK = {
    "id": "lck_1",
    "module_id": "mod_1",
    "holder_id": "usr_1",
    "holder_kind": "user",
    "holder_name": "ann",
    "credential_id": "tok_1",
    "credential": "token",
    "created_at": "2024-01-02T03:04:05Z",
}
NONE = {"items": [], "next": None}


def test_a_module_is_locked_by_hand_and_unlocked(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/modules/a%2Fm/lock", LOCK)
    said = terracrew("module", "lock", "a/m", "--reason", "work")
    assert said == "locked a/m; `terracrew module unlock a/m` unlocks it\n"
    for status in ("PROCESSING", "CLAIMED"):
        server.on(f"GET /api/v1/jobs?module=a%2Fm&status={status}&limit=1", NONE)
    held = {"lock": {"job_id": "", "number": 0, "attempt": 0, "since": LOCK["created_at"], "person": LOCK}}
    server.on("GET /api/v1/modules/a%2Fm", held)
    server.on("DELETE /api/v1/modules/a%2Fm/lock?id=lck_1", None)
    assert terracrew("module", "unlock", "a/m") == "unlocked a/m\n"
    server.on("DELETE /api/v1/modules/a%2Fm/lock?id=lck_1&force=true&reason=gone+home", None)
    asked = len(server.asked)
    terracrew("module", "unlock", "a/m", "--force", "--reason", "gone home", stdin="n\n")
    assert not any(each.method == "DELETE" for each in server.asked[asked:]), "nobody has confirmed it"
    said = terracrew("module", "unlock", "a/m", "--force", "--reason", "gone home", "--yes")
    assert said == "unlocked a/m, which ann's terminal had locked\n"
