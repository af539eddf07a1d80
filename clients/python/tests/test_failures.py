"""Replies that no real node sends, and arguments that are refused before a request."""

import gzip
import json
import pickle
import ssl
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from daicho import LedgerClient, LedgerError

Answer = Callable[[BaseHTTPRequestHandler], None]


def reply(status: int, value: object, **headers: str) -> Answer:
    """Answers with JSON."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        content = json.dumps(value).encode()
        handler.send_response(status)
        for name, text in {"content-length": str(len(content)), **headers}.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def compressed(handler: BaseHTTPRequestHandler) -> None:
    """Answers like a proxy that compresses the refusal of a missing item."""
    content = gzip.compress(b'{"status":false}')
    handler.send_response(404)
    handler.send_header("content-encoding", "gzip")
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def huge(handler: BaseHTTPRequestHandler) -> None:
    """Announces 512 MiB."""
    handler.send_response(200)
    handler.send_header("content-length", str(2**29))
    handler.end_headers()


def broken(handler: BaseHTTPRequestHandler) -> None:
    """Closes the connection."""
    handler.close_connection = True


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Closes the connection in the middle of a reply."""
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"status":true')


def events(text: str) -> Answer:
    """Sends events, then closes the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


def event(position: str) -> str:
    change = {"position": position, "timestamp": 1, "entry": {"method": "create_db"}}
    return f"id: {position}\nevent: entry\ndata: {json.dumps(change)}\n\n"


def certificate() -> bytes:
    """A self-signed certificate for 127.0.0.1 with its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(timezone.utc)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    encodings = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    return key.private_bytes(*encodings) + signed.public_bytes(Encoding.PEM)


BUSY = reply(503, {"status": False, "code": "WRITER_BUSY", "message": "busy"})
CREATED = reply(200, {"status": True, "id": "x"}, ledger_position="1/4.0")
NO_DATABASES = reply(200, {"status": True, "dbs": []})


