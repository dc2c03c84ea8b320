-- name: accounts
-- Makes accounts that can pay for everything.
with made as (
    insert into account (id, kind, display_name)
    select 'bench-' || n, 'user', 'Bench' from generate_series(0, %(count)s - 1) n returning id
)
select count(grant_v1(id, 1000000000, 'grant', null, 'bench', 'bench', id)) from made

-- name: pairs
-- How many generations were held and settled.
select count(*) from generation where credit_status = 'settled'
