"""A roll-out for pages: a first runner and a part of the second wave are updated, and two runners are updated by hand."""

from datetime import UTC, datetime, timedelta

from terracrew import ids
from terracrew.api.rollouts import Rollout, RolloutRunner, RolloutRunnerStatus, RolloutStatus
from terracrew.server.db.seam import Database, Tx
from terracrew.server.rollouts import store
from terracrew.server.tree.groups import store as groups

_S = RolloutRunnerStatus
PIP = "/opt/terracrew/bin/python -m pip install --upgrade 'terracrew==1.5.0'"
HELM = (
    "helm upgrade warehouse deploy/helm/terracrew-runner --namespace data --reuse-values "
    "--set image.tag=1.5.0@sha256:0f3b1c"
)
_ROWS: list[tuple[str, int | None, str, RolloutRunnerStatus, str, str]] = [
    ("frankfurt-prod", 0, "1.3.2", _S.UPDATED, "said hello and passed its trial after 61 s", ""),
    ("platform/network/net-a", 1, "1.4.0", _S.UPDATED, "said hello and passed its trial after 8 s", ""),
    ("platform/network/net-b", 1, "1.4.0", _S.UPDATING, "", ""),
    ("payments/prod/pay-a", 2, "1.4.0", _S.WAITING, "", ""),
    ("payments/prod/pay-c", 2, "1.4.0", _S.WAITING, "", ""),
    ("payments/prod/pay-d", 2, "1.4.0", _S.SKIPPED, "it is disabled", ""),
    ("payments/prod/pay-b", None, "1.3.2", _S.BY_HAND, "its setting `runner.self_update` is off", PIP),
    ("data/warehouse", None, "1.4.0", _S.BY_HAND, "its program is part of an image: upgrade its Helm release", HELM),
    ("built/from-source", None, "", _S.BY_HAND, "it runs from a checkout of the sources: update that", ""),
]


async def begin(db: Database, organization_id: str, *, words: str = "") -> Rollout:
    """Write a roll-out. Each runner belongs to the group that its path names, or to the organization if that does not exist."""
    now = datetime.now(UTC)
    rollout = Rollout(
        id=ids.new("rlo"),
        organization_id=organization_id,
        version="1.5.0",
        status=RolloutStatus.ROLLING,
        is_automatic=False,
        started_by="usr_1",
        started_by_name="marta",
        started_at=now - timedelta(minutes=9),
    )

    async def work(tx: Tx) -> None:
        top = await groups.at(tx, organization_id, "")
        assert top is not None
        members: list[RolloutRunner] = []
        for number, (path, wave, version, status, said, command) in enumerate(_ROWS):
            group = await groups.at(tx, organization_id, path.rpartition("/")[0]) or top
            has_job = status in (_S.UPDATED, _S.UPDATING)
            members.append(
                RolloutRunner(
                    rollout_id=rollout.id,
                    runner_id=ids.new("rnr"),
                    group_id=group.id,
                    path=path,
                    wave=wave,
                    from_version=version,
                    status=status,
                    job_id=ids.new("fjb") if has_job else None,
                    job_number=2022 + number if has_job else None,
                    words=words or said,
                    command=command,
                    changed_at=now - timedelta(minutes=7 - number * 0.7),
                )
            )
        await store.insert(tx, rollout, members)

    await db.write(work)
    return rollout
