-- Calls that somebody outside has answered, and when.
CREATE TABLE answered (
    session INTEGER NOT NULL,
    call TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;
