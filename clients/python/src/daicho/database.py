"""A database: its items, queries, histories and proofs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union

from .attachments import Attachments
from .errors import LedgerError
from .json_body import json_text, require_count, require_list, require_object, require_state, require_text, value_invalid
from .transport import NOTHING, Call, Reply, Transport, malformed, next_of, path_of, reading, require_name

#: An item: any JSON object. Items from a node have an `id`.
Item = Dict[str, Any]

#: Conditions: docs/reference/ledger/queries.md.
Where = Mapping[str, Any]

#: A member with its direction, such as `price DESC`, or a list of them.
Order = Union[str, Sequence[str]]

PAGE = 500
PAGE_MAX = 10_000


@dataclass(frozen=True)
class Written:
    """The result of a change."""

    id: str
    #: `<height>.<index>` of the entry.
    position: str
    #: The value for `if_match`.
    etag: str


@dataclass(frozen=True)
class Read:
    """The result of a read."""

    item: Item
    position: str
    #: The value for `if_match`.
    etag: str


@dataclass(frozen=True)
class Revision:
    """A revision of an item."""

    position: str
    #: Milliseconds since the Unix epoch.
    timestamp: int
    method: str
    #: None if this revision deleted the item, or was erased.
    item: Item | None
    #: Whether the content of the revision was erased.
    erased: bool
    #: Who made the change: `sub`, and `iss` for a foreign issuer; None if the entry has no author, or was erased.
    by: dict[str, str] | None = None
    #: Why the change was made.
    reason: str | None = None


@dataclass(frozen=True)
class Group:
    """A group of items."""

    #: The values of the members of `group`; None for a missing member, a list or an object.
    group: dict[str, Any]
    #: Number of items.
    count: int
    #: Sums by path; None if no item has a suitable value. `avg`, `min` and `max` have the same form.
    sum: dict[str, Any]
    avg: dict[str, Any]
    min: dict[str, Any]
    max: dict[str, Any]


@dataclass(frozen=True)
class Aggregate:
    """The result of `aggregate`."""

    #: At most 1,000 groups, ordered by the values in `Group.group`.
    groups: list[Group]
    #: Height of the newest block when reading began.
    height: int
    #: True if no block was added during reading. Only then is the result exact for `height`.
    consistent: bool


@dataclass(frozen=True)
class Erased:
    """What `erase` has erased or counted."""

    #: Number of items of which something was erased.
    items: int
    #: Number of erased entries.
    revisions: int


class Database:
    """A database of a node. Errors of all methods: LedgerError."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport = transport
        self._path = path_of("/api/{db}", db=name)

    def create(self, item: Item, *, reason: str = NOTHING) -> Written:
        """Creates an item. The node assigns an id if `item` has none. Like each change, can be given a `reason`, which is recorded."""
        reply = self._transport.write(Call("POST", self._path, body=require_object(item, "body")), reason)
        return _written_in(reply, reply.json().get("id"))

    def create_all(self, items: Sequence[Item], *, reason: str = NOTHING) -> list[str]:
        """Creates all `items` or none of them, and returns their ids."""
        body = require_list(items, "items")
        ids = _list_in(self._transport.write(Call("POST", self._path, body=body), reason).json(), "ids")
        if len(ids) == len(body):
            return ids
        raise LedgerError("REPLY_MALFORMED", 200, f"the reply has {len(ids)} ids for {len(body)} items")

    def read(self, id: str, *, at: int | str | None = None) -> Read | None:
        """Returns the item, or None if it does not exist.

        With `at`, returns the item as of the block of this height, or of the last block up to this time of RFC 3339.
        """
        call = Call("GET", self._item(id), {"at": require_state(at)})
        try:
            reply = self._transport.read(call)
        except LedgerError as error:
            if error.code == "ITEM_NOT_FOUND":
                return None
            raise
        item = reply.json().get("item")
        if not isinstance(item, dict):
            raise malformed(reply.status)
        written = _written_in(reply, id)
        return Read(item, written.position, written.etag)

    def replace(
        self,
        id: str,
        item: Item,
        *,
        if_match: str = NOTHING,
        if_absent: bool = False,
        reason: str = NOTHING,
    ) -> Written:
        """Replaces the item. With `if_absent`, creates the item instead, and fails if the item exists."""
        if not isinstance(if_absent, bool):
            raise value_invalid(if_absent, "if_absent", "a bool")
        headers = {"if-none-match": "*"} if if_absent else {}
        return self._change("POST", id, require_object(item, "body"), if_match, headers, reason)

    def patch(
        self, id: str, members: Item, *, if_match: str = NOTHING, reason: str = NOTHING
    ) -> Written:
        """Merges `members` into the item (RFC 7396): None removes a member.

        With `if_match`, fails with `PRECONDITION_FAILED` unless the item still has this `etag`. An `if_match` of None is
        refused, because the change would have no condition.
        """
        return self._change("PATCH", id, require_object(members, "body"), if_match, {}, reason)

    def delete(self, id: str, *, if_match: str = NOTHING, reason: str = NOTHING) -> Written:
        """Deletes the item."""
        return self._change("DELETE", id, NOTHING, if_match, {}, reason)

    def query(
        self,
        where: Where | None = None,
        *,
        order: Order | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        after: str | None = None,
        page_size: int = PAGE,
        at: int | str | None = None,
    ) -> Iterator[Item]:
        """Yields the items in creation order, or in `order`, page by page. With `fields`, only these members.

        With `at`, yields the items as of a height or time; see `read`.

        In creation order, each item that exists and matches during the whole loop is yielded once. With `order`, a page
        starts after a number of items, so a change during the loop may repeat an item or leave an item out.
        """
        for page in self._pages(where, order, fields, limit, after, page_size, at, docs=True):
            yield from _list_in(page, "docs")

    def ids(
        self,
        where: Where | None = None,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        page_size: int = PAGE,
        at: int | str | None = None,
    ) -> Iterator[str]:
        """Like `query`, but yields only the ids."""
        for page in self._pages(where, order, None, limit, after, page_size, at, docs=False):
            yield from _list_in(page, "items")

    def count(self, where: Where | None = None, *, at: int | str | None = None) -> int:
        """Returns the number of items, or of the items that match `where`. For `at`, see `read`."""
        query = {"count": True, "limit": 1, "filter": _filter_text(where, None, None), "at": require_state(at)}
        value = self._transport.read(Call("GET", self._path, query)).json()
        with reading():
            return int(value["count"])

    def aggregate(
        self,
        where: Where | None = None,
        *,
        group: Sequence[str] = (),
        sum: Sequence[str] = (),
        avg: Sequence[str] = (),
        min: Sequence[str] = (),
        max: Sequence[str] = (),
        at: int | str | None = None,
    ) -> Aggregate:
        """Counts the items in groups, with sums, averages, minima and maxima of members. For `at`, see `read`.

        `group` has at most two members, or paths to members; without `group`, all items form one group.
        """
        paths = {"group": group, "sum": sum, "avg": avg, "min": min, "max": max}
        query: dict[str, str | int | None] = {
            name: _paths_text([names] if isinstance(names, str) else names, name)
            for name, names in paths.items()
        }
        query.update(db=self.name, filter=_filter_text(where, None, None), at=require_state(at))
        value = self._transport.read(Call("GET", "/api/config/aggregate", query)).json()
        with reading():
            groups = [
                Group(
                    dict(each["group"]),
                    int(each["count"]),
                    *(dict(each.get(name, {})) for name in ("sum", "avg", "min", "max")),
                )
                for each in _list_in(value, "groups")
            ]
            return Aggregate(groups, int(value["height"]), bool(value["consistent"]))

    def history(self, id: str) -> Iterator[Revision]:
        """Yields all revisions of the item, oldest first, even if it was deleted."""
        cursor: str | None = None
        limit = PAGE
        while True:
            call = Call("GET", f"{self._item(id)}/history", {"cursor": cursor})
            reply, limit = self._transport.read_page(call, limit)
            page = reply.json()
            for each in _list_in(page, "history"):
                with reading():
                    revision = Revision(
                        str(each["position"]),
                        int(each["timestamp"]),
                        str(each["method"]),
                        each.get("item"),
                        each.get("erased") is True,
                        each.get("by"),
                        each.get("reason"),
                    )
                yield revision
            if page.get("cursor") is None:
                return
            cursor = next_of(page["cursor"], cursor)

    def proof(self, id: str, *, position: str | None = None, current: bool = False) -> bytes:
        """Returns a proof file of the item, for `verify_proof`.

        With `position`, proves this entry of the item. Without `position`, proves the latest entry. With `current`, the
        file is for `verify_state`, and also proves that there is no newer revision, or no such item.
        """
        if not isinstance(current, bool):
            raise value_invalid(current, "current", "a bool")
        at = None if position is None else require_text(position, "position")
        query = {"position": at, "current": "1" if current else None}
        call = Call("GET", f"{self._item(id)}/proof", query)
        return self._transport.read(call).content

    def erase(
        self,
        *,
        ids: Sequence[str] = NOTHING,
        where: Where = NOTHING,
        deleted: bool = False,
        dry_run: bool = False,
        reason: str = NOTHING,
        progress: Callable[[Erased], None] | None = None,
    ) -> Erased:
        """Erases, or counts with `dry_run`, all former revisions of the selected items and their attachments.

        Select items by `ids` (at most 1,000), or by `where` or `deleted` or both. `where` is tested on the current items,
        and on deleted items as they were last. The current revision of an item stays. If it raises, a repeated call
        erases the rest.
        """
        for name, flag in (("deleted", deleted), ("dry_run", dry_run)):
            if not isinstance(flag, bool):
                raise value_invalid(flag, name, "a bool")
        body: dict[str, Any] = {"db": self.name, "dryRun": dry_run}
        if deleted:
            body["deleted"] = deleted
        if ids is not NOTHING:
            body["ids"] = require_list(ids, "ids")
        if where is not NOTHING:
            body["where"] = require_object(where, "where")
        if reason is not NOTHING:
            body["reason"] = require_text(reason, "reason")
        erased = Erased(0, 0)
        while True:
            page = self._transport.write(Call("POST", "/api/config/erasures", body=body)).json()
            with reading():
                erased = Erased(erased.items + int(page["items"]), erased.revisions + int(page["revisions"]))
                cursor = page["cursor"]
            if cursor is None:
                return erased
            body["cursor"] = next_of(cursor, body.get("cursor"))
            if progress is not None:
                progress(erased)

    def attachments(self, id: str) -> Attachments:
        """Returns the attachments of the item. Sends no request."""
        return Attachments(self._transport, self.name, id)

    def _pages(
        self,
        where: Where | None,
        order: Order | None,
        fields: Sequence[str] | None,
        limit: int | None,
        after: str | None,
        page_size: int,
        at: int | str | None,
        docs: bool,
    ) -> Iterator[dict[str, Any]]:
        page_max = min(require_count(page_size, "page_size", 1), PAGE_MAX)
        if limit is not None:
            require_count(limit, "limit")
        query: dict[str, str | int | bool | None] = {
            "docs": docs,
            "filter": _filter_text(where, order, fields),
            "after": None if after is None else require_name(after, "after"),
            "at": require_state(at),
        }
        # Pages in creation order continue after a position, which stays when the last item is deleted or created again.
        cursor: Any = None if order else "start"
        offset = 0
        while limit is None or limit > offset:
            size = page_max if limit is None else min(page_max, limit - offset)
            place = {"offset": offset if order else None, "cursor": cursor}
            reply, size = self._transport.read_page(Call("GET", self._path, {**query, **place}), size)
            page_max = min(page_max, size)
            page = reply.json()
            yield page
            count = len(_list_in(page, "items"))
            offset += count
            if count < size:
                return
            if order:
                continue
            cursor = next_of(page.get("cursor"), cursor)
            query["after"] = None

    def _change(
        self, method: str, id: str, body: Any, if_match: str, headers: dict[str, str], reason: str
    ) -> Written:
        if if_match is not NOTHING:
            headers = {**headers, "if-match": require_text(if_match, "if_match")}
        call = Call(method, self._item(id), body=body, headers=headers)
        reply = self._transport.write(call, reason)
        reply.json()
        return _written_in(reply, id)

    def _item(self, id: str) -> str:
        return path_of("/api/{db}/{id}", db=self.name, id=id)


