-- name: record
-- Records one step of a sweep.
select holdfast.record_sweep_v1(%(step)s, %(kinds)s, %(found)s::jsonb, %(looked_at)s, %(actor)s)

-- name: open_counts
-- What is found and not mended, by kind.
select kind, count(*) as count, min(found_at) as oldest_at from sweep_finding where ended_at is null group by kind

-- name: last_look
-- When a step was last done.
select at from sweep_look where step = %(step)s and at > clock_timestamp() - %(within)s

-- name: standings
-- Of these generations, where each stands, and whether a result of it may still be looked for.
select g.task_id, g.status,
       holdfast.is_looked_for_v1(g.task_id) as awaits_late,
       g.finished_at is not null and g.finished_at < clock_timestamp() - %(grace)s as long_over
from generation g where g.task_id = any (%(task_ids)s)

-- name: late_searches
-- Generations of which a result is looked for after their release, those behind `after`.
select g.task_id, g.request from late_look s join generation g on g.task_id = s.task_id
where s.ended_at is null and s.until > clock_timestamp()
  and s.began_at < clock_timestamp() - make_interval(secs => %(young_s)s) and g.task_id > %(after)s
order by g.task_id limit %(limit)s

-- name: raise_contradiction
-- Shows a generation as raised whose workflow ran to its end.
select holdfast.raise_contradiction_v1(%(task_id)s, %(reason)s)

-- name: lots_due
-- Credits past their date, by account.
select account_id, count(*) as lots, sum(remaining)::bigint as credits from credit_lot
where remaining > 0 and expires_at <= clock_timestamp()
group by account_id order by account_id limit %(limit)s

-- name: expire_lots
-- Books one account's due credits as lost.
select holdfast.expire_lots_v1(%(account_id)s, 1000)

-- name: artifacts_without_owner
-- Results of generations that ended without delivering them, and that nobody looks for any more.
select a.task_id, count(*) as count from artifact a join generation g on g.task_id = a.task_id
where a.expires_at > clock_timestamp() and g.status not in ('pending', 'completed')
  and not holdfast.is_looked_for_v1(g.task_id) and g.finished_at < clock_timestamp() - %(grace)s
group by a.task_id order by a.task_id limit %(limit)s

-- name: end_retention
-- Lets the retention of such results be over, unless they were delivered meanwhile; their bytes go as any others.
update artifact a set expires_at = clock_timestamp() from generation g
where g.task_id = a.task_id and a.task_id = %(task_id)s and a.expires_at > clock_timestamp()
  and g.status not in ('pending', 'completed') and not holdfast.is_looked_for_v1(g.task_id)
