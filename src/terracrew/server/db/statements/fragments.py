"""Parts of conditions that many statements share.

Partial indexes of the migrations have the same texts: a database uses such an index only where a statement repeats its condition.
"""

from typing import LiteralString

ACTIVE_STATUSES: LiteralString = "('CLAIMED', 'PROCESSING')"
"""The statuses of jobs that an attempt owns: `jobs.status IN {ACTIVE_STATUSES}`."""
ENDED_STATUSES: LiteralString = "('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')"
"""The statuses of jobs that do not change any more."""
