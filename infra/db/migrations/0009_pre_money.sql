-- Money, whole: accounts that are shared, credits with an expiry, adjustments, the house's losses, API keys, and
-- who of the operators did what.
--
-- The order of locks goes on from the first migration:
--   account → credit_lot → spend_day → operation → generation → ticket → lease → card.
-- Lots and counters of limits change under their account's lock only. Whoever books a direct transfer locks the
-- payer first, so that the ids of an account's transfers rise in the order of their commits.
--
-- SQLSTATEs added here:
--   HF007 an amount out of range          HF008 a reason or an actor left blank
--   HF009 a key used before               HF010 an adjustment beyond what was charged
--   HF011 over already                    HF012 nothing is unknown
--   HF013 a second member of a user       HF014 a term that doesn't fit

-- Kinds that pay have counters; the others are sums over the entries.
create function pays(p_kind text) returns boolean language sql immutable as $$
    select p_kind in ('user', 'organisation', 'house')
$$;

-- A CHECK is prepared anew for each statement, and these tables change with each step of each generation: their
-- rules, but for the overdraft's, are in the triggers that look at each change anyway.
alter table account
    drop constraint account_kind,
    drop constraint account_id_is_short,
    drop constraint account_credits_posted_check,
    drop constraint account_debits_posted_check,
    drop constraint account_debits_pending_check,
    drop constraint derived_accounts_have_no_counters,
    -- Whether it ever got credits with an expiry: who never did pays nothing for lots.
    add column has_lots boolean not null default false;

insert into account (id, kind, display_name) values
    ('promotions', 'promotion', 'Credits given with an expiry, and those that expired'),
    ('loss', 'loss', 'Credits that the house bore');

alter table transfer
    add column cause      text,
    add column refers_to  text constraint transfer_refers_to_a_generation references generation (task_id),
    add column lot_id     bigint,
    add column expires_at timestamptz;

comment on column transfer.cause is 'Why credits moved directly; null for what a generation moves.';
comment on column transfer.refers_to is 'The generation that an adjustment or a loss is about.';
comment on column transfer.lot_id is 'The lot that an expiry takes from.';
comment on column transfer.expires_at is 'What was given is lost then, unless it is held or spent.';

-- Until now all direct transfers were grants.
alter table transfer disable trigger transfer_only_grows;
update transfer set cause = 'grant' where kind = 'direct';
alter table transfer enable trigger transfer_only_grows;

-- Code of before names no cause; all that it books directly are grants.
alter table transfer alter column cause set default 'grant';

alter table transfer
    drop constraint transfer_kind,
    drop constraint amount_is_not_negative,
    drop constraint two_sides,
    drop constraint resolution_names_its_hold,
    drop constraint void_moves_nothing,
    drop constraint direct_moves_something,
    drop constraint generation_money_names_its_task,
    drop constraint direct_has_a_key;

-- What each transfer's trigger and the commit of each generation check anyway, and what is only ever written beside
-- its generation. A foreign key costs another look and a share lock for each row. Rows of accounts, transfers and
-- generations are never deleted, and the audit looks for rows without their owner.
alter table transfer drop constraint transfer_pending_id_fkey, drop constraint transfer_names_a_generation;
alter table generation drop constraint generation_account_id_fkey;
alter table operation drop constraint operation_account_id_fkey;
alter table event drop constraint event_task_id_fkey;
alter table input_use drop constraint input_use_task_id_fkey;
create trigger generation_is_never_deleted before delete on generation
    for each row execute function refuse_change();
create trigger generation_is_never_emptied before truncate on generation
    for each statement execute function refuse_change();

-- Who pays is credited by direct transfers only.
drop index transfer_by_credit_account;
create index transfer_by_credit_account on transfer (credit_account, id) where kind = 'direct';
create index transfer_by_reference on transfer (refers_to) where refers_to is not null;

