"""The error of all requests."""

from __future__ import annotations

from typing import Any


class LedgerError(Exception):
    """A failed request.

    `code` is a code of the node (`ITEM_NOT_FOUND`, …), or one of: `UNREACHABLE` (no reply), `TIMEOUT`,
    `REPLY_MALFORMED` (the reply does not come from a node), `REPLY_TOO_LARGE`, `NAME_INVALID` (a name that no URL can
    contain), `VALUE_INVALID` (a value that no request can contain).
    """

    def __init__(
        self, code: str, status: int, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        #: The HTTP status; 0 without a reply.
        self.status = status
        self.message = message
        #: The delay in seconds that the node requires before a retry (`Retry-After`), or None.
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Otherwise a pool of processes would hang: it could not read the error of a worker.
        return LedgerError, (self.code, self.status, self.message, self.retry_after)


#: Codes of errors without a reply. After these errors, a retry can succeed.
NO_REPLY = frozenset(["UNREACHABLE", "TIMEOUT"])

#: Maximum `Retry-After` for which the client waits, seconds. If it is longer, the request fails at once.
RETRY_AFTER_MAX = 30.0


def is_transient(error: LedgerError) -> bool:
    """Whether a retry may succeed soon, because there was no reply, the body arrived slowly, or the node is busy."""
    if (error.retry_after or 0) > RETRY_AFTER_MAX:
        return False
    if error.status == 429:
        return error.retry_after is not None
    return error.code in NO_REPLY or error.status in (408, 502, 503, 504)
