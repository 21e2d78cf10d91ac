"""What the API and the dashboard share: reading and authenticating requests, and answering errors."""