-- Credits with an expiry. All other credits have no lot.
create table credit_lot (
    id          bigint generated always as identity primary key,
    account_id  text not null references account (id),
    transfer_id bigint not null references transfer (id),
    amount      bigint not null check (amount > 0),
    -- Where the amount is: still there, held by open generations, spent, lost.
    remaining   bigint not null check (remaining >= 0),
    drawn       bigint not null default 0 check (drawn >= 0),
    spent       bigint not null default 0 check (spent >= 0),
    expired     bigint not null default 0 check (expired >= 0),
    expiries    integer not null default 0,
    expires_at  timestamptz not null,
    constraint one_lot_per_transfer unique (transfer_id),
    constraint lot_adds_up check (amount = remaining + drawn + spent + expired)
) with (fillfactor = 70);
create index credit_lot_to_draw on credit_lot (account_id, expires_at, id) where remaining > 0;
create index credit_lot_by_expiry on credit_lot (expires_at) where remaining > 0;

alter table transfer add constraint transfer_names_a_lot foreign key (lot_id) references credit_lot (id);

-- Which hold took how much of which lot. `spent` is null while the hold is open; what a hold drew and didn't
-- spend returned to its lot. An adjustment that takes credits spends at once.
create table lot_draw (
    hold_id bigint not null references transfer (id),
    lot_id  bigint not null references credit_lot (id),
    amount  bigint not null check (amount > 0),
    spent   bigint check (spent between 0 and amount),
    primary key (hold_id, lot_id)
);
create index lot_draw_by_lot on lot_draw (lot_id);

-- Lots and draws change only as the effect of a transfer.
create function guard_lot() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() < 2 then
        raise exception '% on % is refused: lots move by transfers only', tg_op, tg_table_name
            using errcode = 'HF003';
    end if;
    return new;
end $$;

create trigger credit_lot_guard before insert or update on credit_lot
    for each row execute function guard_lot();
create trigger credit_lot_is_never_deleted before delete on credit_lot
    for each row execute function refuse_change();
create trigger credit_lot_is_never_emptied before truncate on credit_lot
    for each statement execute function refuse_change();
create trigger lot_draw_guard before insert or update on lot_draw
    for each row execute function guard_lot();
create trigger lot_draw_is_never_deleted before delete on lot_draw
    for each row execute function refuse_change();
create trigger lot_draw_is_never_emptied before truncate on lot_draw
    for each statement execute function refuse_change();

-- An account starts empty and keeps its id and kind. Counters move only as the effect of a transfer: a trigger that
-- runs inside another trigger. A hand that writes them, even in the account's favour, is refused.
create or replace function guard_account() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        if (new.credits_posted, new.debits_posted, new.debits_pending, new.has_lots) <> (0, 0, 0, false) then
            raise exception 'account % must start empty', new.id using errcode = 'HF003';
        end if;
        if length(new.id) not between 1 and 64 then
            raise exception 'the id of an account has 1 to 64 characters'
                using errcode = 'check_violation', constraint = 'account_id_is_short';
        end if;
        if new.kind not in ('user', 'organisation', 'house', 'revenue', 'issuance', 'promotion', 'loss') then
            raise exception 'no account is of kind %', new.kind
                using errcode = 'check_violation', constraint = 'account_kind';
        end if;
        return new;
    end if;
    if (new.id, new.kind) is distinct from (old.id, old.kind) then
        raise exception 'account % keeps its id and kind', old.id using errcode = 'HF003';
    end if;
    if (new.credits_posted, new.debits_posted, new.debits_pending, new.has_lots)
        is distinct from (old.credits_posted, old.debits_posted, old.debits_pending, old.has_lots) then
        if pg_trigger_depth() < 2 then
            raise exception 'counters of account % move by transfers only', old.id using errcode = 'HF003';
        end if;
        if new.credits_posted < 0 or new.debits_posted < 0 or new.debits_pending < 0 or not pays(new.kind) then
            raise exception 'account % can not have such counters', old.id
                using errcode = 'check_violation', constraint = 'counters_fit';
        end if;
        -- 2^53 - 1: whoever reads a figure as a double, as JavaScript does, reads it exactly.
        if new.credits_posted > 9007199254740991 then
            raise exception 'account % would have more credits than can be told exactly', old.id
                using errcode = 'check_violation', constraint = 'figures_are_exact';
        end if;
    end if;
    return new;
end $$;

-- Takes credits from an account's lots, those first that expire first, and the rest from what never expires.
-- A lot that is due and not swept yet counts as there: whoever asks sweeps first.
create function draw_lots_v1(p_transfer bigint, p_account text, p_amount bigint, p_spend boolean) returns void
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_left bigint := p_amount;
    v_take bigint;
    v_lot  record;
