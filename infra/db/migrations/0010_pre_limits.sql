-- Spending limits, of accounts and of keys, and the admission that keeps them.

alter table generation
    add column key_id  text constraint generation_names_a_key references api_key (id),
    add column made_by text not null default '';

comment on column generation.key_id is 'The API key that it was created with.';
comment on column generation.made_by is 'A member''s id, `key:` and a key''s id, or `house`.';

create index generation_by_key on generation (key_id, admitted_at) where key_id is not null;

-- What a subject may use; null sets no bound. An account's row without `in_flight` leaves the installation's bound.
create table spending_limit (
    -- `account:<id>` or `key:<id>`; account_id is the account itself, or the key's.
    subject           text generated always as (coalesce('key:' || key_id, 'account:' || account_id)) stored
                      primary key,
    account_id        text not null references account (id),
    key_id            text references api_key (id),
    in_flight         integer check (in_flight between 0 and 100000),
    per_minute        integer check (per_minute between 0 and 100000),
    credits_per_day   bigint check (credits_per_day between 0 and 1000000000000),
    credits_per_month bigint check (credits_per_month between 0 and 1000000000000),
    set_by            text not null,
    set_at            timestamptz not null default clock_timestamp(),
    reason            text not null,
    constraint limit_is_explained check (reason ~ '[^[:space:]]' and set_by ~ '[^[:space:]]'),
    constraint limit_bounds_something check (
        num_nonnulls(in_flight, per_minute, credits_per_day, credits_per_month) > 0)
);

-- Credits that count against limits: of each day's (UTC) admissions what is held or was charged. Kept for subjects
-- with a limit only, so that all others pay nothing for it.
create table spend_day (
    subject   text not null references spending_limit (subject) on delete cascade,
    day       date not null,
    credits   bigint not null check (credits >= 0),
    creations integer not null check (creations >= 0),
    primary key (subject, day)
) with (fillfactor = 50);

-- The subjects that a generation counts for. The second is null without a key.
create function subjects(p_account text, p_key text) returns text[] language sql immutable as $$
    select array['account:' || p_account, 'key:' || p_key]
$$;

-- What this subject's generations of a day say that it used: (credits, creations) for each day from `p_from` on.
create function spent_since_v1(p_account text, p_key text, p_from date)
returns table (day date, credits bigint, creations bigint) language sql stable
set search_path = holdfast, pg_temp as $$
    select (g.admitted_at at time zone 'UTC')::date,
           sum(case g.status when 'pending' then g.price_credits else g.charged_credits end)::bigint, count(*)
    from transfer h join generation g on g.task_id = h.task_id
    where h.debit_account = p_account and h.kind = 'pending' and h.created_at >= p_from::timestamp at time zone 'UTC'
      and g.admitted_at >= p_from::timestamp at time zone 'UTC' and (p_key is null or g.key_id = p_key)
    group by 1
$$;

-- Sets what a subject may use, or, with nothing but nulls, takes its limit away. `p_limit` has the columns' names.
-- The counters begin with what this month's generations say. Answers the limit before, or null.
create function set_limit_v1(p_subject text, p_limit jsonb, p_reason text, p_actor text) returns jsonb
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_key     text := substring(p_subject from '^key:(.+)$');
    v_account text := substring(p_subject from '^account:(.+)$');
    v_before  jsonb;
    v_new     spending_limit := jsonb_populate_record(null::spending_limit, p_limit);
begin
    if v_key is not null then
        select account_id into v_account from api_key where id = v_key;
    end if;
    if v_account is null then
        raise exception 'no account or key %', p_subject using errcode = 'HF001';
    end if;
    perform lock_payer_v1(v_account);
    select to_jsonb(l) into v_before from spending_limit l where subject = p_subject;
    perform act_v1('limit', p_subject, p_reason, p_actor, jsonb_build_object('before', v_before, 'after', p_limit));
    if num_nonnulls(v_new.in_flight, v_new.per_minute, v_new.credits_per_day, v_new.credits_per_month) = 0 then
        delete from spending_limit where subject = p_subject;
        return v_before;
    end if;
    insert into spending_limit (account_id, key_id, in_flight, per_minute, credits_per_day, credits_per_month,
                                set_by, reason)
    values (v_account, v_key, v_new.in_flight, v_new.per_minute, v_new.credits_per_day, v_new.credits_per_month,
            p_actor, p_reason)
    on conflict (subject) do update set
        in_flight = excluded.in_flight, per_minute = excluded.per_minute,
        credits_per_day = excluded.credits_per_day, credits_per_month = excluded.credits_per_month,
        set_by = excluded.set_by, set_at = clock_timestamp(), reason = excluded.reason;
    if v_before is null then
        insert into spend_day (subject, day, credits, creations)
        select p_subject, s.day, s.credits, s.creations
        from spent_since_v1(v_account, v_key,
                            date_trunc('month', clock_timestamp() at time zone 'UTC')::date) s;
    end if;
    return v_before;
