"""What is known about one run of the engine in a mutating step: whether it was started, and whether it ended in order."""


class Mutation:
    """One run of the engine. Once started, it counts as cut short until an orderly end is known: its changes may be in no state."""

    def __init__(self) -> None:
        self.is_started = False
        self.exit_code: int | None = None
        self.is_orderly = False
        self.was_killed = False
        """Whether a program of the step, the engine or a hook, had to be killed."""

    @property
    def is_cut_short(self) -> bool:
        return self.is_started and not self.is_orderly