begin
    for v_lot in
        select id, remaining from credit_lot where account_id = p_account and remaining > 0
        order by expires_at, id
    loop
        exit when v_left = 0;
        v_take := least(v_left, v_lot.remaining);
        v_left := v_left - v_take;
        insert into lot_draw (hold_id, lot_id, amount, spent)
        values (p_transfer, v_lot.id, v_take, case when p_spend then v_take end);
        update credit_lot set remaining = remaining - v_take,
            drawn = drawn + case when p_spend then 0 else v_take end,
            spent = spent + case when p_spend then v_take else 0 end
        where id = v_lot.id;
    end loop;
end $$;

-- Books what is left of a lot whose date has passed as lost. The caller holds the account's lock.
create function expire_lot_v1(p_lot bigint) returns boolean language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    insert into transfer (kind, cause, debit_account, credit_account, amount, lot_id, key, reason, actor)
    select 'direct', 'expiry', account_id, 'promotions', remaining, id, 'expiry:' || id || ':' || expiries + 1,
           'past its date', 'ledger'
    from credit_lot where id = p_lot and remaining > 0 and expires_at <= clock_timestamp();
    return found;
end $$;

-- Ends the draws of a hold: what was paid is spent, from those lots first that expire first; the rest returns to
-- its lot, and is lost at once where the lot's date has passed meanwhile.
create function return_lots_v1(p_hold bigint, p_paid bigint) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_left  bigint := p_paid;
    v_spent bigint;
    v_draw  record;
begin
    for v_draw in
        select d.lot_id, d.amount, l.expires_at from lot_draw d join credit_lot l on l.id = d.lot_id
        where d.hold_id = p_hold and d.spent is null order by l.expires_at, l.id
    loop
        v_spent := least(v_left, v_draw.amount);
        v_left := v_left - v_spent;
        update lot_draw set spent = v_spent where hold_id = p_hold and lot_id = v_draw.lot_id;
        update credit_lot set drawn = drawn - v_draw.amount, spent = spent + v_spent,
            remaining = remaining + v_draw.amount - v_spent
        where id = v_draw.lot_id;
        if v_draw.expires_at <= clock_timestamp() then
            perform expire_lot_v1(v_draw.lot_id);
        end if;
    end loop;
end $$;

-- Refuses an adjustment of a generation by another account than its payer, and one that would leave more given
-- back than was charged, or more taken than was. The caller holds the payer's lock.
create function check_adjustment_v1(p_transfer transfer) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_gen  generation;
    v_back bigint;
begin
    select * into v_gen from generation where task_id = p_transfer.refers_to;
    if not found or v_gen.account_id not in (p_transfer.debit_account, p_transfer.credit_account) then
        raise exception 'adjustment % is not with the payer of generation %', p_transfer.id, p_transfer.refers_to
            using errcode = 'HF006';
    end if;
    select coalesce(sum(case when credit_account = 'revenue' then -amount else amount end), 0) into v_back
    from transfer where refers_to = p_transfer.refers_to and cause = 'adjustment';
    if v_back < 0 or v_back > v_gen.charged_credits then
        raise exception 'adjustments of generation % would give back % of % credits charged',
            v_gen.task_id, v_back, v_gen.charged_credits using errcode = 'HF010';
    end if;
end $$;

-- Refuses a loss that isn't the price of a generation which was released at the house's cost.
create function check_loss_v1(p_transfer transfer) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
begin
    if not exists (select from transfer v join transfer h on h.id = v.pending_id
                   where v.task_id = p_transfer.refers_to and v.kind = 'void'
                     and v.actor = 'manifest:release_unknown' and h.amount = p_transfer.amount) then
        raise exception 'loss % is not that of a generation released at the house''s cost', p_transfer.id
            using errcode = 'HF006';
    end if;
end $$;

