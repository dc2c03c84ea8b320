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
    try_at = clock_timestamp() + least(power(2, tries), 60) * interval '1 second'
where id = %(id)s
