-- The money. Integer credits, double entry: each transfer has exactly one debit and one credit side.
--
-- Locks are taken in one order everywhere, so that no two transactions can wait for each other:
--   account → operation → generation → ticket → lease → card.
-- The generation's row is the mutex of its ticket and leases; a card is locked last and, where many
-- compete for one, with SKIP LOCKED.
--
-- SQLSTATEs that our own functions raise (class HF; infra/db/errors.py turns them into errors):
--   HF001 no such generation or account   HF002 contradicts what was booked   HF003 append-only
--   HF004 illegal transition              HF005 more than the hold            HF006 wrong counterpart

create table account (
    id             text primary key constraint account_id_is_short check (length(id) between 1 and 64),
    kind           text not null
                   constraint account_kind check (kind in ('user', 'house', 'revenue', 'issuance')),
    display_name   text not null,
    frozen         boolean not null default false,
    credits_posted bigint not null default 0 check (credits_posted >= 0),
    debits_posted  bigint not null default 0 check (debits_posted >= 0),
    debits_pending bigint not null default 0 check (debits_pending >= 0),
    created_at     timestamptz not null default clock_timestamp(),
    -- Pessimistic: a hold counts against the balance, so settling can never break this.
    constraint no_overdraft check (credits_posted - debits_posted - debits_pending >= 0),
    -- Every generation meets at `revenue` and every grant at `issuance`. Counters there would be the
    -- hottest rows of all, so these two are sums over the entries instead.
    constraint derived_accounts_have_no_counters check (
        kind in ('user', 'house') or (credits_posted = 0 and debits_posted = 0 and debits_pending = 0)
    )
) with (fillfactor = 50);  -- room for updates in place: the counters change with each transfer

comment on column account.credits_posted is 'Credits ever granted.';
comment on column account.debits_posted is 'Credits ever spent.';
comment on column account.debits_pending is 'Credits held by open generations.';

create table transfer (
    id             bigint generated always as identity primary key,
    kind           text not null
                   constraint transfer_kind check (kind in ('direct', 'pending', 'post', 'void')),
    pending_id     bigint references transfer (id),
    debit_account  text not null,
    credit_account text not null,
    amount         bigint not null constraint amount_is_not_negative check (amount >= 0),
    task_id        text,
    key            text,
    reason         text not null,
    actor          text not null,
    created_at     timestamptz not null default clock_timestamp(),
    constraint two_sides check (debit_account <> credit_account),
    constraint resolution_names_its_hold check ((kind in ('post', 'void')) = (pending_id is not null)),
    constraint void_moves_nothing check (kind <> 'void' or amount = 0),
    constraint direct_moves_something check (kind <> 'direct' or amount > 0),
    constraint generation_money_names_its_task check ((kind = 'direct') = (task_id is null)),
    constraint direct_has_a_key check ((kind = 'direct') = (key is not null))
);

-- At most one resolution for a hold, whatever races.
create unique index one_resolution_per_hold on transfer (pending_id) where pending_id is not null;
create unique index one_hold_per_generation on transfer (task_id) where kind = 'pending';
create unique index one_transfer_per_key on transfer (key) where key is not null;
create index transfer_by_task on transfer (task_id) where task_id is not null;
create index transfer_by_debit_account on transfer (debit_account, id);
create index transfer_by_credit_account on transfer (credit_account, id);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% on % is refused: it only grows', tg_op, tg_table_name using errcode = 'HF003';
end $$;

create trigger transfer_only_grows before update or delete on transfer
    for each row execute function refuse_change();
create trigger transfer_is_never_emptied before truncate on transfer
    for each statement execute function refuse_change();
create trigger account_is_never_deleted before delete on account
    for each row execute function refuse_change();
create trigger account_is_never_emptied before truncate on account
    for each statement execute function refuse_change();

-- Counters move only as the effect of a transfer: a trigger that runs inside another trigger. A hand
-- that writes them, even in the account's favour, is refused.
create function guard_account() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        if (new.credits_posted, new.debits_posted, new.debits_pending) <> (0, 0, 0) then
            raise exception 'account % must start empty', new.id using errcode = 'HF003';
        end if;
        return new;
    end if;
    if (new.id, new.kind) is distinct from (old.id, old.kind) then
        raise exception 'account % keeps its id and kind', old.id using errcode = 'HF003';
    end if;
    if (new.credits_posted, new.debits_posted, new.debits_pending)
        is distinct from (old.credits_posted, old.debits_posted, old.debits_pending)
        and pg_trigger_depth() < 2 then
        raise exception 'counters of account % move by transfers only', old.id using errcode = 'HF003';
    end if;
    return new;
end $$;

create trigger account_guard before insert or update on account
    for each row execute function guard_account();

-- Applies one transfer to the counters of its two sides, in the order of their ids. Account rows are never
-- deleted, so an existence check without a lock replaces a foreign key, whose share lock on `revenue`
-- would make that row hot after all.
create function apply_transfer() returns trigger language plpgsql set search_path = holdfast, pg_temp as $$
declare
    v_hold   transfer;
    v_held   bigint := 0;
    v_moved  bigint := 0;
    v_side   record;
begin
    if new.kind in ('post', 'void') then
        select * into v_hold from transfer where id = new.pending_id;
        if not found or v_hold.kind <> 'pending'
            or (v_hold.debit_account, v_hold.credit_account, v_hold.task_id)
               is distinct from (new.debit_account, new.credit_account, new.task_id) then
            raise exception 'transfer % resolves another hold than its own', new.id using errcode = 'HF006';
        end if;
        if new.amount > v_hold.amount then
            raise exception 'transfer % takes more than its hold', new.id using errcode = 'HF005';
        end if;
        v_held := v_hold.amount;
    end if;
    if new.kind in ('direct', 'post') then
        v_moved := new.amount;
    end if;
    for v_side in
        select s.id, s.is_debit
        from (values (new.debit_account, true), (new.credit_account, false)) s (id, is_debit)
        order by s.id
    loop
        if v_side.is_debit then
            update account set
                debits_pending = debits_pending - v_held
                    + case new.kind when 'pending' then new.amount else 0 end,
                debits_posted = debits_posted + v_moved
            where id = v_side.id and kind in ('user', 'house');
        else
            update account set credits_posted = credits_posted + v_moved
            where id = v_side.id and kind in ('user', 'house') and v_moved > 0;
        end if;
        if not found and not exists (select from account where id = v_side.id) then
            raise exception 'no account %', v_side.id using errcode = 'HF001';
        end if;
    end loop;
    return null;
end $$;

create trigger transfer_applies after insert on transfer
    for each row execute function apply_transfer();

-- What moved, one row a side; a view, so it can't drift from the transfers.
create view entry as
    select id as transfer_id, debit_account as account_id, -amount as credits, created_at
    from transfer where kind in ('direct', 'post')
    union all
    select id, credit_account, amount, created_at
    from transfer where kind in ('direct', 'post');

insert into account (id, kind, display_name) values
    ('issuance', 'issuance', 'Credits brought into being'),
    ('revenue', 'revenue', 'Credits earned'),
    ('house', 'house', 'The platform itself');

create table member (
    id            text primary key,
    account_id    text not null references account (id),
    email         text not null constraint email_is_normal check (email = lower(email) and length(email) <= 254),
    password_hash text not null,
    role          text not null constraint member_role check (role in ('owner', 'editor', 'viewer')),
    created_at    timestamptz not null default clock_timestamp(),
    constraint one_member_per_email unique (email)
);
create index member_by_account on member (account_id);
