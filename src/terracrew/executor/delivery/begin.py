"""The permit to apply: the executor asks for one state version, and the permit is valid for five seconds from its request."""

import asyncio
import time
from collections.abc import Callable

from terracrew import backoff
from terracrew.errors import Conflict, Superseded
from terracrew.executor.control import Control
from terracrew.protocol.messages import Begin, BeginRefused, Begun

PERMIT_SECONDS = 5.0
_AGAIN_SECONDS = 1.5
_ANSWER_SECONDS = 30.0


class StateMoved(Conflict):
    """The plan was made from a state that is no longer current."""

    code = "state_moved"


class ApprovalNeeded(Conflict):
    """A person has to look at the plan first."""

    code = "approval_needed"


class NotPermitted(Conflict):
    """This attempt gets no permission to apply; the message says why."""

    code = "no_permit"


class ApplyPermit:
    def __init__(self, control: Control, say: Callable[[str], None]) -> None:
        self._control, self._say = control, say
        self._wanted: Begin | None = None
        self._sent: float | None = None  # on the current connection
        self._answer: asyncio.Future[tuple[Begun | BeginRefused, float]] | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.on_silence: Callable[[], None] = lambda: None

    async def obtain(self, state_version: int, plan_attempt: int | None = None, plan_sha256: str = "") -> None:
        """Return when the apply may start; it must then start at once. `plan_attempt` is the attempt that made a saved plan, and
        `plan_sha256` the hash of the plan that is going to be applied."""
        said = ""
        while True:
            answer, sent = await self._ask(Begin(state_version, plan_attempt, plan_sha256))
            if isinstance(answer, Begun):
                if answer.state_version == state_version and boottime() - sent < PERMIT_SECONDS:
                    return
                continue  # it arrived too late: only a new permit proves that this attempt was not declared lost in the meantime
            match answer.code:
                case "wait":
                    if answer.message != said:
                        self._say(said := answer.message)
                    await self._pause()
                case "state_moved":
                    raise StateMoved(answer.message)
                case "approval":
                    raise ApprovalNeeded(answer.message)
                case "superseded" | "quarantine" | "held" | "leaving":  # in each case the server has ended this attempt
                    self._control.supersede(answer.message)
                    raise Superseded(answer.message)
                case "plan_changed":
                    raise NotPermitted(answer.message)
                case "canceled":
                    self._control.request_cancel("after_step")
                    raise NotPermitted(answer.message)

    # ---- the connection's side

    @property
    def is_due(self) -> bool:
        return self._wanted is not None and self._sent is None and not self._control.is_stopping

    @property
    def is_wanted(self) -> bool:
        return self._wanted is not None

    def question(self) -> Begin:
        """Return the request to send now. Its time starts before it is sent, and continues while the machine is suspended."""
        assert self._wanted is not None
        self._sent = boottime()
        return self._wanted

    def answered(self, message: Begun | BeginRefused) -> None:
        sent, self._sent, self._wanted = self._sent, None, None
        if sent is not None and self._answer and not self._answer.done():
            self._answer.set_result((message, sent))

    def disconnected(self) -> None:
        """Forget the requests of the connection that has ended. They are sent again on the next one."""
        self._sent = None

    # ----

    async def _ask(self, question: Begin) -> tuple[Begun | BeginRefused, float]:
        self._answer = asyncio.get_running_loop().create_future()
        self._wanted = question
        self.on_change()
        stopping = asyncio.ensure_future(self._control.stopping())
        try:
            while not self._answer.done():
                done, _ = await asyncio.wait(
                    {self._answer, stopping}, timeout=_ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if stopping in done:
                    raise NotPermitted("the attempt was stopped while it waited for permission to apply")
                if not done and self._sent is not None and boottime() - self._sent >= _ANSWER_SECONDS:
                    self.on_silence()
            return self._answer.result()
        finally:
            stopping.cancel()
            self._wanted = None

    async def _pause(self) -> None:
        stopping = asyncio.ensure_future(self._control.stopping())
        try:
            # The delay is jittered, so that jobs that wait for the same thing do not all ask at once.
            await asyncio.wait({stopping}, timeout=backoff.jittered(_AGAIN_SECONDS))
        finally:
            stopping.cancel()


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
