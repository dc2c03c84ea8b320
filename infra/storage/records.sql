-- Who needs which bytes. A blob is needed while it has a claim: an upload in progress, an input of a
-- generation, or a result that its owner may still fetch.

-- name: lock_blob
-- One at a time for each digest: whoever deletes bytes and whoever claims them can't pass each other.
select pg_advisory_xact_lock(hashtextextended('blob:' || %(sha256)s, 0));

-- name: claim_upload
-- Make the blob known and claim it, under the digest's lock; its bytes follow at once, so it counts as stored
-- from here on, and the sweep looks for them. A repeated claim moves its time, which is the token
-- of its latest owner. Both inserts read from `locked`, so neither begins before the lock is held.
-- The commit isn't waited for on disk: a hold's own commit makes what came before it durable as well, and a
-- claim that a crash of the database loses belonged to a request that was not admitted.
with locked as materialized (
    select pg_advisory_xact_lock(hashtextextended('blob:' || %(sha256)s, 0)),
           set_config('synchronous_commit', 'off', true)
), known as (
    insert into blob (sha256, size, mime, stored_at)
    select %(sha256)s, %(size)s, %(mime)s, clock_timestamp() from locked
    on conflict (sha256) do update set stored_at = excluded.stored_at where blob.stored_at is null
)
insert into upload (sha256, account_id, operation_id, stored_at)
select %(sha256)s, %(account_id)s, %(operation_id)s, clock_timestamp() from locked
on conflict (sha256, account_id, operation_id) do update set stored_at = clock_timestamp()
returning stored_at;

-- name: mark_stored
-- The store has the bytes.
update blob set stored_at = clock_timestamp() where sha256 = %(sha256)s;

-- name: drop_claim
-- Give a claim up, unless a later request of the same operation renewed it.
delete from upload
where sha256 = %(sha256)s and account_id = %(account_id)s and operation_id = %(operation_id)s
  and stored_at = %(token)s;

-- name: is_needed
-- Whether anybody needs the bytes: a claim, an open or recent generation's input, a result within its retention.
select exists (select from upload where sha256 = %(sha256)s)
    or exists (select from input_use where sha256 = %(sha256)s)
    or exists (select from artifact where sha256 = %(sha256)s and expires_at > clock_timestamp()) as needed;

-- name: is_known
-- Whether the blob has a row.
select exists (select from blob where sha256 = %(sha256)s) as known;

-- name: forget_blob
-- After its bytes were deleted. An expired result keeps naming its blob, so the row may have to stay.
with cleared as (
    update blob set stored_at = null
    where sha256 = %(sha256)s and exists (select from artifact where sha256 = %(sha256)s)
    returning sha256
)
delete from blob
where sha256 = %(sha256)s and not exists (select from artifact where sha256 = %(sha256)s);

-- name: task_of_upload
-- Whose operation a host uploads for.
select account_id, operation_id from generation where task_id = %(task_id)s;

-- name: drop_stale_claims
-- Claims of requests that ended long ago: their generation is over, or never came to be. What a host left of one
-- that was released without an outcome is kept for as long as its result is looked for.
delete from upload u
where u.stored_at < clock_timestamp() - %(age)s
  and not exists (select from generation g where g.account_id = u.account_id and g.operation_id = u.operation_id
                  and (g.status = 'pending' or holdfast.is_looked_for_v1(g.task_id)));

-- name: stale_claims
-- How many claims of requests that ended long ago, and inputs past their time, there are.
select (select count(*) from upload u
        where u.stored_at < clock_timestamp() - %(claim_age)s
          and not exists (select from generation g where g.account_id = u.account_id
                          and g.operation_id = u.operation_id
                          and (g.status = 'pending' or holdfast.is_looked_for_v1(g.task_id))))
     + (select count(*) from input_use i join generation g on g.task_id = i.task_id
        where g.finished_at < clock_timestamp() - %(input_age)s);

-- name: drop_old_input_uses
-- Inputs are kept a while after the end, for whoever looks into a failure; then they are nobody's.
delete from input_use i using generation g
where g.task_id = i.task_id and g.finished_at < clock_timestamp() - %(age)s;

-- name: unneeded
-- Blobs that nobody claims any more. `claimed before` is re-checked under the digest's lock.
select b.sha256 from blob b
where (b.stored_at is not null or not exists (select from artifact a where a.sha256 = b.sha256))
  and not exists (select from upload u where u.sha256 = b.sha256)
  and not exists (select from input_use i where i.sha256 = b.sha256)
  and not exists (select from artifact a where a.sha256 = b.sha256 and a.expires_at > clock_timestamp())
limit %(count)s;
