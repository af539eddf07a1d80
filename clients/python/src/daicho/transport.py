"""Requests to one node, and their retries."""

from __future__ import annotations

import json
import random
import re
import secrets
import socket
import ssl
import time
import urllib.error
import urllib.request
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable, Iterator, Mapping, Sequence, Union
from urllib.parse import quote, unquote, urlsplit

from .errors import LedgerError, is_transient
from .json_body import json_text, require_list, require_text, value_invalid

#: A token, or a function that returns a token for each request.
Token = Union[str, Callable[[], str]]

#: Query parameters. A value of None is left out. A list becomes one parameter for each element.
Query = Mapping[str, Union[str, int, bool, Sequence[str], None]]

RETRIES_MAX = 20
#: Delay before the first retry, seconds.
FIRST_DELAY = 0.1
#: Maximum delay before a retry, seconds.
DELAY_MAX = 5.0
#: Maximum bytes of a reply other than an attachment, so that a long reply cannot fill the memory.
REPLY_BYTES_MAX = 256 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
KEY_BYTES = 16
#: The default of arguments for which None is a wrong value.
NOTHING: Any = object()


@dataclass(frozen=True)
class Call:
    """A request."""

    method: str
    #: The result of `path_of`.
    path: str
    query: Query = field(default_factory=dict)
    #: Sent as JSON, unless NOTHING.
    body: Any = NOTHING
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Sent unchanged instead of `body`, unless None.
    content: bytes | None = None
    reply_bytes_max: int = REPLY_BYTES_MAX
    #: Whether the timeout is for each part of the reply, because the whole may take long.
    is_long: bool = False


