-- Clicks: the same account and body under another operation id, within a short window, is answered with the task that
-- is there. Decided under the account's lock, so that 64 at once make one.

-- An account's generations of the last while that stand, or came to a good end, the oldest first. Only its newest 64
-- holds are looked at: who creates faster than that doesn't click.
create function recent_creations(p_account text, p_window interval)
returns table (task_id text, fingerprint text) language sql stable as $$
    select h.task_id, o.fingerprint
    from (select t.id, t.task_id, t.created_at from transfer t
          where t.debit_account = p_account and t.kind = 'pending' order by t.id desc limit 64) h
    join operation o on o.task_id = h.task_id
    join generation g on g.task_id = h.task_id
    where h.created_at > clock_timestamp() - p_window
      and g.status in ('pending', 'completed')
    order by h.id
$$;

-- The task that answers a request in place of a second one, as {"code", "task_id"}; null when it is one of its own.
-- An operation id that was answered so keeps its answer. The caller holds the account's lock.
create function duplicate_refusal_v1(p_request jsonb, p_window interval) returns jsonb language plpgsql volatile as $$
declare
    v_refusal jsonb;
    v_task    text;
begin
    if (p_request ->> 'allow_duplicate')::boolean or (p_request ->> 'is_canary')::boolean then
        return null;
    end if;
    select refusal into v_refusal from operation
    where account_id = p_request ->> 'account_id' and operation_id = p_request ->> 'operation_id'
      and fingerprint = p_request ->> 'fingerprint' and refusal ->> 'code' = 'possible_duplicate';
    if found then
        return v_refusal;
    end if;
    if p_window <= interval '0' then
        return null;
    end if;
    select task_id into v_task from recent_creations(p_request ->> 'account_id', p_window)
    where fingerprint = p_request ->> 'fingerprint' limit 1;
    if not found then
        return null;
    end if;
    return jsonb_build_object('code', 'possible_duplicate', 'task_id', v_task);
end $$;

-- As admit_v1 of before, but looks first whether the request is a click on one that is there.
-- {"outcome": held|finished|refused, "fingerprint", "credit_status"?, "balance"?, "lease"?, "refusal"?}
create function admit_v2(
    p_request jsonb, p_in_flight_max integer, p_fresh interval, p_offer interval, p_duplicates interval
) returns jsonb language plpgsql set search_path = holdfast, pg_temp set enable_seqscan = off as $$
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
    where id = p_request ->> 'account_id' and pays(kind) for no key update;
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
    if p_request ->> 'key_id' is not null and not key_fits_v1(p_request ->> 'key_id', v_account.id) then
        return jsonb_build_object('outcome', 'refused', 'fingerprint', p_request ->> 'fingerprint',
                                  'refusal', jsonb_build_object('code', 'forbidden'));
    end if;
    if v_account.has_lots and expire_lots_v1(v_account.id, 1000) > 0 then
        select * into v_account from account where id = v_account.id;
    end if;
    v_balance := v_account.credits_posted - v_account.debits_posted - v_account.debits_pending;
    -- Before balance and limits: a click that makes nothing needs none. Not for who gave up, and heard no answer.
    if not v_account.frozen and clock_timestamp() <= (p_request ->> 'admit_by')::timestamptz then
        v_refusal := duplicate_refusal_v1(p_request, p_duplicates);
    end if;
    if v_refusal is null then
        v_refusal := admission_refusal_v1(p_request, v_account, v_balance, p_in_flight_max);
    end if;
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

-- As asked by an orchestrator of before.
create or replace function admit_v1(
    p_request jsonb, p_in_flight_max integer, p_fresh interval, p_offer interval
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
begin
    return admit_v2(p_request, p_in_flight_max, p_fresh, p_offer, interval '0');
end $$;
