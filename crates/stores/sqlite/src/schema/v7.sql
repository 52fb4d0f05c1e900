-- Up to where the deltas of past turns are removed, or are to be left out by readers.
ALTER TABLE stream ADD COLUMN condensed INTEGER NOT NULL DEFAULT 0;
DROP INDEX stream_over;
-- Turns that have ended and still have their deltas: when, in which stream, and its last sequence then. A
-- stream may be gone by now.
CREATE TABLE ended_turn (
    ended INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    up_to INTEGER NOT NULL,
    PRIMARY KEY (ended, stream, up_to)
) STRICT, WITHOUT ROWID;
INSERT INTO ended_turn (ended, stream, up_to)
    SELECT changed, id, last FROM stream WHERE status IN ('ended', 'failed') AND last > trimmed;
