-- Who wrote chunks: session, run, agent type, and the agent's id unless it is that of the session.
-- `at` is (stream << 32) + a number by which the batches of the stream name it.
CREATE TABLE origin (at INTEGER PRIMARY KEY, data TEXT NOT NULL) STRICT;

-- The number comes from the id: the time in it, or else a hash; or, when another checkpoint has it, the
-- next that is free. `n` grows in the order in which they were written. An id of ten bytes is a short form.
-- No status is `active`.
ALTER TABLE checkpoint RENAME TO old_checkpoint;
CREATE TABLE checkpoint (
    at INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    id ANY NOT NULL,
    run ANY NOT NULL,
    step INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    state INTEGER NOT NULL,
    status TEXT,
    open_step TEXT,
    time INTEGER NOT NULL
) STRICT;
