-- What operators find, quickly: one line about each generation, and acts by the generation that they are about.

create view generation_brief as
    select g.task_id, g.account_id, g.operation_id, g.model_id, g.mode, g.phase, g.status, g.credit_status,
           g.price_credits, g.charged_credits, g.admitted_at, g.finished_at, g.unknown_since, g.resolve_by, g.raised,
           g.is_canary, h.id as hold
    from generation g join transfer h on h.task_id = g.task_id and h.kind = 'pending';

comment on view generation_brief is 'A generation in one line, with the number of its hold.';

create index operator_act_by_task on operator_act ((data ->> 'task_id'), id) where data ->> 'task_id' is not null;
