"""`terracrew runner update` to a release, `--all` with its waves, and `terracrew release rollout`."""

from typing import Any

import pytest

from terracrew.api.fleet_jobs import FleetJobView
from terracrew.api.rollouts import RolloutRunnerView, RolloutView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "V2.outdated", "V2.rollouts")
PREVIEW: dict[str, Any] = {
    "version": "1.5.0",
    "runners": [
        {
            "runner_id": "rnr_1",
            "group_id": "grp_1",
            "path": "net/a",
            "from_version": "1.4.0",
            "wave": 0,
            "reason": "",
            "command": "",
        },
        {
            "runner_id": "rnr_2",
            "group_id": "grp_1",
            "path": "net/b",
            "from_version": "1.4.0",
            "wave": 1,
            "reason": "",
            "command": "",
        },
        {
            "runner_id": "rnr_3",
            "group_id": "grp_1",
            "path": "pay/b",
            "from_version": "1.3.2",
            "wave": None,
            "reason": "it does not update itself",
            "command": "python -m pip install --upgrade 'terracrew==1.5.0'",
        },
    ],
    "breaking": [],
    "automatic_words": "",
    "open_rollout_id": None,
}


def member(path: str, wave: int | None, status: str, **more: Any) -> dict[str, Any]:
    return answer(
        RolloutRunnerView, runner_id=f"rnr_{path}", path=path, wave=wave, from_version="1.4.0", status=status, **more
    )


ROLLOUT = answer(
    RolloutView,
    id="rlo_1",
    version="1.5.0",
    status="stopped",
    stop_reason="the trial did not pass",
    stop_runner_id="rnr_net/b",
    is_automatic=False,
    started_by_name="marta",
    started_at="2024-01-02T03:04:05Z",
    ended_at="2024-01-02T03:14:05Z",
    counts={"waiting": 1, "updating": 0, "updated": 1, "failed": 1, "by_hand": 1, "skipped": 0},
    wave=1,
    waves=3,
    is_changeable=True,
    runners=[
        member("net/a", 0, "updated", words="said hello and passed its trial after 41 s", job_number=12),
        member("net/b", 1, "failed", words="the trial did not pass", job_number=13),
        member("net/c", 2, "waiting"),
        member("pay/b", None, "by_hand", words="it does not update itself", command="helm upgrade warehouse"),
    ],
)
JOB = answer(
    FleetJobView,
    id="fjb_1",
    number=12,
    type="UPDATE_WORKER",
    status="SUCCEEDED",
    target_name="net/a",
    error="",
    steps=[],
)


def test_one_runner_is_updated_and_followed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/runners/net%2Fa/update", JOB | {"status": "QUEUED"})
    server.on("GET /api/v1/fleet-jobs/fjb_1", JOB)
    assert "UPDATE_WORKER #12 SUCCEEDED" in terracrew("runner", "update", "net/a")
    assert server.asked[0].json() == {"version": None, "accept_breaking": False}
    server.on("GET /api/v1/fleet-jobs/fjb_1", JOB | {"status": "FAILED", "error": "the trial did not pass"})
    assert "the trial did not pass" in terracrew("runner", "update", "net/a", "--version", "1.5.0")
    assert terracrew.code == 1


def test_all_are_shown_first_and_need_an_answer(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/rollouts/preview?group=", PREVIEW)
    out = terracrew("runner", "update", "--all", "--dry-run")
    assert out.splitlines() == [
        "Update to 1.5.0",
        "",
        "First, alone",
        "  net/a  1.4.0 → 1.5.0",
        "",
        "Wave 2",
        "  net/b  1.4.0 → 1.5.0",
        "",
        "By hand",
        "  pay/b  1.3.2  it does not update itself",
        "    python -m pip install --upgrade 'terracrew==1.5.0'",
        "",
    ]
    terracrew("runner", "update", "--all")
    assert "add --yes" in terracrew.err
    server.on("POST /api/v1/rollouts", ROLLOUT)
    server.on("GET /api/v1/rollouts/rlo_1", ROLLOUT)
    out = terracrew("runner", "update", "--all", "--yes")
    assert terracrew.code == 1
    assert "roll-out of 1.5.0 stopped: wave 2 of 3, 1 of 4 updated, 1 failed, 1 by hand" in out
    assert "the trial did not pass" in terracrew.err


def test_a_breaking_release_is_accepted_explicitly(terracrew: Terracrew, server: ScriptedServer) -> None:
    breaking = [{"version": "1.4.0", "words": "rename runner.slots"}]
    server.on("GET /api/v1/rollouts/preview?group=", PREVIEW | {"breaking": breaking})
    terracrew("runner", "update", "--all", "--yes")
    assert "rename runner.slots" in terracrew.err
    assert "add --accept-breaking" in terracrew.err
    server.on("POST /api/v1/rollouts", ROLLOUT | {"status": "rolling"})
    terracrew("runner", "update", "--all", "--yes", "--accept-breaking", "--no-wait")
    assert server.asked[-1].json() == {"version": "1.5.0", "group": "", "accept_breaking": True}


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--all", "net/a"], "takes no PATH"),
        ([], "name a runner"),
        (["net/a", "--dry-run"], "need --all"),
        (["net/a", "--version", "1.5.0", "--max-jobs", "2"], "change its fields with another command"),
    ],
)
def test_options_that_do_not_go_together_are_refused(terracrew: Terracrew, words: list[str], refusal: str) -> None:
    terracrew("runner", "update", *words)
    assert terracrew.code == 2
    assert refusal in terracrew.err


def test_a_roll_out_is_shown_with_its_waves_and_controlled(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/rollouts/latest", ROLLOUT)
    out = terracrew("release", "rollout", "show")
    assert "net/b: the trial did not pass" in out
    assert "First, alone\n  ✓ net/a  1.4.0 → 1.5.0  updated  said hello and passed its trial after 41 s  job #12" in out
    assert "Wave 3\n  · net/c  1.4.0 → 1.5.0  waiting" in out
    assert "By hand\n  pay/b  1.4.0  it does not update itself\n    helm upgrade warehouse" in out
    for word in ("pause", "resume", "stop"):
        server.on(f"POST /api/v1/rollouts/rlo_1/{word}", ROLLOUT)
        assert "the roll-out of 1.5.0: wave 2 of 3" in terracrew("release", "rollout", word, "rlo_1")
    server.on("GET /api/v1/rollouts", {"items": [ROLLOUT], "next": None})
    assert "1.5.0" in terracrew("release", "rollout", "list")
