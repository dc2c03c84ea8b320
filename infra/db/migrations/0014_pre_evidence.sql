-- Evidence: what was looked at while nobody knew an outcome, the search for a result that goes on after a release,
-- what hosts were allowed to leave in the store, and telling whoever follows a generation.

-- The order of a generation's leases. Two offers may bear one time, and a clock may be set back; fences are counted
-- for each card.
alter table lease add column seq bigint;
update lease set seq = o.place
from (select id, row_number() over (order by offered_at, fence) as place from lease) o where o.id = lease.id;
alter table lease
    alter column seq set not null,
    alter column seq add generated always as identity,
    add constraint leases_have_an_order unique (seq);
select setval(pg_get_serial_sequence('lease', 'seq'), coalesce(max(seq), 0) + 1, false) from lease;
drop index lease_by_task;
create index lease_by_task on lease (task_id, seq);

-- A generation's latest lease; all its columns are null where it never had one.
create function latest_lease_v1(p_task text) returns lease language sql stable
set search_path = holdfast, pg_temp as $$
    select * from lease where task_id = p_task order by seq desc limit 1
$$;

-- A fence is its card's: the lease says whose run it was.
alter table result_upload
    add column lease_id uuid not null references lease (id),
    drop constraint result_upload_pkey,
    add constraint one_upload_per_output primary key (task_id, lease_id, idx);

-- The search for a result of a generation that was released without an outcome: what is found by `until` is
-- delivered free of charge.
create table late_look (
    task_id      text primary key references generation (task_id),
    began_at     timestamptz not null default clock_timestamp(),
    until        timestamptz not null,
    next_look_at timestamptz not null default clock_timestamp(),
    ended_at     timestamptz,
    ending       text constraint late_look_ending check (ending in ('delivered', 'gone', 'spoiled', 'not_found')),
    constraint ended_says_how check ((ended_at is null) = (ending is null))
);
create index late_look_open on late_look (until) where ended_at is null;

comment on table late_look is 'What is still looked for after a release without an outcome.';
comment on column late_look.ending is
    'delivered; gone: proven that there is no result; spoiled: it broke its contract; not_found: by `until`.';

-- Begins the search in the very transaction of the release, and ends it in that of the late delivery. Seven days:
-- `timeouts.LATE_LOOK`, as long as a host's journal remembers.
create function follow_ends() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
begin
    if new.late_at is not null then
        update late_look set ended_at = new.late_at, ending = 'delivered' where task_id = new.task_id;
    else
        insert into late_look (task_id, until) values (new.task_id, new.finished_at + interval '7 days');
    end if;
    return null;
end $$;

create trigger late_look_begins after update on generation for each row
    when (old.credit_status = 'unknown' and new.credit_status = 'released'
          and new.failure ->> 'code' = 'outcome_unknown')
    execute function follow_ends();
create trigger late_look_delivers after update on generation for each row
    when (old.late_at is null and new.late_at is not null)
    execute function follow_ends();

-- Whether a result of a generation that is over is still looked for.
create function is_looked_for_v1(p_task text) returns boolean language sql stable
set search_path = holdfast, pg_temp as $$
    select exists (select from late_look where task_id = p_task and ended_at is null and until > clock_timestamp())
$$;

-- Takes up the search: {"until", "next_look_at", "lease"}, or null when there is none. `lease` is the one that is
-- in doubt.
create function begin_late_look_v1(p_task text) returns jsonb language sql stable
set search_path = holdfast, pg_temp as $$
    select jsonb_build_object('until', s.until, 'next_look_at', s.next_look_at, 'lease', jsonb_build_object(
        'lease_id', l.id, 'card_uuid', l.card_uuid, 'card_label', c.label, 'fence', l.fence))
    from late_look s, latest_lease_v1(s.task_id) l, card c
    where s.task_id = p_task and s.ended_at is null and c.uuid = l.card_uuid
$$;

