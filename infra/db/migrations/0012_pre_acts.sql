-- Accounts that were frozen before acts were kept: so that each one that is frozen has its act.
insert into operator_act (actor, act, subject, reason)
select 'migration', 'freeze', id, 'frozen before reasons were kept' from account a
where frozen and not exists (select from operator_act o where o.subject = a.id and o.act = 'freeze');