-- What a direct transfer has to be, by its cause; null when it fits, else what doesn't.
create function direct_misfit(p_transfer transfer) returns text language sql immutable as $$
    select case
        when p_transfer.debit_account is distinct from (case p_transfer.cause
            when 'grant' then 'issuance' when 'top_up' then 'issuance' when 'promotion' then 'promotions'
            when 'loss' then 'loss' else p_transfer.debit_account end) then 'is not from where such credits come'
        when p_transfer.credit_account is distinct from (case p_transfer.cause
            when 'loss' then 'revenue' when 'expiry' then 'promotions' else p_transfer.credit_account end)
            then 'is not to where such credits go'
        when p_transfer.cause = 'adjustment'
            and case when p_transfer.refers_to is null then 'issuance' else 'revenue' end
                not in (p_transfer.debit_account, p_transfer.credit_account) then 'adjusts with another account'
        when (p_transfer.cause = 'loss' and p_transfer.refers_to is null)
            or (p_transfer.cause not in ('loss', 'adjustment') and p_transfer.refers_to is not null)
            then 'refers to a generation where it may not, or doesn''t where it must'
        when (p_transfer.cause = 'expiry') <> (p_transfer.lot_id is not null) then 'names a lot only as an expiry'
        when p_transfer.cause not in ('grant', 'top_up', 'promotion') and p_transfer.expires_at is not null
            then 'is nothing that expires'
        when p_transfer.cause = 'promotion' and p_transfer.expires_at is null then 'has to expire'
        when p_transfer.cause not in ('grant', 'top_up', 'promotion', 'expiry', 'adjustment', 'loss')
            then 'has a cause that is none'
    end
$$;

-- Applies a direct transfer to the counters and lots of its two sides. Exactly one side is an account that pays,
-- except for a loss.
create function apply_direct_v1(p_transfer transfer) returns void language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_misfit text := direct_misfit(p_transfer);
    v_lots   boolean;
    v_paying integer := 0;
begin
    if v_misfit is not null then
        raise exception 'the % of transfer % %', p_transfer.cause, p_transfer.id, v_misfit using errcode = 'HF006';
    end if;
    update account set credits_posted = credits_posted + p_transfer.amount,
        has_lots = has_lots or p_transfer.expires_at is not null
    where id = p_transfer.credit_account and pays(kind);
    v_paying := v_paying + found::integer;
    update account set debits_posted = debits_posted + p_transfer.amount
    where id = p_transfer.debit_account and pays(kind) returning has_lots into v_lots;
    v_paying := v_paying + found::integer;
    if v_paying <> (case p_transfer.cause when 'loss' then 0 else 1 end) then
        raise exception 'transfer % is not with one account that pays', p_transfer.id using errcode = 'HF001';
    end if;
    if p_transfer.cause = 'loss' then
        perform check_loss_v1(p_transfer);
    elsif p_transfer.cause = 'adjustment' and p_transfer.refers_to is not null then
        perform check_adjustment_v1(p_transfer);
    end if;
    if p_transfer.cause = 'expiry' then
        update credit_lot set remaining = remaining - p_transfer.amount, expired = expired + p_transfer.amount,
            expiries = expiries + 1
        where id = p_transfer.lot_id and account_id = p_transfer.debit_account
          and expires_at <= clock_timestamp();
        if not found then
            raise exception 'transfer % expires what is not due', p_transfer.id using errcode = 'HF006';
        end if;
    elsif p_transfer.expires_at is not null then
        insert into credit_lot (account_id, transfer_id, amount, remaining, expires_at)
        values (p_transfer.credit_account, p_transfer.id, p_transfer.amount, p_transfer.amount,
                p_transfer.expires_at);
    elsif v_lots then
        perform draw_lots_v1(p_transfer.id, p_transfer.debit_account, p_transfer.amount, true);
    end if;
end $$;

-- Whether a transfer has what its kind needs, and nothing else.
create function transfer_fits(p transfer) returns boolean language sql immutable as $$
    select p.debit_account <> p.credit_account and case p.kind
        when 'direct' then p.amount > 0 and p.key is not null and p.cause is not null
                           and p.task_id is null and p.pending_id is null
        when 'pending' then p.task_id is not null and p.pending_id is null
                            and p.key is null and p.cause is null and p.refers_to is null and p.lot_id is null
        when 'post' then p.task_id is not null and p.pending_id is not null
                         and p.key is null and p.cause is null and p.refers_to is null and p.lot_id is null
        when 'void' then p.task_id is not null and p.pending_id is not null and p.amount = 0
                         and p.key is null and p.cause is null and p.refers_to is null and p.lot_id is null
        else false end
