"""A reporter that keeps what it is given, for tests of clouds."""

from terracrew.clouds.contract import Canceled


class RecordedSteps:
    def __init__(self) -> None:
        self.begun: dict[str, str] = {}
        self.passed: dict[str, str] = {}
        self.refused: dict[str, tuple[str, str]] = {}
        self.lines: list[str] = []
        self.is_canceled = False

    def begin(self, step: str, words: str) -> None:
        assert step not in self.begun, f"{step} was begun twice"
        self.begun[step] = words

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        assert step in self.begun
        self.passed[step] = words or reference

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        assert step in self.begun
        self.refused[step] = (words, remedy)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def require_wanted(self) -> None:
        if self.is_canceled:
            raise Canceled("a person has canceled the job")