end $$;

-- How much a subject with a limit uses now, as {"in_flight", "minute", "day", "month"}.
create function limit_use_v1(p_subject text) returns jsonb language sql stable
set search_path = holdfast, pg_temp as $$
    select jsonb_build_object(
        'in_flight', (select count(*) from generation g where g.status = 'pending' and g.account_id = l.account_id
                      and (l.key_id is null or g.key_id = l.key_id)),
        'minute', (select count(*) from transfer h join generation g on g.task_id = h.task_id
                   where h.debit_account = l.account_id and h.kind = 'pending'
                     and h.created_at > clock_timestamp() - interval '60 seconds'
                     and (l.key_id is null or g.key_id = l.key_id)),
        'day', (select coalesce(sum(credits), 0) from spend_day d where d.subject = l.subject
                and d.day = (clock_timestamp() at time zone 'UTC')::date),
        'month', (select coalesce(sum(credits), 0) from spend_day d where d.subject = l.subject
                  and d.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date))
    from spending_limit l where l.subject = p_subject
$$;

-- The refusal that a subject's limits make of one more creation at this price, as {"code", "subject", "window",
-- "limit", "used", "retry_after_s"}; null when there is room. A price above the whole limit frees never.
create function limit_reached_v1(p_limit spending_limit, p_price bigint) returns jsonb
language plpgsql volatile as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_day   timestamp := date_trunc('day', v_now at time zone 'UTC');
    v_month timestamp := date_trunc('month', v_day);
    v_who   text := case when p_limit.key_id is null then 'account' else 'key' end;
    v_used  bigint;
    v_first timestamptz;
begin
    if p_limit.key_id is not null and p_limit.in_flight is not null then
        select count(*) into v_used from generation
        where account_id = p_limit.account_id and status = 'pending' and key_id = p_limit.key_id;
        if v_used >= p_limit.in_flight then
            return refusal_v1('quota_exceeded', v_who, 'in_flight', p_limit.in_flight, v_used, 5);
        end if;
    end if;
    if p_limit.per_minute = 0 then
        return refusal_v1('rate_limited', v_who, 'minute', 0, 0, null);
    elsif p_limit.per_minute is not null then
        -- The last but `per_minute` - 1: one more is too many while that one is younger than a minute.
        if p_limit.key_id is null then
            select created_at into v_first from transfer
            where debit_account = p_limit.account_id and kind = 'pending'
            order by id desc offset p_limit.per_minute - 1 limit 1;
        else
            select admitted_at into v_first from generation where key_id = p_limit.key_id
            order by admitted_at desc offset p_limit.per_minute - 1 limit 1;
        end if;
        if v_first > v_now - interval '60 seconds' then
            return refusal_v1('rate_limited', v_who, 'minute', p_limit.per_minute, p_limit.per_minute,
                              extract(epoch from v_first + interval '60 seconds' - v_now));
        end if;
    end if;
    if p_limit.credits_per_month is not null then
        select coalesce(sum(credits), 0) into v_used from spend_day
        where subject = p_limit.subject and day >= v_month::date;
        if v_used + p_price > p_limit.credits_per_month then
            return refusal_v1('spending_limit_reached', v_who, 'month', p_limit.credits_per_month, v_used,
                case when p_price <= p_limit.credits_per_month
                     then extract(epoch from (v_month + interval '1 month') at time zone 'UTC' - v_now) end);
        end if;
    end if;
    if p_limit.credits_per_day is not null then
        select coalesce(sum(credits), 0) into v_used from spend_day
        where subject = p_limit.subject and day = v_day::date;
        if v_used + p_price > p_limit.credits_per_day then
            return refusal_v1('spending_limit_reached', v_who, 'day', p_limit.credits_per_day, v_used,
                case when p_price <= p_limit.credits_per_day
                     then extract(epoch from (v_day + interval '1 day') at time zone 'UTC' - v_now) end);
        end if;
    end if;
    return null;
end $$;

-- A refusal for a limit, with the seconds rounded up after which it frees.
create function refusal_v1(p_code text, p_subject text, p_window text, p_limit bigint, p_used bigint, p_after numeric)
returns jsonb language sql immutable as $$
    select jsonb_build_object('code', p_code, 'subject', p_subject, 'window', p_window, 'limit', p_limit,
                              'used', p_used, 'retry_after_s', ceil(p_after)::bigint)
$$;

-- What the limits of an account, and of a key where one is given, say of one more creation; null when there is room.
create function limits_refusal_v1(p_account text, p_key text, p_price bigint, p_in_flight_max integer) returns jsonb
language plpgsql volatile set search_path = holdfast, pg_temp as $$
declare
    v_limit   spending_limit;
    v_used    bigint;
    v_refusal jsonb;
