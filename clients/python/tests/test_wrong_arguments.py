"""Every method of the client with missing and wrong values, which a program without type checks can pass."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Callable, Dict, Iterable, List, Tuple

from daicho import LedgerClient, LedgerError

NOT_TEXT: List[Any] = [None, "", 5, True, {}, []]
#: Wrong values for each kind of argument. None is not wrong for an option, which it leaves out.
WRONG: Dict[str, List[Any]] = {
    "name": [*NOT_TEXT, ".", "..", "\ud800", ["x"], b"x"],
    "list": [None, "", "x", 5, {}, b"x"],
    "changes": [None, "", "x", 5, {}, [None], [5], ["x"]],
    "object": [None, "", "x", 5, []],
    "condition": NOT_TEXT,
    "flag": [None, "", "x", 5],
    "count": ["", "x", "5", -1, 0.5, float("nan"), True, {}, []],
    "size": [None, "", "5", 0, 0.5, True, {}, []],
    "text": NOT_TEXT,
    "optional name": [*NOT_TEXT[1:], ".", ".."],
    "optional text": NOT_TEXT[1:],
    "names": [None, "", "x", 5, {}, [None], [""], [5]],
    "paths": [None, "", 5, {}, [None], [""], [5], ["a,b"]],
    "where": ["", "x", 5, [], [("a", 1)]],
    "order": ["", 5, {}, [None], [""], [5]],
    "fields": ["", "x", 5, {}, [None], [""], [5]],
    "method": [*NOT_TEXT, "get", "TRACE", "HEAD"],
    "path": [*NOT_TEXT, "x", "/..", "/api/../x"],
    "query": ["", "x", 5, [], {"a": {}}, {"a": [None]}, {"a": "\ud800"}],
    "body": [None],
    "bytes": [None, "", "x", 5, [], {}],
}
#: A correct value for each kind of argument.
RIGHT: Dict[str, Any] = {
    **{"name": "x", "list": [], "changes": [], "object": {}, "condition": "x", "flag": True, "count": 1, "size": 1},
    **{"text": "x", "optional name": "x", "optional text": "x", "names": ["x"], "paths": ["x"], "where": {"x": 1}},
    **{"order": "x", "fields": ["x"], "method": "GET", "path": "/api/x", "query": {}, "body": {}, "bytes": b"x"},
}

Row = Tuple[str, str, Callable[[Any], object]]


def ledger_rows(on: LedgerClient) -> List[Row]:
    return [
        ("create_database", "name", on.create_database),
        ("delete_database", "name", on.delete_database),
        ("create_database", "text", lambda reason: on.create_database("x", reason=reason)),
        ("databases", "count", lambda at: on.databases(at=at)),
        ("database", "name", on.database),
        ("record", "changes", on.record),
        ("record", "text", lambda reason: on.record([], reason=reason)),
        ("changes", "text", lambda since: next(on.changes(since=since))),
        ("changes", "names", lambda names: next(on.changes(databases=names))),
        ("changes", "optional text", lambda by: next(on.changes(by=by))),
        ("log", "text", lambda begin: next(on.log(begin=begin))),
        ("log", "names", lambda names: next(on.log(databases=names))),
        ("request", "method", lambda method: on.request(method, "/api/x")),
        ("request", "path", lambda path: on.request("POST", path)),
        ("request", "query", lambda query: on.request("GET", "/api/x", query=query)),
        ("request", "body", lambda body: on.request("POST", "/api/x", body=body)),
    ]


def database_rows(ledger: LedgerClient) -> List[Row]:
    on = ledger.database("fruit")
    rows: List[Row] = [
        ("create", "object", on.create),
        ("create", "text", lambda reason: on.create({}, reason=reason)),
        ("create_all", "list", on.create_all),
        ("read", "name", on.read),
        ("read", "count", lambda at: on.read("x", at=at)),
        ("replace", "name", lambda id: on.replace(id, {})),
        ("replace", "object", lambda item: on.replace("x", item)),
        ("replace", "condition", lambda etag: on.replace("x", {}, if_match=etag)),
        ("replace", "flag", lambda flag: on.replace("x", {}, if_absent=flag)),
        ("patch", "name", lambda id: on.patch(id, {})),
        ("patch", "object", lambda members: on.patch("x", members)),
        ("patch", "condition", lambda etag: on.patch("x", {}, if_match=etag)),
        ("delete", "name", on.delete),
        ("delete", "condition", lambda etag: on.delete("x", if_match=etag)),
        ("delete", "text", lambda reason: on.delete("x", reason=reason)),
        ("count", "where", on.count),
        ("aggregate", "where", on.aggregate),
        ("attachments", "name", on.attachments),
        ("count", "count", lambda at: on.count(at=at)),
        ("aggregate", "count", lambda at: on.aggregate(at=at)),
        ("erase", "list", lambda ids: on.erase(ids=ids)),
        ("erase", "object", lambda where: on.erase(where=where)),
        ("erase", "flag", lambda flag: on.erase(deleted=flag)),
        ("erase", "flag", lambda flag: on.erase(dry_run=flag)),
        ("erase", "text", lambda reason: on.erase(reason=reason)),
        ("history", "name", lambda id: list(on.history(id))),
        ("proof", "name", on.proof),
        ("proof", "optional text", lambda position: on.proof("x", position=position)),
        ("proof", "flag", lambda current: on.proof("x", current=current)),
        ("query", "fields", lambda fields: list(on.query(fields=fields))),
    ]
    for name in ("group", "sum", "avg", "min", "max"):
        rows.append(("aggregate", "paths", with_option(on.aggregate, name)))
    return rows + list_rows("query", on.query) + list_rows("ids", on.ids)


def attachment_rows(ledger: LedgerClient) -> List[Row]:
    on = ledger.database("fruit").attachments("x")
    return [
        ("put", "name", lambda name: on.put(name, b"")),
        ("put", "bytes", lambda content: on.put("x", content)),
        ("put", "text", lambda kind: on.put("x", b"", content_type=kind)),
        ("get", "name", on.get),
        ("get", "count", lambda at: on.get("x", at=at)),
        ("list", "count", lambda at: list(on.list(at=at))),
        ("delete", "name", on.delete),
        ("delete", "text", lambda reason: on.delete("x", reason=reason)),
    ]


def list_rows(name: str, read: Callable[..., Iterable[object]]) -> List[Row]:
    return [
        (name, "where", lambda where: list(read(where))),
        (name, "order", lambda order: list(read(order=order))),
        (name, "count", lambda limit: list(read(limit=limit))),
        (name, "count", lambda at: list(read(at=at))),
        (name, "size", lambda size: list(read(page_size=size))),
        (name, "optional name", lambda after: list(read(after=after))),
    ]


def with_option(method: Callable[..., object], name: str) -> Callable[[Any], object]:
    return lambda value: method(**{name: value})


class WrongArguments(unittest.TestCase):
    def setUp(self) -> None:
        self.requests: List[str] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                # `changes` reads the server id first.
                is_id = self.path == "/api/serverid"
                refusal = {"status": False, "code": "RECEIVED", "message": "received"}
                content = json.dumps({"status": True, "serverid": 7} if is_id else refusal).encode()
                if not is_id:
                    requests.append(self.path)
                self.send_response(200 if is_id else 400)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=lambda: server.serve_forever(0.01))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.ledger = LedgerClient(f"http://127.0.0.1:{server.server_port}", retries=0)

    def test_each_method_refuses_missing_and_wrong_values_and_sends_no_request(self) -> None:
        self.refuses(self.ledger, ledger_rows(self.ledger), ["server_id", "verifier_key"])
        self.refuses(self.ledger.database("fruit"), database_rows(self.ledger), ["name"])
        attachments = self.ledger.database("fruit").attachments("x")
        self.refuses(attachments, attachment_rows(self.ledger), [])

    def refuses(self, on: object, rows: List[Row], without_arguments: List[str]) -> None:
        methods = sorted(name for name in dir(on) if not name.startswith("_"))
        self.assertEqual(sorted({*without_arguments, *(name for name, _, _ in rows)}), methods)
        for name, kind, call in rows:
            # With a correct value, the request is sent, so another argument is not the reason of the refusals.
            self.assertIn(self.outcome(call, RIGHT[kind]), ("RECEIVED", "none"), (name, kind))
            self.requests.clear()
            for value in WRONG[kind]:
                code = self.outcome(call, value)
                self.assertIn(code, ("NAME_INVALID", "VALUE_INVALID"), (name, kind, value))
            self.assertEqual(self.requests, [])

    def outcome(self, call: Callable[[Any], object], value: Any) -> str:
        try:
            call(value)
            return "none"
        except LedgerError as error:
            return error.code

    def test_names_the_wrong_value_and_the_argument(self) -> None:
        anything: Any = None
        fruit = self.ledger.database("fruit")
        refused: List[Tuple[str, Callable[[], object]]] = [
            ("NAME_INVALID: None cannot be used as id", lambda: fruit.delete(anything)),
            ("VALUE_INVALID: body is None instead of a dict", lambda: fruit.create(anything)),
            ("VALUE_INVALID: items is None instead of a list", lambda: fruit.create_all(anything)),
            ("VALUE_INVALID: if_match is None instead of a text", lambda: fruit.delete("x", if_match=anything)),
        ]
        for message, work in refused:
            with self.assertRaisesRegex(LedgerError, f"^{message}$"):
                work()


if __name__ == "__main__":
    unittest.main()
