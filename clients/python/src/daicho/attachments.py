"""The attachments of an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator

from .errors import LedgerError
from .json_body import require_state, require_text, value_invalid
from .transport import NOTHING, Call, Transport, next_of, path_of

PAGE = 500
#: Maximum bytes of an attachment.
CONTENT_BYTES_MAX = 1024 * 1024 * 1024


@dataclass(frozen=True)
class Attachment:
    """The description of an attachment."""

    name: str
    content_type: str
    #: Length in bytes.
    length: int
    #: The SHA-256 of the bytes, in hexadecimal digits.
    sha256: str


@dataclass(frozen=True)
class AttachmentContent:
    """The content of an attachment."""

    content: bytes
    content_type: str
    #: Changes when the bytes change.
    etag: str


class Attachments:
    """The attachments of an item. Errors of all methods: LedgerError."""

    def __init__(self, transport: Transport, db: str, id: str) -> None:
        self._transport = transport
        self._path = path_of("/api/{db}/{id}/attachments", db=db, id=id)

    def put(
        self,
        name: str,
        content: bytes,
        *,
        content_type: str = "application/octet-stream",
        reason: str = NOTHING,
    ) -> Attachment:
        """Creates or replaces the attachment `name`."""
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise value_invalid(content, "content", "bytes")
        headers = {"content-type": require_text(content_type, "content_type")}
        call = Call("PUT", self._named(name), headers=headers, content=bytes(content))
        return _attachment_in(self._transport.write(call, reason).json().get("attachment"))

    def get(self, name: str, *, at: int | str | None = None) -> AttachmentContent:
        """Reads the attachment `name` into memory; with `at`, as of the block of this height, or of the last block up to this time of RFC 3339."""
        query = {"at": require_state(at)}
        call = Call("GET", self._named(name), query, reply_bytes_max=CONTENT_BYTES_MAX, is_long=True)
        reply = self._transport.read(call)
        content_type = reply.headers.get("content-type", "application/octet-stream")
        return AttachmentContent(reply.content, content_type, reply.headers.get("etag", ""))

    def list(self, *, at: int | str | None = None) -> Iterator[Attachment]:
        """Yields all attachments, ordered by name; with `at`, those of that state. Each that exists during the whole loop is yielded once."""
        state = require_state(at)
        after: str | None = None
        while True:
            call = Call("GET", self._path, {"limit": PAGE, "after": after, "at": state})
            page = self._transport.read(call).json().get("attachments")
            if not isinstance(page, list):
                raise LedgerError("REPLY_MALFORMED", 200, "the reply has no list attachments")
            for each in page:
                attachment = _attachment_in(each)
                yield attachment
            if len(page) < PAGE:
                return
            after = next_of(page[-1]["name"], after)

    def delete(self, name: str, *, reason: str = NOTHING) -> None:
        """Deletes the attachment `name`."""
        self._transport.write(Call("DELETE", self._named(name)), reason).json()

    def _named(self, name: str) -> str:
        return self._path + path_of("/{name}", name=name)


def _attachment_in(value: Any) -> Attachment:
    try:
        return Attachment(
            str(value["name"]), str(value["content_type"]), int(value["length"]), str(value["sha256"])
        )
    except (KeyError, TypeError, ValueError):
        raise LedgerError("REPLY_MALFORMED", 200, "the reply does not describe an attachment") from None
