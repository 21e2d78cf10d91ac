-- A fleet that returns shows thousands of worker tokens within seconds: each is found at once, not by looking at every runner.

CREATE UNIQUE INDEX runners_worker_token ON runners (worker_token_sha256) WHERE worker_token_sha256 IS NOT NULL;
