-- Leases: offer, accept, requeue, lapse; what hosts report and fetch. Each is one call; a repetition changes nothing.

-- Offers a free card to a waiting generation: ticket out, lease in, message out, all or nothing.
-- The grant, or null when either was gone.
create function offer_v1(p_task text, p_card text, p_fresh interval, p_offer interval) returns jsonb
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_ticket ticket;
    v_card   card;
    v_grant  jsonb;
begin
    perform from generation where task_id = p_task and status = 'pending' for no key update;
    if not found then
        return null;
    end if;
    select * into v_ticket from ticket where task_id = p_task for update;
    if not found then
        return null;
    end if;
    select c.* into v_card from card c
    where c.uuid = p_card and card_is_free(c, p_fresh) and v_ticket.capability = any (c.capabilities)
      and v_ticket.engine = any (c.engines) and c.vram_total_mib >= v_ticket.vram_budget_mib
    for no key update;
    if not found then
        return null;
    end if;
    delete from ticket where task_id = p_task;
    v_grant := lease_card_v1(p_task, v_card, 'offered', p_offer);
    insert into outbox (topic, key, payload)
    values ('signal.assigned', v_grant ->> 'lease_id', jsonb_build_object('task_id', p_task, 'lease', v_grant));
    perform pg_notify('holdfast_outbox', '');
    return v_grant;
end $$;

-- Accepts an offer that still stands; true also when it was accepted before and is open still.
create function accept_v1(p_task text, p_lease uuid, p_fence bigint) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_lease lease;
begin
    perform from generation where task_id = p_task and status = 'pending' for no key update;
    if not found then
        return false;
    end if;
    select * into v_lease from lease
    where id = p_lease and task_id = p_task and fence = p_fence and state <> 'ended' for update;
    if not found then
        return false;
    end if;
    if v_lease.state = 'accepted' then
        return true;
    end if;
    if v_lease.lapses_at <= clock_timestamp() then
        return false;  -- lapse_v1 brings the ticket back
    end if;
    update lease set state = 'accepted', accepted_at = clock_timestamp() where id = p_lease;
    update generation set phase = 'placed' where task_id = p_task;
    insert into event (task_id, kind, data)
    select p_task, 'placed', jsonb_build_object('card', label, 'fence', p_fence)
    from card where uuid = v_lease.card_uuid;
    return true;
end $$;

-- Ends a lease under which nothing ran and queues its generation again, at its old place. True when it waits
-- again, also when that was done before; false, and nothing changed, when it may have run: the order was
-- fetched and no host has proven that the engine never started it.
create function requeue_v1(p_task text, p_lease uuid, p_never_ran boolean) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_lease lease;
begin
    perform from generation where task_id = p_task and status = 'pending' for no key update;
    if not found then
        return false;
    end if;
    select * into v_lease from lease where id = p_lease and task_id = p_task;
    if not found or (v_lease.order_fetched_at is not null and not p_never_ran) then
        return false;
    end if;
    if not end_lease_v1(p_lease, 'requeued') then
        if v_lease.end_reason not in ('unknown', 'run_over') then
            return v_lease.end_reason in ('requeued', 'lapsed');
        end if;
        -- Parked, or over without a result that can still be had: its card is given back already.
        update lease set end_reason = 'requeued' where id = p_lease;
    end if;
    perform enqueue_v1(p_task);
    update generation set phase = 'waiting' where task_id = p_task;
    insert into event (task_id, kind, data)
    values (p_task, 'requeued', jsonb_build_object('fence', v_lease.fence));
    return true;
end $$;

-- Ends offers that nobody accepted in time and brings their tickets back; how many.
create function lapse_v1() returns integer language plpgsql set search_path = holdfast, pg_temp as $$
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
            v_count := v_count + 1;
        end if;
    end loop;
    return v_count;
end $$;

-- Takes what a host says about its cards. Wakes placement when one became free.
create function report_v1(p_report jsonb, p_fresh interval) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_said jsonb;
    v_old  card;
    v_new  card;
