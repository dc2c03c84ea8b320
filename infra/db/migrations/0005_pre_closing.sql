-- The steps of a generation after its admission. Each is one call and gives the same answer when repeated.

-- The stored state after the end, as {"status", "credit_status", "balance", "charged"}.
create function closing_v1(p_gen generation) returns jsonb language sql immutable as $$
    select jsonb_build_object('status', p_gen.status, 'credit_status', p_gen.credit_status,
                              'balance', p_gen.balance_closed, 'charged', p_gen.charged_credits)
$$;

-- Locks payer and generation, in the fixed order, and answers the generation as it then is.
create function lock_generation_v1(p_task text) returns generation language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen generation;
begin
    select * into v_gen from generation where task_id = p_task;
    if not found then
        raise exception 'no generation %', p_task using errcode = 'HF001';
    end if;
    if v_gen.status <> 'pending' then
        return v_gen;  -- final rows never change: no lock is needed to read one
    end if;
    perform from account where id = v_gen.account_id for no key update;
    select * into v_gen from generation where task_id = p_task for no key update;
    return v_gen;
end $$;

-- Resolves the hold, ends the generation and its lease, and tells. The caller holds both locks.
create function close_v1(
    p_gen generation, p_status text, p_credits bigint, p_failure jsonb, p_actor text
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_post    boolean := p_status = 'completed';
    v_balance bigint;
    v_gen     generation;
begin
    insert into transfer (kind, pending_id, debit_account, credit_account, amount, task_id, reason, actor)
    select case when v_post then 'post' else 'void' end, id, debit_account, credit_account,
           case when v_post then p_credits else 0 end, task_id, p_status, p_actor
    from transfer where task_id = p_gen.task_id and kind = 'pending';
    select credits_posted - debits_posted - debits_pending into v_balance
    from account where id = p_gen.account_id;
    perform withdraw_v1(p_gen.task_id, p_status);
    update generation set status = p_status, phase = 'finished', finished_at = clock_timestamp(),
        credit_status = case when v_post then 'settled' else 'released' end,
        charged_credits = case when v_post then p_credits else 0 end,
        balance_closed = v_balance, failure = p_failure, awaiting = null, next_look_at = null, raised = false
    where task_id = p_gen.task_id returning * into v_gen;
    insert into event (task_id, kind, data)
    values (v_gen.task_id, v_gen.credit_status, closing_v1(v_gen) - 'balance'
            || jsonb_build_object('actor', p_actor, 'code', p_failure ->> 'code'));
    insert into outbox (topic, key, payload)
    values ('generation.closed', v_gen.task_id, closing_v1(v_gen) - 'balance'
            || jsonb_build_object('task_id', v_gen.task_id, 'account_id', v_gen.account_id));
    return closing_v1(v_gen);
end $$;

-- Pays for what was delivered; the rest of the hold returns. After a release it answers that release.
create function settle_v1(p_task text, p_credits bigint, p_actor text) returns jsonb language plpgsql
set search_path = holdfast, pg_temp as $$
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

-- Gives the whole hold back. After a settle it answers that settle.
create function release_v1(p_task text, p_status text, p_failure jsonb, p_actor text) returns jsonb
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_gen generation := lock_generation_v1(p_task);
begin
    if p_status not in ('failed', 'canceled', 'expired') then
        raise exception 'a release can not end % as %', p_task, p_status using errcode = 'HF004';
    end if;
    if v_gen.status <> 'pending' then
        return closing_v1(v_gen);
    end if;
    return close_v1(v_gen, p_status, 0, p_failure, p_actor);
end $$;

-- The order of phases; a generation never steps back in it, except by being queued again.
create function phase_rank(p_phase text) returns integer language sql immutable as $$
    select array_position(array['waiting', 'placed', 'running', 'reconciling', 'inspecting', 'keeping', 'finished'],
                          p_phase)
$$;

-- Records a later phase and its event; false when the generation is that far already. From `inspecting` on
-- the run is over: its lease ends, so that the card can work while the media are judged.
create function advance_v1(p_task text, p_phase text, p_note text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    update generation set phase = p_phase,
        started_at = case when p_phase = 'running' then coalesce(started_at, clock_timestamp()) else started_at end
    where task_id = p_task and status = 'pending' and p_phase <> 'finished'
      and phase_rank(p_phase) > phase_rank(phase);
    if not found then
        return false;
    end if;
    insert into event (task_id, kind, data) values (p_task, p_phase, jsonb_build_object('note', p_note));
    if phase_rank(p_phase) >= phase_rank('inspecting') then
        perform withdraw_v1(p_task, 'run_over');
    end if;
    return true;
end $$;

-- Shows that the outcome isn't known, or when it is looked for next. The lease is parked (ended as
-- `unknown`): its host may still be asked and may still deliver, and the card works on when it is clean.
create function mark_unknown_v1(p_order jsonb) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen  generation;
    v_news boolean;
begin
    select * into v_gen from generation where task_id = p_order ->> 'task_id' for no key update;
    if not found then
        raise exception 'no generation %', p_order ->> 'task_id' using errcode = 'HF001';
    end if;
    if v_gen.status <> 'pending' or phase_rank(v_gen.phase) > phase_rank('reconciling') then
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
    return true;
end $$;

-- Keeps who first asked to cancel, and why. False when the generation is over.
create function request_cancel_v1(p_task text, p_reason text, p_actor text) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_cancel jsonb := jsonb_build_object('reason', p_reason, 'actor', p_actor, 'at', clock_timestamp());
begin
    update generation set cancel = v_cancel where task_id = p_task and status = 'pending' and cancel is null;
    if not found then
        return exists (select from generation where task_id = p_task and status = 'pending');
    end if;
    insert into event (task_id, kind, data) values (p_task, 'cancel_requested', v_cancel);
    return true;
end $$;