class Failures(unittest.TestCase):
    requests: "list[tuple[str, dict[str, str], bytes]]"
    delays: "list[float]"

    def node(self, *answers: Answer, **options: Any) -> LedgerClient:
        """A client of a server that answers each request with the next of `answers`, and repeats the last answer."""
        url = f"http://127.0.0.1:{self.server(answers).server_port}"
        return LedgerClient(url, sleep=self.delays.append, chance=lambda: 1.0, **options)

    def server(self, answers: Sequence[Answer], tls: Optional[ssl.SSLContext] = None) -> HTTPServer:
        requests: list[tuple[str, dict[str, str], bytes]] = []
        self.requests = requests
        self.delays = []

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                answer = answers[min(len(requests), len(answers) - 1)]
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", "0")))
                requests.append((self.path, headers, body))
                answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        # The short poll interval shortens `shutdown`.
        thread = threading.Thread(target=lambda: server.serve_forever(0.01))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def refusal_of(self, work: Callable[[], object]) -> LedgerError:
        with self.assertRaises(LedgerError) as raised:
            work()
        return raised.exception

    def test_repeats_a_change_with_the_same_key_until_it_is_answered(self) -> None:
        gateway = reply(502, "Bad gateway")
        slow = reply(408, {"status": False, "code": "REQUEST_TIMEOUT", "message": "slow"})
        ledger = self.node(slow, broken, gateway, cut, CREATED)
        written = ledger.database("fruit").create({"n": 1})
        self.assertEqual((written.id, written.position, written.etag), ("x", "4.0", '"4.0"'))
        self.assertEqual(self.delays, [0.1, 0.2, 0.4, 0.8])
        keys = {headers["idempotency-key"] for _, headers, _ in self.requests}
        self.assertEqual(len(keys), 1)
        self.assertEqual({body for _, _, body in self.requests}, {b'{"n":1}'})

    def test_does_not_repeat_a_change_after_a_permanent_error(self) -> None:
        for status in (400, 401, 403, 404, 409, 412, 413, 422, 429, 500, 507):
            ledger = self.node(reply(status, {"status": False, "code": "NO", "message": "no"}))
            error = self.refusal_of(lambda: ledger.create_database("fruit"))
            self.assertEqual((error.code, error.status, str(error)), ("NO", status, "NO: no"))
            self.assertEqual(len(self.requests), 1)

    def test_waits_as_long_as_retry_after_requires_up_to_30_seconds(self) -> None:
        refusal = {"status": False, "code": "BUSY", "message": "busy"}
        ledger = self.node(reply(429, refusal, retry_after="30"), NO_DATABASES)
        self.assertEqual((ledger.databases(), self.delays), ([], [30.0]))
        ledger = self.node(reply(503, refusal, retry_after="31"))
        error = self.refusal_of(ledger.databases)
        self.assertEqual((error.retry_after, self.delays), (31.0, []))
        # Errors of a worker process are pickled.
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual(vars(copied), vars(error))
        ledger = self.node(reply(503, "the page of a proxy", retry_after="31"))
        error = self.refusal_of(ledger.databases)
        self.assertEqual((error.code, error.retry_after, self.delays), ("REPLY_MALFORMED", 31.0, []))

    def test_reports_a_reply_that_does_not_come_from_a_node(self) -> None:
        values: list[object] = ["text", None, [], {"status": 1}, {"dbs": []}]
        for value in values:
            error = self.refusal_of(self.node(reply(200, value)).databases)
            self.assertEqual((error.code, error.status), ("REPLY_MALFORMED", 200))
        fruit = self.node(reply(200, {"status": True}, ledger_position="1/4.0")).database("fruit")
        self.assertEqual(self.refusal_of(lambda: fruit.read("x")).code, "REPLY_MALFORMED")

    def test_reports_a_reply_without_the_expected_members(self) -> None:
        works: list[Callable[[LedgerClient], object]] = [
            lambda ledger: ledger.server_id(),
            lambda ledger: ledger.databases(),
            lambda ledger: ledger.record([]),
            lambda ledger: ledger.database("fruit").count(),
            lambda ledger: ledger.database("fruit").aggregate(),
            lambda ledger: list(ledger.database("fruit").history("x")),
            lambda ledger: ledger.database("fruit").erase(deleted=True),
        ]
        for value in ({}, {"history": [{}], "groups": [7], "items": 1, "revisions": 1, "count": None}):
            ledger = self.node(reply(200, {"status": True, **value}))
            for work in works:
                error = self.refusal_of(lambda: work(ledger))
                self.assertEqual((error.code, error.status), ("REPLY_MALFORMED", 200))
        pages = [reply(200, {"status": True, "serverid": 7}), reply(200, {"status": True, "changes": [{}]})]
        self.assertEqual(self.refusal_of(lambda: list(self.node(*pages).log())).code, "REPLY_MALFORMED")

    def test_ends_each_list_whose_next_page_is_the_same_page_again(self) -> None:
        revision = {"position": "1.0", "timestamp": 1, "method": "create_item"}
        attachment = {"name": "a", "content_type": "text/plain", "length": 1, "sha256": ""}
        lists = {"items": ["a"], "docs": [{"id": "a"}], "history": [revision], "changes": [], "attachments": [attachment] * 500}
        page = reply(200, {"status": True, "serverid": 7, "cursor": "3.1", "next": 4, **lists})
        ledger = self.node(page)
        fruit = ledger.database("fruit")
        works: list[Callable[[], Iterable[object]]] = [
            lambda: fruit.query(page_size=1),
            lambda: fruit.history("a"),
            lambda: fruit.attachments("a").list(),
            lambda: ledger.log(),
        ]
        for work in works:
            self.assertEqual(self.refusal_of(lambda: list(work())).code, "REPLY_MALFORMED")

    def test_refuses_an_event_whose_lines_never_end(self) -> None:
        def endless(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            handler.end_headers()
            line = b"data: " + b"x" * 1_000_000 + b"\n"
            while True:
                handler.wfile.write(line)

        ledger = self.node(reply(200, {"status": True, "serverid": 7}), endless)
        error = self.refusal_of(lambda: next(ledger.changes()))
        self.assertEqual((error.code, error.message), ("REPLY_MALFORMED", "an event is longer than any entry"))

    def test_reads_a_refusal_that_a_proxy_has_compressed(self) -> None:
        self.assertIsNone(self.node(compressed).database("fruit").read("plum"))

    def test_reads_smaller_pages_if_a_page_is_too_large(self) -> None:
        listed = {"status": True, "items": ["a"], "docs": [{"id": "a"}], "history": [], "cursor": None}
        page = reply(200, listed)
        fruit = self.node(huge, page).database("fruit")
        self.assertEqual(list(fruit.query()), [{"id": "a"}])
        self.assertEqual([path.split("limit=")[1] for path, _, _ in self.requests], ["500", "63"])
        self.assertEqual(list(self.node(huge, page).database("fruit").history("a")), [])
        error = self.refusal_of(self.node(huge).databases)
        self.assertEqual((error.code, self.delays), ("REPLY_TOO_LARGE", []))

    def test_does_not_follow_a_redirect_and_names_its_target(self) -> None:
        ledger = self.node(reply(302, {}, location="http://127.0.0.1:1/"), token="secret")
        error = self.refusal_of(ledger.databases)
        self.assertEqual((error.code, error.status), ("REPLY_MALFORMED", 302))
        self.assertIn("redirects to http://127.0.0.1:1/;", error.message)

    def test_gives_up_after_the_timeout(self) -> None:
        released = threading.Event()

        def silent(_: BaseHTTPRequestHandler) -> None:
            released.wait()

        ledger = self.node(silent, timeout=0.05, retries=0)
        error = self.refusal_of(ledger.databases)
        released.set()
        self.assertEqual((error.code, error.status), ("TIMEOUT", 0))

    def test_accepts_the_reply_to_an_upload_that_took_longer_than_the_timeout(self) -> None:
        now = [0.0]

        def token() -> str:
            now[0] += 100.0
            return "t"

        about = {"name": "n", "content_type": "a/b", "length": 1, "sha256": "0"}
        attached = reply(200, {"status": True, "attachment": about})
        files = self.node(attached, token=token, retries=0).database("fruit").attachments("plum")
        with patch("daicho.transport.time.monotonic", lambda: now[0]):
            self.assertEqual(files.put("n", b"x").name, "n")

    def test_reads_an_attachment_that_takes_longer_than_the_timeout(self) -> None:
        ledger = self.node(NO_DATABASES, retries=0)
        with patch("daicho.transport.time.monotonic", count(0, 100).__next__):
            read = ledger.database("fruit").attachments("plum").get("n")
            error = self.refusal_of(ledger.databases)
        self.assertEqual((read.content, error.code), (b'{"status": true, "dbs": []}', "TIMEOUT"))

    def test_sends_requests_only_to_a_server_whose_certificate_it_trusts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "server.pem")
            path.write_bytes(certificate())
            serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            serving.load_cert_chain(path)
            trusting = ssl.create_default_context(cafile=str(path))
        url = f"https://127.0.0.1:{self.server([NO_DATABASES], serving).server_port}"
        error = self.refusal_of(LedgerClient(url, token="secret", retries=0).databases)
        self.assertEqual((error.code, self.requests), ("UNREACHABLE", []))
        self.assertIn("certificate verify failed", error.message)
        self.assertEqual(LedgerClient(url, context=trusting).databases(), [])

    def test_yields_each_change_once_over_as_many_connections_as_needed(self) -> None:
        ledger = self.node(
            reply(200, {"status": True, "serverid": 7}),
            events(f"id: 0.0\n:\n\n{event('1.0')}{event('1.1')}{event('2.0')[:-1]}"),
            BUSY,
            events("id: 1.5\n:\n\n"),
            events(event("2.0")),
            reply(401, {"status": False, "code": "TOKEN_INVALID", "message": "no longer"}),
        )
        changes = ledger.changes(since="start", databases=["a b", "c"])
        self.assertEqual([next(changes).position for _ in range(3)], ["1.0", "1.1", "2.0"])
        error = self.refusal_of(lambda: next(changes))
        self.assertEqual(error.code, "TOKEN_INVALID")
        feeds = self.requests[1:]
        self.assertEqual(
            {path for path, _, _ in feeds}, {"/api/ledgers/7/changes?db=a%20b&db=c&since=start"}
        )
        self.assertEqual(
            [headers.get("last-event-id") for _, headers, _ in feeds],
            [None, "1.1", "1.1", "1.5", "2.0"],
        )
        self.assertEqual(self.delays, [0.1, 0.2, 0.4, 0.1])

    def test_reports_a_proxy_page_that_arrives_instead_of_changes(self) -> None:
        ledger = self.node(reply(200, {"status": True, "serverid": 7}), reply(200, "Sign in"))
        changes = ledger.changes()
        self.assertEqual(self.refusal_of(lambda: next(changes)).code, "REPLY_MALFORMED")

    def test_refuses_values_that_json_cannot_hold_and_names_the_member(self) -> None:
        cycle: dict[str, Any] = {}
        cycle["self"] = cycle
        fruit = self.node(CREATED).database("fruit")
        for item, message in (
            ({"price": float("nan")}, "body/price is nan, which JSON cannot hold"),
            ({"a": [1, float("-inf")]}, "body/a/1 is -inf, which JSON cannot hold"),
            ({"n": 2**53 + 1}, "body/n is 9007199254740993, which a node cannot return unchanged: use a str"),
            ({"n": 2**60}, f"body/n is {2**60}, which a node cannot return unchanged: use a str"),
            ({"n": 10**400}, f"body/n is {10**400}, which a node cannot return unchanged: use a str"),
            ({"s": {1}}, "body/s is a set, which JSON cannot hold"),
            ({"b": b"x"}, "body/b is a bytes, which JSON cannot hold"),
            ({"o": {1: 2}}, "body/o has the name 1, which is not a str"),
            (cycle, "body is nested deeper than 64, or contains itself"),
        ):
            # `Any`, because a program without type checks can pass such values.
            anything: Any = item
            for work in (
                lambda: fruit.create(anything),
                lambda: fruit.replace("x", anything),
                lambda: fruit.patch("x", anything),
            ):
                error = self.refusal_of(work)
                self.assertEqual((error.code, error.message), ("VALUE_INVALID", message))
        error = self.refusal_of(lambda: list(fruit.ids({"price": {"lt": float("nan")}})))
        self.assertEqual(error.message, "filter/where/price/lt is nan, which JSON cannot hold")
        error = self.refusal_of(lambda: fruit.delete("x", if_match="a\nb"))
        self.assertEqual(error.code, "VALUE_INVALID")
        self.assertEqual((self.requests, self.delays), ([], []))

    def test_sends_a_request_only_below_the_path_of_its_url(self) -> None:
        url = f"http://127.0.0.1:{self.server([NO_DATABASES]).server_port}/staging/"
        ledger = LedgerClient(url, token="secret")
        self.assertEqual(ledger.databases(), [])
        self.assertEqual([path for path, _, _ in self.requests], ["/staging/api/dbs"])
        for path in ("", "api/dbs", "@h/x", "/..", "/api/../x", "/api/x/", "/api//x", "/api/%2E%2e?x", "/a b", "/x#y", "/\\..\\x"):
            error = self.refusal_of(lambda: ledger.request("GET", path))
            self.assertEqual(error.code, "VALUE_INVALID")
        self.assertEqual(len(self.requests), 1)

    def test_explains_why_it_refuses_a_url(self) -> None:
        for url, reason in (
            ("x", "'x' is not the URL of a node"),
            ("localhost:4126", "'localhost:4126' is not the URL of a node"),
            ("http://u:secret@h", "must not have a user name or a password"),
            ("http://h/?token=secret", "must not have a query or a fragment"),
            ("http://h:99999", "Port out of range"),
            ("http://h..x", "idna"),
        ):
            with self.assertRaisesRegex(ValueError, reason):
                LedgerClient(url)
        with self.assertRaisesRegex(ValueError, "timeout must be .*, but is nan"):
            LedgerClient("http://h", timeout=float("nan"))


if __name__ == "__main__":
    unittest.main()
