"""A session as it is, drawn for a terminal: the transcript's end, what runs now, what waits, the tree.

Pure: from what was seen to lines of text. Control characters of the session are left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console, Group
from rich.text import Text as Styled
from rich.tree import Tree

from pi_actors.cli.paper import FAULT, GOOD, QUIET, SUMMARY, TAB_COLUMNS, USER, WARNING
from pi_actors.cli.summaries import READY, WHY, kept_by
from pi_actors.cli.watching import Seen
from pi_actors.cli.wording import call_words, shortened
from pi_actors.cli.wording_compactions import placed_words
from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.text import Json
from pi_actors.core.window import clean_output
from projections.fold import Document
from projections.tree import ActorNode

RESULT_LINES: Final = 6
OUTPUT_LINES: Final = 12
QUEUE_LINES: Final = 5
TREE_LINES: Final = 12
CUT: Final = 400
"""How many entries from the end are looked at, at most: more never fit on a screen."""


def screen_of(seen: Seen, title: str, below: Sequence[Styled], console: Console) -> Group:
    """What fits on *console*: a title, the newest lines, what is said *below*."""
    assert seen.value is not None, "an agent is watched"
    width, height = console.size
    head = [_styled(f"{title} · position {seen.position} · {spend_of(seen.value)}", "reverse")]
    foot = [*_queue(seen.value), *_subtree(seen), *below]
    foot = _wrapped(foot, console, width)[-max(1, height // 2) :]
    room = max(1, height - len(head) - len(foot))
    body = _newest(_lines(seen.value), room, console, width)
    filling = [Styled("")] * (room - len(body))
    return Group(*_cropped([*head, *body, *filling, *foot], width))


def tree_of(nodes: Sequence[ActorNode], title: str) -> Tree:
    """The ownership tree: who lives, in which state, what waits for what, what was asked to stop."""
    known = {node.id for node in nodes}
    drawn = Tree(_styled(title))
    branches: dict[ActorId, Tree] = {}
    for node in nodes:
        above = _above(node, known)
        branches[node.id] = branches.get(above, drawn).add(_styled(node_words(node), _node_style(node)))
    return drawn


def node_words(node: ActorNode) -> str:
    """A node in one line."""
    words = [f"agent {node.id}" if node.id == node.agent else f"{node.kind} {node.id}", node.state]
    if node.forked_from is not None:
        words.append(f"forked from agent {node.forked_from.agent} at entry {node.forked_from.entry}")
    if node.background:
        words.append("in the background")
    if node.waiting_on:
        words.append(f"waits for {', '.join(map(str, node.waiting_on))}")
    if node.abort_requested:
        words.append("asked to stop")
    if node.blocked is not None:
        words.append(f"blocked: {shortened(node.blocked)}")
    return " · ".join(words)


def spend_of(value: Document) -> str:
    """What the agent has cost so far."""
    total = value["docs"]["pi.usage"]["total"]
    cost = "" if total["cost"] is None else f", ${total['cost']}"
    return f"{total['input']:,} tokens in, {total['output']:,} out{cost}"


# From a value to lines, newest last.


def _lines(value: Document) -> Iterator[Iterable[Styled]]:
    """Blocks of lines from the newest to the oldest."""
    yield _live_lines(value["docs"]["pi.live"])
    entries: list[Json] = value["entries"]
    calls = _calls(entries[-CUT:])
    for entry in reversed(entries[-CUT:]):
        if entry["kind"] == "pi.compaction":
            yield [_summary_line(entry, entries)]
        else:
            yield list(_entry_lines(entry, calls))


def _summary_line(entry: Document, entries: list[Json]) -> Styled:
    kept = kept_by(entry["id"], entry["head"], [each["id"] for each in entries])
    return _styled(f"≡ {placed_words(entry.get('data'), kept)}", SUMMARY)


def _live_lines(live: Document) -> list[Styled]:
    lines: list[Styled] = []
    generation, retry = live["generation"], live["retry"]
    if generation is not None and generation["model"] is not None:
        again = f", attempt {generation['attempt']}" if generation["attempt"] > 1 else ""
        lines.append(_styled(f"· {generation['model']} is asked{again}", QUIET))
        lines += [
            _styled(part["text"], QUIET if part["type"] == "thinking" else "") for part in _said(generation)
        ]
    if retry is not None:
        lines.append(
            _styled(f"· attempt {retry['attempt']} at {retry['due']}: {shortened(retry['error'])}", WARNING)
        )
    for slot in live["tools"]:
        lines += _slot_lines(slot)
    lines += [_compaction_line(compaction) for compaction in live["compactions"]]
    for call in live["unknown"]:
        lines.append(_styled(f"· nobody knows whether {call['name']} had its effect", WARNING))
    return lines


def _compaction_line(compaction: Document) -> Styled:
    if compaction["due"] is not None:
        again = f"attempt {compaction['attempt'] + 1} at {compaction['due']}"
        return _styled(f"· the summary failed: {shortened(compaction['error'])}; {again}", WARNING)
    words = f"· the context is summarised, {WHY[compaction['trigger']]}"
    if compaction["model"] is not None:
        words += f": {compaction['model']} is asked"
    if compaction["part"]:
        words += f", part {compaction['part'] + 1}"
    if compaction["attempt"] > 1:
        words += f", attempt {compaction['attempt']}"
    return _styled(words, QUIET)


def _said(generation: Document) -> list[Document]:
    return [part for part in generation["partial"] if part["type"] != "call" and part["text"]]


def _slot_lines(slot: Document) -> list[Styled]:
    state = "" if slot["state"] == "running" else f" ({slot['state']})"
    lines = [_styled(f"▸ {call_words(slot['name'], slot['arguments'])}{state}", "cyan")]
    output = (slot["output"] or "").rstrip("\n")
    shown = output.split("\n")[-OUTPUT_LINES:] if output else []
    return [*lines, *(_styled(f"  │ {line}", QUIET) for line in shown)]


def _entry_lines(entry: Document, calls: Mapping[tuple[int, int], str]) -> Iterator[Styled]:
    for message in entry.get("messages", ()):
        for part in message["parts"]:
            match message["role"], part["type"]:
                case "user", "text":
                    yield _styled(f"> {part['text']}", USER)
                case "user", "blob":
                    yield _styled(f"> [{part['media_type']}]", USER)
                case "assistant", "text":
                    yield _styled(part["text"])
                case "assistant", "thinking":
                    yield _styled(part["text"], QUIET)
                case _, "result":
                    yield from _result_lines(part, calls)
                case _:
                    pass
    yield from _remarks(entry)


def _remarks(entry: Document) -> Iterator[Styled]:
    """What stands in an entry besides messages."""
    match entry:
        case {"kind": "pi.assistant", "data": {"stop": "error" | "aborted" | "length" as stop}}:
            yield _styled(f"✗ the response ended early ({stop})", WARNING)
        case _:
            pass
    if entry["kind"] == "pi.reset":
        yield _styled("· reset", QUIET)
    elif not entry["kind"].startswith("pi."):
        yield _styled(f"· {entry['kind']}", QUIET)


def _result_lines(part: Document, calls: Mapping[tuple[int, int], str]) -> Iterator[Styled]:
    text = "".join(item.get("text", "") for item in part.get("content", ())).rstrip("\n")
    lines = text.split("\n") if text else []
    entry, index = part["call"]
    failed = part.get("is_error", False)
    yield _styled(
        f"{'✗' if failed else '✓'} {calls.get((entry, index), 'a call')}", FAULT if failed else GOOD
    )
    for line in lines[:RESULT_LINES]:
        yield _styled(f"  │ {line}", QUIET)
    if len(lines) > RESULT_LINES:
        yield _styled(f"  │ … {len(lines) - RESULT_LINES} more lines", QUIET)
    for remark in part.get("diagnostics", ()):
        yield _styled(f"  · {remark['code']}: {remark['text']}", WARNING)


def _calls(entries: Sequence[Document]) -> dict[tuple[int, int], str]:
    """Calls in words, by entry and index."""
    return {
        (entry["id"], part["index"]): call_words(part["name"], part["arguments"])
        for entry in entries
        for message in entry.get("messages", ())
        for part in message["parts"]
        if part["type"] == "call"
    }


def _queue(value: Document) -> list[Styled]:
    inbox = value["docs"]["pi.inbox"]
    items: list[Document] = inbox["items"]
    lines = [_styled(f"· {_item_words(item)}", QUIET) for item in items[:QUEUE_LINES]]
    if len(items) > QUEUE_LINES:
        lines.append(_styled(f"· and {len(items) - QUEUE_LINES} more", QUIET))
    if inbox["held"] is not None:
        lines.append(_styled(f"· the inbox is held ({inbox['held']['reason']}); say something new", WARNING))
    return lines


def _item_words(item: Document) -> str:
    if item["kind"] == "pi.compaction":
        return READY
    return f"queued ({item['mode'].replace('_', ' ')}): {shortened(item['text'])}"


def _subtree(seen: Seen) -> list[Styled]:
    """What lives below the agent, without the agent itself."""
    assert seen.value is not None, "an agent is watched"
    below = below_of(seen.tree, seen.value["agent"]["id"])
    lines = [_styled(f"{'  ' * depth}· {node_words(node)}", _node_style(node)) for node, depth in below]
    more = [_styled(f"· and {len(lines) - TREE_LINES} more below", QUIET)] if len(lines) > TREE_LINES else []
    return [*lines[:TREE_LINES], *more]


def below_of(nodes: Sequence[ActorNode], agent: ActorId) -> list[tuple[ActorNode, int]]:
    """The nodes below *agent* and how deep, each after what it belongs to."""
    known = {node.id for node in nodes}
    children: dict[ActorId, list[ActorNode]] = {}
    for node in nodes:
        children.setdefault(_above(node, known), []).append(node)

    def walk(above: ActorId, depth: int) -> Iterator[tuple[ActorNode, int]]:
        for node in children.get(above, ()):
            yield node, depth
            yield from walk(node.id, depth + 1)

    return list(walk(agent, 0))


def _above(node: ActorNode, known: set[ActorId]) -> ActorId:
    """What a node hangs on; nobody where that has ended, or for an ownerless agent."""
    above = node.owner if node.owner != NOBODY or node.id == node.agent else node.agent
    return above if above in known else NOBODY


def _node_style(node: ActorNode) -> str:
    if node.blocked is not None:
        return FAULT
    if node.abort_requested:
        return WARNING
    return QUIET if node.state == "idle" else ""


# From lines to what fits.


def _styled(text: str, style: str = "") -> Styled:
    return Styled(clean_output(text), style, tab_size=TAB_COLUMNS)


def _newest(blocks: Iterator[Iterable[Styled]], room: int, console: Console, width: int) -> list[Styled]:
    """The last lines that fit, of blocks from the newest to the oldest."""
    chosen: list[Styled] = []
    for block in blocks:
        chosen = [*_wrapped(block, console, width), *chosen]
        if len(chosen) >= room:
            break
    return chosen[-room:]


def _wrapped(lines: Iterable[Styled], console: Console, width: int) -> list[Styled]:
    return [part for line in lines for part in line.wrap(console, width, tab_size=TAB_COLUMNS)]


def _cropped(lines: Sequence[Styled], width: int) -> list[Styled]:
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.no_wrap = True
    return list(lines)
