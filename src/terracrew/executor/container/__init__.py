"""An executor in a container that was started for one attempt: its first process, its paths and its users."""
