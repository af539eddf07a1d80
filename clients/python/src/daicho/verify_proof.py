#!/usr/bin/env python3
"""python3 verify_proof.py entry.tlog-proof KEY, a verifier key or a file with it: prints the entry, or one line with the fault.
Exit code 0: the proof is valid. 1: it is not. 2: wrong arguments, an unreadable file or a missing package. Needs Python 3.9 and the package `cryptography`, nothing else of daicho: see docs/reference/ledger/proofs.md."""
from __future__ import annotations

import base64, hashlib, hmac, json, re, sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

def stop(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    if __name__ != "__main__": raise
    stop("the package cryptography is missing: pip install cryptography")

class ProofError(Exception):
    """The proof does not show the entry, or is not signed by the key."""

@dataclass(frozen=True)
class ProvenEntry:
    """An entry that the key has signed: entry `index` of block `height`."""
    entry: dict[str, Any]
    text: str  # canonical JSON (RFC 8785)
    height: int
    index: int
    timestamp: int  # milliseconds since the Unix epoch
    size: int  # blocks of the signed log

def sha256(*parts: bytes) -> bytes: return hashlib.sha256(b"".join(parts)).digest()

def need(holds: object, fault: str) -> None:
    if not holds: raise ProofError(fault)

def match(pattern: str, text: str, fault: str) -> tuple[str, ...]:
    """Returns the groups of `pattern`, which must match the whole text, so that no proof has two valid spellings."""
    found = re.fullmatch(pattern, text, re.DOTALL)
    if found is None: raise ProofError(fault)
    return found.groups()

def unbase64(text: str, fault: str) -> bytes:
    raw = base64.b64decode(text) if re.fullmatch(r"(?:[\w+/]{4})*(?:[\w+/]{2,3}={1,2})?", text, re.ASCII) else b""
    need(text and base64.b64encode(raw).decode() == text, fault)
    return raw

def number(text: str) -> str:
    """Returns a number in the form that ECMAScript prints."""
    value = float(text)
    need(abs(value) < float("inf"), "the entry has a number that is too large")
    if value == 0: return "0"
    sign, figures, _ = parts = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    point = len(digits) + int(parts.exponent)
    if -6 < point <= 0: shown = "0." + "0" * -point + digits
    elif 0 < point <= 21: shown = digits[:point].ljust(point, "0") + ("." + digits[point:] if len(digits) > point else "")
    else: shown = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1:+d}"
    return "-" * sign + shown

def canonical(value: object) -> str:
    """Returns the canonical JSON (RFC 8785) of a parsed text whose numbers are still texts."""
    if isinstance(value, Number): return number(value)
    if isinstance(value, list): return "[" + ",".join(map(canonical, value)) + "]"
    if not isinstance(value, dict): return json.dumps(value, ensure_ascii=False)
    names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
    return "{" + ",".join(json.dumps(name, ensure_ascii=False) + ":" + canonical(value[name]) for name in names) + "}"

class Number(str): pass
MEMBERS = {
    "create_db": "", "delete_db": "", "create_item": "item", "update_item": "item", "delete_item": "id",
    "create_attachment": "id attachment", "delete_attachment": "id attachment", "erase_item": "id positions",
}

def is_text(value: object, most: int = 2**25) -> bool: return isinstance(value, str) and not isinstance(value, Number) and len(value.encode()) <= most

def in_order(positions: object) -> bool:
    if not isinstance(positions, list) or not all(is_text(one) and re.fullmatch(POSITION, one) for one in positions): return False
    pairs = [tuple(map(int, one.split("."))) for one in positions]
    return len(pairs) > 0 and pairs == sorted(set(pairs)) and all(height * ROOM + index <= LAST and index < ROOM for height, index in pairs)

