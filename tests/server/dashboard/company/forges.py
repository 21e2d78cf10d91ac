"""Connections of the company to forges: one that works and has delivered something, and one whose token was revoked."""

from datetime import timedelta

from msgspec.structs import replace

from terracrew import ids
from terracrew.api.forges import Finding, ForgeKind
from terracrew.forges.model import BranchMoved, PullRequestChanged
from terracrew.server.forges import delivery_store, repository_store, sealing, store
from terracrew.server.forges.model import ForgeConnection, ForgeCredential, ForgeDelivery
from terracrew.server.secrets.keyring import Keyring
from tests.server.dashboard.company.rows import Company

REFUSED = (
    "the forge does not accept the token: Bad credentials. Make a new token and set it with "
    "`terracrew forge update NAME --token-file FILE`"
)


async def forges(made: Company, keys: Keyring) -> None:
    github = await _connection(made, keys, "", "github", "github", "https://github.com", owner="acme")
    working = replace(
        github,
        contacted_at=made.tx.moment - timedelta(seconds=40),
        delivered_at=made.tx.moment - timedelta(minutes=9),
        tested_at=made.tx.moment - timedelta(hours=5),
        findings=[
            Finding(name="sign in", is_good=True, message="as the application terracrew"),
            Finding(
                name="write comments", is_good=False, message="give it Issues: write, on the page of the application"
            ),
        ],
    )
    await store.save(made.tx, github, working)
    await _repositories(made, github.id)
    await _deliveries(made, github.id)
    gitea = await _connection(made, keys, "payments", "gitea", "gitea", "https://git.example.com")
    await store.save(
        made.tx, gitea, replace(gitea, problem=REFUSED, failures=3, away_until=made.tx.moment + timedelta(minutes=4))
    )


async def _connection(
    made: Company, keys: Keyring, group: str, name: str, kind: ForgeKind, url: str, *, owner: str = ""
) -> ForgeConnection:
    connection_id = ids.new("fcn")
    connection = ForgeConnection(
        id=connection_id,
        organization_id=made.organization_id,
        group_id=await made.group(group),
        group=group,
        name=name,
        description="",
        kind=kind,
        base_url=url,
        owner=owner,
        app_id="",
        username="",
        makes_hooks=True,
        merges=True,
        sealed=sealing.seal(keys, connection_id, ForgeCredential(token="t0ken", hook_secret="hush")),
        credential_version=1,
        created_by=made.user_id,
        created_at=made.tx.moment,
    )
    await store.insert(made.tx, connection)
    return connection


async def _repositories(made: Company, connection_id: str) -> None:
    await repository_store.watch(made.tx, connection_id, ["acme/network", "acme/ledger"], is_added=True)
    for name, status, words in (
        ("acme/network", "enabled", ""),
        (
            "acme/ledger",
            "missing",
            "the hook could not be made, so the repository is polled: the forge does not allow it",
        ),
    ):
        before = await repository_store.named(made.tx, connection_id, name)
        assert before is not None
        after = replace(
            before,
            clone_url=f"https://github.com/{name}.git",
            url=f"https://github.com/{name}",
            default_branch="main",
            default_commit="9f2c" * 10,
            polled_at=made.tx.moment - timedelta(seconds=40),
            poll_at=made.tx.moment + timedelta(hours=1),
            checked_at=made.tx.moment,
            hook_status=status,
            hook_message=words,
        )
        await repository_store.save(made.tx, before, after)


async def _deliveries(made: Company, connection_id: str) -> None:
    events = [
        ("push", BranchMoved("acme/network", "main", "9f2c" * 10), ""),
        ("pull_request", PullRequestChanged("acme/network", 431), ""),
        ("pull_request", PullRequestChanged("acme/site", 7), "the repository acme/site is not watched"),
    ]
    for number, (event, found, problem) in enumerate(events):
        at = made.tx.moment - timedelta(minutes=30 - number)
        delivery = ForgeDelivery(
            id=ids.new("fdl"),
            connection_id=connection_id,
            delivery_id=str(number),
            event=event,
            events=[found],
            received_at=at,
            handled_at=at,
            problem=problem,
            tries=1,
        )
        await delivery_store.insert(made.tx, delivery)
