"""Types of fields that several requests about access have."""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]
