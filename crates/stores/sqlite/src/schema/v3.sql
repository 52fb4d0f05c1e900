-- Who was written about, one row per transaction, so that other processes wake only whom it concerns:
-- the marks of the sessions, of eight bytes each. Old rows are removed.
CREATE TABLE told (n INTEGER PRIMARY KEY, who BLOB NOT NULL) STRICT;
-- Who wants to know. Rows of `told` are written only while somebody else does.
CREATE TABLE ear (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
