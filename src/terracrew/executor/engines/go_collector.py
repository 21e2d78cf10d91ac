"""Makes the garbage collector of Go run less often in an engine and its providers, within a bound.

An engine is a short-lived process: at Go's default, its collector runs many times while it starts, and frees almost nothing.
"""

from collections.abc import Mapping

_PERCENT_VARIABLE, _LIMIT_VARIABLE = "GOGC", "GOMEMLIMIT"
_PERCENT = 240
"""The heap may grow by this much over what is in use before it is collected. Go's default is 100, so a process needs at most
(1 + 2.4) / (1 + 1) = 1.7 times the memory that it would need by default."""
_LIMIT_PERCENT = 50
"""Near this part of the attempt's memory, each process collects as often as it must. Its providers need the rest."""
_MIN_LIMIT_MB = 100
"""An engine needs about this much for a small plan. Below it, the limit would keep the collector busy all the time."""
_PROCESS_MEGABYTES = 400
"""What the engine and each provider may need with _PERCENT. With less, several of them can pass the attempt's memory together, although
each stays below its limit, and the limit can keep the collector of a large provider busy all the time."""


def environment(base: Mapping[str, str], memory_mb: int | None, providers: int = 0) -> dict[str, str]:
    """Return the variables to add. Nothing is added where the owner of the runner or the module has chosen one of them, and where
    there is so little memory that the engine and its providers must not use more of it than by default."""
    if _PERCENT_VARIABLE in base or _LIMIT_VARIABLE in base:
        return {}
    if memory_mb is None:
        return {_PERCENT_VARIABLE: str(_PERCENT)}
    limit_mb = memory_mb * _LIMIT_PERCENT // 100
    is_scarce = providers > 0 and memory_mb < (1 + providers) * _PROCESS_MEGABYTES
    if limit_mb < _MIN_LIMIT_MB or is_scarce:
        return {}
    return {_PERCENT_VARIABLE: str(_PERCENT), _LIMIT_VARIABLE: f"{limit_mb}MiB"}
