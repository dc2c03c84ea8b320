-- name: run_times
-- When a generation's order was fetched, when its run was over, and when it ended.
select (select min(at) from event where task_id = g.task_id and kind = 'running') as began_at,
       (select min(at) from event where task_id = g.task_id and kind = 'inspecting') as ended_at,
       g.finished_at
from generation g
where g.task_id = %(task_id)s
