"""What can be typed: the commands of ``pi-actors``, their options, and where each one goes.

Every command returns its exit status. What it needs is imported when it runs, so that ``--help`` is
quick.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pi_actors.cli.opening import Opening

STORE_DEFAULT = "pi-actors.db"

EXITS = """Exit status: 0 answered (or shown), 1 unanswered or failed, 2 wrong use, 3 the session is in
use, 130 interrupted.

\b
Environment:
  PI_ACTORS_MODEL   what --model is where it is not given
  PI_ACTORS_STORE   what --store (or STORE) is where it is not given
  PI_ACTORS_TOKEN   the token that serve asks for, and that attach and tree send
  NO_COLOR          no colours, also on a terminal
Keys of providers are read from their usual variables, such as ANTHROPIC_API_KEY."""

MODEL_HELP = (
    "provider:model, such as anthropic:claude-opus-4-6 or openai:gpt-5; scripted:FILE.json plays a script "
    "(see python -m pydoc pi_actors.cli.script); demo plays the demo. The last two need no key."
)

store_option = click.option(
    "--store",
    envvar="PI_ACTORS_STORE",
    default=STORE_DEFAULT,
    show_default=True,
    metavar="PATH",
    help="The SQLite file that keeps the sessions, made if it is new; memory: keeps them in memory.",
)
store_argument = click.argument("store", envvar="PI_ACTORS_STORE", default=STORE_DEFAULT)
session_option = click.option(
    "--session", default="main", show_default=True, metavar="NAME", help="Which one."
)
model_option = click.option("--model", envvar="PI_ACTORS_MODEL", metavar="MODEL", help=MODEL_HELP)
base_url_option = click.option(
    "--base-url", metavar="URL", help="Where a provider's model is, such as http://127.0.0.1:8080/v1."
)
cwd_option = click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the tools work. Default: where the session worked before, else the current directory.",
)
tools_option = click.option(
    "--tools",
    metavar="LIST",
    help='Comma list of read, grep, find, ls, write, edit, bash; "" for none. Default: all of them.',
)
keep_progress_option = click.option(
    "--keep-progress", is_flag=True, help="Delete nothing of what streamed, to replay it like a film."
)
token_option = click.option(
    "--token",
    envvar="PI_ACTORS_TOKEN",
    metavar="TOKEN",
    help="Better set in PI_ACTORS_TOKEN: others see this.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group(
    name="pi-actors",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXITS,
)
@click.version_option(package_name="pi-actors")
def pi_actors() -> None:
    """Coding agents that survive kill -9.

    Whatever an agent says or does is stored before it is shown. A process that dies leaves its
    session as it is; the next one that opens it goes on from there.
    """


@pi_actors.command()
@model_option
@base_url_option
@click.option("--store", metavar="PATH", help="The file to keep the three sessions in. Default: a new one.")
def demo(model: str | None, base_url: str | None, store: str | None) -> int:
    """Kill an agent three times and watch it finish.

    Makes a scratch project, gives an agent a small task in it and kills the agent's process with
    SIGKILL: before its tool starts, after the tool changed a file and before the result was stored,
    and after that and before the next request. Each time a new process opens the session and
    finishes. Shows what was found, what was decided and why, and checks that nothing was lost and
    nothing done twice. Needs no key and no network, unless --model names a real model.

    Exit status 0 only if every check held.
    """
    from pi_actors.cli.demo.acts import play

    return play(model=model, base_url=base_url, store=store)


@pi_actors.command()
@click.argument("task")
@model_option
@base_url_option
@cwd_option
@store_option
@session_option
@tools_option
@keep_progress_option
@json_option
def run(
    task: str,
    model: str | None,
    base_url: str | None,
    cwd: Path | None,
    store: str,
    session: str,
    tools: str | None,
    keep_progress: bool,
    as_json: bool,
) -> int:
    """Give an agent TASK and watch it work. TASK "-" is read from standard input.

    A session that exists goes on where it was: what it owes is finished first. With --json each
    event is a line, and the last line is the result. Where the older part of a long context is being
    summarised when the answer is there, that request is waited for; what remains is left to resume.
    """
    from pi_actors.cli.running import run

    text = sys.stdin.read() if task == "-" else task
    if not text.strip():
        raise click.UsageError("the task is empty; say what is to be done")
    opening = _opening(
        store, session, model=model, base_url=base_url, cwd=cwd, tools=tools, keep_progress=keep_progress
    )
    return run(opening, text, as_json=as_json)


@pi_actors.command()
@model_option
@base_url_option
@cwd_option
@store_option
@session_option
@tools_option
@keep_progress_option
def chat(
    model: str | None,
    base_url: str | None,
    cwd: Path | None,
    store: str,
    session: str,
    tools: str | None,
    keep_progress: bool,
) -> int:
    """Talk with an agent in the terminal.

    Enter sends. While the agent works, what you send steers it. Esc or Ctrl-C stops what it does,
    Ctrl-D leaves; a session that is left (or killed) in the middle goes on when it is opened again.
    /compact summarises the older part of the context, /help tells the rest.
    """
    from pi_actors.cli.chat import chat

    opening = _opening(
        store, session, model=model, base_url=base_url, cwd=cwd, tools=tools, keep_progress=keep_progress
    )
    return chat(opening)


@pi_actors.command()
@store_argument
@session_option
@model_option
@base_url_option
@tools_option
@keep_progress_option
@json_option
def resume(
    store: str,
    session: str,
    model: str | None,
    base_url: str | None,
    tools: str | None,
    keep_progress: bool,
    as_json: bool,
) -> int:
    """Open a session, finish what it owes and show it.

    Without --model the agent goes on with the model that it used last. A request that was sent and
    not answered goes to the model that it was sent to, in any case.
    """
    from pi_actors.cli.running import resume

    opening = _opening(
        store, session, model=model, base_url=base_url, tools=tools, keep_progress=keep_progress
    )
    return resume(opening, as_json=as_json)


@pi_actors.command()
@store_argument
@session_option
@click.option("--follow", is_flag=True, help="Go on with what is stored from now on, until Ctrl-C.")
@json_option
def log(store: str, session: str, follow: bool, as_json: bool) -> int:
    """Print the events of a session, one a line.

    A line has the event's position, its time (UTC), the actor that it changes (an actor's id is the
    position at which it was born), the position of the event that caused it (- for a caller), its
    topic, and what it says. Takes no lock and changes nothing, so it works while others write.
    """
    from pi_actors.cli.reading import log

    return log(store, session, follow=follow, as_json=as_json)


@pi_actors.command()
@store_argument
@json_option
def sessions(store: str, as_json: bool) -> int:
    """List the sessions of a store.

    Tells for each how many events it has, its size, whether it has unfinished work, and who has it
    open. Takes no lock and changes nothing.
    """
    from pi_actors.cli.reading import sessions

    return sessions(store, as_json=as_json)


@pi_actors.command()
@store_argument
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Any other than this machine's own needs a token."
)
@click.option(
    "--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0: one that is free."
)
@token_option
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="A name that the server is asked by."
)
@click.option(
    "--session", "sessions", multiple=True, metavar="NAME", help="Which ones. Default: all of the store."
)
@model_option
@base_url_option
@cwd_option
@tools_option
@keep_progress_option
@click.option("--follow", is_flag=True, help="Only read, while others write; no commands are taken.")
def serve(
    store: str,
    host: str,
    port: int,
    token: str | None,
    names: tuple[str, ...],
    sessions: tuple[str, ...],
    model: str | None,
    base_url: str | None,
    cwd: Path | None,
    tools: str | None,
    keep_progress: bool,
    follow: bool,
) -> int:
    """Serve the sessions of STORE over HTTP: views as they change, and commands.

    Opens them, finishes what they owe, and takes commands from whoever may ask. Without a token that is
    every user of this machine. With --follow nothing is opened: sessions that other processes write
    are shown, and commands are refused. Stops at Ctrl-C; nothing stored is lost.
    """
    from pi_actors.cli.serving import Address, serve

    opening = _opening(
        store, "main", model=model, base_url=base_url, cwd=cwd, tools=tools, keep_progress=keep_progress
    )
    address = Address(host=host, port=port, token=token, names=names)
    return serve(opening, sessions, address, follow=follow)


where_argument = click.argument("where", metavar="FILE|URL", envvar="PI_ACTORS_STORE", default=STORE_DEFAULT)
one_session_option = click.option(
    "--session", metavar="NAME", help="Which one. Default: main, or what URL names."
)


@pi_actors.command()
@where_argument
@one_session_option
@click.option(
    "--agent", default=1, show_default=True, metavar="ID", help="Which agent. Default: the root agent."
)
@token_option
@json_option
def attach(where: str, session: str | None, agent: int, token: str | None, as_json: bool) -> int:
    """Watch an agent live, in a FILE or on a server at URL, such as http://127.0.0.1:8765.

    Shows its transcript, the answer as it streams, running tools with their output, the queue, what it
    has cost, and what lives below it. On a server that takes commands, what you type is handed over
    (it steers a busy agent), /compact summarises the older part of the context, Esc stops what runs,
    Ctrl-D leaves. With --json each change is a line.
    """
    from pi_actors.cli.attaching import Attaching, attach_here

    attaching = Attaching(where=where, session=session, agent=agent, token=token)
    return attach_here(attaching, as_json=as_json)


@pi_actors.command()
@store_argument
@session_option
@click.option("--to", type=click.IntRange(0), metavar="N", help="Stop at position N. Default: the end.")
@click.option(
    "--speed",
    type=click.FloatRange(0),
    metavar="X",
    help="X times as fast as it went, 0 at once. Default: 1 on a terminal, 0 elsewhere.",
)
@click.option("--agent", default=1, show_default=True, metavar="ID", help="Whose view --json prints.")
@json_option
def replay(store: str, session: str, to: int | None, speed: float | None, agent: int, as_json: bool) -> int:
    """Play a session as it went, or print its state at a position.

    Silences are shortened to two seconds. With --json nothing is played: the agent's view and the tree
    at position --to are printed. Takes no lock and changes nothing.
    """
    from pi_actors.cli.replaying import play, show_state

    if as_json:
        return show_state(store, session, agent, to=to)
    return play(store, session, to=to, speed=speed)


@pi_actors.command()
@where_argument
@one_session_option
@click.option(
    "--follow/--once", default=None, help="Go on with every change, or not. Default: on a terminal only."
)
@token_option
@json_option
def tree(where: str, session: str | None, follow: bool | None, token: str | None, as_json: bool) -> int:
    """Show who lives in a session: agents and their work, in which state, what waits for what.

    Read from a FILE, or asked of a server at URL. Only the process that has the session open knows why
    an actor is blocked, so that is told by its server alone. With --json each tree is a line.
    """
    from pi_actors.cli.trees import tree

    return tree(where, session, token, follow=follow, as_json=as_json)


def _opening(
    store: str,
    session: str,
    *,
    model: str | None,
    base_url: str | None,
    tools: str | None,
    keep_progress: bool,
    cwd: Path | None = None,
) -> "Opening":
    from pi_actors.cli.opening import Opening, chosen_tools

    return Opening(
        store=store,
        session=session,
        model=model,
        base_url=base_url,
        cwd=None if cwd is None else cwd.absolute(),
        tools=chosen_tools(tools),
        keep_progress=keep_progress,
    )
