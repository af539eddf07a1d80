"""A client of daicho, a ledger database. The package needs only the standard library, and `cryptography` for proofs."""

from .attachments import Attachment, AttachmentContent, Attachments
from .changes import Change
from .client import LedgerClient, Recorded
from .database import Aggregate, Database, Erased, Group, Item, Read, Revision, Written
from .errors import LedgerError
from .transport import Token
from .verify_proof import ProofError, ProvenEntry, verify_proof
from .verify_state import ProvenState, verify_state

__all__ = [
    "Aggregate",
    "Attachment",
    "AttachmentContent",
    "Attachments",
    "Change",
    "Database",
    "Erased",
    "Group",
    "Item",
    "LedgerClient",
    "LedgerError",
    "ProofError",
    "ProvenEntry",
    "ProvenState",
    "Read",
    "Recorded",
    "Revision",
    "Token",
    "Written",
    "verify_proof",
    "verify_state",
]
