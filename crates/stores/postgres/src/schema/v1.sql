-- `@` stands for the schema. Ids, names and documents are bytes: a text column cannot hold every text.

-- Numbers of sessions come from here, in blocks; none is ever used twice.
CREATE SEQUENCE @key_block;

-- `header` is the stored header of the session; `version` is its version, which grows with each commit. The columns
-- before it are what queries look for. `root` is null for a session that is its own root. `run` is the latest run,
-- `stopping` the run that is asked to stop. `open_calls` are the calls of the open step that changed since.
CREATE TABLE @session (
    key bigint PRIMARY KEY,
    name bytea NOT NULL UNIQUE,
    root bytea,
    agent bytea NOT NULL,
    owner bytea,
    parent bytea,
    status text NOT NULL,
    created bigint NOT NULL,
    version bigint NOT NULL,
    run bytea,
    stopping bytea,
    header bytea NOT NULL,
    open_step bytea,
    open_calls bytea NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX ON @session (created, key);
CREATE INDEX ON @session (owner, created, key) WHERE owner IS NOT NULL;
CREATE INDEX ON @session (agent, created, key);
CREATE INDEX ON @session (status, created, key);
CREATE INDEX ON @session (parent, created, key) WHERE parent IS NOT NULL;

-- Tags and metadata entries; of a long one a digest.
CREATE TABLE @label (
    session bigint NOT NULL,
    label bytea NOT NULL,
    PRIMARY KEY (session, label)
);
CREATE INDEX ON @label (label, session);

-- One row per step or user message; `at` is the position of its first message.
CREATE TABLE @message (
    session bigint NOT NULL,
    at bigint NOT NULL,
    count bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, at)
);

-- One row per commit with usage; `at` is the position of its first entry.
CREATE TABLE @usage (
    session bigint NOT NULL,
    at bigint NOT NULL,
    count bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, at)
);

-- Whole states, and between them the writes that made a version of the one before.
CREATE TABLE @state (
    session bigint NOT NULL,
    version bigint NOT NULL,
    whole boolean NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, version)
);

-- In the tables below `n` grows in the order of writing.
CREATE TABLE @run (
    session bigint NOT NULL,
    id bytea NOT NULL,
    n bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, id)
);
CREATE INDEX ON @run (session, n);

CREATE TABLE @checkpoint (
    session bigint NOT NULL,
    id bytea NOT NULL,
    n bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, id)
);
CREATE INDEX ON @checkpoint (session, n);

CREATE TABLE @child (
    session bigint NOT NULL,
    name bytea NOT NULL,
    n bigint NOT NULL,
    call bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, name)
);

CREATE TABLE @staged (
    session bigint NOT NULL,
    step bytea NOT NULL,
    call bytea NOT NULL,
    n bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, step, call)
);

CREATE TABLE @retired_call (
    session bigint NOT NULL,
    id bytea NOT NULL,
    PRIMARY KEY (session, id)
);

-- Calls that wait for an answer, or have one in `answer`. `name` and `owner` are those of the session.
CREATE TABLE @pending (
    session bigint NOT NULL,
    call bytea NOT NULL,
    name bytea NOT NULL,
    owner bytea,
    root bytea NOT NULL,
    created bigint NOT NULL,
    data bytea NOT NULL,
    answer bytea,
    is_open boolean NOT NULL,
    PRIMARY KEY (session, call)
);
CREATE INDEX ON @pending (created, name, call) WHERE is_open;
CREATE INDEX ON @pending (owner, created, name, call) WHERE is_open;
CREATE INDEX ON @pending (root, created, name, call) WHERE is_open;

-- Calls that were answered. `kind` says how; null: by a client or a person, in time.
CREATE TABLE @answered (
    session bigint NOT NULL,
    call bytea NOT NULL,
    time bigint NOT NULL,
    kind bytea,
    PRIMARY KEY (session, call)
);

-- From when on a session is due, for each kind of work.
CREATE TABLE @due (
    session bigint NOT NULL,
    kind smallint NOT NULL,
    agent bytea NOT NULL,
    since bigint NOT NULL,
    name bytea NOT NULL,
    PRIMARY KEY (session, kind)
);
CREATE INDEX ON @due (agent, kind, since, name);
CREATE INDEX ON @due (kind, since);

