"""The source of a plan that waits for approval, and the process that applies it."""

from tests.executor.saved_plan.waiting_plans import second as second
from tests.executor.saved_plan.waiting_plans import source as source
