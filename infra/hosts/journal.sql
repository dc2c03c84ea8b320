-- name: ask
-- A lease is looked into for the first time; one that is known already stays as it is.
INSERT INTO card_run (task_id, fence, card_uuid, lease_id, run_id, state, changed_at)
VALUES (:task_id, :fence, :card_uuid, :lease_id, :run_id, 'asked', :now)
ON CONFLICT DO NOTHING

-- name: intend
-- A run is about to start; one that is further stays as it is.
INSERT INTO card_run (task_id, fence, card_uuid, lease_id, run_id, state, deadline_at, changed_at)
VALUES (:task_id, :fence, :card_uuid, :lease_id, :run_id, 'intent', :deadline_at, :now)
ON CONFLICT (card_uuid, task_id, fence) DO UPDATE
SET state = 'intent', deadline_at = excluded.deadline_at, changed_at = excluded.changed_at
WHERE card_run.state = 'asked'

-- name: note_fence
-- The card was ordered under this fence; never back.
INSERT INTO ordered (card_uuid, fence) VALUES (:card_uuid, :fence)
ON CONFLICT (card_uuid) DO UPDATE SET fence = max(fence, excluded.fence)

-- name: known_fence
-- The highest of them.
SELECT fence FROM ordered WHERE card_uuid = :card_uuid

-- name: submitted
-- An engine has the run, under this name.
UPDATE card_run SET state = 'submitted', run_id = :run_id, boot_id = :boot_id, changed_at = :now
WHERE card_uuid = :card_uuid AND task_id = :task_id AND fence = :fence AND state <> 'closed'

-- name: crashed
-- An engine died under the run.
UPDATE card_run SET crashes = crashes + 1, changed_at = :now WHERE card_uuid = :card_uuid AND task_id = :task_id AND fence = :fence

-- name: crashes_of_task
-- How many engines died under a task on this host.
SELECT coalesce(sum(crashes), 0) FROM card_run WHERE task_id = :task_id

-- name: close_run
-- The lease's run is over; the first word stands.
UPDATE card_run SET state = 'closed', outcome = :outcome, changed_at = :now
WHERE card_uuid = :card_uuid AND task_id = :task_id AND fence = :fence AND state <> 'closed'

-- name: settle_card
-- The card's fence is over; never back.
INSERT INTO card (card_uuid, settled_fence) VALUES (:card_uuid, :fence)
ON CONFLICT (card_uuid) DO UPDATE SET settled_fence = max(settled_fence, excluded.settled_fence)

-- name: find
-- The run of one lease.
SELECT task_id, fence, card_uuid, lease_id, run_id, state, boot_id, crashes, deadline_at, outcome
FROM card_run WHERE card_uuid = :card_uuid AND task_id = :task_id AND fence = :fence

-- name: of_task
-- All runs of a task on one card, the newest fence first.
SELECT task_id, fence, card_uuid, lease_id, run_id, state, boot_id, crashes, deadline_at, outcome
FROM card_run WHERE card_uuid = :card_uuid AND task_id = :task_id ORDER BY fence DESC

-- name: open_runs
-- Runs of a card that aren't over as far as is known, the oldest fence first.
SELECT task_id, fence, card_uuid, lease_id, run_id, state, boot_id, crashes, deadline_at, outcome
FROM card_run WHERE card_uuid = :card_uuid AND state <> 'closed' ORDER BY fence

-- name: settled_fence
-- The first open fence of a card, if any, and the highest one that is over.
SELECT (SELECT min(fence) FROM card_run WHERE card_uuid = :card_uuid AND state <> 'closed'),
       coalesce((SELECT settled_fence FROM card WHERE card_uuid = :card_uuid), 0)

-- name: note_loss
-- A damaged journal was moved aside just now.
INSERT OR REPLACE INTO note (name, value) VALUES ('lost_at', :now)

-- name: lost_at
-- When that was last.
SELECT value FROM note WHERE name = 'lost_at'

-- name: prune_old
-- Closed runs past their retention.
DELETE FROM card_run WHERE state = 'closed' AND changed_at < :before

-- name: prune_surplus
-- Closed runs over the bound, the oldest.
DELETE FROM card_run WHERE (card_uuid, task_id, fence) IN (
    SELECT card_uuid, task_id, fence FROM card_run WHERE state = 'closed' ORDER BY changed_at DESC LIMIT -1 OFFSET :rows_max
)

-- name: has_old_runs
-- Whether the file is of the time when a host had one card and runs were known by task and fence alone.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'run'

-- name: take_old_runs
-- Its runs, as they are known now.
INSERT OR IGNORE INTO card_run (card_uuid, task_id, fence, lease_id, run_id, state, boot_id, crashes, deadline_at,
                                outcome, changed_at)
SELECT card_uuid, task_id, fence, lease_id, run_id, state, boot_id, crashes, deadline_at, outcome, changed_at FROM run

-- name: drop_old_runs
-- They are taken over.
DROP TABLE run

-- name: knows_no_asking
-- Whether the file is of the time when an order was fetched after the intent.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'card_run' AND sql NOT LIKE '%''asked''%'

-- name: set_aside
-- Its runs are carried over like those of a still older file, into a table that knows more steps.
ALTER TABLE card_run RENAME TO run

-- name: use_wal
-- Readers don't wait for writers.
PRAGMA journal_mode = WAL

-- name: write_soon
-- A commit is handed to the system and not awaited on the disk; the next that is awaited brings it along.
PRAGMA synchronous = NORMAL

-- name: write_through
-- With NORMAL the last commits of a write-ahead log go with a power cut.
PRAGMA synchronous = FULL

-- name: bound_log
-- The log's file shrinks back to this many bytes.
PRAGMA journal_size_limit = 1048576

-- name: check
-- `ok`, or the first damage.
PRAGMA quick_check(1)