begin
    for v_said in
        select c from jsonb_array_elements(p_report -> 'cards') c order by c ->> 'card_uuid'
    loop
        insert into card (uuid, host, label, gpu_model, vram_total_mib, vram_free_mib, engines, capabilities,
                          boot_id, last_report_at)
        values (v_said ->> 'card_uuid', p_report ->> 'host', v_said ->> 'label', v_said ->> 'gpu_model', 0, 0,
                '{}', '{}', v_said ->> 'boot_id', 'epoch')
        on conflict (uuid) do nothing;
        select * into v_old from card where uuid = v_said ->> 'card_uuid' for no key update;
        insert into card_boot (card_uuid, boot_id) values (v_old.uuid, v_said ->> 'boot_id')
        on conflict do nothing;
        -- A boot seen before but not the owner is a stray of an older agent: it has no say any more.
        continue when not found and v_old.boot_id <> v_said ->> 'boot_id';
        update card set
            host = p_report ->> 'host', label = v_said ->> 'label', gpu_model = v_said ->> 'gpu_model',
            vram_total_mib = (v_said ->> 'vram_total_mib')::integer,
            vram_free_mib = (v_said ->> 'vram_free_mib')::integer,
            engines = array(select jsonb_array_elements_text(v_said -> 'engines')),
            capabilities = array(select jsonb_array_elements_text(v_said -> 'capabilities')),
            boot_id = v_said ->> 'boot_id',
            running_task = v_said #>> '{running,task_id}',
            running_fence = (v_said #>> '{running,fence}')::bigint,
            running_fraction = (v_said #>> '{running,fraction}')::double precision,
            -- Never back, and never past what was leased.
            settled_fence = greatest(settled_fence,
                                     least((v_said ->> 'settled_fence')::bigint, next_fence - 1)),
            last_report_at = clock_timestamp()
        where uuid = v_old.uuid returning * into v_new;
        if card_is_free(v_new, p_fresh)
            and (not card_is_free(v_old, p_fresh)
                 or (v_old.capabilities, v_old.engines) is distinct from (v_new.capabilities, v_new.engines)) then
            perform pg_notify('holdfast_place', '');
        end if;
    end loop;
end $$;

-- Exchanges a lease for the request: {"request"} or {"stale": why}. The first fetch starts the run; from here
-- on the card counts as dirty until its host says that this fence is over.
create function open_order_v1(
    p_task text, p_lease uuid, p_card text, p_fence bigint, p_boot text, p_attach_only boolean
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_gen   generation;
    v_lease lease;
    v_card  card;
    v_stale text;
begin
    select * into v_gen from generation where task_id = p_task for no key update;
    select * into v_lease from lease where task_id = p_task order by offered_at desc, fence desc limit 1;
    select * into v_card from card where uuid = p_card for no key update;
    v_stale := case
        when v_gen.task_id is null or v_card.uuid is null or v_lease.id is null then 'no such lease'
        when v_gen.status <> 'pending' then 'the generation is over'
        when (v_lease.id, v_lease.card_uuid, v_lease.fence) is distinct from (p_lease, p_card, p_fence)
            then 'a newer lease exists'
        when v_card.boot_id <> p_boot then 'another agent owns the card'
        when p_attach_only and (v_lease.state <> 'ended' or v_lease.end_reason = 'unknown') then null
        when v_lease.state = 'offered' then 'the lease is not accepted'
        when v_lease.state = 'ended' then 'the lease ended: ' || v_lease.end_reason
        when p_fence <> v_card.next_fence - 1 then 'the card has a newer fence'
    end;
    if v_stale is not null then
        return jsonb_build_object('stale', v_stale);
    end if;
    if not p_attach_only then
        update lease set order_fetched_at = coalesce(order_fetched_at, clock_timestamp()), boot_id = p_boot
        where id = p_lease;
        update card set fetched_fence = greatest(fetched_fence, p_fence) where uuid = p_card;
        perform advance_v1(p_task, 'running', v_card.label);
    end if;
    return jsonb_build_object('request', v_gen.request);
end $$;

-- Why a host may not deliver under this lease; null when it may. A parked lease may: only a newer fence of
-- the same generation, or its end, takes the right to deliver away.
create function stale_lease_v1(p_task text, p_lease uuid, p_fence bigint) returns text language sql stable
set search_path = holdfast, pg_temp as $$
    select case
        when g.status <> 'pending' then 'the generation is over'
        when (l.id, l.fence) is distinct from (p_lease, p_fence) then 'a newer lease exists'
        when l.state = 'offered' then 'the lease is not accepted'
        when l.state = 'ended' and l.end_reason <> 'unknown' then 'the lease ended: ' || l.end_reason
    end
    from (select 1) one
    left join generation g on g.task_id = p_task
    left join lateral (select * from lease where task_id = p_task order by offered_at desc, fence desc limit 1) l
        on true
$$;
