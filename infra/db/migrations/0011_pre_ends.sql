-- Ends: which transitions are possible at all, losses of the house, results that are found after a release, and
-- what operators resolve.

-- These rules are in `generation_fits`, which the guard and the commit ask: a CHECK is prepared anew for each
-- statement.
alter table generation
    drop constraint generation_phase,
    drop constraint generation_status,
    drop constraint generation_credit_status,
    drop constraint generation_price_credits_check,
    drop constraint generation_check,
    drop constraint final_is_finished,
    drop constraint final_has_an_end,
    drop constraint pending_is_held,
    drop constraint completed_is_settled,
    drop constraint only_settled_is_charged,
    drop constraint unknown_has_a_since,
    add column late_at timestamptz;

comment on column generation.late_at is 'When a result that was found after the release was delivered, free of charge.';

alter table outbox
    drop constraint outbox_topic,
    add constraint outbox_topic check (
        topic in ('signal.assigned', 'generation.closed', 'generation.delivered_late'));

-- Whether a generation's row agrees with itself: there are five statuses, four of credits and seven phases, and of
-- their combinations only these. Only what is settled is charged, never above the price; completed is what was
-- settled, or delivered late and free.
create function generation_fits(g generation) returns boolean language sql immutable as $$
    select case g.status
        when 'pending' then g.finished_at is null and g.late_at is null and g.charged_credits = 0
            and g.phase in ('waiting', 'placed', 'running', 'inspecting', 'keeping', 'reconciling')
            and (g.credit_status = 'held'
                 or g.credit_status = 'unknown'
                    and num_nulls(g.unknown_since, g.unknown_reason, g.resolve_by) = 0)
        when 'completed' then g.finished_at is not null and g.phase = 'finished'
            and case g.credit_status when 'settled' then g.charged_credits between 0 and g.price_credits
                                          and g.late_at is null
                                     when 'released' then g.charged_credits = 0 and g.late_at is not null
                                     else false end
        else g.status in ('failed', 'canceled', 'expired') and g.finished_at is not null and g.phase = 'finished'
            and g.credit_status = 'released' and g.charged_credits = 0 and g.late_at is null
        end
$$;

-- Checked at commit: a generation began held, with nothing charged, and has its hold.
create or replace function check_generation_is_held() returns trigger language plpgsql
set search_path = holdfast, pg_temp set enable_seqscan = off as $$
begin
    if new.status <> 'pending' or new.credit_status <> 'held' or new.price_credits < 0 or generation_fits(new) is not true
        or not exists (select from transfer where task_id = new.task_id and kind = 'pending'
                       and amount = new.price_credits and debit_account = new.account_id) then
        raise exception 'generation % did not begin with its hold', new.task_id using errcode = 'HF004';
    end if;
    return null;
end $$;

alter function check_transfer_shows() set enable_seqscan = off;

-- Whether a generation was released without an outcome, and no result was found since.
create function awaits_late_v1(p_gen generation) returns boolean language sql immutable as $$
    select p_gen.status in ('failed', 'expired') and p_gen.credit_status = 'released'
       and p_gen.unknown_since is not null and p_gen.late_at is null
$$;

-- Whether a row that is over may change so: once, from released without an outcome to delivered late, as the very
-- step that tells of it.
create function is_late_delivery(p_old generation, p_new generation) returns boolean language sql stable
set search_path = holdfast, pg_temp as $$
    select awaits_late_v1(p_old) and p_new.status = 'completed' and p_new.late_at is not null and p_new.failure is null
        and to_jsonb(p_new) - array['status', 'late_at', 'failure', 'version']
          = to_jsonb(p_old) - array['status', 'late_at', 'failure', 'version']
        and exists (select from outbox where topic = 'generation.delivered_late' and key = p_old.task_id)
        and exists (select from artifact where task_id = p_old.task_id)
$$;

-- Which step may follow which: credits go held → (unknown) → settled or released, and a final row never changes,
-- but for a late delivery.
create or replace function guard_generation() returns trigger language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if (new.task_id, new.account_id, new.operation_id, new.model_id, new.mode, new.request, new.price_credits,
        new.balance_held, new.created_at, new.admitted_at, new.is_canary, new.key_id, new.made_by)
       is distinct from
       (old.task_id, old.account_id, old.operation_id, old.model_id, old.mode, old.request, old.price_credits,
        old.balance_held, old.created_at, old.admitted_at, old.is_canary, old.key_id, old.made_by) then
        raise exception 'generation %: what was admitted does not change', old.task_id using errcode = 'HF004';
    end if;
    new.version := old.version + 1;
    if old.status <> 'pending' then
        if is_late_delivery(old, new) then
            return new;
        end if;
        raise exception 'generation % is over', old.task_id using errcode = 'HF004';
    end if;
    if generation_fits(new) is not true then
        raise exception 'generation % would contradict itself', old.task_id
            using errcode = 'check_violation', constraint = 'generation_fits';
    end if;
    if old.credit_status = 'unknown' and new.credit_status = 'held' then
        raise exception 'generation %: unknown does not become held again', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'settled' and not exists (
        select from transfer where task_id = new.task_id and kind = 'post' and amount = new.charged_credits) then
        raise exception 'generation %: settled without its post', old.task_id using errcode = 'HF004';
    end if;
    if new.credit_status = 'released' and not exists (
        select from transfer where task_id = new.task_id and kind = 'void') then
        raise exception 'generation %: released without its void', old.task_id using errcode = 'HF004';
    end if;
    return new;