$$;

-- Applies one transfer to its payer's counters and lots. What a generation moves goes to `revenue`, which has no
-- counters. Rows of accounts and transfers are never deleted, so a look replaces a foreign key, whose share lock on
-- `revenue` would make that row hot after all.
create or replace function apply_transfer() returns trigger language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_hold transfer;
    v_lots boolean;
begin
    -- A million million is far above any price, and thousands of such transfers still sum up exactly.
    if new.amount not between 0 and 1000000000000 then
        raise exception 'transfer % of % credits', new.id, new.amount
            using errcode = 'check_violation', constraint = 'amount_in_range';
    end if;
    if transfer_fits(new) is not true then
        raise exception 'transfer % is none', new.id
            using errcode = 'check_violation', constraint = 'transfer_fits';
    end if;
    if new.reason !~ '[^[:space:]]' or new.actor !~ '[^[:space:]]' then
        raise exception 'transfer % needs a reason and an actor', new.id using errcode = 'HF008';
    end if;
    if new.kind = 'direct' then
        perform apply_direct_v1(new);
        return null;
    end if;
    if new.kind = 'pending' then
        if new.credit_account <> 'revenue' then
            raise exception 'hold % is not for revenue', new.id using errcode = 'HF006';
        end if;
        if not exists (select from generation where task_id = new.task_id and account_id = new.debit_account
                       and price_credits = new.amount) then
            raise exception 'hold % is not that of a generation', new.id using errcode = 'HF004';
        end if;
        update account set debits_pending = debits_pending + new.amount
        where id = new.debit_account and pays(kind) returning has_lots into v_lots;
        if not found then
            raise exception 'no account % that pays', new.debit_account using errcode = 'HF001';
        end if;
        if v_lots then
            perform draw_lots_v1(new.id, new.debit_account, new.amount, false);
        end if;
        return null;
    end if;
    select * into v_hold from transfer where id = new.pending_id;
    if not found or v_hold.kind <> 'pending'
        or (v_hold.debit_account, v_hold.credit_account, v_hold.task_id)
           is distinct from (new.debit_account, new.credit_account, new.task_id) then
        raise exception 'transfer % resolves another hold than its own', new.id using errcode = 'HF006';
    end if;
    if new.amount > v_hold.amount then
        raise exception 'transfer % takes more than its hold', new.id using errcode = 'HF005';
    end if;
    update account set debits_pending = debits_pending - v_hold.amount, debits_posted = debits_posted + new.amount
    where id = new.debit_account returning has_lots into v_lots;
    if v_lots then
        perform return_lots_v1(new.pending_id, new.amount);
    end if;
    return null;
end $$;

-- Books what is past its date as lost, of one account or of all; how many lots, `p_limit` at most. An account that
-- somebody works on is left for the next time, unless it is the one that was asked for.
create function expire_lots_v1(p_account text, p_limit integer) returns integer language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_count   integer := 0;
    v_account text;
    v_lot     bigint;
begin
    if p_account is not null then
        perform from account where id = p_account for no key update;
        for v_lot in
            select id from credit_lot
            where account_id = p_account and remaining > 0 and expires_at <= clock_timestamp()
            order by expires_at, id limit p_limit
        loop
            v_count := v_count + expire_lot_v1(v_lot)::integer;
        end loop;
        return v_count;
    end if;
    for v_account in
        select account_id from credit_lot where remaining > 0 and expires_at <= clock_timestamp()
        group by account_id order by min(expires_at) limit p_limit
    loop
        exit when v_count >= p_limit;
        perform from account where id = v_account for no key update skip locked;
        if found then
            v_count := v_count + expire_lots_v1(v_account, p_limit - v_count);
        end if;
    end loop;
    return v_count;
end $$;

-- What an operator did, why, and when. It only grows.
create table operator_act (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    actor   text not null,
    act     text not null constraint operator_act_name check (act in
            ('grant', 'top_up', 'promotion', 'adjust', 'freeze', 'unfreeze', 'resolve', 'limit', 'key', 'member',
             'sweep_repair', 'replay')),
    subject text not null,
    reason  text not null,
    data    jsonb not null default '{}',
    constraint act_is_explained check (
        reason ~ '[^[:space:]]' and actor ~ '[^[:space:]]' and subject ~ '[^[:space:]]')
);
create index operator_act_by_subject on operator_act (subject, id);