begin
    select * into v_limit from spending_limit where subject = 'account:' || p_account;
    select count(*) into v_used from generation where account_id = p_account and status = 'pending';
    if v_used >= coalesce(v_limit.in_flight, p_in_flight_max) then
        return refusal_v1('quota_exceeded', 'account', 'in_flight', coalesce(v_limit.in_flight, p_in_flight_max),
                          v_used, 5);
    end if;
    if v_limit.subject is not null then
        v_refusal := limit_reached_v1(v_limit, p_price);
    end if;
    if v_refusal is null and p_key is not null then
        select * into v_limit from spending_limit where subject = 'key:' || p_key;
        if found then
            v_refusal := limit_reached_v1(v_limit, p_price);
        end if;
    end if;
    return v_refusal;
end $$;

-- Whether a key may be used for an account now.
create function key_fits_v1(p_key text, p_account text) returns boolean language sql volatile
set search_path = holdfast, pg_temp as $$
    select exists (select from api_key where id = p_key and account_id = p_account and revoked_at is null
                   and (expires_at is null or expires_at > clock_timestamp()))
$$;

-- Why credits can't be held, as {"code", …figures}, in this order of precedence; null when they can.
-- The caller holds the account's lock, so what is counted here can't change before the commit.
create or replace function admission_refusal_v1(
    p_request jsonb, p_account account, p_available bigint, p_in_flight_max integer
) returns jsonb language plpgsql volatile as $$
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
    return limits_refusal_v1(p_account.id, p_request ->> 'key_id', (p_request ->> 'price_credits')::bigint,
                             p_in_flight_max);
end $$;

-- Writes all that a hold consists of. The caller holds the account's lock and has found no reason to refuse.
create or replace function hold_v1(p_request jsonb, p_balance bigint, p_phase text) returns void
language plpgsql as $$
declare
    v_task     text := p_request ->> 'task_id';
    v_price    bigint := (p_request ->> 'price_credits')::bigint;
    v_admitted timestamptz;
begin
    insert into operation (account_id, operation_id, task_id, fingerprint, fields, attempt)
    values (p_request ->> 'account_id', p_request ->> 'operation_id', v_task, p_request ->> 'fingerprint',
            p_request -> 'fields', (p_request ->> 'attempt')::integer)
    on conflict (account_id, operation_id) do update set
        fingerprint = excluded.fingerprint, fields = excluded.fields, attempt = excluded.attempt,
        refusal = null, refused_at = null;
    insert into generation (task_id, account_id, operation_id, model_id, mode, phase, request, price_credits,
                            balance_held, created_at, expires_at, is_canary, key_id, made_by)
    values (v_task, p_request ->> 'account_id', p_request ->> 'operation_id', p_request #>> '{model,model_id}',
            p_request #>> '{model,mode}', p_phase, p_request, v_price,
            p_balance, (p_request ->> 'created_at')::timestamptz, (p_request ->> 'expires_at')::timestamptz,
            (p_request ->> 'is_canary')::boolean, p_request ->> 'key_id', coalesce(p_request ->> 'made_by', ''))
    returning admitted_at into v_admitted;
    insert into transfer (kind, cause, debit_account, credit_account, amount, task_id, reason, actor)
    values ('pending', null, p_request ->> 'account_id', 'revenue', v_price, v_task, 'generation',
            'workflow:' || v_task);
    insert into spend_day (subject, day, credits, creations)
    select subject, (v_admitted at time zone 'UTC')::date, v_price, 1 from spending_limit
    where subject = any (subjects(p_request ->> 'account_id', p_request ->> 'key_id'))
    on conflict (subject, day) do update set
        credits = spend_day.credits + excluded.credits, creations = spend_day.creations + 1;
    if jsonb_array_length(p_request -> 'inputs') > 0 then
        insert into blob (sha256, size, mime)
        select distinct on (i #>> '{blob,sha256}')
               i #>> '{blob,sha256}', (i #>> '{blob,size}')::bigint, i #>> '{blob,mime}'
        from jsonb_array_elements(p_request -> 'inputs') i
        order by i #>> '{blob,sha256}'
        on conflict (sha256) do nothing;
        insert into input_use (task_id, sha256)
        select distinct v_task, i #>> '{blob,sha256}' from jsonb_array_elements(p_request -> 'inputs') i;
    end if;
    insert into event (task_id, kind, data) values (v_task, 'held', jsonb_build_object('credits', v_price));
end $$;

-- Holds the price and places at once where nobody waits and a fitting card is idle. Repeated, it answers the same.
-- Plans are made once for a connection: on tables that are small still, one that reads them whole would stay while
-- they grow, so the steps of money plan without. What expired is lost before the balance is judged.
-- {"outcome": held|finished|refused, "fingerprint", "credit_status"?, "balance"?, "lease"?, "refusal"?}
create or replace function admit_v1(
    p_request jsonb, p_in_flight_max integer, p_fresh interval, p_offer interval
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

-- Called by functions that set it themselves; setting it once more costs time for each call.
alter function admission_answer_v1(text, text, integer) reset search_path;
alter function queue_has_room_v1(text, integer) reset search_path;
