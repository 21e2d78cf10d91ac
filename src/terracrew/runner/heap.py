"""Has Python keep its objects in one piece of memory, so that the kernel can copy them in large pages (`dispatch.own_pages`).

Python gets its memory in arenas of 1 MB, one whenever the others are full. In between, each library that is imported is mapped, so
the arenas would lie in many places, and few large pages would have nothing else in them.
"""

import ctypes
import mmap

_ARENA_BYTES = 1 << 20
_ARENA_COUNT = 12
"""What a process gets that imports everything for its executors, beside those that Python starts with. More would stay unused."""
_LARGE_PAGE_BYTES = 2 << 20
_BLOCK_BYTES = 512
"""The largest size of an object that is put into an arena."""
_HEADER_BYTES = b"".__sizeof__()
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_kept: list[bytes | None] = []
"""Two objects in each arena, because Python gives an empty arena back."""


def gather() -> None:
    """Get the arenas now, one after the other. The process has imported little so far."""
    blocks: list[bytes | None] = [None] * (_ARENA_COUNT * _ARENA_BYTES // _BLOCK_BYTES)
    _align()  # after the list, which has a mapping of its own
    for number in range(len(blocks)):
        blocks[number] = bytes(_BLOCK_BYTES - _HEADER_BYTES)
    _kept[:] = blocks[:: _ARENA_BYTES // _BLOCK_BYTES // 2]


def _align() -> None:
    """Let the next arena end where a large page ends. The kernel puts each mapping below the one before, so what is left of a large
    page there is taken by a mapping that has no memory."""
    with mmap.mmap(-1, _ARENA_BYTES, mmap.MAP_PRIVATE) as place:
        end = ctypes.addressof(ctypes.c_char.from_buffer(place)) + _ARENA_BYTES
    if rest := end % _LARGE_PAGE_BYTES:
        _libc.mmap(end - rest, rest, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
