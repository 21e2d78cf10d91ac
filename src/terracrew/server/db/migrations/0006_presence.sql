-- Who is there: a stranger's question to whoever has its place, and which server hears the executor of an attempt.

-- Set by a stranger who wants the place, cleared by the answer of the connection that has it.
ALTER TABLE instances ADD COLUMN asked_at double precision;
-- The server that the executor is connected to, and when that server last said so.
ALTER TABLE attempts ADD COLUMN executor_server_id text;
ALTER TABLE attempts ADD COLUMN executor_heard_at double precision;
