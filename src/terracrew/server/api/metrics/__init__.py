"""What an operator would alert on, in the format of Prometheus."""
