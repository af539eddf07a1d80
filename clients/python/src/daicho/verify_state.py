#!/usr/bin/env python3
"""python3 verify_state.py FILE KEY: a .state-proof or .state-list file, and a verifier key or a file with it. Prints the newest entry, what is missing, or how many items there are.
Exit code 0: the proof is valid. 1: it is not. 2: wrong arguments, an unreadable file or a missing package. See docs/reference/ledger/state.md."""
from __future__ import annotations

import json, re, sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__": sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from daicho.verify_proof import HEX, INT, POSITION, ProofError, canonical, match, need, opened, root_of, sha256, stop, unbase64, verify_note

@dataclass(frozen=True)
class ProvenState:
    """What a node has signed after `size` blocks about item `id` of database `db`."""
    db: str
    id: str
    entry: dict[str, Any] | None  # None if there is no such item
    text: str  # canonical JSON of the entry; empty if there is none
    position: str  # `<height>.<index>` of the entry; empty if there is none
    attachments: str  # position of the newest change of the item's attachments; empty if there is none
    has_database: bool
    size: int  # blocks of the signed log

EMPTY, VALUE = bytes(32), rf'\{{(?:"attachments":"({POSITION})",)?"position":"({POSITION})"\}}'

def bit(key: bytes, depth: int) -> int: return key[depth // 8] >> (7 - depth % 8) & 1

def value_at(name: str, root: bytes, proof: object) -> str | None:
    """Returns the value of `name` in the map of `root`, or None if the map has no such key."""
    need(isinstance(proof, dict) and set(proof) in ({"path"}, {"path", "key", "value"}), "the path of a map is malformed")
    assert isinstance(proof, dict)
    need(isinstance(proof["path"], list) and len(proof["path"]) <= 256, "the path of a map is malformed")
    path = [unbase64(one, "a hash is not canonical base64") for one in proof["path"]]
    need(all(len(one) == 32 for one in path), "a hash is malformed")
    key, node, found = sha256(name.encode()), EMPTY, None
    if "key" in proof:
        match(HEX, proof["key"], "the key of a map is malformed")
        found = bytes.fromhex(proof["key"])
        need(all(bit(found, depth) == bit(key, depth) for depth in range(len(path))), "the leaf of a map is not on the path")
        node = sha256(b"\0", found, proof["value"].encode())
    for depth in reversed(range(len(path))):
        node = sha256(b"\1", path[depth], node) if bit(key, depth) else sha256(b"\1", node, path[depth])
    need(node == root, "the hashes do not give the root of the signed state")
    return proof["value"] if found == key else None

def verify_state(file: bytes, verifier_key: str) -> ProvenState:
    """Returns what a state proof shows. Raises ProofError."""
    try: return proven_state(file.decode(), verifier_key)
    except UnicodeDecodeError: raise ProofError("the proof file is not UTF-8") from None
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError): raise ProofError("not a state proof") from None

def proven_state(file: str, verifier_key: str) -> ProvenState:
    need(len(file) <= 2**25, "the proof file is too long")
    body, opening, text, signatures = match(r"daicho/state-proof@v1\n([^\n]+)\n(?:([^\n]+)\n)?\n(.+?\n)\n(.+)\n", file, "not a state proof")
    parts = json.loads(body)
    need(isinstance(parts, dict) and canonical(parts) == body and set(parts) <= {"database", "db", "id", "item", "log"}, "the second line is not canonical")
    name, size, *roots = match(rf"([^\n]+)/state\n{INT}\n(\S{{44}})\n(\S{{44}})\n", text, "not a signed state")
    verify_note(name, text, signatures, verifier_key)
    (root, log), db, id = (unbase64(one, "not a root") for one in roots), parts["db"], parts["id"]
    need(isinstance(db, str) and isinstance(id, str), "it names no item")
    database = value_at(db, root, parts["database"])
    if database is None:
        need(opening is None and not {"item", "log"} & set(parts), "it has more than it proves")
        return ProvenState(db, id, None, "", "", "", False, int(size))
    items, _ = match(rf'\{{"items":"({HEX})","position":"({POSITION})"\}}', database, "the state of the database is malformed")
    value = value_at(id, bytes.fromhex(items), parts["item"])
    if value is None:
        need(opening is None and "log" not in parts, "it has more than it proves")
        return ProvenState(db, id, None, "", "", "", True, int(size))
    attachments, position = match(VALUE, value, "the state of the item is malformed")
    entry, header, height, index, _, serverid = opened(opening or "")
    path = [unbase64(one, "a hash is not canonical base64") for one in parts["log"]]
    need(len(path) < 64, "the log is too large")
    need(root_of(sha256(b"\0", header.encode()), int(height), int(size), path) == log, "the block does not match the root of the log")
    need(name == f"daicho/{serverid}", "the block is of another chain")
    need(position == f"{height}.{index}", f"the newest revision is at {position}, but the entry is at {height}.{index}")
    found = json.loads(entry)
    need(found["db"] == db and "item" in found and found["item"]["id"] == id, "the entry is not a revision of this item")
    return ProvenState(db, id, found, entry, position, attachments or "", True, int(size))

