-- name: finished
-- Runs that a host's journal says it finished.
SELECT run_id FROM card_run WHERE state = 'closed' AND outcome ->> 'verdict' = 'finished'
