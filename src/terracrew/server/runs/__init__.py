"""What people are told about the run of a job: its view, why it waits, what is known of its attempts, and its log."""
