-- From when on a session is due, for each kind of work; at most one row per session and kind. `holder`
-- is who performs its run, on the row of its lease.
CREATE TABLE due (
    agent TEXT NOT NULL,
    kind INTEGER NOT NULL,
    since INTEGER NOT NULL,
    name TEXT NOT NULL,
    holder TEXT,
    PRIMARY KEY (agent, kind, since, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_holder ON due (agent, holder, name) WHERE holder IS NOT NULL;

DROP INDEX session_due;
DROP INDEX session_holder;
ALTER TABLE session DROP COLUMN due;
ALTER TABLE session DROP COLUMN holder;