end $$;

-- Resolves the hold, ends the generation and its lease, counts what was not charged back, and tells. The caller
-- holds both locks. A lease that was parked as `unknown` stays so: its card may still be asked.
create or replace function close_v1(
    p_gen generation, p_status text, p_credits bigint, p_failure jsonb, p_actor text
) returns jsonb language plpgsql as $$
declare
    v_post    boolean := p_status = 'completed';
    v_charged bigint := case when p_status = 'completed' then p_credits else 0 end;
    v_payer   account;
    v_gen     generation;
    v_answer  jsonb;
begin
    insert into transfer (kind, cause, pending_id, debit_account, credit_account, amount, task_id, reason, actor)
    select case when v_post then 'post' else 'void' end, null, id, debit_account, credit_account, v_charged,
           task_id, p_status, p_actor
    from transfer where task_id = p_gen.task_id and kind = 'pending';
    select * into v_payer from account where id = p_gen.account_id;
    if v_payer.has_lots and expire_lots_v1(v_payer.id, 1000) > 0 then
        select * into v_payer from account where id = v_payer.id;
    end if;
    if v_charged < p_gen.price_credits then
        update spend_day set credits = credits - (p_gen.price_credits - v_charged)
        where subject = any (subjects(p_gen.account_id, p_gen.key_id))
          and day = (p_gen.admitted_at at time zone 'UTC')::date;
    end if;
    perform withdraw_v1(p_gen.task_id, p_status);
    update generation set status = p_status, phase = 'finished', finished_at = clock_timestamp(),
        credit_status = case when v_post then 'settled' else 'released' end, charged_credits = v_charged,
        balance_closed = v_payer.credits_posted - v_payer.debits_posted - v_payer.debits_pending,
        failure = p_failure, awaiting = null, next_look_at = null, raised = false
    where task_id = p_gen.task_id returning * into v_gen;
    v_answer := closing_v1(v_gen);
    insert into event (task_id, kind, data)
    values (v_gen.task_id, v_gen.credit_status, v_answer - 'balance'
            || jsonb_build_object('actor', p_actor, 'code', p_failure ->> 'code'));
    insert into outbox (topic, key, payload)
    values ('generation.closed', v_gen.task_id, v_answer - 'balance'
            || jsonb_build_object('task_id', v_gen.task_id, 'account_id', v_gen.account_id));
    return v_answer;
end $$;

-- Pays for what was delivered; the rest of the hold returns. After a release it answers that release.
create or replace function settle_v1(p_task text, p_credits bigint, p_actor text) returns jsonb
language plpgsql set search_path = holdfast, pg_temp set enable_seqscan = off as $$
declare
    v_gen    generation := lock_generation_v1(p_task);
    v_answer jsonb;
begin
    if v_gen.credit_status = 'settled' and v_gen.charged_credits <> p_credits then
        raise exception 'generation % was settled with % credits, not %', p_task, v_gen.charged_credits, p_credits
            using errcode = 'HF002';
    end if;
    if v_gen.status <> 'pending' then
        return closing_v1(v_gen);
    end if;
    v_answer := close_v1(v_gen, 'completed', p_credits, null, p_actor);
    if v_gen.is_canary then
        -- The card, as the agent that fetched the order ran it, can do this model.
        insert into model_readiness (model_id, digest, card_uuid, boot_id, task_id)
        select v_gen.model_id, v_gen.request #>> '{model,digest}', card_uuid, boot_id, p_task
        from lease where task_id = p_task and boot_id is not null order by offered_at desc limit 1
        on conflict (model_id, digest, card_uuid, boot_id)
        do update set task_id = excluded.task_id, passed_at = excluded.passed_at;
    end if;
    return v_answer;
end $$;

-- Gives the whole hold back. After a settle it answers that settle. What the manifest released without an outcome
-- (actor `manifest:release_unknown`) is booked as the house's loss.
create or replace function release_v1(p_task text, p_status text, p_failure jsonb, p_actor text) returns jsonb
language plpgsql set search_path = holdfast, pg_temp set enable_seqscan = off as $$
declare
    v_gen    generation := lock_generation_v1(p_task);
    v_answer jsonb;
begin
    if p_status not in ('failed', 'canceled', 'expired') then
        raise exception 'a release can not end % as %', p_task, p_status using errcode = 'HF004';
    end if;
    if v_gen.status <> 'pending' then
        return closing_v1(v_gen);
    end if;
    v_answer := close_v1(v_gen, p_status, 0, p_failure, p_actor);
    if p_actor = 'manifest:release_unknown' and v_gen.price_credits > 0 then
        insert into transfer (kind, cause, debit_account, credit_account, amount, key, refers_to, reason, actor)
        values ('direct', 'loss', 'loss', 'revenue', v_gen.price_credits, 'loss:' || p_task, p_task,
                'released without an outcome', p_actor);
    end if;
    return v_answer;