@dataclass(frozen=True)
class ProvenList:
    """All items of database `db` that a node has signed after `size` blocks."""
    db: str
    items: dict[str, str] | None  # canonical JSON of the state of each item by its id; None if there is no such database
    size: int

def map_root(leaves: list[tuple[bytes, bytes]], depth: int = 0) -> bytes:
    """Returns the root of a map from its keys with the hashes of their leaves, sorted by key."""
    if len(leaves) < 2: return leaves[0][1] if leaves else EMPTY
    need(depth < 256, "the list has an item twice")
    split = next((at for at, (key, _) in enumerate(leaves) if bit(key, depth)), len(leaves))
    return sha256(b"\1", map_root(leaves[:split], depth + 1), map_root(leaves[split:], depth + 1))

def verify_list(file: bytes, verifier_key: str) -> ProvenList:
    """Returns what a list shows. Raises ProofError."""
    try: return proven_list(file.decode(), verifier_key)
    except UnicodeDecodeError: raise ProofError("the list is not UTF-8") from None
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError): raise ProofError("not a list of a state") from None

def proven_list(file: str, verifier_key: str) -> ProvenList:
    body, lines, text, signatures = match(r"daicho/state-list@v1\n([^\n]+)\n((?:[^\n]+\n)*)\n(.+?\n)\n(.+)\n", file, "not a list of a state")
    head = json.loads(body)
    need(isinstance(head, dict) and canonical(head) == body and set(head) == {"database", "db"}, "the second line is not canonical")
    name, size, root, _ = match(rf"([^\n]+)/state\n{INT}\n(\S{{44}})\n(\S{{44}})\n", text, "not a signed state")
    verify_note(name, text, signatures, verifier_key)
    database = value_at(head["db"], unbase64(root, "not a root"), head["database"])
    if database is None:
        need(lines == "", "it has items, but there is no such database")
        return ProvenList(head["db"], None, int(size))
    root, _ = match(rf'\{{"items":"({HEX})","position":"({POSITION})"\}}', database, "the state of the database is malformed")
    items = {}
    for line in lines.split("\n")[:-1]:
        item = json.loads(line)
        need(canonical(item) == line and isinstance(item["id"], str) and item["id"] not in items, "a line is not an item, or an item is listed twice")
        id = item.pop("id")
        items[id] = canonical(item)
        match(VALUE, items[id], "a line is not an item")
    leaves = sorted((sha256(id.encode()), value) for id, value in items.items())
    need(map_root([(key, sha256(b"\0", key, value.encode())) for key, value in leaves]) == bytes.fromhex(root), "the list is not the one of the signed state: an item is missing, added or changed")
    return ProvenList(head["db"], items, int(size))

def main(*arguments: str) -> None:
    if len(arguments) != 2: stop("usage: verify_state.py FILE KEY: a .state-proof or .state-list file, and a verifier key or a file with it")
    path, key = arguments
    try: file, key = Path(path).read_bytes(), Path(key).read_text().strip() if Path(key).exists() else key
    except (OSError, ValueError) as error: stop(str(error))
    if not re.fullmatch(r"[^+\s]+\+[0-9a-f]{8}\+\S+\n?", key): stop(f"{arguments[1]!r} is neither a verifier key nor a file with one")
    try:
        if file.startswith(b"daicho/state-list"):
            listed = verify_list(file, key)
            return print(f"all {len(listed.items)} items" if listed.items is not None else "no such database")
        proven = verify_state(file, key)
    except ProofError as error: sys.exit(f"DIFFERENCE: {error}")
    shown = proven.text or (f"no item {proven.id}" if proven.has_database else f"no database {proven.db}")
    print("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown))

if __name__ == "__main__": main(*sys.argv[1:])
