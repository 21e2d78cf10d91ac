"""The runner hub: the connections of runners and executors, and the messages on them."""
