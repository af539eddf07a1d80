"""The client of a node."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

from .changes import Change, changes_of, log_of
from .database import Database
from .json_body import require_list, require_object, require_state, value_invalid
from .transport import NOTHING, Call, Query, Token, Transport, path_of, reading, system_chance


@dataclass(frozen=True)
class Recorded:
    """The result of `record`."""

    height: int
    #: The id of the block.
    block_id: str
    #: The id of the item of each change; None for changes of databases.
    ids: list[str | None]


class LedgerClient:
    """A client of one node. Errors of all methods: LedgerError.

    `url` is for example `http://127.0.0.1:4126`. `token` is a token, or a function that returns a token for each
    request. `timeout` is in seconds, for one attempt. `retries` is the maximum number of retries after a transient
    failure. `context` has the certificates for HTTPS; the default trusts the certificates of the system. `sleep` and
    `chance` are for tests. Raises ValueError if `url`, `timeout` or `retries` is wrong.

    A client keeps no connection open, and several threads can share one client.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        retries: int = 4,
        context: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = system_chance,
    ) -> None:
        self._transport = Transport(url, token, timeout, retries, context, sleep, chance)

    def server_id(self) -> int:
        """Returns the server id of the node."""
        value = self.request("GET", "/api/serverid")
        with reading():
            return int(value["serverid"])

    def verifier_key(self) -> str:
        """Returns the key that verifies the proofs of the node.

        Store the key at the first use, or get it from a source other than the node, because a node that forges a proof
        could also return another key.
        """
        path = path_of("/api/ledgers/{serverid}/vkey", serverid=str(self.server_id()))
        return self._transport.read(Call("GET", path)).content.decode().strip()

    def databases(self, *, at: int | str | None = None) -> list[str]:
        """Returns the names of the databases; with tokens, only the databases that the token can read. For `at`, see `Database.read`."""
        reply = self.request("GET", "/api/dbs", query={"at": require_state(at)})
        with reading():
            return [str(name) for name in reply["dbs"]]

    def database(self, name: str) -> Database:
        """Returns the database `name`. Sends no request."""
        return Database(self._transport, name)

    def create_database(self, name: str, *, reason: str = NOTHING) -> None:
        """Creates a database."""
        self.request("POST", path_of("/api/{db}", db=name), reason=reason)

    def delete_database(self, name: str, *, reason: str = NOTHING) -> None:
        """Deletes a database with its items. The ledger keeps every entry."""
        self.request("DELETE", path_of("/api/{db}", db=name), reason=reason)

    def record(self, changes: Sequence[Mapping[str, Any]], *, reason: str = NOTHING) -> Recorded:
        """Applies all `changes`, even of different databases, in one block, or none of them.

        A change has a `method` (`create_db`, `delete_db`, `create_item`, `update_item`, `delete_item`), a `db`, and
        an `item` or an `id`.
        """
        entries = [require_object(change, "change") for change in require_list(changes, "changes")]
        value = self.request("POST", "/api/ledgers", body={"entries": entries}, reason=reason)
        with reading():
            block = value["block"]
            ids = [each["id"] for each in value["results"]]
            return Recorded(int(block["height"]), str(block["id"]), ids)

    def changes(
        self, *, since: str = "now", databases: Sequence[str] = (), by: str | None = None
    ) -> Iterator[Change]:
        """Yields past and future changes of the node's own chain, each once and in order.

        `since` is a position, `start` for all changes, or `now` for future changes. The feed is resumed after failures,
        with unlimited attempts. Leave the loop to close the connection. With `by`, yields only changes of this author.
        """
        return changes_of(self._transport, self.server_id(), databases, since, by)

    def log(
        self,
        *,
        by: str | None = None,
        iss: str | None = None,
        begin: str = "0",
        end: str | None = None,
        databases: Sequence[str] = (),
    ) -> Iterator[Change]:
        """Yields the changes so far from `begin` to before `end`, oldest first.

        `begin` and `end` are heights or times such as `2026-03-01`. `by` is an author (the subject), `iss` its issuer.
        """
        query = {"by": by, "iss": iss, "from": begin, "to": end}
        return log_of(self._transport, self.server_id(), databases, query)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = NOTHING,
        reason: str = NOTHING,
    ) -> dict[str, Any]:
        """Calls any other operation with a JSON reply. `path` must be percent-encoded, and must start with `/`.

        A `body` of None is refused, because a request without a body does something else. `reason` is for changes.
        """
        if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            raise value_invalid(method, "method", "a method with a JSON reply")
        if body is None:
            raise value_invalid(body, "body", "JSON; leave it out for a request without a body")
        call = Call(method, path, {} if query is None else require_object(query, "query"), body)
        reply = self._transport.read(call) if method == "GET" else self._transport.write(call, reason)
        return reply.json()
