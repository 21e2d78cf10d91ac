"""What people see of the run of a job: its view, why it waits, what is known about its attempts, and its log."""
