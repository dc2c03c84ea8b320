-- Admission: one call, one round trip, one transaction.

-- What an earlier delivery of the same request was answered; null when it may be admitted now.
create function admission_answer_v1(p_account text, p_operation text, p_attempt integer) returns jsonb
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
    from (select * from lease where task_id = v_op.task_id order by offered_at desc, fence desc limit 1) l
    join card c on c.uuid = l.card_uuid
    where l.state = 'accepted' or l.end_reason in ('unknown', 'run_over');
    return jsonb_build_object('outcome', 'held', 'fingerprint', v_op.fingerprint,
                              'credit_status', v_gen.credit_status, 'balance', v_gen.balance_held,
                              'lease', v_grant);
end $$;

-- Why credits can't be held, as {"code", …figures}, in this order of precedence; null when they can.
-- The caller holds the account's lock, so what is counted here can't change before the commit.
create function admission_refusal_v1(
    p_request jsonb, p_account account, p_available bigint, p_in_flight_max integer
) returns jsonb language plpgsql volatile set search_path = holdfast, pg_temp as $$
declare
    v_count bigint;
begin
    -- The wait for the lock is over; only now the clock tells whether the caller is still there.
    if clock_timestamp() > (p_request ->> 'admit_by')::timestamptz then
        return jsonb_build_object('code', 'admission_lapsed');
    end if;
    if p_account.frozen then
        return jsonb_build_object('code', 'account_frozen');
    end if;
    if p_available < (p_request ->> 'price_credits')::bigint then
        return jsonb_build_object('code', 'insufficient_credits', 'available', p_available,
                                  'price', (p_request ->> 'price_credits')::bigint);
    end if;
    select count(*) into v_count from generation where account_id = p_account.id and status = 'pending';
    if v_count >= p_in_flight_max then
        return jsonb_build_object('code', 'quota_exceeded', 'limit', p_in_flight_max);
    end if;
    return null;
end $$;

-- An idle card that fits, locked; null when none is free or somebody waits for this capability already.
create function pick_card_v1(p_model jsonb, p_fresh interval) returns card language plpgsql volatile
set search_path = holdfast, pg_temp as $$
declare
    v_card card;
begin
    if exists (select from ticket where capability = p_model ->> 'capability') then
        return null;
    end if;
    -- The smallest card that fits, so that large ones stay for those who need them; then the longest idle.
    select c.* into v_card from card c
    where card_is_free(c, p_fresh)
      and p_model ->> 'capability' = any (c.capabilities)
      and p_model ->> 'engine' = any (c.engines)
      and c.vram_total_mib >= (p_model ->> 'vram_budget_mib')::integer
    order by c.vram_total_mib, c.last_leased_at nulls first
    limit 1 for no key update skip locked;
    return v_card;
end $$;

-- Whether one more may wait for this model. Near the bound the count is taken under a lock of the model,
-- so that many admissions at once don't each see the last free place.
create function queue_has_room_v1(p_model text, p_queue_max integer) returns boolean language plpgsql volatile
set search_path = holdfast, pg_temp as $$
declare
    v_count bigint;
begin
    select count(*) into v_count from ticket where model_id = p_model;
    if v_count + 64 < p_queue_max then
        return true;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('queue:' || p_model, 0));
    select count(*) into v_count from ticket where model_id = p_model;
    return v_count < p_queue_max;
end $$;

-- Leases a locked card to a generation in the state given; answers the grant as JSON.
create function lease_card_v1(p_task text, p_card card, p_state text, p_offer interval) returns jsonb
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_lease uuid;
begin
    insert into lease (task_id, card_uuid, fence, state, at_admission, lapses_at, accepted_at)
    values (p_task, p_card.uuid, p_card.next_fence, p_state, p_state = 'accepted',
            clock_timestamp() + p_offer, case p_state when 'accepted' then clock_timestamp() end)
    returning id into v_lease;
    update card set next_fence = p_card.next_fence + 1, lease_id = v_lease, last_leased_at = clock_timestamp()
    where uuid = p_card.uuid;
    return jsonb_build_object('lease_id', v_lease, 'card_uuid', p_card.uuid, 'card_label', p_card.label,
                              'fence', p_card.next_fence, 'accepted', p_state = 'accepted');
end $$;

