-- How a call was answered, as JSON; NULL: a client or a person answered it in time.
ALTER TABLE answered ADD COLUMN kind TEXT;
