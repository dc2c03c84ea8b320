-- name: lock_payer
-- Locks the account that a key is made for; refuses one that can't pay.
select (holdfast.lock_payer_v1(%(account_id)s)).id

-- name: create_key
-- Makes a key. Its secret comes as a digest and is kept nowhere else.
insert into api_key (id, account_id, name, secret_sha256, scopes, allowed_networks, created_by, expires_at)
values (%(id)s, %(account_id)s, %(name)s, %(secret_sha256)s, %(scopes)s, %(networks)s::cidr[], %(actor)s,
        %(expires_at)s)
returning id, account_id, name, scopes, allowed_networks::text[], created_at, created_by, revoked_at, expires_at

-- name: record_act
-- Records who did it and why, in the transaction of the deed.
select holdfast.act_v1('key', %(id)s, %(reason)s, %(actor)s, %(data)s::jsonb)

-- name: revoke_key
-- Revokes a key; a second time changes nothing. Answers the key as it is now, and whether it was revoked before.
with before as (select id, revoked_at from api_key where id = %(id)s for no key update)
update api_key k set revoked_at = coalesce(k.revoked_at, clock_timestamp())
from before b where k.id = b.id
returning k.id, k.account_id, k.name, k.scopes, k.allowed_networks::text[], k.created_at, k.created_by, k.revoked_at,
          k.expires_at, b.revoked_at is not null as was_revoked

-- name: keys_of
-- An account's keys, also those that are revoked or over, the newest last.
select id, account_id, name, scopes, allowed_networks::text[], created_at, created_by, revoked_at, expires_at
from api_key where account_id = %(account_id)s order by created_at, id

-- name: by_secret
-- The key with this secret that may be used now.
select id, account_id, name, scopes, allowed_networks::text[], created_at, created_by, revoked_at, expires_at
from api_key
where id = %(id)s and secret_sha256 = %(secret_sha256)s and revoked_at is null
  and (expires_at is null or expires_at > clock_timestamp())
