-- name: standing
-- Where a generation is, and how far its run and its record are.
select g.phase, g.status, g.credit_status, c.running_fraction,
       exists (select from artifact a where a.task_id = g.task_id) as kept
from generation g
left join lease l on l.task_id = g.task_id and l.state <> 'ended'
left join card c on c.uuid = l.card_uuid
where g.task_id = %(task_id)s

-- name: cordon
-- Whether any card takes new work.
update card set cordoned = %(cordoned)s

-- name: lock_artifacts
-- Makes everybody who records an artifact wait.
lock table artifact in share row exclusive mode

-- name: lock_account
-- Makes everybody who moves an account's credits wait.
select id from account where id = %(account_id)s for update

-- name: waiting_for_me
-- How many sessions wait for a lock that this one has.
select count(*) as waiting from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))

-- name: free_cards
-- Cards that take work now.
select count(*) as free from card where card_is_free(card, interval '5 seconds')
