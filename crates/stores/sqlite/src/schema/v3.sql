-- Who was written about, one row per transaction, so that other processes wake only whom it concerns:
-- the marks of the sessions, of eight bytes each. Old rows are removed.
CREATE TABLE told (n INTEGER PRIMARY KEY, who BLOB NOT NULL) STRICT;
