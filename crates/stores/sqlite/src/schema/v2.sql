-- The fence at which sessions begin: above those of all that were deleted.
CREATE TABLE floor (fence INTEGER NOT NULL) STRICT;
INSERT INTO floor (fence) VALUES (0);