create trigger operator_act_only_grows before update or delete on operator_act
    for each row execute function refuse_change();
create trigger operator_act_is_never_emptied before truncate on operator_act
    for each statement execute function refuse_change();

-- Records what an operator did; its number. Called in the transaction of the deed.
create function act_v1(p_act text, p_subject text, p_reason text, p_actor text, p_data jsonb) returns bigint
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_id bigint;
begin
    if coalesce(p_reason, '') !~ '[^[:space:]]' or coalesce(p_actor, '') !~ '[^[:space:]]' then
        raise exception '% of % needs a reason and an actor', p_act, p_subject using errcode = 'HF008';
    end if;
    insert into operator_act (actor, act, subject, reason, data)
    values (p_actor, p_act, p_subject, p_reason, p_data) returning id into v_id;
    return v_id;
end $$;

-- Locks an account that pays, and answers it; refuses any other.
create function lock_payer_v1(p_account text) returns account language plpgsql
set search_path = holdfast, pg_temp as $$
declare
    v_account account;
begin
    select * into v_account from account where id = p_account and pays(kind) for no key update;
    if not found then
        raise exception 'no account % that pays', p_account using errcode = 'HF001';
    end if;
    return v_account;
end $$;

-- Refuses what is no whole number of credits from 1 to a million million.
create function check_amount_v1(p_credits numeric) returns bigint language plpgsql immutable as $$
begin
    if p_credits is null or p_credits <> trunc(p_credits) or p_credits not between 1 and 1000000000000 then
        raise exception '% is not a whole number of credits from 1 to 1000000000000', p_credits
            using errcode = 'HF007';
    end if;
    return p_credits::bigint;
end $$;

-- What a key was used for before: its transfer, where all is the same, null where it is new.
create function booked_v1(
    p_key text, p_cause text, p_debit text, p_credit text, p_amount bigint, p_refers_to text, p_expires_at timestamptz
) returns transfer language plpgsql stable set search_path = holdfast, pg_temp as $$
declare
    v_before transfer;
begin
    select * into v_before from transfer where key = p_key;
    if found and (v_before.cause, v_before.debit_account, v_before.credit_account, v_before.amount,
                  v_before.refers_to, v_before.expires_at)
        is distinct from (p_cause, p_debit, p_credit, p_amount, p_refers_to, p_expires_at) then
        raise exception 'the key % was used before, for something else', p_key using errcode = 'HF009';
    end if;
    return v_before;
end $$;

