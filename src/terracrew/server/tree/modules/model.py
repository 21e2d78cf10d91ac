"""A module: a leaf of the tree, with its engine, its source, its inputs and its settings."""

import msgspec


class DestroyLimits(msgspec.Struct, frozen=True):
    """How much an APPLY may destroy without an approval. None sets no limit; destroying everything always needs one."""

    max_destroy: int | None = None
    max_destroy_percent: int | None = None
