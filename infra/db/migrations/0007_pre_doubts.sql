-- Steps that meet what nobody wanted: an outcome that can't be known though its run was over, offers that reach
-- nobody, an agent that doesn't own its card. The signatures stay, so code of before works on.

-- Shows that the outcome isn't known, or when it is looked for next. The lease is parked (ended as
-- `unknown`): its host may still be asked and may still deliver, and the card works on when it is clean.
-- A run that was over may come into doubt, when its course was lost before the result was kept; but news of a
-- doubt that evidence ended since is old.
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
    where end_reason = 'run_over' and id = (
        select id from lease where task_id = v_gen.task_id order by offered_at desc, fence desc limit 1);
    return true;
end $$;

-- Ends offers that nobody accepted in time and brings their tickets back; how many. Who let several lapse has a
-- course that doesn't listen: it goes behind the others, so that a card isn't offered to it for ever.
create or replace function lapse_v1() returns integer language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_offer record;
    v_count integer := 0;
begin
    -- In the order of cards, as reports lock them. A generation that is being worked on is left for later.
    for v_offer in
        select id, task_id from lease where state = 'offered' and lapses_at <= clock_timestamp()
        order by card_uuid limit 100
    loop
        perform from generation where task_id = v_offer.task_id and status = 'pending'
        for no key update skip locked;
        if not found then
            continue;
        end if;
        perform from lease where id = v_offer.id and state = 'offered';
        if found and end_lease_v1(v_offer.id, 'lapsed') then
            perform enqueue_v1(v_offer.task_id);
            update ticket set enqueued_at = clock_timestamp()
            where task_id = v_offer.task_id
              and (select count(*) from lease where task_id = v_offer.task_id and end_reason = 'lapsed') >= 3;
            v_count := v_count + 1;
        end if;
    end loop;
    return v_count;
end $$;

-- Exchanges a lease for the request: {"request"} or {"stale": why, "stray": whether another agent owns the card}.
-- The first fetch starts the run; from here on the card counts as dirty until its host says that this fence is over.
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
    select * into v_lease from lease where task_id = p_task order by offered_at desc, fence desc limit 1;
    select * into v_card from card where uuid = p_card for no key update;
    v_stale := case
        when v_gen.task_id is null or v_card.uuid is null or v_lease.id is null then 'no such lease'
        when v_gen.status <> 'pending' then 'the generation is over'
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
