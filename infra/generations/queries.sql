-- Steps are functions of the database (see infra/db/migrations), called by one statement each.

-- name: admit
-- Holds and, where it can, places.
select holdfast.admit_v2(%(request)s::jsonb, %(in_flight_max)s, %(fresh)s, %(offer)s, %(duplicates)s) as answer

-- name: answer_duplicate
-- Keeps that an operation id was answered with another's task. Nothing was tried, so its attempt stays; one that holds
-- credits meanwhile has no refusal any more, and stays as it is.
insert into operation (account_id, operation_id, task_id, fingerprint, fields, refusal, refused_at)
values (%(account_id)s, %(operation_id)s, %(task_id)s, %(fingerprint)s, %(fields)s::jsonb,
        jsonb_build_object('code', 'possible_duplicate', 'task_id', %(duplicate_of)s::text), clock_timestamp())
on conflict (account_id, operation_id) do update set
    fingerprint = excluded.fingerprint, fields = excluded.fields, refusal = excluded.refusal,
    refused_at = excluded.refused_at
where operation.refusal is not null

-- name: settle
select holdfast.settle_v1(%(task_id)s, %(credits)s, %(actor)s) as answer

-- name: release
select holdfast.release_v1(%(task_id)s, %(status)s, %(failure)s::jsonb, %(actor)s) as answer

-- name: advance
select holdfast.advance_v1(%(task_id)s, %(phase)s, %(note)s) as moved

-- name: mark_unknown
select holdfast.mark_unknown_v1(%(order)s::jsonb) as marked

-- name: request_cancel
select holdfast.request_cancel_v1(%(task_id)s, %(reason)s, %(actor)s) as open

