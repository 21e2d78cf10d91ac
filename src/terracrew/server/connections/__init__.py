"""Which runners and executors are connected to this server, and the WebSocket that each of them holds."""
