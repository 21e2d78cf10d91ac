"""The processes of an attempt: how the runner contains them, finds them, ends them and learns that the last one has ended."""
