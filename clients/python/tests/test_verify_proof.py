"""The script `verify_proof.py` with wrong arguments, and proofs that are not valid."""

import os
import subprocess
import sys
import tempfile
import unittest
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Tuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import daicho
from daicho import ProofError
from daicho.verify_state import verify_list

SCRIPT = Path(daicho.__file__).with_name("verify_proof.py")
KEY = "daicho/1+00000000+AA=="


def run(*arguments: str, **variables: str) -> Tuple[int, str, str]:
    """Runs the script; returns its exit code, stdout and stderr."""
    command = [sys.executable, str(SCRIPT), *arguments]
    ended = subprocess.run(
        command, capture_output=True, check=False, encoding="utf-8", env={**os.environ, **variables}
    )
    return ended.returncode, ended.stdout, ended.stderr


class VerifyProofTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.proof = self.file("entry.tlog-proof", "no proof\n")

    def file(self, name: str, text: str) -> str:
        """Creates a file; returns its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def assert_stops(self, ended: Tuple[int, str, str], message: str) -> None:
        code, stdout, stderr = ended
        self.assertEqual((code, stdout), (2, ""))
        self.assertRegex(stderr, rf"\A[^\n]*{message}[^\n]*\n\Z")

    def test_exits_with_2_for_wrong_arguments(self) -> None:
        self.assert_stops(run(), "usage: verify_proof.py")
        self.assert_stops(run(self.proof), "usage: verify_proof.py")
        self.assert_stops(run(self.proof, KEY, KEY), "usage: verify_proof.py")
        self.assert_stops(run(self.proof, "x\ny"), "is neither a verifier key nor a file with one")

    def test_exits_with_2_for_an_unreadable_file(self) -> None:
        missing = str(self.folder / "missing")
        self.assert_stops(run(missing, KEY), "No such file or directory: .*missing")
        self.assert_stops(run(self.proof, missing), "missing.* is neither a verifier key nor a file")
        self.assert_stops(run(self.proof, str(self.folder)), "Is a directory")
        no_key = self.file("text", "no key\n")
        self.assert_stops(run(self.proof, no_key), "text.* is neither a verifier key nor a file with one")

    def test_exits_with_2_without_the_package_cryptography(self) -> None:
        Path(self.folder, "cryptography").mkdir()
        self.file("cryptography/__init__.py", "raise ImportError\n")
        ended = run(self.proof, KEY, PYTHONPATH=str(self.folder))
        self.assert_stops(ended, "the package cryptography is missing: pip install cryptography")

    def test_exits_with_1_for_an_invalid_proof_and_a_key_in_a_file(self) -> None:
        difference = (1, "", "DIFFERENCE: not a proof file\n")
        self.assertEqual(run(self.proof, KEY), difference)
        self.assertEqual(run(self.proof, self.file("vkey", f"{KEY}\n")), difference)

    def test_refuses_a_signed_list_whose_members_are_not_texts(self) -> None:
        key = Ed25519PrivateKey.generate()
        public = b"\1" + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        key_id = sha256(b"daicho/7\n" + public).digest()[:4]
        vkey = f"daicho/7+{key_id.hex()}+{b64encode(public).decode()}"
        root = b64encode(bytes(32)).decode()
        text = f"daicho/7/state\n3\n{root}\n{root}\n"
        signature = b64encode(key_id + key.sign(text.encode())).decode()
        for database, db in (('"path":[]', "5"), (f'"key":"{"0" * 64}","path":[],"value":5', '"x"')):
            body = f'{{"database":{{{database}}},"db":{db}}}'
            file = f"daicho/state-list@v1\n{body}\n\n{text}\n— daicho/7 {signature}\n"
            with self.assertRaisesRegex(ProofError, "not a list of a state"):
                verify_list(file.encode(), vkey)