-- Ends the search without a delivery; true when it was open.
create function end_late_look_v1(p_task text, p_ending text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    perform from generation where task_id = p_task for no key update;
    update late_look set ended_at = clock_timestamp(), ending = p_ending where task_id = p_task and ended_at is null;
    if not found then
        return false;
    end if;
    insert into event (task_id, kind, data) values (p_task, 'late_look_ended', jsonb_build_object('ending', p_ending));
    return true;
end $$;

-- Records what was asked about a run and what the answer was, once for each `look_id`. The generation's lock keeps
-- its events in the order of their ids.
create function record_look_v1(p_look jsonb) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    perform from generation where task_id = p_look ->> 'task_id' for no key update;
    if not found then
        raise exception 'no generation %', p_look ->> 'task_id' using errcode = 'HF001';
    end if;
    if exists (select from event where task_id = p_look ->> 'task_id' and kind = 'looked'
               and data ->> 'look_id' = p_look ->> 'look_id') then
        return false;
    end if;
    insert into event (task_id, kind, data) values (p_look ->> 'task_id', 'looked', p_look - 'task_id');
    return true;
end $$;

-- Who is followed by somebody right now. Of all others an event tells nobody: a notification makes commits wait for
-- each other, and the steps of most generations are followed by nobody.
create unlogged table watch (
    task_id text primary key,
    until   timestamptz not null
) with (fillfactor = 50);

-- Tells whoever follows the event's generation.
create function tell_watchers() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
begin
    if exists (select from watch where task_id = new.task_id and until > clock_timestamp()) then
        perform pg_notify('holdfast_event', new.task_id);
    end if;
    return null;
end $$;

create trigger event_is_told after insert on event for each row execute function tell_watchers();

-- As before, by the order of leases.
create or replace function mark_unknown_v1(p_order jsonb) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen  generation;
    v_news boolean;
begin
    select * into v_gen from generation where task_id = p_order ->> 'task_id' for no key update;
    if not found then
        raise exception 'no generation %', p_order ->> 'task_id' using errcode = 'HF001';
    end if;
    if v_gen.status <> 'pending'
        or (phase_rank(v_gen.phase) > phase_rank('reconciling') and v_gen.credit_status = 'unknown') then
        return false;
    end if;
    v_news := v_gen.credit_status <> 'unknown' or v_gen.raised <> (p_order ->> 'raised')::boolean;
    update generation set phase = 'reconciling', credit_status = 'unknown',
        unknown_since = coalesce(unknown_since, (p_order ->> 'since')::timestamptz),
        unknown_reason = p_order ->> 'reason', awaiting = p_order ->> 'awaiting',
        next_look_at = (p_order ->> 'next_look_at')::timestamptz,
        resolve_by = (p_order ->> 'resolve_by')::timestamptz, raised = (p_order ->> 'raised')::boolean
    where task_id = v_gen.task_id;
    if v_news then
        insert into event (task_id, kind, data)
        values (v_gen.task_id, 'unknown', p_order - 'task_id');
    end if;
    perform withdraw_v1(v_gen.task_id, 'unknown');
    update lease set end_reason = 'unknown'
    where end_reason = 'run_over' and id = (latest_lease_v1(v_gen.task_id)).id;
    return true;
end $$;

-- As before, by the order of leases; and after a release only while a result is looked for, so that a host gives
-- the run up in the end.
create or replace function open_order_v1(
    p_task text, p_lease uuid, p_card text, p_fence bigint, p_boot text, p_attach_only boolean
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_gen   generation;
    v_lease lease;
    v_card  card;
    v_stale text;
    v_stray boolean := false;
begin
    select * into v_gen from generation where task_id = p_task for no key update;
    v_lease := latest_lease_v1(p_task);
    select * into v_card from card where uuid = p_card for no key update;
    v_stale := case
        when v_gen.task_id is null or v_card.uuid is null or v_lease.id is null then 'no such lease'
        when v_gen.status <> 'pending' and not (p_attach_only and is_looked_for_v1(p_task))
            then 'the generation is over'
        when (v_lease.id, v_lease.card_uuid, v_lease.fence) is distinct from (p_lease, p_card, p_fence)
            then 'a newer lease exists'
    end;
    if v_stale is null and v_card.boot_id <> p_boot then
        v_stale := 'another agent owns the card';
        v_stray := true;
    end if;
    v_stale := coalesce(v_stale, case
        when p_attach_only and (v_lease.state <> 'ended' or v_lease.end_reason = 'unknown') then null
        when v_lease.state = 'offered' then 'the lease is not accepted'
        when v_lease.state = 'ended' then 'the lease ended: ' || v_lease.end_reason
        when p_fence <> v_card.next_fence - 1 then 'the card has a newer fence'
    end);
    if v_stale is not null then
        return jsonb_build_object('stale', v_stale, 'stray', v_stray);
    end if;
    if not p_attach_only then
        update lease set order_fetched_at = coalesce(order_fetched_at, clock_timestamp()), boot_id = p_boot
        where id = p_lease;
        update card set fetched_fence = greatest(fetched_fence, p_fence) where uuid = p_card;
        perform advance_v1(p_task, 'running', v_card.label);
    end if;
    return jsonb_build_object('request', v_gen.request);
end $$;

-- Why a host may not deliver under this lease; null when it may. A parked lease may, also after a release without
-- an outcome for as long as its result is looked for: only a newer fence of the same generation, or its end, takes
-- the right to deliver away.
create or replace function stale_lease_v1(p_task text, p_lease uuid, p_fence bigint) returns text
language sql stable set search_path = holdfast, pg_temp as $$
    select case
        when g.status <> 'pending' and not is_looked_for_v1(p_task) then 'the generation is over'
        when (l.id, l.fence) is distinct from (p_lease, p_fence) then 'a newer lease exists'
        when l.state = 'offered' then 'the lease is not accepted'
        when l.state = 'ended' and l.end_reason <> 'unknown' then 'the lease ended: ' || l.end_reason
    end
    from (select 1) one
    left join generation g on g.task_id = p_task
    left join lateral (select * from lease where task_id = p_task order by seq desc limit 1) l on true
$$;

-- As before, by the order of leases.
create or replace function admission_answer_v1(p_account text, p_operation text, p_attempt integer) returns jsonb
language plpgsql stable set search_path = holdfast, pg_temp as $$
declare
    v_op    operation;
    v_gen   generation;
    v_grant jsonb;
begin
    select * into v_op from operation where account_id = p_account and operation_id = p_operation;
    if not found then
        return null;
    end if;
    select * into v_gen from generation where task_id = v_op.task_id;
    if not found then
        if p_attempt >= v_op.attempt then
            return null;  -- the refused attempt is behind us, this is the next one
        end if;
        return jsonb_build_object('outcome', 'refused', 'fingerprint', v_op.fingerprint, 'refusal', v_op.refusal);
    end if;
    if v_gen.status <> 'pending' then
        return jsonb_build_object('outcome', 'finished', 'fingerprint', v_op.fingerprint,
                                  'credit_status', v_gen.credit_status, 'balance', v_gen.balance_closed);
    end if;
    -- The latest lease is part of the answer, so that a course that was lost can be taken up again: `accepted`
    -- when it stands; else parked or over, and then evidence of its run is to be looked for. One that is only
    -- offered lapses and is offered again; a generation that waits has none. A first admission has its own.
    select jsonb_build_object('lease_id', l.id, 'card_uuid', l.card_uuid, 'card_label', c.label,
                              'fence', l.fence, 'accepted', l.state = 'accepted')
    into v_grant
    from latest_lease_v1(v_op.task_id) l
    join card c on c.uuid = l.card_uuid
    where l.state = 'accepted' or l.end_reason in ('unknown', 'run_over');
    return jsonb_build_object('outcome', 'held', 'fingerprint', v_op.fingerprint,
                              'credit_status', v_gen.credit_status, 'balance', v_gen.balance_held,
                              'lease', v_grant);
end $$;