-- Writes all that a hold consists of. The caller holds the account's lock and has found no reason to refuse.
create function hold_v1(p_request jsonb, p_balance bigint, p_phase text) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_task text := p_request ->> 'task_id';
begin
    insert into operation (account_id, operation_id, task_id, fingerprint, fields, attempt)
    values (p_request ->> 'account_id', p_request ->> 'operation_id', v_task, p_request ->> 'fingerprint',
            p_request -> 'fields', (p_request ->> 'attempt')::integer)
    on conflict (account_id, operation_id) do update set
        fingerprint = excluded.fingerprint, fields = excluded.fields, attempt = excluded.attempt,
        refusal = null, refused_at = null;
    insert into generation (task_id, account_id, operation_id, model_id, mode, phase, request, price_credits,
                            balance_held, created_at, expires_at, is_canary)
    values (v_task, p_request ->> 'account_id', p_request ->> 'operation_id', p_request #>> '{model,model_id}',
            p_request #>> '{model,mode}', p_phase, p_request, (p_request ->> 'price_credits')::bigint,
            p_balance, (p_request ->> 'created_at')::timestamptz, (p_request ->> 'expires_at')::timestamptz,
            (p_request ->> 'is_canary')::boolean);
    insert into transfer (kind, debit_account, credit_account, amount, task_id, reason, actor)
    values ('pending', p_request ->> 'account_id', 'revenue', (p_request ->> 'price_credits')::bigint, v_task,
            'generation', 'workflow:' || v_task);
    insert into blob (sha256, size, mime)
    select distinct on (i #>> '{blob,sha256}')
           i #>> '{blob,sha256}', (i #>> '{blob,size}')::bigint, i #>> '{blob,mime}'
    from jsonb_array_elements(p_request -> 'inputs') i
    order by i #>> '{blob,sha256}'
    on conflict (sha256) do nothing;
    insert into input_use (task_id, sha256)
    select distinct v_task, i #>> '{blob,sha256}' from jsonb_array_elements(p_request -> 'inputs') i;
    insert into event (task_id, kind, data)
    values (v_task, 'held', jsonb_build_object('credits', (p_request ->> 'price_credits')::bigint));
end $$;

create function refuse_v1(p_request jsonb, p_refusal jsonb) returns jsonb language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    insert into operation (account_id, operation_id, task_id, fingerprint, fields, attempt, refusal, refused_at)
    values (p_request ->> 'account_id', p_request ->> 'operation_id', p_request ->> 'task_id',
            p_request ->> 'fingerprint', p_request -> 'fields', (p_request ->> 'attempt')::integer + 1,
            p_refusal, clock_timestamp())
    on conflict (account_id, operation_id) do update set
        fingerprint = excluded.fingerprint, fields = excluded.fields, attempt = excluded.attempt,
        refusal = excluded.refusal, refused_at = excluded.refused_at;
    return jsonb_build_object('outcome', 'refused', 'fingerprint', p_request ->> 'fingerprint',
                              'refusal', p_refusal);
end $$;

-- Holds the price and places at once where nobody waits and a fitting card is idle. Repeated, it answers the same.
-- {"outcome": held|finished|refused, "fingerprint", "credit_status"?, "balance"?, "lease"?, "refusal"?}
create function admit_v1(
    p_request jsonb, p_in_flight_max integer, p_fresh interval, p_offer interval
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_task    text := p_request ->> 'task_id';
    v_account account;
    v_balance bigint;
    v_answer  jsonb;
    v_refusal jsonb;
    v_card    card;
    v_grant   jsonb;
begin
    v_answer := admission_answer_v1(p_request ->> 'account_id', p_request ->> 'operation_id',
                                    (p_request ->> 'attempt')::integer);
    if v_answer is not null then
        return v_answer;  -- a repetition costs no lock
    end if;
    select * into v_account from account
    where id = p_request ->> 'account_id' and kind in ('user', 'house') for no key update;
    if not found then
        return jsonb_build_object('outcome', 'refused', 'fingerprint', p_request ->> 'fingerprint',
                                  'refusal', jsonb_build_object('code', 'forbidden'));
    end if;
    -- Whoever was admitted while we waited for the account is visible now.
    v_answer := admission_answer_v1(p_request ->> 'account_id', p_request ->> 'operation_id',
                                    (p_request ->> 'attempt')::integer);
    if v_answer is not null then
        return v_answer;
    end if;
    v_balance := v_account.credits_posted - v_account.debits_posted - v_account.debits_pending;
    v_refusal := admission_refusal_v1(p_request, v_account, v_balance, p_in_flight_max);
    if v_refusal is null then
        v_card := pick_card_v1(p_request -> 'model', p_fresh);
        if v_card.uuid is null and not queue_has_room_v1(
            p_request #>> '{model,model_id}', (p_request #>> '{model,queue_max}')::integer) then
            v_refusal := jsonb_build_object('code', 'queue_full',
                                            'limit', (p_request #>> '{model,queue_max}')::integer);
        end if;
    end if;
    if v_refusal is not null then
        return refuse_v1(p_request, v_refusal);
    end if;
    v_balance := v_balance - (p_request ->> 'price_credits')::bigint;
    perform hold_v1(p_request, v_balance, case when v_card.uuid is null then 'waiting' else 'placed' end);
    if v_card.uuid is null then
        perform enqueue_v1(v_task);
    else
        v_grant := lease_card_v1(v_task, v_card, 'accepted', p_offer);
        insert into event (task_id, kind, data)
        values (v_task, 'placed', jsonb_build_object('card', v_card.label, 'fence', v_grant -> 'fence'));
    end if;
    return jsonb_build_object('outcome', 'held', 'fingerprint', p_request ->> 'fingerprint',
                              'credit_status', 'held', 'balance', v_balance, 'lease', v_grant);
end $$;
