"""AIStore's own Python package, pointed at a cluster of ours."""

from aistore.sdk.client import Client
from aistore.sdk.retry_config import RetryConfig
from harness.waiting import guarded
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed
from urllib3.util.retry import Retry


# After which a job is taken to hang.
JOB_SECONDS = guarded(20)


def client_of(endpoint, attempts=1):
    """A client that gives up soon: by default the package asks for a missing object for minutes."""
    config = RetryConfig(http_retry=Retry(total=0, connect=0, read=0),
                         network_retry=Retrying(stop=stop_after_attempt(attempts), wait=wait_fixed(0.05), reraise=True,
                                                retry=retry_if_exception_type(OSError)))
    return Client(endpoint, retry_config=config, timeout=(guarded(3), guarded(20)))
