"""Loaded by every Python process whose PYTHONPATH names this folder: its wall clock is off by what the file CHAOS_CLOCK says.

Monotonic clocks go on as they are. `datetime.now` is not deceived; nothing that is compared comes from it.
"""

import os
import time

_READ_SECONDS = 0.2
"""How long a reading of the file is used."""


def _deceive(path: str) -> None:
    real, offset, due = time.time, 0.0, 0.0

    def wall() -> float:
        nonlocal offset, due
        if time.monotonic() >= due:
            due = time.monotonic() + _READ_SECONDS
            try:
                with open(path) as file:
                    offset = float(file.read())
            except (OSError, ValueError):
                pass  # no descriptor is left, say: the last reading goes on
        return real() + offset

    time.time = wall
    time.time_ns = lambda: int(wall() * 1e9)


if "CHAOS_CLOCK" in os.environ:
    _deceive(os.environ["CHAOS_CLOCK"])
