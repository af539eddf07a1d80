#!/usr/bin/env python3
"""python3 verify_proof.py entry.tlog-proof <verifier key>: prints the entry, or says what does not hold.
Needs Python 3.9 and the package `cryptography`, nothing of daicho: see docs/reference/ledger/proofs.md."""
import base64, hashlib, hmac, json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def sha256(*parts): return hashlib.sha256(b"".join(parts)).digest()
def unbase64(text): return base64.b64decode(text, validate=True)
def need(holds, what): holds or sys.exit(f"DIFFERENCE: {what}")

def member(text, name):
    """The text of a member of an object in canonical JSON, as it stands there."""
    at, read = 1, json.JSONDecoder().raw_decode
    while True:
        key, colon = read(text, at)
        _, end = read(text, colon + 1)
        if key == name: return text[colon + 1:end]
        at = end + 1

def root_of(leaf, index, size, path):
    """The root that a path leads to (RFC 9162, 2.1.3.2), or None."""
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

def main(path, verifier_key):
    proof, text, signatures = open(path, encoding="utf-8", newline="").read().split("\n\n")
    version, extra, index, *hashes = proof.split("\n")
    need(version == "c2sp.org/tlog-proof@v1", "not a proof file")
    extra, index = unbase64(extra[len("extra "):]).decode(), int(index[len("index "):])
    opened, header = json.loads(extra), json.loads(member(extra, "header"))
    message = f'{{"entry":{member(extra, "entry")},"timestamp":{opened["timestamp"]}}}'
    commitment = hmac.digest(bytes.fromhex(opened["blind"]), message.encode(), "sha256")
    leaf, inside = sha256(b"\0", commitment), map(bytes.fromhex, opened["path"])
    root = root_of(leaf, opened["position"], header["count"], inside)
    need(root == bytes.fromhex(header["root"]), "the entry does not lead to the root of its block")
    origin, size, signed_root = text.split("\n")
    leaf = sha256(b"\0", member(extra, "header").encode())
    root = root_of(leaf, index, int(size), map(unbase64, hashes))
    need(root == unbase64(signed_root), "the block does not lead to the root of the checkpoint")
    need((index, origin) == (header["height"], f'daicho/{header["serverid"]}'), "another place")
    name, key_id, key = verifier_key.strip().split("+", 2)
    key, mark = unbase64(key), f"— {origin} "
    need(name == origin and sha256(f"{name}\n".encode(), key)[:4].hex() == key_id, "another key")
    signed = [unbase64(line[len(mark):]) for line in signatures.split("\n") if line.startswith(mark)]
    need(signed and signed[0][:4].hex() == key_id and key[0] == 1, "not signed by this key")
    try: Ed25519PublicKey.from_public_bytes(key[1:]).verify(signed[0][4:], f"{text}\n".encode())
    except InvalidSignature: need(False, "the signature does not hold")
    print(member(extra, "entry"))

main(*sys.argv[1:])
