"""What tests of several packages build: rows of the server's tables, deliveries, clocks, and a hub for runners."""
