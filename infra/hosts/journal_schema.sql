-- The host's journal. One file a host; written before anything is submitted to an engine.
CREATE TABLE IF NOT EXISTS card_run (
    card_uuid   TEXT NOT NULL,
    task_id     TEXT NOT NULL,
    fence       INTEGER NOT NULL,   -- counts by card: the same task may have the same one on two cards
    lease_id    TEXT NOT NULL,
    run_id      TEXT NOT NULL,      -- the engine's name for it; an earlier fence's where its run was taken over
    state       TEXT NOT NULL CHECK (state IN ('asked', 'intent', 'submitted', 'closed')),
    boot_id     TEXT NOT NULL DEFAULT '',       -- of the engine that accepted it
    crashes     INTEGER NOT NULL DEFAULT 0,     -- engine deaths under this run
    deadline_at REAL,               -- unix seconds; the run is stopped after it, also by a later agent
    outcome     TEXT,               -- RunOutcome as JSON, once closed; NULL when closed without one
    changed_at  REAL NOT NULL,
    PRIMARY KEY (card_uuid, task_id, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS card_run_by_state ON card_run (card_uuid, state);
CREATE INDEX IF NOT EXISTS card_run_by_task ON card_run (task_id);

CREATE TABLE IF NOT EXISTS card (
    card_uuid     TEXT PRIMARY KEY,
    settled_fence INTEGER NOT NULL  -- the highest fence known to be over; outlives the rows it came from
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS ordered (
    card_uuid TEXT PRIMARY KEY,
    fence     INTEGER NOT NULL      -- the highest one of a signed order; outlives the rows too
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS note (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
