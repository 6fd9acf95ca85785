"""What an operator asks of the members of a cluster, in AIStore's paths."""

import json

from harness import client

# Flags of a node in the map; those from DOWN on are the cluster's own words.
MAINTENANCE, DECOMMISSION, DOWN = 4, 8, 1 << 16


def act(proxy, action, ids, query="", timeout=None, **value):
    """AIStore's action on nodes (their ids), as its command line sends it to the proxy with this URL."""
    value = {"sid": "", "sids": list(ids), "skip_rebalance": False, "rm_user_data": False, "keep_initial_config": False,
             "no_shutdown": False} | value
    body = json.dumps({"action": action, "name": "", "value": value}).encode()
    return client.request("PUT", f"{proxy}/v1/cluster{query}", body, expect=False, timeout=timeout)
