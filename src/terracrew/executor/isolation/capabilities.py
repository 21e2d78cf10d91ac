"""Removes the capabilities of root from a thread that starts an engine, so that the engine never has them."""

import ctypes
import os
import struct

KEPT_CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3}
"""What is left to an engine that runs as root: to unpack archives with the owners of their files, and to change read-only files
of its own workspace. Landlock applies to them."""
_DROP_FROM_BOUNDING_SET = 24
_AMBIENT, _CLEAR_ALL = 47, 4
_CAPABILITY_VERSION = 0x20080522
_MAX_CAPABILITIES = 64
_libc = ctypes.CDLL(None, use_errno=True)


def drop() -> None:
    """Keep programs that this thread executes from having other capabilities. The thread itself has those that it had, because it
    needs them to start a program as another user."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    sets = ctypes.create_string_buffer(struct.calcsize("=6I"))
    _check(_libc.capget(header, sets))
    effective, permitted, inheritable, effective_high, permitted_high, inheritable_high = struct.unpack(
        "=6I", sets.raw[:24]
    )
    if inheritable or inheritable_high:  # this also clears the ambient set
        without = struct.pack("=6I", effective, permitted, 0, effective_high, permitted_high, 0)
        _check(_libc.capset(header, ctypes.create_string_buffer(without)))
    if not permitted and not permitted_high:
        return
    _check(_libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0))
    for number in range(_MAX_CAPABILITIES):
        if number not in KEPT_CAPABILITIES.values() and _libc.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0):
            # The kernel knows no more of them, or this process may not: it then is another user than root, or has only few itself.
            break


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"the capabilities of an engine cannot be removed: {os.strerror(number)}")
