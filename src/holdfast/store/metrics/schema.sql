-- The metrics database. Whole numbers are stored in as few bytes as they need, so values are rounded to units that are
-- fine enough.
BEGIN IMMEDIATE;
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    attempt TEXT NOT NULL UNIQUE,  -- begins with the id of the job and a dot
    updated REAL NOT NULL,  -- seconds since 1970
    ended INTEGER NOT NULL,
    state TEXT NOT NULL  -- JSON: the summary, the last reading, the number of points of each ring
);
CREATE INDEX task_ended ON task (updated, id) WHERE ended;
-- `slot` counts through all rings: each has as many slots as points, and reuses the oldest one when it is full.
CREATE TABLE sample (
    task INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,  -- milliseconds since 1970
    seconds INTEGER NOT NULL,  -- milliseconds
    cpu INTEGER NOT NULL,  -- 1/100 percent of one core
    memory INTEGER NOT NULL,  -- bytes
    net_in INTEGER NOT NULL,  -- bytes per second, as the next three
    net_out INTEGER NOT NULL,
    disk_read INTEGER NOT NULL,
    disk_written INTEGER NOT NULL,
    throttled INTEGER NOT NULL,  -- 1/100 percent of the time
    disk_wait INTEGER NOT NULL,  -- 1/100 percent of the time
    gpus BLOB,  -- five bytes each: index, percent, memory
    PRIMARY KEY (task, slot)
) WITHOUT ROWID;