def _filter_text(
    where: Where | None, order: Order | None, fields: Sequence[str] | None
) -> str | None:
    if order is not None and not isinstance(order, str):
        order = [require_text(term, "order") for term in require_list(order, "order")]
    parts: dict[str, Any] = {
        "where": None if where is None else require_object(where, "where"),
        "order": order if order is None or isinstance(order, list) else require_text(order, "order"),
        "fields": None if fields is None else [require_text(name, "fields") for name in require_list(fields, "fields")],
    }
    used = {name: value for name, value in parts.items() if value is not None}
    return json_text(used, "filter") if used else None


def _paths_text(paths: Any, name: str) -> str | None:
    """Returns member paths for a query. Raises LedgerError, VALUE_INVALID."""
    for path in require_list(paths, name):
        if "," in require_text(path, name):
            raise LedgerError("VALUE_INVALID", 0, f"{name} has a path with a comma")
    return ",".join(paths) or None


def _written_in(reply: Reply, id: Any) -> Written:
    """Raises LedgerError, REPLY_MALFORMED, unless the reply has a position: in quotes, it is the entity tag."""
    found = re.fullmatch(r"[0-9]+/([0-9]+\.[0-9]+)", reply.headers.get("ledger-position", ""))
    if found is None or not isinstance(id, str):
        raise malformed(reply.status)
    return Written(id, found[1], f'"{found[1]}"')


def _list_in(value: Mapping[str, Any], name: str) -> List[Any]:
    found = value.get(name)
    if isinstance(found, list):
        return found
    raise LedgerError("REPLY_MALFORMED", 200, f"the reply has no list {name}")
