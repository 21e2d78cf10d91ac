"""The two parts of a job that a cloud can distinguish."""

from typing import Literal

Phase = Literal["plan", "apply"]
"""The steps up to the plan change nothing, and the later ones do."""
