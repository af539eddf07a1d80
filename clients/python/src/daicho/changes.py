"""The change feed: server-sent events, resumed after failures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Iterator, Sequence

from .errors import LedgerError, is_transient
from .json_body import require_list, require_text
from .transport import Call, Transport, next_of, path_of, reading, require_name

#: Maximum seconds without data. A node sends heartbeats more often.
SILENCE_MAX = 60.0
#: Maximum bytes of an event: more than an entry with an item of the maximum size.
EVENT_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True)
class Change:
    """An entry with its position and time."""

    #: `<height>.<index>`, for `since`.
    position: str
    #: Milliseconds since the Unix epoch.
    timestamp: int
    #: The entry: `method`, `db`, `serverid`, `item` or `id`, and `by` and `reason` if it has them.
    entry: dict[str, Any]


def changes_of(
    transport: Transport, server_id: int, databases: Sequence[str], since: str, by: str | None = None
) -> Iterator[Change]:
    """Yields the changes of the chain of `server_id` in order, each once."""
    path = path_of("/api/ledgers/{serverid}/changes", serverid=str(server_id))
    names = [require_name(name, "databases") for name in require_list(databases, "databases")]
    author = None if by is None else require_text(by, "by")
    query = {"db": names, "since": require_text(since, "since"), "by": author}
    last = ""
    failures = 0
    while True:
        failure = None
        try:
            headers = {"last-event-id": last} if last else {}
            with transport.open(Call("GET", path, query, headers=headers), SILENCE_MAX) as response:
                # Refuses other types, because an HTML page from a proxy would be read as a stream without events.
                if response.headers.get_content_type() != "text/event-stream":
                    raise LedgerError("REPLY_MALFORMED", 200, "the reply is not a stream of events")
                for position, data in _events_in(response):
                    last = position or last
                    if data:
                        failures = 0
                        yield _change_in(data)
        except LedgerError as error:
            if not is_transient(error):
                raise
            failure = error
        except (OSError, HTTPException):
            pass  # The connection broke, or was silent for too long.
        failures += 1
        transport.pause(failures, failure)


def log_of(
    transport: Transport, server_id: int, databases: Sequence[str], query: dict[str, str | None]
) -> Iterator[Change]:
    """Yields the changes so far, oldest first."""
    path = path_of("/api/ledgers/{serverid}/changes", serverid=str(server_id))
    names = [require_name(name, "databases") for name in require_list(databases, "databases")]
    begin: str | None = require_text(query["from"], "begin")
    while begin is not None:
        page = transport.read(Call("GET", path, {**query, "db": names, "from": begin})).json()
        with reading():
            found = [_change_of(each) for each in page["changes"]]
            begin = None if page["next"] is None else next_of(str(page["next"]), begin)
        yield from found


def _events_in(response: HTTPResponse) -> Iterator[tuple[str, str]]:
    """Yields the id and the data of each event, including events that only have an id.

    An event without the final empty line is ignored. Source: HTML Living Standard, "Server-sent events"; a node ends
    lines with a line feed.
    """
    data: list[str] = []
    last = noted = ""
    left = EVENT_BYTES_MAX
    while True:
        raw = response.readline(left)
        if not raw.endswith(b"\n"):
            if len(raw) == left:
                raise LedgerError("REPLY_MALFORMED", 200, "an event is longer than any entry")
            return
        left -= len(raw)
        line = raw.decode(errors="replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if line == "":
            if data or noted != last:
                last = noted
                yield last, "\n".join(data)
            data = []
            left = EVENT_BYTES_MAX
        elif name == "data":
            data.append(value)
        elif name == "id":
            noted = value


def _change_in(data: str) -> Change:
    try:
        return _change_of(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise LedgerError("REPLY_MALFORMED", 200, "an event is not a change") from error


def _change_of(value: Any) -> Change:
    return Change(str(value["position"]), int(value["timestamp"]), dict(value["entry"]))