end $$;

-- Called by functions that set it themselves.
alter function lock_generation_v1(text) reset search_path;

-- Ends an unknown outcome as an operator decided, with the reason kept: `p_credits` null releases, as `p_status`
-- and with `p_failure`; else it settles with so many. Repeated by the same actor, it answers what was booked.
create function resolve_v1(
    p_task text, p_credits bigint, p_status text, p_failure jsonb, p_reason text, p_actor text
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_gen  generation := lock_generation_v1(p_task);
    v_kind text := case when p_credits is null then 'void' else 'post' end;
begin
    if p_actor !~ '^operator:.*[^[:space:]]' then
        raise exception '"%" is no operator: only one who is named resolves', p_actor using errcode = 'HF008';
    end if;
    if v_gen.status <> 'pending' then
        if exists (select from transfer where task_id = p_task and kind = v_kind and actor = p_actor
                   and (p_credits is null or amount = p_credits)) then
            return closing_v1(v_gen);
        end if;
        raise exception 'generation % is over: %', p_task, v_gen.credit_status using errcode = 'HF011';
    end if;
    if v_gen.credit_status <> 'unknown' then
        raise exception 'nothing of generation % is unknown', p_task using errcode = 'HF012';
    end if;
    perform act_v1('resolve', p_task, p_reason, p_actor, jsonb_build_object(
        'decision', case when p_credits is null then 'release' else 'settle' end, 'credits', p_credits));
    if p_credits is null then
        return release_v1(p_task, p_status, p_failure, p_actor);
    end if;
    return settle_v1(p_task, p_credits, p_actor);
end $$;

-- Delivers a result that was kept after its generation was released without an outcome: free of charge, once.
-- Repeated, it answers the same.
create function deliver_late_v1(p_task text, p_actor text) returns jsonb language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen generation;
    v_was jsonb;
begin
    select * into v_gen from generation where task_id = p_task for no key update;
    if not found then
        raise exception 'no generation %', p_task using errcode = 'HF001';
    end if;
    if v_gen.late_at is not null then
        return closing_v1(v_gen);
    end if;
    if not awaits_late_v1(v_gen) or not exists (select from artifact where task_id = p_task) then
        raise exception 'generation % has nothing to deliver late', p_task using errcode = 'HF004';
    end if;
    v_was := jsonb_build_object('status', v_gen.status, 'code', v_gen.failure ->> 'code', 'actor', p_actor,
                                'artifacts', (select count(*) from artifact where task_id = p_task));
    insert into outbox (topic, key, payload)
    values ('generation.delivered_late', p_task, jsonb_build_object(
        'task_id', p_task, 'account_id', v_gen.account_id, 'status', 'completed', 'credit_status', 'released',
        'charged', 0));
    insert into event (task_id, kind, data) values (p_task, 'delivered_late', v_was);
    update generation set status = 'completed', late_at = clock_timestamp(), failure = null
    where task_id = p_task returning * into v_gen;
    return closing_v1(v_gen);
end $$;

-- Results that a host was allowed to upload. When the host never comes back, these in the store, whole, are the
-- evidence that its run finished.
create table result_upload (
    task_id    text not null references generation (task_id),
    idx        integer not null check (idx >= 0),
    fence      bigint not null,
    sha256     text not null constraint result_sha256_is_hex check (sha256 ~ '^[0-9a-f]{64}$'),
    size       bigint not null check (size >= 0),
    mime       text not null,
    granted_at timestamptz not null default clock_timestamp(),
    primary key (task_id, fence, idx)
);

-- Exchanges a lease for the request: {"request"} or {"stale": why, "stray": whether another agent owns the card}.
-- The first fetch starts the run; from here on the card counts as dirty until its host says that this fence is over.
-- Who only looks may also look for a run whose hold was released without an outcome.
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
        when v_gen.status <> 'pending' and not (p_attach_only and awaits_late_v1(v_gen))
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
-- an outcome: only a newer fence of the same generation, or its end, takes the right to deliver away.
create or replace function stale_lease_v1(p_task text, p_lease uuid, p_fence bigint) returns text
language sql stable set search_path = holdfast, pg_temp as $$
    select case
        when g.status <> 'pending' and not awaits_late_v1(g) then 'the generation is over'
        when (l.id, l.fence) is distinct from (p_lease, p_fence) then 'a newer lease exists'
        when l.state = 'offered' then 'the lease is not accepted'
        when l.state = 'ended' and l.end_reason <> 'unknown' then 'the lease ended: ' || l.end_reason
    end
    from (select 1) one
    left join generation g on g.task_id = p_task
    left join lateral (select * from lease where task_id = p_task order by offered_at desc, fence desc limit 1) l
        on true
$$;
