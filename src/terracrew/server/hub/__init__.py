"""The runner hub: the connections of runners and executors, and what is said on them."""
