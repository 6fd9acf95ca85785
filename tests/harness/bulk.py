"""Many small objects, quickly: several kept connections to the relay, so that their syncs share commits."""

import concurrent.futures
import urllib.parse

from harness import client


def put_many(cluster, bucket, names, body=b"x", connections=16):
    """Stores `body` under each of `names`."""
    def put_share(share):
        with client.RawConnection(cluster.relay) as connection:
            for name in share:
                connection.send_head("PUT", f"/{bucket}/{urllib.parse.quote(name)}", {"Content-Length": str(len(body))})
                connection.send(body)
                answer = connection.read_response()
                assert answer.status == 200, (name, answer)

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(put_share, [names[i::connections] for i in range(connections)]))
