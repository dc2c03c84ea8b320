-- Following generations: what happened, and who is to be woken by what happens next.

-- name: watch
-- These generations are followed for a while; renewed while somebody follows. Dropped are those whose time is over.
with over as (
    delete from watch where until < clock_timestamp() - interval '1 minute'
)
insert into watch (task_id, until)
select task_id, clock_timestamp() + %(lasts)s from unnest(%(task_ids)s::text[]) as t (task_id) order by task_id
on conflict (task_id) do update set until = greatest(watch.until, excluded.until)

-- name: events
-- What happened to a generation, in order. A generation has some tens of these, one in doubt for days some hundreds.
select id, at, kind, data from event where task_id = %(task_id)s and id > %(after)s order by id

-- name: pulses
-- Where generations stand between two events: the last event, progress, places in the queue, the next look.
select g.task_id, g.phase, g.status = 'pending' as open, g.next_look_at,
       (select max(id) from event where task_id = g.task_id) as last_event,
       (select max(c.running_fraction) from card c where c.running_task = g.task_id and g.phase = 'running')
           as fraction,
       (select count(*) from ticket w join ticket mine on mine.task_id = g.task_id
        where w.capability = mine.capability
          and (-w.priority, w.enqueued_at, w.task_id) < (-mine.priority, mine.enqueued_at, mine.task_id)
        having exists (select from ticket where task_id = g.task_id)) as queue_ahead
from generation g where g.task_id = any (%(task_ids)s)
