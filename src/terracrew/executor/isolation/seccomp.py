"""Refuses system calls that Landlock does not cover, by a filter (seccomp) of the thread that starts an engine.

The filter is a list of those that a module has no use for and that reach beyond it: other processes, raw packets, the kernel
itself, and files that give their user to whoever runs them. It sees numbers and flags, no paths. Everything else is allowed.
See https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

import ctypes
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from terracrew.executor.isolation import system_calls

_SET_MODE_FILTER, _GET_ACTION_AVAILABLE = 1, 2
_NO_SPECULATION_LIMITS_FLAG = 4
"""Kernels before 5.16 otherwise slow a filtered process down, against attacks of a script on its own interpreter."""
_NUMBER_OFFSET_BYTES, _ARCHITECTURE_OFFSET_BYTES, _ARGUMENTS_OFFSET_BYTES = 0, 4, 16
_NAMESPACE_BITS = 0x7E020000
"""The flags of `clone` that make a namespace: of mounts, control groups, names, IPC, users, processes and networks."""
_SOCKET_TYPE_BITS = 0xF
_SET_ID_BITS = stat.S_ISUID | stat.S_ISGID
_CREATING_BITS = 0o20000100
"""The flags of `open` that make a file (O_CREAT and O_TMPFILE without O_DIRECTORY). The mode means nothing without them."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _FilterOperation(IntEnum):
    LOAD = 0x20
    AND = 0x54
    JUMP = 0x05
    IF_EQUAL = 0x15
    IF_GREATER = 0x25
    IF_ANY_BIT = 0x45
    RETURN = 0x06


class _FilterAnswer(IntEnum):
    ALLOW = 0x7FFF0000
    ERRNO = 0x00050000
    KILL_PROCESS = 0x80000000


class _Argument(IntEnum):
    NETLINK_ROUTE = 0
    PRIORITY_OF_PROCESS = 0
    IO_PRIORITY_OF_PROCESS = 1
    INSERT_INPUT = 0x5412
    CONSOLE = 0x541C
    """The last two are requests to a terminal (TIOCSTI, TIOCLINUX) that type what somebody else's shell then runs."""


class _Instruction(NamedTuple):
    code: int
    if_true: int
    """How many instructions are skipped if the condition is true."""
    if_false: int
    value: int


_Code = list[_Instruction]


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


@cache
def is_available() -> bool:
    """Whether this kernel has such filters, and this module knows the numbers of the machine's system calls."""
    calls = system_calls.of_this_machine()
    if calls is None or sys.maxsize < 1 << 32:
        return False
    action = ctypes.c_uint32(_FilterAnswer.KILL_PROCESS)
    return not _libc.syscall(calls.numbers["seccomp"], _GET_ACTION_AVAILABLE, 0, ctypes.byref(action))


