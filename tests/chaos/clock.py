"""Sets the wall clocks of servers, hosts and PostgreSQL.

Only wall clocks are set. Monotonic clocks go on, as on a real machine whose clock is corrected. Our own processes are
deceived by `wall_clock/sitecustomize.py`: libfaketime breaks `time.sleep` of Python 3.11 and later, which sleeps until an
absolute moment of the monotonic clock. PostgreSQL is deceived by libfaketime, where that is installed.
"""

import glob
from pathlib import Path

_FOLDER = Path(__file__).with_name("wall_clock")


def library() -> str | None:
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    return found[0] if found else None


class Clock:
    """The wall clock of the processes that are started with one of its environments."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0)

    @property
    def of_python(self) -> dict[str, str]:
        return {"PYTHONPATH": str(_FOLDER), "CHAOS_CLOCK": str(self._path)}

    @property
    def of_postgres(self) -> dict[str, str]:
        found = library()
        if found is None:
            return {}
        return {
            "LD_PRELOAD": found,
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, offset: float) -> None:
        """The file is replaced as a whole: a reader sees the old offset or the new one."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{offset:+.0f}")
        new.chmod(0o644)
        new.replace(self._path)
