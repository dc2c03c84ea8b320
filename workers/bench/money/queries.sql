-- What only a check of the ledger does, in a database of its own that is dropped afterwards.

-- name: schema
-- Makes room for what the check needs beside the ledger.
create schema proof

-- name: make_move_clock
-- Makes a function that lets the dates of lots pass, up to one of them. No hand of the platform's can: lots and
-- transfers keep theirs. The shift keeps the order of all lots.
create function proof.move_clock(p_until timestamptz) returns void language plpgsql
set session_replication_role = replica set search_path = holdfast as $$
begin
    update credit_lot set expires_at = expires_at - interval '200 years'
    where expires_at between clock_timestamp() and p_until;
    update transfer set expires_at = expires_at - interval '200 years'
    where expires_at between clock_timestamp() and p_until;
end $$

-- name: make_watch
-- Makes a function that makes one view of all invariants, so that looking at all of them is one statement.
create function proof.watch(p_names text[], p_texts text[]) returns void language plpgsql
set search_path = holdfast as $$
begin
    for i in 1 .. cardinality(p_names) loop
        execute format('create view proof.%I as %s', p_names[i], p_texts[i]);
    end loop;
    execute 'create view proof.breach as ' || (
        select string_agg(format('select %L as name, value::bigint as value, detail::text as detail from proof.%I '
                                 'where value <> 0', n, n), ' union all ')
        from unnest(p_names) n);
end $$

-- name: watch
-- Puts the invariants into one view.
select proof.watch(%(names)s, %(texts)s)

-- name: look
-- What is broken now, and what each account has: one moment, one round trip.
select null::text as account_id, name, value, detail, null::bigint as available, null::bigint as held, null::jsonb as lots
from proof.breach
union all
select a.id, null, null, null, a.credits_posted - a.debits_posted - a.debits_pending, a.debits_pending,
       (select jsonb_agg(jsonb_build_array(remaining, drawn, spent, expired) order by id)
        from holdfast.credit_lot l where l.account_id = a.id)
from holdfast.account a where a.id = any (%(accounts)s::text[])

-- name: move_clock
-- Lets the dates of lots pass.
select proof.move_clock(%(until)s)

-- name: lapse_offers
-- Lets the time of all offers be over.
update lease set lapses_at = clock_timestamp() where state = 'offered'

-- name: standing
-- Where a generation stands, with its latest lease.
select g.phase, g.credit_status, g.unknown_since is not null as doubted,
       exists (select from artifact where task_id = g.task_id) as kept,
       l.id::text as lease_id, l.card_uuid, c.label as card_label, l.fence, c.boot_id
from generation g
left join lateral (select * from lease where task_id = g.task_id order by offered_at desc, fence desc limit 1) l on true
left join card c on c.uuid = l.card_uuid
where g.task_id = %(task_id)s

-- name: order_of_holds
-- In which order these generations got their holds.
select task_id from transfer where kind = 'pending' and task_id = any (%(task_ids)s) order by id

-- name: grant
-- Credits, with an expiry or without.
select grant_v1(%(account_id)s, %(amount)s, %(cause)s, %(expires_at)s, %(reason)s, %(actor)s, %(key)s) as answer

-- name: adjust
-- A correction.
select adjust_v1(%(account_id)s, %(amount)s, %(task_id)s, %(reason)s, 'operator:check', %(key)s) as answer

-- name: freeze
-- Stops new holds, or allows them again.
select freeze_v1(%(account_id)s, %(frozen)s, 'check', 'operator:check') as answer

-- name: limit
-- Sets a limit.
select set_limit_v1(%(subject)s, %(bounds)s::jsonb, 'check', 'operator:check') as answer

-- name: resolve
-- Ends an unknown outcome as an operator would.
select resolve_v1(%(task_id)s, %(amount)s, 'failed', '{"code": "upstream_failed", "message": "check"}', %(reason)s,
                  'operator:check') as answer

-- name: deliver_late
-- Delivers what was found after a release.
select deliver_late_v1(%(task_id)s, 'workflow:check') as answer

-- name: expire
-- Books what is past its date as lost, of all accounts.
select expire_lots_v1(null, 1000) as lots

-- name: offer
-- Offers a card.
select offer_v1(%(task_id)s, %(card_uuid)s, interval '5 s', interval '2 s') is not null as offered

-- name: tally
-- What happened in a life, so that a run which only looked on is seen.
select kind || coalesce(' ' || cause, '') as what, count(*) as times from transfer group by 1
union all
select 'settled in part', count(*) from generation where credit_status = 'settled' and charged_credits < price_credits
union all
select 'adjusted ' || case when credit_account = 'revenue' then 'a generation downwards' else 'a generation upwards' end,
       count(*) from transfer where cause = 'adjustment' and refers_to is not null group by 1
union all
select 'delivered late', count(*) from generation where late_at is not null
union all
select 'unknown', count(*) from generation where unknown_since is not null
union all
select 'resolved by an operator', count(*) from operator_act where act = 'resolve'
union all
select 'refused ' || (refusal ->> 'code'), count(*) from operation where refusal is not null group by 1
union all
select 'drawn from lots', count(*) from lot_draw
union all
select 'paid in part from several lots', count(*) from (
    select hold_id from lot_draw group by hold_id
    having count(*) > 1 and sum(spent) between 1 and sum(amount) - 1) parts
union all
select 'leases', count(*) from lease
