"""What the API and the dashboard share: how a request is read and authenticated, and how an error is answered."""
