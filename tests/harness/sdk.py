"""AIStore's own Python package, pointed at a cluster of ours, and a wire that breaks."""

import socket
import threading
import urllib.parse

from aistore.sdk.client import Client
from aistore.sdk.retry_config import RetryConfig
from harness.waiting import scaled
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed
from urllib3.util.retry import Retry


def client_of(endpoint, attempts=1):
    """A client that gives up soon: by default the package asks for a missing object for minutes."""
    config = RetryConfig(http_retry=Retry(total=0, connect=0, read=0),
                         network_retry=Retrying(stop=stop_after_attempt(attempts), wait=wait_fixed(0.05), reraise=True,
                                                retry=retry_if_exception_type(OSError)))
    return Client(endpoint, retry_config=config, timeout=(scaled(3), scaled(20)))


class BreakingWire:
    """Stands before `endpoint` and cuts the first `cuts` connections that carry more than `after` bytes back."""

    def __init__(self, endpoint, cuts, after):
        parts = urllib.parse.urlsplit(endpoint)
        self.peer = (parts.hostname, parts.port)
        self.cuts_left, self.after, self.cuts = cuts, after, 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.peer)
            for one, other, counted in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pass, args=(one, other, counted), daemon=True).start()

    def _may_pass(self, sent):
        with self.lock:
            if sent <= self.after or self.cuts_left == 0:
                return True
            self.cuts_left -= 1
            self.cuts += 1
            return False

    def _pass(self, one, other, counted):
        sent = 0
        try:
            while piece := one.recv(1 << 16):
                if counted and not self._may_pass(sent + len(piece)):
                    break
                other.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
