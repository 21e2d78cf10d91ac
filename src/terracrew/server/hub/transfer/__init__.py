"""Bodies that are too large for a WebSocket: an attempt's executor, and nobody else, sends and gets them by HTTP."""
