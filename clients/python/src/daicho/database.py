"""A database: its items, queries, histories and proofs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Union

from .errors import LedgerError
from .json_body import json_text, require_object
from .transport import Call, Reply, Transport, path_of

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


class Database:
    """A database of a node. Errors of all methods: LedgerError."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport = transport
        self._path = path_of("/api/{db}", db=name)

    def create(self, item: Item) -> Written:
        """Creates an item. The node assigns an id if `item` has none."""
        reply = self._transport.write(Call("POST", self._path, body=require_object(item, "body")))
        return _written_in(reply, str(reply.json().get("id", "")))

    def create_all(self, items: Sequence[Item]) -> list[str]:
        """Creates all `items` or none of them, and returns their ids."""
        reply = self._transport.write(Call("POST", self._path, body=list(items)))
        return _list_in(reply.json(), "ids")

    def read(self, id: str, *, at: int | None = None) -> Read | None:
        """Returns the item, or None if it does not exist.

        With `at`, returns the item as of the block of this height.
        """
        call = Call("GET", self._item(id), {"at": at})
        try:
            reply = self._transport.read(call)
        except LedgerError as error:
            if error.code == "ITEM_NOT_FOUND":
                return None
            raise
        item = reply.json().get("item")
        written = _written_in(reply, id)
        return Read(require_object(item, "item"), written.position, written.etag)

    def replace(
        self, id: str, item: Item, *, if_match: str | None = None, if_absent: bool = False
    ) -> Written:
        """Replaces the item. With `if_absent`, creates the item instead, and fails if the item exists."""
        headers = {"if-none-match": "*"} if if_absent else {}
        return self._change("POST", id, require_object(item, "body"), if_match, headers)

    def patch(self, id: str, members: Item, *, if_match: str | None = None) -> Written:
        """Merges `members` into the item (RFC 7396): None removes a member.

        With `if_match`, fails with `PRECONDITION_FAILED` unless the item still has this `etag`.
        """
        return self._change("PATCH", id, require_object(members, "body"), if_match, {})

    def delete(self, id: str, *, if_match: str | None = None) -> Written:
        """Deletes the item."""
        return self._change("DELETE", id, None, if_match, {})

    def query(
        self,
        where: Where | None = None,
        *,
        order: Order | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        after: str | None = None,
        page_size: int = PAGE,
    ) -> Iterator[Item]:
        """Yields the items in creation order, or in `order`, page by page.

        With `order`, an item that changes during the loop may be returned twice or not at all. With `fields`, the items
        have only these members.
        """
        for page in self._pages(where, order, fields, limit, after, page_size, docs=True):
            yield from _list_in(page, "docs")

    def ids(
        self,
        where: Where | None = None,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        page_size: int = PAGE,
    ) -> Iterator[str]:
        """Like `query`, but yields only the ids."""
        for page in self._pages(where, order, None, limit, after, page_size, docs=False):
            yield from _list_in(page, "items")

    def count(self, where: Where | None = None) -> int:
        """Returns the number of items, or of the items that match `where`."""
        query = {"count": True, "limit": 1, "filter": _filter_text(where, None, None)}
        value = self._transport.read(Call("GET", self._path, query)).json()
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
    ) -> Aggregate:
        """Counts the items in groups, with sums, averages, minima and maxima of members.

        `group` has at most two members, or paths to members; without `group`, all items form one group.
        """
        paths = {"group": group, "sum": sum, "avg": avg, "min": min, "max": max}
        query: dict[str, str | None] = {
            name: ",".join([names] if isinstance(names, str) else names) or None
            for name, names in paths.items()
        }
        query.update(db=self.name, filter=_filter_text(where, None, None))
        value = self._transport.read(Call("GET", "/api/config/aggregate", query)).json()
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
        while True:
            call = Call("GET", f"{self._item(id)}/history", {"limit": PAGE, "cursor": cursor})
            page = self._transport.read(call).json()
            for each in _list_in(page, "history"):
                yield Revision(
                    str(each["position"]),
                    int(each["timestamp"]),
                    str(each["method"]),
                    each.get("item"),
                    each.get("erased") is True,
                )
            cursor = page.get("cursor")
            if cursor is None:
                return

    def proof(self, id: str, *, position: str | None = None) -> bytes:
        """Returns a proof file of the item, for `verify_proof`.

        With `position`, proves this entry of the item. Without `position`, proves the latest entry.
        """
        call = Call("GET", f"{self._item(id)}/proof", {"position": position})
        return self._transport.read(call).content

    def _pages(
        self,
        where: Where | None,
        order: Order | None,
        fields: Sequence[str] | None,
        limit: int | None,
        after: str | None,
        page_size: int,
        docs: bool,
    ) -> Iterator[dict[str, Any]]:
        if not page_size >= 1 or (limit is not None and not limit >= 0):
            fault = f"page_size must be 1 or more and limit 0 or more, but they are {page_size} and {limit}"
            raise LedgerError("VALUE_INVALID", 0, fault)
        query: dict[str, str | int | bool | None] = {
            "docs": docs,
            "filter": _filter_text(where, order, fields),
        }
        # With an order, `offset` (a number of items) selects the next page; otherwise `after` (an id) does.
        offset = 0
        previous_ids = [] if after is None else [after]
        while limit is None or limit > offset:
            size = min(page_size, PAGE_MAX, PAGE_MAX if limit is None else limit - offset)
            page = self._page({**query, "limit": size, "offset": offset if order else None}, previous_ids)
            yield page
            ids = _list_in(page, "items")
            offset += len(ids)
            if len(ids) < size:
                return
            if not order:
                previous_ids = ids

    def _page(
        self, query: dict[str, str | int | bool | None], previous_ids: list[str]
    ) -> dict[str, Any]:
        """Returns the page after the last of `previous_ids` that still exists."""
        at = len(previous_ids) - 1
        while True:
            call = Call("GET", self._path, {**query, "after": previous_ids[at] if previous_ids else None})
            try:
                return self._transport.read(call).json()
            except LedgerError as error:
                if error.code != "ITEM_NOT_FOUND" or at <= 0:
                    raise
            at -= 1

    def _change(
        self, method: str, id: str, body: Item | None, if_match: str | None, headers: dict[str, str]
    ) -> Written:
        if if_match is not None:
            headers = {**headers, "if-match": if_match}
        reply = self._transport.write(Call(method, self._item(id), body=body, headers=headers))
        reply.json()
        return _written_in(reply, id)

    def _item(self, id: str) -> str:
        return path_of("/api/{db}/{id}", db=self.name, id=id)


def _filter_text(
    where: Where | None, order: Order | None, fields: Sequence[str] | None
) -> str | None:
    parts: dict[str, Any] = {
        "where": None if where is None else dict(where),
        "order": order,
        "fields": fields,
    }
    used = {name: value for name, value in parts.items() if value is not None}
    return json_text(used, "filter") if used else None


def _written_in(reply: Reply, id: str) -> Written:
    _, _, position = reply.headers.get("ledger-position", "").partition("/")
    return Written(id, position, reply.headers.get("etag", ""))


def _list_in(value: Mapping[str, Any], name: str) -> List[Any]:
    found = value.get(name)
    if isinstance(found, list):
        return found
    raise LedgerError("REPLY_MALFORMED", 200, f"the reply has no list {name}")
