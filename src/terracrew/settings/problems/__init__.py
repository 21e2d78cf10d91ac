"""Says in words of our own what is wrong with settings, all of it at once."""
