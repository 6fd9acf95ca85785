"""A case of the corpus, and the words that its parts are written in."""

import dataclasses

REJECT, ACCEPT, EITHER = "reject", "accept", "either"
BAD = frozenset({400})
BAD_OR_UNKNOWN = frozenset({400, 501})  # a transfer coding that is not known
NO_LENGTH = frozenset({400, 411})
BAD_VERSION = frozenset({400, 505})
BAD_METHOD = frozenset({400, 405, 501})
TOO_LARGE = frozenset({400, 413, 414, 431})
SMUGGLED = b"GET /healthz?smuggled HTTP/1.1\r\nHost: smuggled\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    wire: bytes
    expect: str
    statuses: frozenset = BAD
    body: bytes | None = None  # of a PUT, when it is parsed; None: a request without a body
    chunked: bool = False  # how a PUT that is parsed says its length
    requests: int = 1  # before the canary, when parsed
    may_close: bool = False
    cut: bool = False  # ends in the middle: closing without an answer is one way to refuse it
    semantic: frozenset = frozenset()  # statuses of a request that is well framed but refused for its meaning

    @property
    def category(self):
        return self.name.split("/")[0]

    @property
    def is_put(self):
        return self.wire.lstrip().startswith(b"PUT")


class Builder:
    """Collects cases; a name may come once, and so may the bytes."""

    def __init__(self):
        self.cases = []
        self._wires = {}

    def add(self, name, wire, expect, **options):
        if wire in self._wires:
            return  # two ways to write the same thing
        self._wires[wire] = name
        self.cases.append(Case(name, wire, expect, **options))

    def put(self, name, headers, payload, expect, version=b"HTTP/1.1", **options):
        """A PUT with raw header lines (each without its end) and a raw payload."""
        lines = [b"PUT {T} " + version, b"Host: {H}", *headers]
        self.add(name, b"".join(line + b"\r\n" for line in lines) + b"\r\n" + payload, expect, **options)

    def get(self, name, lines, expect, eol=b"\r\n", **options):
        self.add(name, b"".join(line + eol for line in lines) + eol, expect, **options)


def chunks(body, *sizes):
    """A chunked body of chunks of these sizes."""
    out, place = b"", 0
    for size in sizes or (len(body),):
        out += b"%x\r\n" % len(body[place : place + size]) + body[place : place + size] + b"\r\n"
        place += size
    return out + b"0\r\n\r\n"


def show(data):
    """Bytes for the name of a case."""
    text = data if len(data) <= 40 else data[:36] + b"..."
    return repr(text)[2:-1].replace("/", "\\x2f")


BODY = b"hello" + SMUGGLED
CL = b"Content-Length: %d" % len(BODY)
TE = b"Transfer-Encoding: chunked"
