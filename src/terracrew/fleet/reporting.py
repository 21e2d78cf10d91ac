"""Tells the server what the work of a job does: its steps, lines and end."""

from collections.abc import Callable

from terracrew.clouds.contract import Canceled
from terracrew.fleet.messages import LinePrinted, ProcessMessage, StepBegun, StepDone, StepFailed


class WorkReporter:
    """The reporter of one attempt, as `clouds/contract.py` describes it."""

    def __init__(self, job_id: str, attempt: int, send: Callable[[ProcessMessage], None]) -> None:
        self._job_id, self._attempt, self._send = job_id, attempt, send
        self.is_canceled = False
        self.passed = 0
        self.problems: list[str] = []

    def begin(self, step: str, words: str) -> None:
        self._send(StepBegun(self._job_id, self._attempt, step, words))

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        self.passed += 1
        self._send(StepDone(self._job_id, self._attempt, step, reference, words))

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        self.problems.append(words)
        self._send(StepFailed(self._job_id, self._attempt, step, words, remedy))

    def line(self, text: str) -> None:
        self._send(LinePrinted(self._job_id, self._attempt, text))

    def require_wanted(self) -> None:
        if self.is_canceled:
            raise Canceled("the job was canceled")
