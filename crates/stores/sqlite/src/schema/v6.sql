-- The root of a session that is made under another; NULL for one that is its own root.
ALTER TABLE session ADD COLUMN root TEXT;
