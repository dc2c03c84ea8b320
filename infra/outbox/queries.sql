-- name: drop_overtaken
-- Offers that stand no more are of no use to anybody: after hours without a receiver there is one for every two
-- seconds of each card, and those that stand would wait behind them.
update outbox set done_at = clock_timestamp(), last_error = 'the offer had ended'
where id in (
    select o.id from outbox o
    where o.done_at is null and o.topic = 'signal.assigned'
      and not exists (
          select from lease l
          where l.id = case when o.topic = 'signal.assigned' then o.key::uuid end and l.state = 'offered')
    order by o.id
    limit 1000
    for no key update of o skip locked
)

-- name: take
-- Messages not yet delivered, oldest first, locked until the transaction ends so that two relays share the work.
select id, topic, key, payload, created_at, tries
from outbox
where done_at is null and try_at <= clock_timestamp()
order by id
limit %(limit)s
for no key update skip locked

-- name: mark_done
-- The message was delivered.
update outbox set done_at = clock_timestamp(), last_error = null where id = %(id)s

-- name: mark_failed
-- It was not; it is tried again later, each time later, up to a minute.
update outbox set tries = tries + 1, last_error = %(error)s,
    try_at = clock_timestamp() + least(power(2, least(tries, 6)), 60) * interval '1 second'
where id = %(id)s
