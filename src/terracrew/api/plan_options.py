"""The options of a plan that a job can be asked for, as the engines' own command lines have them."""

from typing import Annotated

import msgspec

MAX_ADDRESSES = 100
MAX_ADDRESS_CHARACTERS = 1_000
Addresses = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ADDRESS_CHARACTERS)]],
    msgspec.Meta(max_length=MAX_ADDRESSES),
]


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's plan looks at. Only OpenTofu and Terraform have these options."""

    is_refresh_only: bool = False
    """Whether the job only compares what exists with the state (`-refresh-only`): a PLAN shows what was changed outside of the engine,
    and an APPLY records it in the state. No resource is changed."""
    targets: Addresses = []
    """The addresses of the resources and modules that the job is limited to, with what they depend on (`-target`). Empty: all of them."""
    replace: Addresses = []
    """The addresses of resources that the plan replaces even if nothing else asks for it (`-replace`)."""
    refresh: bool = True
    """Whether the plan looks at what exists. Without that (`-refresh=false`), it relies on the state alone, and does not see what was
    changed outside of the engine."""

    @property
    def is_partial(self) -> bool:
        """Whether the job leaves something of its module as it is, so that the module does not count as applied, or destroyed, by it.
        `fragments.is_partial` is the same as SQL."""
        return self.is_refresh_only or bool(self.targets)