-- name: keep
-- Records artifacts and their blobs; what is there already stays as it is. Answers how many of the artifacts
-- given are recorded just so. The generation's lock keeps its events in the order of their ids.
with held as materialized (
    select task_id from generation where task_id = %(task_id)s for no key update
), given as (
    select task.task_id, (a ->> 'index')::integer as idx, a ->> 'role' as role,
           a #>> '{blob,sha256}' as sha256, a #>> '{blob,mime}' as mime, (a #>> '{blob,size}')::bigint as size,
           (a ->> 'width')::integer as width, (a ->> 'height')::integer as height,
           clock_timestamp() + make_interval(days => coalesce((task.request #>> '{model,content_days}')::integer, 30))
               as expires_at
    from held join generation task using (task_id), jsonb_array_elements(%(artifacts)s::jsonb) a
    where task.task_id = %(task_id)s and task.account_id = %(account_id)s
), bytes as (
    insert into blob (sha256, size, mime, stored_at)
    select distinct on (sha256) sha256, size, mime, clock_timestamp() from given order by sha256
    on conflict (sha256) do update set stored_at = coalesce(blob.stored_at, excluded.stored_at)
), kept as (
    insert into artifact (task_id, idx, role, sha256, mime, size, width, height, expires_at)
    select task_id, idx, role, sha256, mime, size, width, height, expires_at from given order by idx
    on conflict (task_id, idx) do nothing
    returning idx
), refused as (
    insert into refused_output (task_id, idx, code, message)
    select task.task_id, (r ->> 'index')::integer, r ->> 'code', r ->> 'message'
    from generation task, jsonb_array_elements(%(refused)s::jsonb) r
    where task.task_id = %(task_id)s and task.account_id = %(account_id)s
    on conflict (task_id, idx) do nothing
), told as (
    insert into event (task_id, kind, data)
    select %(task_id)s, 'kept', jsonb_build_object('artifacts', (select count(*) from kept))
        || case %(refused)s::jsonb when '[]' then '{}' else jsonb_build_object('refused', %(refused)s::jsonb) end
    where exists (select from kept)
)
select (select count(*) from kept)
     + (select count(*) from given g join artifact a using (task_id, idx, sha256)) as recorded

-- name: preflight
-- Balance, limits and what is known of the operation, in one look.
select coalesce(a.credits_posted - a.debits_posted - a.debits_pending
                - case when a.has_lots then (select coalesce(sum(remaining), 0) from credit_lot
                                             where account_id = a.id and remaining > 0
                                               and expires_at <= clock_timestamp()) else 0 end, 0)::bigint
           as available_credits,
       coalesce(a.frozen, false) as frozen,
       (select count(*) from generation where account_id = %(account_id)s and status = 'pending') as in_flight,
       (select count(*) from ticket where model_id = %(model_id)s) as queue_length,
       coalesce((select jsonb_agg(jsonb_build_object(
                     'whose', case when l.key_id is null then 'account' else 'key' end, 'in_flight', l.in_flight,
                     'per_day', l.credits_per_day, 'per_month', l.credits_per_month,
                     'use', holdfast.limit_use_v1(l.subject), 'refusal', holdfast.limit_reached_v1(l, 0))
                     order by l.key_id nulls first)
                 from spending_limit l where l.subject in ('account:' || %(account_id)s, 'key:' || %(key_id)s::text)), '[]') as limits,
       o.fingerprint, o.fields, o.task_id, o.attempt, g.status as generation_status, clock_timestamp() as at,
       case o.refusal ->> 'code' when 'possible_duplicate' then o.refusal ->> 'task_id' end as duplicate_of,
       case when %(duplicates)s::interval > interval '0'
            then (select coalesce(jsonb_object_agg(r.fingerprint, r.task_id), '{}')
                  from (select distinct on (fingerprint) fingerprint, task_id
                        from holdfast.recent_creations(%(account_id)s, %(duplicates)s) with ordinality
                        order by fingerprint, ordinality) r)
            else '{}' end as recent
from (select 1) one
left join account a on a.id = %(account_id)s
left join operation o on o.account_id = %(account_id)s and o.operation_id = %(operation_id)s
left join generation g on g.task_id = o.task_id

-- name: arrival
-- Who a session's member or a key is, and what `preflight` tells for his account: of each model, since none is
-- named yet.
select w.*,
       coalesce(a.credits_posted - a.debits_posted - a.debits_pending
                - case when a.has_lots then (select coalesce(sum(remaining), 0) from credit_lot
                                             where account_id = a.id and remaining > 0
                                               and expires_at <= clock_timestamp()) else 0 end, 0)::bigint
           as available_credits,
       coalesce(a.frozen, false) as frozen,
       (select count(*) from generation where account_id = w.account_id and status = 'pending') as in_flight,
       (select coalesce(jsonb_object_agg(q.model_id, q.waiting), '{}')
        from (select model_id, count(*) as waiting from ticket group by model_id) q) as queues,
       coalesce((select jsonb_agg(jsonb_build_object(
                     'whose', case when l.key_id is null then 'account' else 'key' end, 'in_flight', l.in_flight,
                     'per_day', l.credits_per_day, 'per_month', l.credits_per_month,
                     'use', holdfast.limit_use_v1(l.subject), 'refusal', holdfast.limit_reached_v1(l, 0))
                     order by l.key_id nulls first)
                 from spending_limit l where l.subject in ('account:' || w.account_id, 'key:' || w.key_id)), '[]') as limits,
       o.fingerprint, o.fields, o.task_id, o.attempt, g.status as generation_status, clock_timestamp() as at,
       case o.refusal ->> 'code' when 'possible_duplicate' then o.refusal ->> 'task_id' end as duplicate_of,
       case when %(duplicates)s::interval > interval '0'
            then (select coalesce(jsonb_object_agg(r.fingerprint, r.task_id), '{}')
                  from (select distinct on (fingerprint) fingerprint, task_id
                        from holdfast.recent_creations(w.account_id, %(duplicates)s) with ordinality
                        order by fingerprint, ordinality) r)
            else '{}' end as recent
from (
    select id, account_id, email, role, null as key_id, null as name, null::text[] as scopes,
           null::text[] as allowed_networks, null::timestamptz as created_at, null as created_by,
           null::timestamptz as revoked_at, null::timestamptz as expires_at
    from member where id = %(member_id)s::text
    union all
    select id, account_id, null, null, id, name, scopes, allowed_networks::text[], created_at, created_by,
           revoked_at, expires_at
    from api_key
    where id = %(key_id)s::text and secret_sha256 = %(secret_sha256)s::text and revoked_at is null
      and (expires_at is null or expires_at > clock_timestamp())
) w
left join account a on a.id = w.account_id
left join operation o on o.account_id = w.account_id and o.operation_id = %(operation_id)s
left join generation g on g.task_id = o.task_id

-- name: find
-- One generation of one account. Another's takes the same look-up and gives the same nothing.
select g.task_id, g.account_id, g.operation_id, g.request, g.phase, g.status, g.credit_status, g.price_credits,
       g.charged_credits, g.created_at, g.started_at, g.finished_at, g.expires_at, g.failure, g.cancel,
       g.unknown_since, g.unknown_reason, g.awaiting, g.next_look_at, g.resolve_by, g.raised, g.version,
       c.label as card_label, c.gpu_model,
       case when c.running_task = g.task_id and g.status = 'pending' then c.running_fraction end as fraction,
       k.eta_s, coalesce(k.why, '{}') as why_not_yet,
       -- As the placer told it; until then, those before it in its own line.
       coalesce(k.position - 1, (select count(*) from ticket w join ticket mine on mine.task_id = g.task_id
        where w.capability = mine.capability
          and (-w.priority, w.enqueued_at, w.task_id) < (-mine.priority, mine.enqueued_at, mine.task_id)
        having exists (select from ticket where task_id = g.task_id))) as queue_ahead,
       coalesce((select jsonb_agg(to_jsonb(a) - 'task_id' order by a.idx)
                 from artifact a where a.task_id = g.task_id), '[]') as artifacts,
       coalesce((select jsonb_agg(jsonb_build_object('index', r.idx, 'code', r.code, 'message', r.message)
                                  order by r.idx)
                 from refused_output r where r.task_id = g.task_id), '[]') as refused
from generation g
left join ticket k on k.task_id = g.task_id
left join lateral (select card_uuid from lease where task_id = g.task_id and state <> 'offered'
                   order by seq desc limit 1) l on true
left join card c on c.uuid = l.card_uuid
where g.task_id = %(task_id)s and g.account_id = %(account_id)s

-- name: find_artifact
-- One result of one account's generation, with the generation's standing.
select a.idx as index, a.role, a.sha256, a.mime, a.size, a.width, a.height, a.created_at, a.expires_at,
       g.status, g.credit_status
from generation g
join artifact a on a.task_id = g.task_id and a.idx = %(index)s
where g.task_id = %(task_id)s and g.account_id = %(account_id)s

-- name: readiness
-- Canaries that passed on a card that reports now, under the agent that reports now.
select r.model_id, r.digest, max(r.passed_at) as passed_at
from model_readiness r
join card c on c.uuid = r.card_uuid and c.boot_id = r.boot_id
where c.last_report_at > clock_timestamp() - %(fresh)s
group by r.model_id, r.digest

-- name: open_generations
-- Generations that hold credits since a while, oldest first; each must have an open workflow.
select request, cancel, admitted_at from generation
where status = 'pending' and admitted_at <= clock_timestamp() - %(older_than)s
  and (%(after_at)s::timestamptz is null or (admitted_at, task_id) > (%(after_at)s, %(after_task)s))
order by admitted_at, task_id
limit %(limit)s

-- name: is_open
-- Whether a generation holds credits.
select exists (select from generation where task_id = %(task_id)s and status = 'pending')

-- name: admitted
-- Which of these were ever admitted.
select task_id from generation where task_id = any (%(task_ids)s)