-- One stream per root, under the number of its session. `edits` counts removals of chunks. Up to `condensed` there
-- are no deltas for readers; up to `swept` none are stored. `forbidden` are appends that must not be made any more.
CREATE TABLE @stream (
    key bigint PRIMARY KEY,
    status text NOT NULL,
    last bigint NOT NULL,
    trimmed bigint NOT NULL,
    condensed bigint NOT NULL,
    edits bigint NOT NULL,
    swept bigint NOT NULL DEFAULT 0,
    forbidden bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- A batch of chunks, one line each; a chunk that was removed is an empty line. `delta`: whether they were streamed.
CREATE TABLE @chunk (
    stream bigint NOT NULL,
    last bigint NOT NULL,
    first bigint NOT NULL,
    delta boolean NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, last)
);

-- Turns that have ended and still have their deltas.
CREATE TABLE @ended_turn (
    ended bigint NOT NULL,
    stream bigint NOT NULL,
    up_to bigint NOT NULL,
    PRIMARY KEY (ended, stream, up_to)
);

-- The fence at which sessions begin: above those of all that were deleted.
CREATE TABLE @floor (fence bigint NOT NULL);
INSERT INTO @floor VALUES (0);

CREATE TABLE @lock (
    key bytea PRIMARY KEY,
    holder bytea NOT NULL,
    token bigint NOT NULL,
    until bigint NOT NULL
);

-- Written to find out whether the database can be written.
CREATE TABLE @probe (id smallint PRIMARY KEY, written bigint NOT NULL);

