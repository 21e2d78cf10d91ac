"""Schedules: what the server starts by itself at times that people have chosen, with the permissions that they have then."""