-- Brings credits into being for an account, once for each key: a grant, a top-up, or a promotion, which expires.
-- {"made": whether it was made now, "transfer_id"}
create function grant_v1(
    p_account text, p_credits numeric, p_cause text, p_expires_at timestamptz, p_reason text, p_actor text, p_key text
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_amount bigint := check_amount_v1(p_credits);
    v_source text := case p_cause when 'promotion' then 'promotions' else 'issuance' end;
    v_before transfer;
    v_id     bigint;
begin
    if p_cause not in ('grant', 'top_up', 'promotion') or (p_cause = 'promotion' and p_expires_at is null) then
        raise exception 'a % of credits is none', p_cause using errcode = 'HF014';
    end if;
    perform lock_payer_v1(p_account);
    v_before := booked_v1(p_key, p_cause, v_source, p_account, v_amount, null, p_expires_at);
    if v_before.id is not null then
        return jsonb_build_object('made', false, 'transfer_id', v_before.id);
    end if;
    if p_expires_at <= clock_timestamp() then
        raise exception 'credits that expire at % are lost already', p_expires_at using errcode = 'HF014';
    end if;
    perform act_v1(p_cause, p_account, p_reason, p_actor,
                   jsonb_build_object('credits', v_amount, 'key', p_key, 'expires_at', p_expires_at));
    insert into transfer (kind, cause, debit_account, credit_account, amount, key, reason, actor, expires_at)
    values ('direct', p_cause, v_source, p_account, v_amount, p_key, p_reason, p_actor, p_expires_at)
    returning id into v_id;
    return jsonb_build_object('made', true, 'transfer_id', v_id);
end $$;

-- Corrects by a compensating entry, once for each key: gives credits where `p_credits` is above 0, takes them where
-- it is below. With `p_task` it moves between revenue and that generation's payer, and never gives back more than
-- was charged. {"made", "transfer_id"}
create function adjust_v1(
    p_account text, p_credits numeric, p_task text, p_reason text, p_actor text, p_key text
) returns jsonb language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_amount bigint := check_amount_v1(abs(p_credits));
    v_other  text := case when p_task is null then 'issuance' else 'revenue' end;
    v_gives  boolean := p_credits > 0;
    v_debit  text := case when v_gives then v_other else p_account end;
    v_credit text := case when v_gives then p_account else v_other end;
    v_before transfer;
    v_id     bigint;
begin
    perform lock_payer_v1(p_account);
    if p_task is not null and not exists (select from generation where task_id = p_task) then
        raise exception 'no generation %', p_task using errcode = 'HF001';
    end if;
    v_before := booked_v1(p_key, 'adjustment', v_debit, v_credit, v_amount, p_task, null);
    if v_before.id is not null then
        return jsonb_build_object('made', false, 'transfer_id', v_before.id);
    end if;
    perform expire_lots_v1(p_account, 1000);
    perform act_v1('adjust', p_account, p_reason, p_actor,
                   jsonb_build_object('credits', trunc(p_credits), 'key', p_key, 'task_id', p_task));
    insert into transfer (kind, cause, debit_account, credit_account, amount, key, reason, actor, refers_to)
    values ('direct', 'adjustment', v_debit, v_credit, v_amount, p_key, p_reason, p_actor, p_task)
    returning id into v_id;
    return jsonb_build_object('made', true, 'transfer_id', v_id);
end $$;

-- Stops new holds of an account that pays, or allows them again; open generations go on. False when it was so.
create function freeze_v1(p_account text, p_frozen boolean, p_reason text, p_actor text) returns boolean
language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_account account := lock_payer_v1(p_account);
begin
    perform act_v1(case when p_frozen then 'freeze' else 'unfreeze' end, p_account, p_reason, p_actor, '{}');
    update account set frozen = p_frozen where id = p_account;
    return v_account.frozen <> p_frozen;
end $$;

-- An organisation shares its credits among members of any role; a user is one person, its owner. The account's
-- row is the mutex. A second look after the insert, so that a taken address is told first.
create function check_member() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_kind text;
begin
    select kind into v_kind from account where id = new.account_id for no key update;
    if v_kind = 'organisation' then
        return null;
    end if;
    if v_kind <> 'user' or new.role <> 'owner'
        or (select count(*) from member where account_id = new.account_id) > 1 then
        raise exception 'account % takes one member, its owner', new.account_id using errcode = 'HF013';
    end if;
    return null;
end $$;

create constraint trigger member_fits_account after insert or update of account_id, role on member
    for each row execute function check_member();

-- Keys of programs that act for an account. Of the secret only its digest is kept.
create table api_key (
    id               text primary key constraint api_key_id check (id ~ '^key_[0-9a-z]{8,32}$'),
    account_id       text not null references account (id),
    name             text not null constraint api_key_name check (length(name) between 1 and 100),
    secret_sha256    text not null constraint api_key_secret check (secret_sha256 ~ '^[0-9a-f]{64}$'),
    scopes           text[] not null,
    allowed_networks cidr[] not null default '{}',
    created_at       timestamptz not null default clock_timestamp(),
    created_by       text not null,
    revoked_at       timestamptz,
    expires_at       timestamptz,
    constraint one_key_per_secret unique (secret_sha256)
);
create index api_key_by_account on api_key (account_id, id);

-- A key is revoked once and otherwise stays as it was made.
create function guard_api_key() returns trigger language plpgsql as $$
begin
    if to_jsonb(new) - 'revoked_at' <> to_jsonb(old) - 'revoked_at'
        or (old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at) then
        raise exception 'key % stays as it was made', old.id using errcode = 'HF003';
    end if;
    return new;
end $$;

create trigger api_key_guard before update on api_key for each row execute function guard_api_key();
create trigger api_key_is_never_deleted before delete on api_key
    for each row execute function refuse_change();
