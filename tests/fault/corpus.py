"""Malformed HTTP, what must come of it, and how to tell (docs/reliability.md J4, J5, J6).

A `Case` is the bytes of one request, or of something that looks like one, with `{T}` for the request target and `{H}`
for the host. The driver (`send`) appends a canary, `GET /healthz` with `Connection: close`. A request that swallows too
much or too little thus shows: an answer is missing, or there is one too many.

REJECT   one answer with one of `statuses` and the connection is closed; nothing is stored; no canary.
ACCEPT   parsed exactly as RFC 9112 says: `body` arrives as it is, whole; then the canary is answered,
         unless the server chose to close (`may_close`).
EITHER   RFC 9112 leaves it open: rejected, or parsed exactly, but the same at all doors.

A body always contains, or is followed by, something that would be a request if the framing were misread.
"""

import corpus_bodies
import corpus_heads
from corpus_case import Builder


def cases():
    """All cases of J6."""
    b = Builder()
    for part in (*corpus_bodies.PARTS, *corpus_heads.PARTS):
        part(b)
    names = [case.name for case in b.cases]
    doubled = {name for name in names if names.count(name) > 1}
    assert not doubled, doubled
    return b.cases