def is_entry(entry: dict[str, Any], serverid: str) -> bool:
    """Whether `entry` has a known method with exactly its members, and belongs to the node `serverid`."""
    method, number, item, about, by = (entry.get(name) for name in ("method", "serverid", "item", "attachment", "by"))
    members = MEMBERS.get(str(method)) if is_text(method) else None
    if members is None or set(entry) - {"by", "reason"} != {"db", "method", "serverid", *members.split()}: return False
    return (
        is_text(entry["db"]) and isinstance(number, Number) and number == serverid and is_text(entry.get("id", ""))
        and ("by" not in entry or isinstance(by, dict) and {"sub"} <= set(by) <= {"iss", "sub"} and is_text(by["sub"], 256) and is_text(by.get("iss", "?"), 512))
        and all(by.values() if by else []) and entry.get("reason") != "" and is_text(entry.get("reason", "?"), 1_024)
        and ("item" not in entry or isinstance(item, dict) and is_text(item.get("id")))
        and ("positions" not in entry or in_order(entry["positions"]))
        and ("attachment" not in entry or isinstance(about, dict) and set(about) == {"content_type", "length", "name", "sha256"}
             and is_text(about["name"]) and is_text(about["content_type"]) and is_text(about["sha256"]) and re.fullmatch(HEX, about["sha256"]) is not None
             and isinstance(about["length"], Number) and re.fullmatch(INT, about["length"]) is not None and int(about["length"]) <= LAST)
    )

def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """Returns the root to which `path` leads (RFC 9162, 2.1.3.2), or None."""
    last, node = size - 1, leaf
    for sibling in path:
        if last == 0: return None
        if index % 2 or index == last:
            node = sha256(b"\1", sibling, node)
            while index % 2 == 0 and index: index, last = index // 2, last // 2
        else:
            node = sha256(b"\1", node, sibling)
        index, last = index // 2, last // 2
    return node if last == 0 else None

INT, HEX, POSITION = r"(0|[1-9][0-9]{0,15})", r"[0-9a-f]{64}", r"(?:0|[1-9][0-9]{0,11})\.(?:0|[1-9][0-9]{0,4})"
LAST, ROOM = 2**53 - 1, 16_384  # the largest exact integer, and the positions per block
HEADER = rf'\{{"count":{INT},"height":{INT},"nonce":{INT},"prev_id":(null|"[0-9a-f]{{128}}"),"root":"({HEX})","serverid":{INT},"version":1\}}'
OPENING = rf'\{{"blind":"({HEX})","count":{INT},"entry":(\{{.*\}}),"header":({HEADER}),"path":\[((?:"{HEX}"(?:,"{HEX}")*)?)\],"position":{INT},"timestamp":{INT}\}}'

def verify_proof(file: bytes, verifier_key: str) -> ProvenEntry:
    """Returns the entry that a proof file proves. Raises ProofError."""
    try: return proven_entry(file.decode(), verifier_key)
    except UnicodeDecodeError: raise ProofError("the proof file is not UTF-8") from None
    except (ValueError, RecursionError): raise ProofError("the entry is not canonical JSON") from None

def opened(opening: str) -> tuple[str, str, str, str, str, str]:
    """Returns entry, header, height, index, timestamp and server id of an opening, whose entry is under the root of its block."""
    need('"commitment"' != opening[1:13], "the proof does not show the content of the entry")
    blind, count, entry, header, in_block, height, nonce, before, block_root, serverid, inside, position, timestamp = match(OPENING, opening, "the extra data is not an opening")
    value = json.loads(entry, parse_int=Number, parse_float=Number, parse_constant=number)
    need(canonical(value) == entry, "the entry is not canonical JSON")
    need(is_entry(value, serverid), "the entry is malformed or of another chain")
    need(in_block == count and int(position) < int(count), "there is no such entry")
    need((height == "0") == (before == "null"), "the header is not a block header")
    need(max(map(int, (count, height, nonce, serverid, timestamp))) <= LAST, "a number is too large")
    message = f'{{"entry":{entry},"timestamp":{timestamp}}}'
    commitment = hmac.digest(bytes.fromhex(blind), message.encode(), "sha256")
    path = [bytes.fromhex(one) for one in re.findall(HEX, inside)]
    root = root_of(sha256(b"\0", commitment), int(position), int(count), path)
    need(root == bytes.fromhex(block_root), "the entry does not match the root of its block")
    return entry, header, height, position, timestamp, serverid

