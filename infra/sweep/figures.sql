-- name: open_by_status
-- Generations that hold credits, and how many, by credit status.
select credit_status, count(*) as count, sum(price_credits)::bigint as credits,
       count(*) filter (where raised) as raised,
       coalesce(extract(epoch from clock_timestamp() - min(unknown_since)
                                   filter (where credit_status = 'unknown')), 0)::float8 as oldest_s
from generation where status = 'pending' group by credit_status

-- name: outbox_waiting
-- Messages not delivered yet.
select topic, count(*) as count from outbox where done_at is null group by topic

-- name: looks
-- How long ago each step of the sweep was last done.
select step, extract(epoch from clock_timestamp() - at)::float8 as age_s from sweep_look
