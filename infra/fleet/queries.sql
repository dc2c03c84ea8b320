-- name: cards
-- Every card that was heard of within the last day, in a stable order.
select c.uuid, c.label, c.gpu_model, c.engines, c.capabilities, c.vram_total_mib, c.vram_free_mib, c.foreign_mib,
       c.resident_names, c.telemetry, c.cordoned, c.quarantined_at is not null as quarantined, c.quarantine_reason,
       c.last_report_at <= clock_timestamp() - %(fresh)s as silent,
       c.nonsense, c.nonsense_in_row >= nonsense_to_refuse() as unfit,
       (select coalesce(jsonb_agg(jsonb_build_object(
                    'host', k.host, 'host_id', k.host_id, 'reason', k.reason, 'times', k.times,
                    'age_s', extract(epoch from clock_timestamp() - k.last_at)) order by k.host_id), '[]')
        from card_claim k where k.card_uuid = c.uuid and k.last_at > clock_timestamp() - interval '1 hour') as claims,
       case when c.refused_order_at > clock_timestamp() - interval '1 hour' then
           c.refused_order || jsonb_build_object('age_s', extract(epoch from clock_timestamp() - c.refused_order_at))
       end as refused_order,
       c.lease_id is not null or c.running_task is not null or c.settled_fence < c.fetched_fence as busy,
       extract(epoch from c.free_at - clock_timestamp())::float8 as free_in_s, g.model_id as running_model
from card c
left join lease l on l.id = c.lease_id
left join generation g on g.task_id = l.task_id
where c.last_report_at > clock_timestamp() - interval '1 day'
  and (%(named)s::text is null or %(named)s in (c.uuid, c.label, c.host))
order by c.host, c.label, c.uuid

-- name: known
-- Cards that were heard of within the last day, whatever they do now; equal ones of a host as one.
select host, engines, capabilities, vram_total_mib, count(*) as count from card
where last_report_at > clock_timestamp() - interval '1 day'
group by host, engines, capabilities, vram_total_mib

-- name: workload
-- What runs and waits, by model.
select model_id, count(*) filter (where not waits) as running, count(*) filter (where waits) as waiting,
       coalesce(max(extract(epoch from clock_timestamp() - since)) filter (where waits), 0)::float8 as longest_wait_s
from (select g.model_id, false as waits, null::timestamptz as since
      from lease l join generation g on g.task_id = l.task_id where l.state = 'accepted'
      union all
      select model_id, true, enqueued_at from ticket) work
group by model_id order by model_id

-- name: trouble
-- Cards that can't be believed, by what is wrong: claimed by another host within the last minute, telling nonsense,
-- or in quarantine.
select (select count(distinct card_uuid) from card_claim
        where last_at > clock_timestamp() - interval '1 minute') as claimed,
       (select count(*) from card where nonsense is not null
        and last_report_at > clock_timestamp() - interval '1 minute') as nonsense,
       (select count(*) from card where quarantined_at is not null) as quarantined

-- name: mine
-- What one account has on cards and in the queue.
select (select count(*) from lease l join generation g on g.task_id = l.task_id
        where l.state = 'accepted' and g.account_id = %(account_id)s) as running,
       (select count(*) from ticket where account_id = %(account_id)s) as waiting,
       coalesce((select weight from account_share where account_id = %(account_id)s), 1)::float8 as weight,
       (select on_cards_max from account_share where account_id = %(account_id)s) as on_cards_max

-- name: cordon
select holdfast.cordon_v1(%(name)s, %(on)s, %(reason)s, %(actor)s) as changed

-- name: quarantine
select holdfast.quarantine_v1(%(name)s, %(on)s, %(reason)s, %(actor)s) as changed

-- name: set_share
select holdfast.set_share_v1(%(account_id)s, %(weight)s, %(on_cards_max)s, %(reason)s, %(actor)s)

-- name: observed_memory
-- Memory that runs were seen to take, with a budget that would have been enough.
select model_id, mode, runs, peak_mib, oom,
       greatest(ceil(peak_mib * 1.1), ceil(oom_mib * 1.2))::integer as suggested_mib
from observed_memory order by model_id, mode
