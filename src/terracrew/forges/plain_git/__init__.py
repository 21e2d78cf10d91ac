"""A git repository without a forge: its branches are polled, and there is nothing else."""