@dataclass(frozen=True)
class Reply:
    """A successful reply."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> dict[str, Any]:
        """Returns the JSON of the reply. Raises LedgerError, REPLY_MALFORMED, unless `status` is true."""
        value = _json_or_none(self.content)
        if isinstance(value, dict) and value.get("status") is True:
            return value
        raise malformed(self.status)


class Transport:
    """Sends requests to one node, and repeats them after transient failures.

    All attempts of a change have the same `Idempotency-Key`, so that the node applies the change once.
    """

    def __init__(
        self,
        url: str,
        token: Token | None,
        timeout: float,
        retries: int,
        context: ssl.SSLContext | None,
        sleep: Callable[[float], None],
        chance: Callable[[], float],
    ) -> None:
        if not 0 < timeout <= 86_400:
            raise ValueError(f"timeout must be more than 0 and at most 86400 seconds, but is {timeout}")
        if not retries >= 0:
            raise ValueError(f"retries must be 0 or more, but is {retries}")
        self._base = _base_of(url)
        self._token = token
        self._timeout = timeout
        self._retries = min(retries, RETRIES_MAX)
        self._opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=context)
        )
        self._sleep = sleep
        self._chance = chance

    def read(self, call: Call) -> Reply:
        """Sends a read. Raises LedgerError."""
        return self._with_retries(call)

    def read_page(self, call: Call, limit: int) -> tuple[Reply, int]:
        """Reads up to `limit` elements, or fewer if the reply is too large. Returns the page with the limit that it had."""
        while True:
            try:
                return self.read(replace(call, query={**call.query, "limit": limit})), limit
            except LedgerError as error:
                if error.code != "REPLY_TOO_LARGE" or limit == 1:
                    raise
            limit = -(-limit // 8)

    def write(self, call: Call, reason: str = NOTHING) -> Reply:
        """Sends a change, with the reason why it is made. Raises LedgerError."""
        key = secrets.token_hex(KEY_BYTES)
        headers = {"idempotency-key": key, **call.headers}
        if reason is not NOTHING:
            if not _is_unicode(require_text(reason, "reason")):
                raise value_invalid(reason, "reason", "a text of Unicode")
            headers["ledger-reason"] = quote(reason, safe="")
        return self._with_retries(replace(call, headers=headers))

    def open(self, call: Call, timeout: float) -> HTTPResponse:
        """Sends a read once and returns the reply as a stream. Raises LedgerError; reading may raise OSError."""
        url = self._base + _requestable(call.path) + _query_text(call.query)
        data = call.content if call.body is NOTHING else json_text(call.body, "body").encode()
        request = urllib.request.Request(url, data, method=call.method)
        if data is not None:
            request.add_header("content-type", "application/json")
        for name, value in {**self._authorization(), **call.headers}.items():
            if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e]+", value):
                # The message does not contain the value, which may be a token.
                fault = f"the value of the header {name} has a character that no header can have"
                raise LedgerError("VALUE_INVALID", 0, fault)
            request.add_header(name, value)
        try:
            response = self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal_in(error, url, timeout) from None
        except (OSError, HTTPException) as error:
            raise self.failure_of(error) from error
        assert isinstance(response, HTTPResponse)
        return response

    def failure_of(self, error: Exception) -> LedgerError:
        """Returns the error for a broken connection."""
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        # Up to Python 3.9, `socket.timeout` is not a subclass of TimeoutError.
        if isinstance(reason, (TimeoutError, socket.timeout)):
            return LedgerError("TIMEOUT", 0, f"{self._base} has not replied in time")
        shown = str(reason) or type(reason).__name__
        return LedgerError("UNREACHABLE", 0, f"{self._base} cannot be reached: {shown}")

    def pause(self, attempt: int, error: LedgerError | None) -> None:
        """Waits before retry `attempt`, starting with 1.

        The delay doubles with each attempt, up to DELAY_MAX. Half of the delay is random, so that clients that failed
        together do not retry together.
        """
        full = min(FIRST_DELAY * 2 ** min(attempt - 1, 10), DELAY_MAX)
        delay = full * (0.5 + self._chance() / 2)
        required = 0.0 if error is None else error.retry_after or 0.0
        self._sleep(max(delay, required))

    def _with_retries(self, call: Call) -> Reply:
        attempt = 0
        while True:
            try:
                return self._attempt(call)
            except LedgerError as error:
                attempt += 1
                if attempt > self._retries or not is_transient(error):
                    raise
                failure = error
            self.pause(attempt, failure)

    def _attempt(self, call: Call) -> Reply:
        encoded = replace(call, headers={"accept-encoding": "gzip", **call.headers})
        with self.open(encoded, self._timeout) as response:
            try:
                timeout = float("inf") if call.is_long else self._timeout
                content = _content_of(response, timeout, call.reply_bytes_max)
            except (OSError, HTTPException) as error:
                raise self.failure_of(error) from error
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, content)

    def _authorization(self) -> dict[str, str]:
        token = self._token() if callable(self._token) else self._token
        return {} if token is None else {"authorization": f"Bearer {token}"}

    def _refusal_in(self, error: urllib.error.HTTPError, url: str, timeout: float) -> LedgerError:
        status = error.code
        if 300 <= status < 400:
            target = error.headers.get("location", "another URL")
            fault = f"{url} redirects to {target}; create the client with the URL of the node itself"
            return LedgerError("REPLY_MALFORMED", status, fault)
        try:
            assert isinstance(error.fp, HTTPResponse)
            value = _json_or_none(_content_of(error.fp, timeout, REPLY_BYTES_MAX))
        except (OSError, HTTPException) as failure:
            return self.failure_of(failure)
        seconds = str(error.headers.get("retry-after", ""))
        retry_after = float(seconds) if re.fullmatch(r"[0-9]{1,6}", seconds) else None
        if not isinstance(value, dict) or value.get("status") is not False:
            return malformed(status, retry_after)
        # Only the reply for a missing item (404) has no `code`.
        if "code" not in value and status != 404:
            return malformed(status, retry_after)
        return LedgerError(
            str(value.get("code", "ITEM_NOT_FOUND")),
            status,
            str(value.get("message", "there is no such item")),
            retry_after,
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because a redirect could send the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def require_name(name: Any, what: str) -> str:
    """Returns `name`. Raises LedgerError, NAME_INVALID, unless it is a text that a path can contain."""
    # Refuses an empty segment, `.` and `..`, because URLs resolve `.` and `..` even if they are escaped.
    if isinstance(name, str) and name not in ("", ".", "..") and _is_unicode(name):
        return name
    raise LedgerError("NAME_INVALID", 0, f"{name!r} cannot be used as {what}")


def path_of(template: str, **parts: str) -> str:
    """Replaces each `{name}` in `template` with its part. Raises LedgerError, NAME_INVALID."""
    return re.sub(
        r"\{(\w+)\}", lambda found: quote(require_name(parts[found[1]], found[1]), safe=""), template
    )


def _is_unicode(text: str) -> bool:
    return not any(0xD800 <= ord(unit) <= 0xDFFF for unit in text)


def _requestable(path: str) -> str:
    """Returns `path`. Raises LedgerError, VALUE_INVALID, if a URL with this path could reach another address."""
    require_text(path, "path")
    segments = path.split("?", 1)[0].split("/")
    is_printable = re.fullmatch(r"/[\x21-\x7e]*", path) and "#" not in path and "\\" not in path
    if is_printable and not any(unquote(segment) in ("", ".", "..") for segment in segments[1:]):
        return path
    fault = f"the path {path!r} cannot be requested: it must start with /, be percent-encoded, and have no part that is empty, . or .."
    raise LedgerError("VALUE_INVALID", 0, fault)


def _base_of(url: str) -> str:
    example = "http://127.0.0.1:4126, and give a token with the argument `token`"
    parts = urlsplit(url)
    is_printable = re.fullmatch(r"[\x21-\x7e]+", url)
    # `port` raises ValueError if it is too large.
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_printable or parts.port == 0:
        raise ValueError(f"{url!r} is not the URL of a node; use a URL like {example}")
    # Raises UnicodeError, a ValueError, for a name that no host can have.
    parts.hostname.encode("idna")
    if "@" in parts.netloc:
        raise ValueError(f"the URL of a node must not have a user name or a password; use a URL like {example}")
    if parts.query or parts.fragment:
        raise ValueError(f"the URL of a node must not have a query or a fragment; use a URL like {example}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _query_text(query: Query) -> str:
    pairs: list[str] = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        values = [str(value)] if isinstance(value, (str, int)) else require_list(value, name)
        for each in values:
            if not isinstance(each, str) or not _is_unicode(each):
                raise value_invalid(each, name, "a text that a URL can contain")
            pairs.append(f"{quote(name, safe='')}={quote(each, safe='')}")
    return f"?{'&'.join(pairs)}" if pairs else ""


def _content_of(response: HTTPResponse, timeout: float, bytes_max: int) -> bytes:
    """Reads the reply. The timeout of the connection is for one chunk; `timeout` is for the whole reply."""
    # From the first byte of the reply on, because the upload of an attachment may take longer.
    deadline = time.monotonic() + timeout
    content = bytearray()
    is_encoded = response.headers.get("content-encoding") == "gzip"
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if is_encoded else None
    while True:
        if len(content) + (response.length or 0) > bytes_max:
            fault = f"the reply has more than {bytes_max} bytes"
            raise LedgerError("REPLY_TOO_LARGE", response.status, fault)
        chunk = response.read1(CHUNK_BYTES)
        try:
            # Bounded, because a short text can be the code of a very long one.
            content += inflater.decompress(chunk, bytes_max + 1) if inflater else chunk
        except zlib.error as error:
            raise HTTPException(f"the reply is not gzip: {error}") from error
        if not chunk:
            if inflater and not inflater.eof:
                raise HTTPException("the reply is incomplete")
            # Checks the missing bytes, because `read1` also returns nothing if the connection was closed early.
            if response.length:
                raise HTTPException("the reply is incomplete")
            return bytes(content)
        if time.monotonic() > deadline:
            raise TimeoutError


def _json_or_none(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def malformed(status: int, retry_after: float | None = None) -> LedgerError:
    """Returns the error for a reply that does not come from a node."""
    return LedgerError("REPLY_MALFORMED", status, f"the reply ({status}) does not come from a node", retry_after)


def next_of(value: Any, previous: str | None) -> str:
    """Returns the position after a page. Raises LedgerError, REPLY_MALFORMED: with that of the page, the list would never end."""
    if isinstance(value, str) and value != previous:
        return value
    raise LedgerError("REPLY_MALFORMED", 200, "the reply has no cursor for the next page")


@contextmanager
def reading() -> Iterator[None]:
    """Raises LedgerError, REPLY_MALFORMED, if the block reads a member that is missing or has another type."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise malformed(200) from None


def system_chance() -> float:
    """Returns a random number from 0 (inclusive) to 1 (exclusive)."""
    return random.random()
