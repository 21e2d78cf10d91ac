"""The numbers of the system calls that the filter of engines decides about, on the machines that it knows."""

import os
from functools import cache

import msgspec

NEWEST_NUMBER = 469
"""The last system call that was considered for these lists (`file_setattr` of Linux 6.17). It is the same on both machines."""

_REFUSED: dict[str, tuple[int, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # the kernel
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    # files without their paths
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # what would do the calls of others
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # what outlives an attempt in the kernel
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
"""What a module has no use for. The numbers are those on x86-64, and on 64-bit ARM if it has the system call."""
OF_OWN_PROCESS = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity")
"""Their first argument is a process or a thread; 0 is the calling thread itself."""
MODE_ARGUMENTS = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2, "creat": 1}
"""Which argument is the mode that a file gets, counted from 0."""
_DECIDED_BY_ARGUMENTS: dict[str, tuple[int, int | None]] = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "clone": (56, 220),
    "clone3": (435, 435),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "creat": (85, None),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
}
_USED: dict[str, tuple[int, int | None]] = {"seccomp": (317, 277)}
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls the machine when it shows a system call to a filter."""


class SystemCalls(msgspec.Struct, frozen=True):
    architecture: int
    numbers: dict[str, int]
    """Those that this machine has, by their names."""
    refused: list[int]


@cache
def of_this_machine() -> SystemCalls | None:
    """Return the numbers on this machine; None if they are not known."""
    return of(os.uname().machine)


def of(machine: str) -> SystemCalls | None:
    if (architecture := _ARCHITECTURES.get(machine)) is None:
        return None
    column = list(_ARCHITECTURES).index(machine)
    every = {name: both[column] for name, both in (_REFUSED | _DECIDED_BY_ARGUMENTS | _USED).items()}
    numbers = {name: number for name, number in every.items() if number is not None}
    return SystemCalls(architecture, numbers, [numbers[name] for name in _REFUSED if name in numbers])