def restrict_thread() -> None:
    """Permanently filter the system calls of this thread and of what it starts. The thread must have `no_new_privs` set."""
    calls = system_calls.of_this_machine()
    assert calls is not None
    code = _filter()
    program = _FilterProgram(len(code) // 8, ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p))
    if _libc.syscall(calls.numbers["seccomp"], _SET_MODE_FILTER, _NO_SPECULATION_LIMITS_FLAG, ctypes.byref(program)):
        number = ctypes.get_errno()
        raise OSError(number, f"the filter of system calls (seccomp): {os.strerror(number)}")


@cache
def _filter() -> bytes:
    calls = system_calls.of_this_machine()
    assert calls is not None
    return code(calls)


def code(calls: system_calls.SystemCalls) -> bytes:
    """Return the filter as the kernel takes it, for a machine with these system calls."""
    made = [
        *_load(_ARCHITECTURE_OFFSET_BYTES),
        _Instruction(_FilterOperation.IF_EQUAL, 1, 0, calls.architecture),
        *_return(_FilterAnswer.KILL_PROCESS),  # a program for 32 bits: its system calls have other numbers
        *_load(_NUMBER_OFFSET_BYTES),
        _Instruction(_FilterOperation.IF_GREATER, 0, 1, system_calls.NEWEST_NUMBER),
        *_refuse(errno.ENOSYS),  # as an older kernel does
        *_refuse_all(calls.refused),
    ]
    for name, decision in _decisions().items():
        if name in calls.numbers:
            made += _if_equal(calls.numbers[name], decision, [])
    made += _allow()
    return b"".join(struct.pack("=HBBI", *each) for each in made)


def _decisions() -> dict[str, _Code]:
    """Return the decisions about system calls that depend on their arguments."""
    denied = _refuse(errno.EPERM)
    is_itself = _if_equal(0, _allow(), denied)
    request = _if_equal(_Argument.INSERT_INPUT, denied, _if_equal(_Argument.CONSOLE, denied, _allow()))
    has_set_id = _if_any_bit(_SET_ID_BITS, denied, _allow())
    return {
        # Their flags are in memory, where a filter cannot look. Every library then uses `clone` and `openat`.
        "clone3": _refuse(errno.ENOSYS),
        "openat2": _refuse(errno.ENOSYS),
        "clone": _argument(0, _if_any_bit(_NAMESPACE_BITS, denied, _allow())),
        "socket": _socket(),
        "socketpair": _argument(0, _if_equal(socket.AF_UNIX, _allow(), _refuse(errno.EAFNOSUPPORT))),
        "ioctl": _argument(1, request),
        "open": _argument(1, _if_any_bit(_CREATING_BITS, _argument(2, has_set_id), _allow())),
        "openat": _argument(2, _if_any_bit(_CREATING_BITS, _argument(3, has_set_id), _allow())),
        **{name: _argument(at, has_set_id) for name, at in system_calls.MODE_ARGUMENTS.items()},
        **dict.fromkeys(system_calls.OF_OWN_PROCESS, _argument(0, is_itself)),
        "setpriority": _argument(0, _if_equal(_Argument.PRIORITY_OF_PROCESS, _argument(1, is_itself), denied)),
        "ioprio_set": _argument(0, _if_equal(_Argument.IO_PRIORITY_OF_PROCESS, _argument(1, is_itself), denied)),
    }


def _socket() -> _Code:
    """Return the decision about the family, the type and the protocol of a new socket."""
    is_internet = _argument(
        1,
        [
            _Instruction(_FilterOperation.AND, 0, 0, _SOCKET_TYPE_BITS),
            *_if_equal(socket.SOCK_STREAM, _allow(), _if_equal(socket.SOCK_DGRAM, _allow(), _refuse(errno.EPERM))),
        ],
    )
    is_netlink = _argument(2, _if_equal(_Argument.NETLINK_ROUTE, _allow(), _refuse(errno.EPROTONOSUPPORT)))
    decision = _refuse(errno.EAFNOSUPPORT)
    for family, then in (
        (socket.AF_NETLINK, is_netlink),
        (socket.AF_UNIX, _allow()),
        (socket.AF_INET6, is_internet),
        (socket.AF_INET, is_internet),
    ):
        decision = _if_equal(family, then, decision)
    return _argument(0, decision)


def _load(offset: int) -> _Code:
    return [_Instruction(_FilterOperation.LOAD, 0, 0, offset)]


def _argument(index: int, then: _Code) -> _Code:
    """Load the lower half of an argument: the kernel ignores the upper one of all arguments that are compared here."""
    return [*_load(_ARGUMENTS_OFFSET_BYTES + 8 * index), *then]


def _if_equal(value: int, then: _Code, otherwise: _Code) -> _Code:
    """Decide by the value that was loaded. `then` ends with an answer in every case."""
    return [_Instruction(_FilterOperation.IF_EQUAL, 0, len(then), value), *then, *otherwise]


def _if_any_bit(mask: int, then: _Code, otherwise: _Code) -> _Code:
    return [_Instruction(_FilterOperation.IF_ANY_BIT, 0, len(then), mask), *then, *otherwise]


def _refuse_all(numbers: Sequence[int]) -> _Code:
    last = len(numbers)
    tests = [_Instruction(_FilterOperation.IF_EQUAL, last - index, 0, number) for index, number in enumerate(numbers)]
    return [*tests, _Instruction(_FilterOperation.JUMP, 0, 0, 1), *_refuse(errno.EPERM)]


def _allow() -> _Code:
    return _return(_FilterAnswer.ALLOW)


def _refuse(error: int) -> _Code:
    return _return(_FilterAnswer.ERRNO | error)


def _return(answer: int) -> _Code:
    return [_Instruction(_FilterOperation.RETURN, 0, 0, answer)]
