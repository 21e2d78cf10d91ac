"""Figures of what has happened: jobs that ended, waits before the start, and how busy runners were, by group and hour."""
