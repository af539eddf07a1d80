"""Tests of the client with a real node, whose URL is in DAICHO_URL."""

import contextlib
import io
import os
import tempfile
import unittest
from itertools import islice
from pathlib import Path
from random import Random

from daicho import LedgerClient, LedgerError, ProofError, verify_proof, verify_state
from daicho.verify_proof import main

URL = os.environ["DAICHO_URL"]


class RealNode(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = LedgerClient(URL)
        self.name = self.id().split(".")[-1]
        self.ledger.create_database(self.name)
        self.fruit = self.ledger.database(self.name)

    def refused(self, code: str, status: int) -> "Refused":
        return Refused(self, code, status)

    def test_creates_lists_and_deletes_databases(self) -> None:
        name = "台帳 %2F?#"
        self.ledger.create_database(name)
        self.assertIn(name, self.ledger.databases())
        with self.refused("DATABASE_EXISTS", 409):
            self.ledger.create_database(name)
        self.ledger.delete_database(name)
        self.assertNotIn(name, self.ledger.databases())
        for invalid in ("", ".", "..", "\ud800"):
            with self.refused("NAME_INVALID", 0):
                self.ledger.create_database(invalid)

    def test_writes_back_every_number_that_it_reads(self) -> None:
        numbers: "list[float]" = [2**53 + 2, -1152921504606847000, 10**22, 1.7976931348623157e308, 5e-324]
        for number in numbers:
            created = self.fruit.create({"n": number})
            read = self.fruit.read(created.id)
            assert read is not None
            self.assertEqual(read.item["n"], number)
            self.fruit.replace(created.id, read.item)

    def test_creates_reads_replaces_patches_and_deletes_items(self) -> None:
        created = self.fruit.create({"name": "apple", "tags": ["a", None], "price": 1.5})
        read = self.fruit.read(created.id)
        assert read is not None
        self.assertEqual(
            read.item, {"id": created.id, "name": "apple", "tags": ["a", None], "price": 1.5}
        )
        self.assertEqual((read.position, read.etag), (created.position, created.etag))
        self.fruit.replace(created.id, {"name": "apple", "price": 2}, if_match=read.etag, reason="riper 果")
        with self.refused("PRECONDITION_FAILED", 412):
            self.fruit.patch(created.id, {"price": 3}, if_match=read.etag)
        with self.refused("PRECONDITION_FAILED", 412):
            self.fruit.replace(created.id, {}, if_absent=True)
        self.fruit.patch(created.id, {"price": None})
        read = self.fruit.read(created.id)
        assert read is not None
        self.assertEqual(read.item, {"id": created.id, "name": "apple"})
        self.fruit.delete(created.id, reason="sold")
        self.assertIsNone(self.fruit.read(created.id))
        with self.refused("ITEM_NOT_FOUND", 404):
            self.fruit.delete(created.id)
        past = self.fruit.read(created.id, at=int(created.position.split(".")[0]))
        assert past is not None
        self.assertEqual(past.item["price"], 1.5)
        height = int(created.position.split(".")[0])
        self.assertEqual(list(self.fruit.query(at=height)), [past.item])
        self.assertEqual(list(self.fruit.ids(at=height)), [created.id])
        self.assertEqual((self.fruit.count(at=height), self.fruit.count()), (1, 0))
        names = [self.name in self.ledger.databases(at=at) for at in (height, height - 2)]
        self.assertEqual(names, [True, False])
        self.assertEqual(self.fruit.aggregate(sum=["price"], at=height).groups[0].sum, {"price": 1.5})
        with self.refused("HEIGHT_UNKNOWN", 404):
            self.fruit.read(created.id, at="2999-01-01T00:00:00Z")
        self.assertEqual(
            [(each.method, (each.item or {}).get("price")) for each in self.fruit.history(created.id)],
            [("create_item", 1.5), ("update_item", 2), ("update_item", None), ("delete_item", None)],
        )
        reasons = [each.reason for each in self.fruit.history(created.id)]
        self.assertEqual(reasons, [None, "riper 果", None, "sold"])
        with self.refused("DATABASE_NOT_FOUND", 404):
            self.ledger.database("none").read("x")

    def test_puts_reads_lists_and_deletes_attachments(self) -> None:
        created = int(self.fruit.create({"id": "plum"}).position.split(".")[0])
        on = self.fruit.attachments("plum")
        name = "台帳 %2F?#"
        content = bytes(range(256)) * 1000
        made = on.put(name, content, content_type="image/png")
        self.assertEqual((made.name, made.content_type, made.length), (name, "image/png", 256_000))
        self.assertEqual(on.put("empty", b"").length, 0)
        read = on.get(name)
        self.assertEqual((read.content, read.content_type), (content, "image/png"))
        self.assertEqual(read.etag, f'"{made.sha256}"')
        self.assertEqual(on.get("empty").content, b"")
        self.assertEqual([each.name for each in on.list()], ["empty", name])
        on.delete("empty")
        with self.refused("ATTACHMENT_NOT_FOUND", 404):
            on.get("empty")
        self.assertEqual(list(on.list()), [made])
        # The item, `made`, the empty attachment and its deletion are blocks of their own.
        self.assertEqual((on.get("empty", at=created + 2).content, on.get(name, at=created + 1).content), (b"", content))
        past = [[each.name for each in on.list(at=created + n)] for n in range(4)]
        self.assertEqual(past, [[], [name], ["empty", name], [name]])
        with self.refused("ATTACHMENT_NOT_FOUND", 404):
            on.get(name, at=created)
        with self.refused("ITEM_NOT_FOUND", 404):
            self.fruit.attachments("none").put("x", b"")

    def test_reads_lists_page_by_page(self) -> None:
        items = [{"id": f"i{n}", "n": n, "even": n % 2 == 0} for n in range(25)]
        self.assertEqual(self.fruit.create_all(items), [item["id"] for item in items])
        for size in (1, 7, 25, 26):
            self.assertEqual(list(self.fruit.query(page_size=size)), items)
        some = self.fruit.ids(page_size=4, limit=6, after="i9")
        self.assertEqual(list(some), ["i10", "i11", "i12", "i13", "i14", "i15"])
        found = self.fruit.query({"n": {"gt": 20}}, order="n DESC", fields=["n"], page_size=2)
        self.assertEqual(list(found), [{"n": 24}, {"n": 23}, {"n": 22}, {"n": 21}])
        self.assertEqual(list(self.fruit.ids(limit=0)), [])
        with self.refused("ITEM_NOT_FOUND", 404):
            list(self.fruit.ids(after="none"))
        seen = []
        for item in self.fruit.query(page_size=3):
            seen.append(item["n"])
            if item["n"] in (2, 4, 5):
                self.fruit.delete(item["id"])
        self.assertEqual(seen, list(range(25)))

    def test_yields_each_item_once_while_other_items_are_deleted_and_created_again(self) -> None:
        for seed in range(int(os.environ.get("PAGING_ROUNDS", "4"))):
            random = Random(seed)
            items = self.ledger.database(f"{self.name}{seed}")
            self.ledger.create_database(items.name)
            ids = [f"{random.choice(('stable', 'moving'))} {n}" for n in range(20)]
            items.create_all([{"id": id} for id in ids])
            size = random.randint(1, 4)
            values = items.ids({"id": {"neq": "x"}}, page_size=size) if seed % 2 else items.ids(page_size=size)
            seen = []
            for id in values:
                seen.append(id)
                # At most 40 changes, so that the list ends.
                for each in [id, random.choice(ids)] if len(seen) < 20 else []:
                    if each.startswith("stable"):
                        continue
                    if items.read(each) is None:
                        items.create({"id": each})
                    else:
                        items.delete(each)
                        if random.random() < 0.7:
                            items.create({"id": each})
            stable = [id for id in ids if id.startswith("stable")]
            self.assertEqual([id for id in seen if id in stable], stable, f"seed {seed}")

    def test_counts_and_aggregates_items(self) -> None:
        kinds = [("apple", 1), ("pear", 2), ("apple", 4), ("pear", None)]
        self.fruit.create_all([{"kind": kind, "price": price} for kind, price in kinds])
        self.assertEqual(self.fruit.count(), 4)
        self.assertEqual(self.fruit.count({"price": {"gt": 1}}), 2)
        result = self.fruit.aggregate(group=["kind"], sum=["price"], avg=["price"], min=["kind"])
        self.assertEqual(
            [(each.group, each.count, each.sum, each.avg, each.min, each.max) for each in result.groups],
            [
                ({"kind": "apple"}, 2, {"price": 5}, {"price": 2.5}, {"kind": "apple"}, {}),
                ({"kind": "pear"}, 2, {"price": 2}, {"price": 2}, {"kind": "pear"}, {}),
            ],
        )
        self.assertTrue(result.consistent)
        (none,) = self.fruit.aggregate({"price": 9}).groups
        self.assertEqual((none.group, none.count, none.sum), ({}, 0, {}))

    def test_records_several_changes_in_one_block_or_none(self) -> None:
        recorded = self.ledger.record(
            [
                {"method": "create_item", "db": self.name, "item": {"id": "x", "n": 1}},
                {"method": "update_item", "db": self.name, "item": {"id": "x", "n": 2}},
            ]
        )
        self.assertEqual(recorded.ids, ["x", "x"])
        delete = {"method": "delete_item", "db": self.name, "id": "x"}
        with self.refused("ITEM_NOT_FOUND", 404):
            self.ledger.record([delete, delete])
        read = self.fruit.read("x")
        assert read is not None
        self.assertEqual(read.position, f"{recorded.height}.1")

    def test_follows_past_and_future_changes(self) -> None:
        self.fruit.create({"id": "x"})
        changes = self.ledger.changes(since="start", databases=[self.name])
        first, second = islice(changes, 2)
        self.assertEqual((first.entry["method"], second.entry["item"]), ("create_db", {"id": "x"}))
        self.fruit.delete("x")
        self.assertEqual(next(changes).entry["method"], "delete_item")
        resumed = self.ledger.changes(since=second.position, databases=[self.name])
        self.assertEqual(next(resumed).entry["method"], "delete_item")
        with self.refused("POSITION_INVALID", 400):
            next(self.ledger.changes(since="yesterday"))

    def test_verifies_proofs_offline(self) -> None:
        item = {"id": "李", "price": 0.1, "list": [1e21, None, {"b": 1, "a": "€\n"}]}
        position = self.fruit.create(item).position
        self.fruit.patch("李", {"price": 2})
        key = self.ledger.verifier_key()
        proof = self.fruit.proof("李", position=position)
        proven = verify_proof(proof, key)
        self.assertEqual(proven.entry["item"], item)
        self.assertEqual(f"{proven.height}.{proven.index}", position)
        self.assertEqual(verify_proof(self.fruit.proof("李"), key).entry["item"]["price"], 2)
        state = verify_state(self.fruit.proof("李", current=True), key)
        self.assertEqual((state.db, state.id, (state.entry or {})["item"]["price"]), (self.name, "李", 2))
        self.assertIsNone(verify_state(self.fruit.proof("none", current=True), key).entry)
        for changed in (proof[:-1], proof + b"\n", b"\xff" + proof, b"", b"\xff"):
            with self.assertRaises(ProofError):
                verify_proof(changed, key)
        with self.assertRaisesRegex(ProofError, "not a verifier key"):
            verify_proof(proof, "daicho/1+00000000+AA")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "entry.tlog-proof")
            path.write_bytes(proof[:-1])
            with self.assertRaisesRegex(SystemExit, "^DIFFERENCE: "):
                main(str(path), key)
            path.write_bytes(proof)
            key_file = Path(folder, "vkey")
            key_file.write_text(f"{key}\n", encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                main(str(path), str(key_file))
            self.assertIn('"method":"create_item"', output.getvalue())

    def test_sends_its_token_to_a_node_that_requires_one(self) -> None:
        url = os.environ["DAICHO_URL_WITH_TOKENS"]
        with self.refused("TOKEN_NEEDED", 401):
            LedgerClient(url).databases()
        token = os.environ["DAICHO_TOKEN"]
        self.assertEqual(LedgerClient(url, token=token).databases(), [])
        self.assertEqual(LedgerClient(url, token=lambda: token).databases(), [])

    def test_names_the_node_that_cannot_be_reached(self) -> None:
        delays: list[float] = []
        ledger = LedgerClient("http://127.0.0.1:1", sleep=delays.append, chance=lambda: 1.0)
        with self.assertRaisesRegex(LedgerError, "UNREACHABLE: http://127.0.0.1:1 cannot be reached"):
            ledger.databases()
        self.assertEqual(delays, [0.1, 0.2, 0.4, 0.8])


class Refused:
    """Asserts that a block raises LedgerError with this code and status."""

    def __init__(self, case: unittest.TestCase, code: str, status: int) -> None:
        self._raises = case.assertRaises(LedgerError)
        self._case = case
        self._expected = (code, status)

    def __enter__(self) -> None:
        self._raises.__enter__()

    def __exit__(self, *exit: object) -> bool:
        swallowed = self._raises.__exit__(*exit)  # type: ignore[arg-type]
        error = self._raises.exception
        self._case.assertEqual((error.code, error.status), self._expected)
        return bool(swallowed)


if __name__ == "__main__":
    unittest.main()
