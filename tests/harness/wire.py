"""Wires that a test puts between a client and a listener: they count, hold or break what passes."""

import socket
import threading
import urllib.parse


class Wire:
    """Stands before `endpoint` and counts the bytes that it passes on: `there`, and `back` to the clients.

    With `hold_after`, no byte goes back behind the first so many, of all connections together, until release().
    """

    def __init__(self, endpoint, hold_after=None):
        parts = urllib.parse.urlsplit(endpoint)
        self.peer = (parts.hostname, parts.port)
        self.there = self.back = 0
        self.hold_after = hold_after
        self.held, self.released = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def release(self):
        self.released.set()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far, link = socket.create_connection(self.peer), {}
            for one, other, is_back in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pass, args=(one, other, is_back, link), daemon=True).start()

    def may_pass(self, link, chunk, is_back, sent):
        """False: the connection ends instead. `link` is a dict of each connection, for both of its directions."""
        return not is_back or self.may_pass_back(sent, len(chunk))

    def may_pass_back(self, sent, size):
        """True if `size` more bytes may go back on a connection that has carried `sent`. May wait."""
        if self.hold_after is not None and self.back + size > self.hold_after:
            self.held.set()
            self.released.wait()
        return True

    def _pass(self, one, other, is_back, link):
        sent = 0
        try:
            while chunk := one.recv(1 << 16):
                if not self.may_pass(link, chunk, is_back, sent):
                    break
                # Before it goes: the receiver of the last of it may look at once.
                with self.lock:
                    self.there += 0 if is_back else len(chunk)
                    self.back += len(chunk) if is_back else 0
                other.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class BreakingWire(Wire):
    """Cuts the first `cuts` connections that carry more than `after` bytes back."""

    def __init__(self, endpoint, cuts, after):
        self.cuts_left, self.after, self.cuts = cuts, after, 0
        super().__init__(endpoint)

    def may_pass_back(self, sent, size):
        with self.lock:
            if sent + size <= self.after or self.cuts_left == 0:
                return True
            self.cuts_left -= 1
            self.cuts += 1
            return False


class LosesAnswers(Wire):
    """Ends the first connection on which a request of `method` is answered 200, before the answer passes."""

    def __init__(self, endpoint, method):
        self.request, self.lost = method.encode() + b" ", 0
        super().__init__(endpoint)

    def may_pass(self, link, chunk, is_back, sent):
        if not is_back:
            link["asked"] = link.get("asked") or chunk.startswith(self.request)
            return True
        with self.lock:
            if self.lost or not link.get("asked") or not chunk.startswith(b"HTTP/1.1 200"):
                return True
            self.lost += 1
            return False
