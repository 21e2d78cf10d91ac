"""Changes the user of a process in a container, and keeps the capabilities that an executor needs to run engines as another user."""

import ctypes
import os
import struct

EXECUTOR_UID = 10001
ENGINE_UID = 10002
KEPT_CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""The names and numbers of the capabilities: to give files to engines, to read what they made, to start and to end them."""
_SET_KEEP_CAPABILITIES = 8
_CAPABILITY_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def become(uid: int) -> None:
    """Become this user. The kept capabilities stay effective until another program is executed, which gets none."""
    if _libc.prctl(_SET_KEEP_CAPABILITIES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the container does not allow to keep capabilities")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    mask = sum(1 << number for number in KEPT_CAPABILITIES.values())
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    sets = ctypes.create_string_buffer(struct.pack("=6I", mask, mask, 0, 0, 0, 0))
    if _libc.capset(header, sets):
        number = ctypes.get_errno()
        raise OSError(number, f"the capabilities of the executor cannot be set: {os.strerror(number)}")
