"""The jobs that are offered now: to whom, for how long, and to whom next if nobody claims them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from terracrew.protocol import messages
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.candidates import Candidates
from terracrew.server.scheduling.queue import Waiting

WIDEN_SECONDS = 0.05
"""If nobody claims an offer for this long, it goes to twice as many instances. At first, only the freest one gets it."""
OFFER_TTL_SECONDS = 2.0


class OpenOffer:
    def __init__(self, job: Waiting, route: Route) -> None:
        self.job = job
        self.route = route
        self.sessions: list[RunnerSession] = []
        self.claims = 0
        """The number of claims that the database has not decided yet; while there is one, no further offer is made."""
        self.timer: asyncio.TimerHandle | None = None


class OpenOffers:
    def __init__(
        self, candidates: Candidates, is_doubtful: Callable[[str], bool], again: Callable[[OpenOffer], None]
    ) -> None:
        """`is_doubtful` says of a job that it has to be read before it is offered further, and `again` takes back an offer that
        everybody has left alone."""
        self._candidates, self._is_doubtful, self._again = candidates, is_doubtful, again
        self._offers: dict[str, OpenOffer] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._offers

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of the jobs."""
        return iter(self._offers)

    @property
    def jobs(self) -> list[Waiting]:
        return [offer.job for offer in self._offers.values()]

    @property
    def routes(self) -> list[tuple[Route, Waiting]]:
        """The jobs, each with its line."""
        return [(offer.route, offer.job) for offer in self._offers.values()]

    def get(self, job_id: str) -> OpenOffer | None:
        return self._offers.get(job_id)

    def open(self, job: Waiting, route: Route) -> None:
        """Offer a job to the freest instance, and to more of them if it does not claim it."""
        self._offers[job.id] = offer = OpenOffer(job, route)
        first = self._candidates.first(job, route)
        self._send(offer, [first] if first else [])
        offer.timer = asyncio.get_running_loop().call_later(WIDEN_SECONDS, self.widen, offer)

    def close(self, job_id: str) -> list[RunnerSession]:
        """Withdraw an offer. Returns the instances that had it."""
        offer = self._offers.pop(job_id)
        if offer.timer is not None:
            offer.timer.cancel()
        for session in offer.sessions:
            session.offered.discard(job_id)
        return offer.sessions

    def widen(self, offer: OpenOffer) -> None:
        """Ask twice as many instances, unless a claim is being decided."""
        asked = {session.instance_id for session in offer.sessions}
        if offer.claims <= 0 and not self._is_doubtful(offer.job.id):
            others = (
                session for session in self._candidates.of(offer.route, offer.job) if session.instance_id not in asked
            )
            self._send(offer, list(islice(others, max(1, len(asked)))))
            if len(offer.sessions) == len(asked):  # everybody who could take it has been asked
                offer.timer = asyncio.get_running_loop().call_later(OFFER_TTL_SECONDS, self._again, offer)
                return
        offer.timer = asyncio.get_running_loop().call_later(WIDEN_SECONDS, self.widen, offer)

    def _send(self, offer: OpenOffer, sessions: Iterable[RunnerSession]) -> None:
        for session in sessions:
            session.offered.add(offer.job.id)
            offer.sessions.append(session)
            session.socket.post(messages.Offer(offer.job.id, offer.job.attempt))
