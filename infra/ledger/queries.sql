-- name: open_account
-- Creates an account, or finds it as it is; answers its kind.
with made as (
    insert into account (id, kind, display_name) values (%(account_id)s, %(kind)s, %(name)s)
    on conflict (id) do nothing
    returning kind
)
select kind from made union all select kind from account where id = %(account_id)s limit 1

-- name: grant
-- Brings credits into being for an account, once for each key; no row when the key was used before.
insert into transfer (kind, debit_account, credit_account, amount, key, reason, actor)
values ('direct', 'issuance', %(account_id)s, %(credits)s, %(key)s, %(reason)s, %(actor)s)
on conflict (key) where key is not null do nothing
returning id

-- name: granted
-- What a key was used for.
select credit_account, amount from transfer where key = %(key)s

-- name: balance
-- What an account can spend, holds and spent. `revenue` and `issuance` have entries instead of counters.
select credits_posted - debits_posted - debits_pending as available, debits_pending as held, debits_posted as spent
from account
where id = %(account_id)s and holdfast.pays(kind)
union all
select coalesce(sum(e.credits), 0)::bigint, 0, 0
from account a left join entry e on e.account_id = a.id
where a.id = %(account_id)s and not holdfast.pays(a.kind)
group by a.id

-- name: freeze
-- Stops new holds of an account that pays, or allows them again.
update account set frozen = %(frozen)s where id = %(account_id)s and holdfast.pays(kind)
