"""Has Python keep its objects in one piece of memory, so that the kernel can copy them in large pages (`dispatch.own_pages`).

Python gets its memory in arenas of 1 MB, one whenever the others are full. In between, each library that is imported is mapped, so
the arenas would lie in many places, and few large pages would have nothing else in them.
"""

_ARENA_BYTES = 1 << 20
_ARENA_COUNT = 11
"""What a process gets that imports everything for its executors, beside those that Python starts with. More would stay unused."""
_BLOCK_BYTES = 512
"""The largest size of an object that is put into an arena."""
_HEADER_BYTES = b"".__sizeof__()
_kept: list[bytes | None] = []
"""Two objects in each arena, because Python gives an empty arena back."""


def gather() -> None:
    """Get the arenas now, one after the other. The process has imported little so far."""
    blocks: list[bytes | None] = [None] * (_ARENA_COUNT * _ARENA_BYTES // _BLOCK_BYTES)
    for number in range(len(blocks)):
        blocks[number] = bytes(_BLOCK_BYTES - _HEADER_BYTES)
    _kept[:] = blocks[:: _ARENA_BYTES // _BLOCK_BYTES // 2]
