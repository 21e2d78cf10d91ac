"""Attempts of jobs: a runner claims one, its executor delivers events and states and gets permission to apply, and contact is lost."""
