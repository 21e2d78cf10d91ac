"""Removes runners: what a runner still has to finish, who depends on it, and the loop that deletes its record at the end."""
