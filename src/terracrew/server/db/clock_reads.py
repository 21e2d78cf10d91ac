"""Statements with which the clocks of both databases compare themselves with the times that are stored."""

NEWEST = """SELECT max(at) AS newest FROM (
    SELECT max(heard_at) AS at FROM instances UNION ALL SELECT max(heard_at) FROM attempts
    UNION ALL SELECT max(claimed_at) FROM attempts UNION ALL SELECT max(lost_at) FROM attempts
    UNION ALL SELECT max(queued_at) FROM jobs) AS times"""
"""The columns with times that a server has set; times of steps and lines come from the clocks of other machines."""
CONTACT_SINCE = "SELECT id FROM instances WHERE is_connected AND heard_at > $1 LIMIT 1"
"""Reads whether another server has recorded contact after this time."""
HAS_DEADLINE = "SELECT id FROM jobs WHERE status IN ('CLAIMED', 'PROCESSING', 'AWAITING_APPROVAL') LIMIT 1"
"""Reads whether any job has a running deadline."""