def verify_note(origin: str, text: str, signatures: str, verifier_key: str) -> None:
    """Checks that the key, which has the name `origin`, has signed `text` exactly once."""
    name, key_id, encoded = match(r"([^+\s]+)\+([0-9a-f]{8})\+(\S+)\n?", verifier_key, "not a verifier key")
    key = unbase64(encoded, "not a verifier key")
    need(len(key) == 33 and key[0] == 1 and sha256(f"{name}\n".encode(), key)[:4].hex() == key_id, "not a verifier key")
    need(name == origin, "the key is of another node")
    need(len(text + signatures) < 2**16 - 1 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text + signatures), "not a signed note")
    lines = [match(r"— ([^+\s\ufeff]+) (\S+)", line, "a signature line is malformed") for line in signatures.split("\n")]
    need(len(lines) <= 64, "there are too many signatures")
    signed = [(one, unbase64(line, "a signature is not canonical base64")) for one, line in lines]
    need(all(len(raw) > 4 for _, raw in signed), "a signature is too short")
    own = [raw[4:] for one, raw in signed if one == name and raw[:4].hex() == key_id]
    need(len(own) == 1, "not signed exactly once by this key")
    try: Ed25519PublicKey.from_public_bytes(key[1:]).verify(own[0], text.encode())
    except InvalidSignature: raise ProofError("the signature is wrong") from None

def proven_entry(file: str, verifier_key: str) -> ProvenEntry:
    need(len(file) <= 2**25, "the proof file is too long")
    proof, text, signatures = match(r"(.+?)\n\n(.+?\n)\n(.+)\n", file, "not a proof file")
    extra, log_index, hashes = match(rf"c2sp\.org/tlog-proof@v1\nextra (\S+)\nindex {INT}((?:\n\S{{44}})*)", proof, "not a proof file")
    entry, header, height, position, timestamp, serverid = opened(unbase64(extra, "the extra data is not canonical base64").decode())
    need(int(log_index) <= LAST, "a number is too large")
    origin, size, signed_root = match(rf"([^\n]+)\n{INT}\n(\S{{44}})\n(?:[^\n]+\n)*", text, "not a checkpoint")
    path = [unbase64(line, "a hash is not canonical base64") for line in hashes.split()]
    need(len(path) < 64 and int(size) <= LAST, "the log is too large")
    root = root_of(sha256(b"\0", header.encode()), int(log_index), int(size), path)
    need(root == unbase64(signed_root, "the root is not canonical base64"), "the block does not match the root of the checkpoint")
    need((log_index, origin) == (height, f"daicho/{serverid}"), "the block is at another height or of another chain")
    verify_note(origin, text, signatures, verifier_key)
    return ProvenEntry(json.loads(entry), entry, int(height), int(position), int(timestamp), int(size))

def main(*arguments: str) -> None:
    if len(arguments) != 2: stop("usage: verify_proof.py entry.tlog-proof KEY, a verifier key or a file with it")
    path, key = arguments
    try: file, key = Path(path).read_bytes(), Path(key).read_text().strip() if Path(key).exists() else key
    except (OSError, ValueError) as error: stop(str(error))
    if not re.fullmatch(r"[^+\s]+\+[0-9a-f]{8}\+\S+\n?", key): stop(f"{arguments[1]!r} is neither a verifier key nor a file with one")
    try: proven = verify_proof(file, key)
    except ProofError as error: sys.exit(f"DIFFERENCE: {error}")
    print("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in proven.text))

if __name__ == "__main__": main(*sys.argv[1:])
