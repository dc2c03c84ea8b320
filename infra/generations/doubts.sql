-- Outcomes that nobody knows. Steps are functions of the database.

-- name: record_look
select holdfast.record_look_v1(%(look)s::jsonb) as recorded

-- name: resolve
select holdfast.resolve_v1(%(task_id)s, %(credits)s, %(status)s, %(failure)s::jsonb, %(reason)s, %(actor)s) as answer

-- name: begin_late_look
select holdfast.begin_late_look_v1(%(task_id)s) as search

-- name: plan_late_look
-- Shows when the next look for a late result is.
update late_look set next_look_at = %(next_look_at)s where task_id = %(task_id)s and ended_at is null

-- name: end_late_look
select holdfast.end_late_look_v1(%(task_id)s, %(ending)s) as ended

-- name: deliver_late
select holdfast.deliver_late_v1(%(task_id)s, %(actor)s) as answer

-- name: closing
-- How a generation ended.
select closing_v1(g) as answer from generation g where task_id = %(task_id)s and status <> 'pending'

-- name: doubt
-- What was looked at since the outcome is not known, and what is still looked for after a release.
select (select count(*) from event where task_id = g.task_id and kind = 'looked'
        and data ->> 'source' <> 'operator') as looks,
       last.at as last_at, last.data ->> 'source' as last_source, last.data ->> 'finding' as last_finding,
       s.until as late_until, s.next_look_at as late_next_look_at, s.ending as late_ending
from generation g
left join lateral (select at, data from event where task_id = g.task_id and kind = 'looked'
                   order by id desc limit 1) last on true
left join late_look s on s.task_id = g.task_id
where g.task_id = %(task_id)s

-- name: unknown_now
-- Generations whose outcome nobody knows, the oldest first, with the last thing that was said about each.
select g.task_id, g.account_id, g.operation_id, g.model_id, g.price_credits, g.unknown_since, g.unknown_reason,
       g.awaiting, g.next_look_at, g.resolve_by, g.raised, c.label as card_label, l.fence,
       (select count(*) from event where task_id = g.task_id and kind = 'looked'
        and data ->> 'source' <> 'operator') as looks,
       last.at as last_at, last.data ->> 'source' as last_source, last.data ->> 'finding' as last_finding,
       last.data ->> 'asked' as last_asked, last.data ->> 'said' as last_said
from generation g
left join lateral (select card_uuid, fence from lease where task_id = g.task_id order by seq desc limit 1) l on true
left join card c on c.uuid = l.card_uuid
left join lateral (select at, data from event where task_id = g.task_id and kind = 'looked'
                   order by id desc limit 1) last on true
where g.status = 'pending' and g.credit_status = 'unknown'
  and (%(after_since)s::timestamptz is null or (g.unknown_since, g.task_id) > (%(after_since)s, %(after_task)s))
order by g.unknown_since, g.task_id
limit %(limit)s

-- name: late_now
-- Searches for results after a release, the one that ends first first.
select s.task_id, g.account_id, g.price_credits, s.began_at, s.until, s.next_look_at
from late_look s join generation g using (task_id)
where s.ended_at is null
order by s.until, s.task_id
limit %(limit)s
