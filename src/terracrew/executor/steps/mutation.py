"""What is known of one run of the engine that changes things: whether it was started, and whether it ended in order."""


class Mutation:
    """Until an orderly end is known, a run that was started counts as cut short: what it made may be in no state."""

    def __init__(self) -> None:
        self.is_started = False
        self.exit_code: int | None = None
        self.is_orderly = False

    @property
    def is_cut_short(self) -> bool:
        return self.is_started and not self.is_orderly
