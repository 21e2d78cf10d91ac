"""Lets the merge queue of a forge go on: it waits until the required status stands beside the commit that it has made."""

from terracrew.forges.contract import Forge
from terracrew.forges.model import REQUIRED_STATUS, Status

BRANCHES = "gh-readonly-queue/"
"""What the names of the branches of a merge queue begin with. Only the forge can push to them."""
WORDS = "planned in its pull request; after the merge, what differs is planned again and waits for approval"


async def let_through(forge: Forge, repository: str) -> None:
    """Say yes to every commit of the queue. Its pull requests had to have their own statuses before they could get into it, and what
    applies after the merge compares the files, and plans again what is different."""
    for commit in await forge.queued_merges(repository):
        status = Status(context=REQUIRED_STATUS, state="success", description=WORDS, url="")
        await forge.set_status(repository, commit, status)