CREATE FUNCTION @now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Deletes a session with all its rows, and its stream. That goes first: whoever removes chunks has locked it before.
CREATE FUNCTION @drop_session(dropped bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM @stream WHERE key = dropped;
    DELETE FROM @message WHERE session = dropped;
    DELETE FROM @usage WHERE session = dropped;
    DELETE FROM @state WHERE session = dropped;
    DELETE FROM @run WHERE session = dropped;
    DELETE FROM @checkpoint WHERE session = dropped;
    DELETE FROM @child WHERE session = dropped;
    DELETE FROM @staged WHERE session = dropped;
    DELETE FROM @retired_call WHERE session = dropped;
    DELETE FROM @pending WHERE session = dropped;
    DELETE FROM @answered WHERE session = dropped;
    DELETE FROM @due WHERE session = dropped;
    DELETE FROM @label WHERE session = dropped;
    DELETE FROM @chunk WHERE stream = dropped;
    DELETE FROM @session WHERE key = dropped;
END $$;

-- Makes room for chunks in a stream, which begins if there is none, and returns the last sequence before them.
CREATE FUNCTION @advance(stream_key bigint, added bigint, new_status text, edited bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    place bigint;
BEGIN
    UPDATE @stream SET last = last + added, status = coalesce(new_status, status), edits = edits + edited
        WHERE key = stream_key RETURNING last - added INTO place;
    IF NOT FOUND THEN
        INSERT INTO @stream VALUES (stream_key, coalesce(new_status, 'active'), added, 0, 0, edited);
        place := 0;
    END IF;
    RETURN place;
END $$;

-- Carries out a commit that was judged by the headers of the sessions named in `s_*`, in the order of their names:
-- locks them in that order, compares their numbers and versions, and writes. It has no rules of its own.
--
-- `s_act`: 0 read, 1 update, 2 update with the columns of queries, 3 create, 4 delete, 5 absent. A session that must
-- not exist has no `s_key`, and `s_version` is the number of the lock that stands for its name.
-- `s_step_act`: 0 the open step stays, 1 it is replaced, 2 calls are added to it.
-- Returns {1, last sequence or number of the entry in the outbox, time}, or {0, 0, time} if a header is another one; nothing is written then.
CREATE FUNCTION @commit(
    s_name bytea[], s_key bigint[], s_version bigint[], s_act smallint[],
    s_header bytea[], s_next bigint[], s_run bytea[], s_stopping bytea[],
    s_step_act smallint[], s_step bytea[], s_calls bytea[],
    s_new_key bigint[], s_root bytea[], s_agent bytea[], s_owner bytea[], s_parent bytea[],
    s_status text[], s_created bigint[],
    o_kind smallint[], o_key bigint[], o_n bigint[], o_m bigint[], o_id bytea[], o_sub bytea[], o_data bytea[],
    t_root bytea, t_key bigint, t_expected bigint[], t_status text, t_added bigint, t_ended bigint,
    f_known bigint, f_raised bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    i integer;
    place bigint;
    numbered bigint;
BEGIN
    -- One session alone is compared when it is written.
    IF array_length(s_name, 1) > 1 OR s_act[1] NOT IN (1, 2) OR t_expected IS NOT NULL OR f_known IS NOT NULL THEN
        FOR i IN 1 .. coalesce(array_length(s_name, 1), 0) LOOP
            IF s_key[i] IS NULL THEN
                PERFORM pg_advisory_xact_lock(s_version[i]);
            ELSE
                PERFORM 1 FROM @session WHERE key = s_key[i] AND version = s_version[i] FOR UPDATE;
                IF NOT FOUND THEN
                    RETURN ARRAY[0, 0, @now_ms()];
                END IF;
            END IF;
        END LOOP;
        -- Whoever creates one of them holds its lock until it is visible.
        FOR i IN 1 .. coalesce(array_length(s_name, 1), 0) LOOP
            IF s_key[i] IS NULL AND EXISTS (SELECT 1 FROM @session WHERE name = s_name[i]) THEN
                RETURN ARRAY[0, 0, @now_ms()];
            END IF;
        END LOOP;
        IF f_known IS NOT NULL AND f_known <> (SELECT fence FROM @floor) THEN
            RETURN ARRAY[0, 0, @now_ms()];
        END IF;
        IF t_expected IS NOT NULL THEN
            PERFORM 1 FROM @stream
                WHERE key = t_key AND last = t_expected[1] AND edits = t_expected[2] FOR UPDATE;
            IF FOUND <> (t_expected[1] >= 0) THEN
                RETURN ARRAY[0, 0, @now_ms()];
            END IF;
        END IF;
    END IF;

    FOR i IN 1 .. coalesce(array_length(s_name, 1), 0) LOOP
        IF s_act[i] IN (1, 2) THEN
            UPDATE @session SET
                version = s_next[i], header = s_header[i], run = s_run[i], stopping = s_stopping[i],
                open_step = CASE WHEN s_step_act[i] = 1 THEN s_step[i] ELSE open_step END,
                open_calls = CASE s_step_act[i]
                    WHEN 1 THEN s_calls[i] WHEN 2 THEN open_calls || s_calls[i] ELSE open_calls END
                WHERE key = s_key[i] AND version = s_version[i];
            IF NOT FOUND THEN
                -- Only a session alone was not locked before, and nothing is written yet.
                RETURN ARRAY[0, 0, @now_ms()];
            END IF;
            IF s_act[i] = 2 THEN
                UPDATE @session SET agent = s_agent[i], owner = s_owner[i], parent = s_parent[i],
                    status = s_status[i], created = s_created[i] WHERE key = s_key[i];
                UPDATE @pending SET owner = s_owner[i]
                    WHERE session = s_key[i] AND owner IS DISTINCT FROM s_owner[i];
            END IF;
        ELSIF s_act[i] = 3 THEN
            IF s_key[i] IS NOT NULL THEN
                PERFORM @drop_session(s_key[i]);
            END IF;
            INSERT INTO @session VALUES (s_new_key[i], s_name[i], s_root[i], s_agent[i], s_owner[i], s_parent[i],
                s_status[i], s_created[i], s_next[i], s_run[i], s_stopping[i], s_header[i], s_step[i], s_calls[i]);
        ELSIF s_act[i] = 4 THEN
            PERFORM @drop_session(s_key[i]);
        END IF;
    END LOOP;

    IF t_key IS NOT NULL THEN
        place := @advance(t_key, t_added, t_status, (t_expected IS NOT NULL)::int);
        IF t_ended IS NOT NULL THEN
            INSERT INTO @ended_turn VALUES (t_ended, t_key, place + t_added) ON CONFLICT DO NOTHING;
        END IF;
    END IF;

    FOR i IN 1 .. coalesce(array_length(o_kind, 1), 0) LOOP
        CASE o_kind[i]
        WHEN 1 THEN
            INSERT INTO @message VALUES (o_key[i], o_n[i], o_m[i], o_data[i]);
        WHEN 2 THEN
            INSERT INTO @chunk VALUES (t_key, place + o_n[i], place + 1, false, o_data[i]);
            place := place + o_n[i];
        WHEN 3 THEN
            INSERT INTO @checkpoint VALUES (o_key[i], o_id[i], o_n[i], o_data[i])
                ON CONFLICT (session, id) DO UPDATE SET n = excluded.n, data = excluded.data;
        WHEN 4 THEN
            INSERT INTO @usage SELECT o_key[i], coalesce((SELECT at + count FROM @usage
                WHERE session = o_key[i] ORDER BY at DESC LIMIT 1), 0), o_n[i], o_data[i];
        WHEN 5 THEN
            INSERT INTO @state VALUES (o_key[i], o_n[i], o_m[i] = 1, o_data[i]);
        WHEN 6 THEN
            INSERT INTO @run VALUES (o_key[i], o_id[i], o_n[i], o_data[i])
                ON CONFLICT (session, id) DO UPDATE SET data = excluded.data;
        WHEN 7 THEN
            INSERT INTO @due VALUES (o_key[i], o_n[i], o_id[i], o_m[i], o_sub[i])
                ON CONFLICT (session, kind) DO UPDATE SET agent = excluded.agent, since = excluded.since;
        WHEN 8 THEN
            DELETE FROM @due WHERE session = o_key[i] AND kind = o_n[i];
        WHEN 9 THEN
            INSERT INTO @pending
                SELECT o_key[i], o_id[i], s.name, s.owner, o_sub[i], o_n[i], o_data[i], NULL, o_m[i] = 1
                FROM @session s WHERE s.key = o_key[i]
                ON CONFLICT (session, call) DO UPDATE SET root = excluded.root, created = excluded.created,
                    data = excluded.data, answer = NULL, is_open = excluded.is_open;
        WHEN 10 THEN
            UPDATE @pending SET answer = o_data[i], is_open = false WHERE session = o_key[i] AND call = o_id[i];
        WHEN 11 THEN
            DELETE FROM @pending WHERE session = o_key[i] AND call = o_id[i];
        WHEN 12 THEN
            -- `o_m` says which earlier records this one replaces: 1 those without a kind, 2 the others.
            INSERT INTO @answered AS earlier VALUES (o_key[i], o_id[i], o_n[i], o_data[i])
                ON CONFLICT (session, call) DO UPDATE SET time = excluded.time, kind = excluded.kind
                WHERE o_m[i] & (CASE WHEN earlier.kind IS NULL THEN 1 ELSE 2 END) <> 0;
        WHEN 13 THEN
            DELETE FROM @answered WHERE session = o_key[i] AND call = o_id[i];
        WHEN 14 THEN
            INSERT INTO @child VALUES (o_key[i], o_id[i], o_n[i], o_sub[i], o_data[i])
                ON CONFLICT (session, name) DO UPDATE SET call = excluded.call, data = excluded.data;
        WHEN 15 THEN
            UPDATE @child SET call = o_sub[i], data = o_data[i] WHERE session = o_key[i] AND name = o_id[i];
        WHEN 16 THEN
            DELETE FROM @child WHERE session = o_key[i] AND call = o_id[i];
        WHEN 17 THEN
            INSERT INTO @staged VALUES (o_key[i], o_id[i], o_sub[i], o_n[i], o_data[i])
                ON CONFLICT (session, step, call) DO UPDATE SET data = excluded.data;
        WHEN 18 THEN
            DELETE FROM @staged WHERE session = o_key[i] AND step = o_id[i];
        WHEN 19 THEN
            DELETE FROM @staged WHERE session = o_key[i] AND step IS DISTINCT FROM o_id[i];
        WHEN 20 THEN
            INSERT INTO @retired_call VALUES (o_key[i], o_id[i]) ON CONFLICT DO NOTHING;
        WHEN 21 THEN
            DELETE FROM @message WHERE session = o_key[i] AND at >= o_n[i];
        WHEN 22 THEN
            DELETE FROM @checkpoint WHERE session = o_key[i] AND n > coalesce(
                (SELECT n FROM @checkpoint WHERE session = o_key[i] AND id = o_id[i]), -1);
        WHEN 23 THEN
            INSERT INTO @label VALUES (o_key[i], o_id[i]) ON CONFLICT DO NOTHING;
        WHEN 24 THEN
            DELETE FROM @label WHERE session = o_key[i];
        WHEN 25 THEN
            DELETE FROM @chunk WHERE stream = o_key[i] AND last = o_n[i];
        WHEN 26 THEN
            UPDATE @chunk SET data = o_data[i] WHERE stream = o_key[i] AND last = o_n[i];
        WHEN 27 THEN
            numbered := @leave(t_root, nullif(o_key[i], 0), o_m[i] = 1, o_data[i]);
        END CASE;
    END LOOP;

    IF f_raised IS NOT NULL THEN
        UPDATE @floor SET fence = f_raised WHERE fence < f_raised;
    END IF;
    IF t_key IS NULL AND numbered IS NULL THEN
        SELECT last INTO place FROM @stream
            WHERE key = (SELECT key FROM @session WHERE name = t_root AND root IS NULL);
    END IF;
    RETURN ARRAY[1, coalesce(numbered, place, 0), @now_ms()];
END $$;

-- Appends deltas of a writer that was judged by the headers of these sessions, in the order of their names. A version
-- of -1 stands for any. Fails if its number is forbidden: then there is a stream, and it cannot begin. Returns as
-- `commit`.
CREATE FUNCTION @append(
    s_key bigint[], s_version bigint[], t_key bigint, c_count bigint[], c_data bytea[], c_added bigint,
    a_number bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    i integer;
    place bigint;
BEGIN
    FOR i IN 1 .. array_length(s_key, 1) LOOP
        PERFORM 1 FROM @session WHERE key = s_key[i] AND s_version[i] IN (-1, version) FOR SHARE;
        IF NOT FOUND THEN
            RETURN ARRAY[0, 0, @now_ms()];
        END IF;
    END LOOP;
    UPDATE @stream SET last = last + c_added WHERE key = t_key AND a_number <> ALL (forbidden)
        RETURNING last - c_added INTO place;
    IF NOT FOUND THEN
        INSERT INTO @stream VALUES (t_key, 'active', c_added, 0, 0, 0);
        place := 0;
    END IF;
    FOR i IN 1 .. coalesce(array_length(c_count, 1), 0) LOOP
        INSERT INTO @chunk VALUES (t_key, place + c_count[i], place + 1, true, c_data[i]);
        place := place + c_count[i];
    END LOOP;
    RETURN ARRAY[1, place, @now_ms()];
END $$;

-- What commits left for streams that are stored elsewhere. Numbers of entries; 1 stands for commits that left none.
CREATE SEQUENCE @outbox_number START WITH 2;

-- The last entry of each root that exists, also if it was relayed, and the number of the root's session.
CREATE TABLE @outbox_head (
    root bytea PRIMARY KEY,
    stream bigint NOT NULL,
    last bigint NOT NULL
) WITH (fillfactor = 50);

-- The entries that are not relayed yet. `previous` is the entry before, also if that was relayed.
CREATE TABLE @outbox (
    root bytea NOT NULL,
    n bigint NOT NULL,
    previous bigint NOT NULL,
    stream bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (root, n)
);

-- Leaves an entry in the outbox of a root, and returns its number. A root that this commit creates has a `new_stream`.
-- The number is drawn under the lock of the head, which is held to the end: entries of a root become visible in the
-- order of their numbers.
CREATE FUNCTION @leave(left_root bytea, new_stream bigint, is_gone boolean, left_data bytea)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before bigint := 0;
    number bigint;
    stream_key bigint := new_stream;
BEGIN
    IF new_stream IS NULL THEN
        SELECT h.stream, h.last INTO stream_key, before FROM @outbox_head h WHERE h.root = left_root FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO @outbox_head SELECT s.name, s.key, 1 FROM @session s
                WHERE s.name = left_root AND s.root IS NULL ON CONFLICT DO NOTHING;
            SELECT h.stream, h.last INTO stream_key, before FROM @outbox_head h WHERE h.root = left_root FOR UPDATE;
        END IF;
    END IF;
    number := nextval('@outbox_number');
    IF is_gone THEN
        DELETE FROM @outbox_head h WHERE h.root = left_root;
    ELSE
        INSERT INTO @outbox_head AS h VALUES (left_root, stream_key, number)
            ON CONFLICT (root) DO UPDATE SET stream = excluded.stream, last = excluded.last;
    END IF;
    INSERT INTO @outbox VALUES (left_root, number, coalesce(before, 1), coalesce(stream_key, 0), left_data);
    RETURN number;
END $$;
