-- `header` is the stored header of the session; the columns before it are what queries look for.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    name TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    user TEXT,
    parent TEXT,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    due INTEGER,  -- from when on it needs attention
    holder TEXT,  -- who performs its run, while one goes on
    header ANY NOT NULL,
    open_step ANY
) STRICT;
CREATE INDEX session_created ON session (created);
CREATE INDEX session_user ON session (user, created);
CREATE INDEX session_agent ON session (agent, created);
CREATE INDEX session_status ON session (status, created);
CREATE INDEX session_parent ON session (parent, created);
CREATE INDEX session_due ON session (due, name) WHERE due IS NOT NULL;
CREATE INDEX session_holder ON session (holder) WHERE holder IS NOT NULL;

-- Tags (kind 0, value empty) and metadata (kind 1).
CREATE TABLE label (
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created INTEGER NOT NULL, -- when the session was
    session INTEGER NOT NULL,
    PRIMARY KEY (kind, key, value, created, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_session ON label (session);

-- In the tables below `at` is (session << 32) + the row's own number.

-- One row per step or user message; the number is the position of its first message.
CREATE TABLE entry (at INTEGER PRIMARY KEY, count INTEGER NOT NULL, data ANY NOT NULL) STRICT;

-- One row per entry or several of one commit; the number is the position of the first.
CREATE TABLE usage (at INTEGER PRIMARY KEY, count INTEGER NOT NULL, data ANY NOT NULL) STRICT;

-- The number is the version. Whole states, and between them the writes that made a version.
CREATE TABLE state (at INTEGER PRIMARY KEY, whole INTEGER NOT NULL, data ANY NOT NULL) STRICT;

-- The number counts them. Checkpoints and usage name a run by its number, or by its id when there is
-- no such run.
CREATE TABLE run (at INTEGER PRIMARY KEY, id TEXT NOT NULL, data ANY NOT NULL) STRICT;
CREATE INDEX run_id ON run (id);

-- The number is a hash of the id, or, when another checkpoint has it, the next that is free. `n`
-- grows in the order in which they were written.
CREATE TABLE checkpoint (
    at INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    id TEXT NOT NULL,
    run ANY NOT NULL,
    step INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    state INTEGER NOT NULL,
    status TEXT NOT NULL,
    open_step TEXT,
    time INTEGER NOT NULL
) STRICT;

CREATE TABLE child (at INTEGER PRIMARY KEY, name TEXT NOT NULL, data ANY NOT NULL) STRICT;
CREATE INDEX child_name ON child (name);

CREATE TABLE staged (
    at INTEGER PRIMARY KEY,
    step TEXT NOT NULL,
    call TEXT NOT NULL,
    data ANY NOT NULL
) STRICT;

CREATE TABLE retired_call (
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

-- `user` is the owner of the session, `open` whether it still waits.
CREATE TABLE pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    call TEXT NOT NULL,
    root TEXT NOT NULL,
    user TEXT,
    created INTEGER NOT NULL,
    open INTEGER NOT NULL,
    data ANY NOT NULL,
    UNIQUE (session, call)
) STRICT;
CREATE INDEX pending_created ON pending (created, name, call) WHERE open = 1;
CREATE INDEX pending_user ON pending (user, created, name, call) WHERE open = 1;
CREATE INDEX pending_root ON pending (root, created, name, call) WHERE open = 1;

-- One stream per root session. While it is active, `last` may lie behind: its last batch says where
-- it ends. `changed` is when this row was last written.
CREATE TABLE stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    root TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL,
    trimmed INTEGER NOT NULL,
    status TEXT NOT NULL,
    changed INTEGER NOT NULL
) STRICT;
-- What may be cleaned up.
CREATE INDEX stream_over ON stream (changed)
    WHERE status IN ('ended', 'failed') AND last > trimmed;

-- A batch: the chunks of one commit or one append. `at` is (stream << 32) + the last sequence.
CREATE TABLE chunk (
    at INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    delta INTEGER NOT NULL,
    time INTEGER NOT NULL,
    data ANY NOT NULL
) STRICT;

-- Large values, each once, and who uses them.
CREATE TABLE blob (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data TEXT NOT NULL) STRICT;
CREATE TABLE blob_use (
    owner INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    key INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (owner, kind, key, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_hash ON blob_use (hash);

CREATE TABLE lock (
    key TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
