"""A database whose money functions can die between any two of their statements, as by `kill -9`.

The functions that ship hold no fault points. Here each PL/pgSQL function of a test's own database is read back,
and a call of `fault.point` is put before each of its statements; nothing else about it changes. A session with a
target in `fault.at` kills its own server process, with SIGKILL, when so many points were passed. Postgres then
takes all its processes down and recovers from its log, as after any crash.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | --[^\n]* | /\*.*?\*/)
    | (?P<text>'(?:[^']|'')*' | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | "(?:[^"]|"")*")
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADS = {"if": "then", "elsif": "then", "elseif": "then", "while": "loop", "for": "loop", "foreach": "loop"}
"""What begins with this word ends its head with that one, and statements follow."""
_NOT_STATEMENTS = frozenset(("end", "elsif", "elseif", "else", "exception", "when"))
VICTIM = "victim"
"""The role whose sessions die. Everybody else passes the points unharmed."""

_SCHEMA = """
create schema fault;
create function fault.point(p_name text) returns boolean language plpgsql as $$
declare
    v_passed integer := coalesce(nullif(current_setting('fault.passed', true), ''), '0')::integer + 1;
begin
    if coalesce(current_setting('fault.at', true), '') = '' then
        return true;
    end if;
    perform set_config('fault.passed', v_passed::text, false);
    perform set_config('fault.names', coalesce(current_setting('fault.names', true), '') || ' ' || p_name, false);
    if v_passed = current_setting('fault.at')::integer then
        execute format('copy (select) to program %L', 'kill -9 ' || pg_backend_pid());
        perform pg_sleep(60);
    end if;
    return true;
end $$;
"""
_FUNCTIONS = """
select p.oid::regprocedure::text as signature, p.proname as name, p.prosrc as body, l.lanname as language,
       pg_get_functiondef(p.oid) as definition
from pg_proc p join pg_language l on l.oid = p.prolang
where p.pronamespace = 'holdfast'::regnamespace and p.prokind = 'f' order by 1
"""


class NotUnderstood(Exception):
    """A function is written in a way that this module can't put points into."""


@dataclass(frozen=True, slots=True)
class _Word:
    """A token that isn't space: its lower-case text and where it begins."""

    text: str
    at: int


def _words(body: str) -> list[_Word]:
    return [
        _Word(match[0].lower(), match.start()) for match in _TOKEN.finditer(body) if match.lastgroup != "space"
    ]


class _Body:
    """Walks a function's body from statement to statement."""

    def __init__(self, body: str) -> None:
        self._words = _words(body)
        self._place = 0

    def statements(self) -> Iterator[int]:
        """Where each statement begins, in the order of the text."""
        self._declarations()
        while self._place < len(self._words):
            word = self._words[self._place].text
            if word == "end":
                self._pass_to(";")
            elif word in {"else", "exception"}:
                self._place += 1
            elif word in {"elsif", "elseif", "when"}:
                self._pass_to("then")
            else:
                yield self._words[self._place].at
                self._enter(word)

    def _enter(self, word: str) -> None:
        """Pass a simple statement; of a compound one, its head."""
        if word in {"case", "<<"}:
            raise NotUnderstood(f"a statement that begins with {word}")
        if word in {"declare", "begin"}:
            self._declarations()
        elif word == "loop":
            self._place += 1
        else:
            self._pass_to(_HEADS.get(word, ";"))

    def _declarations(self) -> None:
        """Pass what is declared, and the block's `begin`."""
        self._pass_to("begin")

    def _pass_to(self, ending: str) -> None:
        """Pass everything up to and with this word, where it stands in no bracket and in no CASE."""
        depth = 0
        while self._place < len(self._words):
            word = self._words[self._place].text
            self._place += 1
            if depth == 0 and word == ending:
                return
            if word in {"(", "[", "case"}:
                depth += 1
            elif word in {")", "]"} or (word == "end" and depth):
                depth -= 1
        if ending != ";":  # the last `end` of a body may go without
            raise NotUnderstood(f"no {ending} where one belongs")


def with_points(name: str, body: str) -> tuple[str, dict[str, str]]:
    """A body with a point before each statement, and the points with their statements' first lines.

    A point is an `assert`, the one statement that can call a function and leaves FOUND as it is.
    """
    pieces: list[str] = []
    points: dict[str, str] = {}
    last = 0
    for number, at in enumerate(_Body(body).statements(), 1):
        point = f"{name}.{number}"
        points[point] = body[at:].partition("\n")[0]
        pieces += [body[last:at], f"assert fault.point('{point}'); "]
        last = at
    return "".join([*pieces, body[last:]]), points


@dataclass(frozen=True, slots=True)
class Compiled:
    """What was put in.

    Attributes:
        points: The points of each PL/pgSQL function, each with its statement's first line.
        bodies: Of each function, as it ships.
        plain: Functions in SQL, each of which has to be one statement.
    """

    points: dict[str, dict[str, str]]
    bodies: dict[str, str]
    plain: dict[str, str]


def compile_points(conninfo: str) -> Compiled:
    """Put points into every function of the database, and make the role that dies."""
    points: dict[str, dict[str, str]] = {}
    bodies: dict[str, str] = {}
    plain: dict[str, str] = {}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        connection.execute("set search_path = holdfast")
        for _, name, body, language, definition in connection.execute(_FUNCTIONS).fetchall():
            if language != "plpgsql":
                plain[name] = body
                continue
            changed, names = with_points(name, body)
            if definition.count(body) != 1:
                raise NotUnderstood(f"{name} has its body not once in its definition")
            connection.execute(definition.replace(body, changed))
            if name in points:
                raise NotUnderstood(f"two functions are named {name}")
            points[name], bodies[name] = names, body
        if connection.execute("select from pg_roles where rolname = %s", (VICTIM,)).fetchone() is None:
            connection.execute(sql.SQL("create role {} superuser login").format(sql.Identifier(VICTIM)))
    return Compiled(points, bodies, plain)


def aim(conninfo: str, at: int) -> None:
    """Let the victim's new sessions die at the point passed as number `at`; with 0, they only note their way."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter role {} in database {} set fault.at = {}").format(
                sql.Identifier(VICTIM), sql.Identifier(connection.info.dbname), sql.Literal(str(at))
            )
        )
