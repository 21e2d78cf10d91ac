"""What happens to a connection and a request before the application sees them: limits, timers, proxies and host names."""
