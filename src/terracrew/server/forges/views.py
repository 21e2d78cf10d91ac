"""What people are shown of connections, their repositories and deliveries."""

from collections.abc import Sequence

from terracrew.api import fields
from terracrew.api.forges import ForgeDeliveryView, ForgeRepositoryView, ForgeView
from terracrew.forges.model import BranchMoved, CommentWritten, ForgeEvent, PullRequestChanged
from terracrew.server.db.seam import Tx
from terracrew.server.forges import reads
from terracrew.server.forges.model import ForgeConnection, ForgeDelivery, ForgeRepository


def of_connection(connection: ForgeConnection, hooks_url: str) -> ForgeView:
    hook_url = "" if connection.kind == "git" else f"{hooks_url}/{connection.id}"
    return fields.created(ForgeView, connection, path=connection.path, hook_url=hook_url)


async def of_repositories(tx: Tx, repositories: Sequence[ForgeRepository]) -> list[ForgeRepositoryView]:
    counts = await reads.counts(tx, *(each.id for each in repositories))
    return [
        fields.created(ForgeRepositoryView, each, open_pull_requests=counts.get(each.id, 0)) for each in repositories
    ]


def of_delivery(delivery: ForgeDelivery) -> ForgeDeliveryView:
    return fields.created(ForgeDeliveryView, delivery, about=[_words(each) for each in delivery.events])


def _words(event: ForgeEvent) -> str:
    match event:
        case PullRequestChanged(repository=name, number=number):
            return f"{name}, pull request {number}"
        case CommentWritten(repository=name, comment=comment):
            return f"{name}, a comment on pull request {comment.number}"
        case BranchMoved(repository=name, branch=branch, is_tag=is_tag):
            return f"{name}, {'tag' if is_tag else 'branch'} {branch}"
