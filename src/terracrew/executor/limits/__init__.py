"""The limits of an attempt: how long it may run, and how much memory and how many processes it may use."""
