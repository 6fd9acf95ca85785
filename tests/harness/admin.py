"""What an operator says of the nodes of a cluster that a test has made."""

from harness import members


def act(cluster, action, *nodes, proxy="p1", **options):
    """AIStore's action on nodes (names, or ids of others): the raw answer of a proxy."""
    ids = [cluster.nodes[node]["id"] if node in cluster.nodes else node for node in nodes]
    return members.act(cluster.url_of(proxy), action, ids, **options)


def does(cluster, action, *nodes, **options):
    """The id of the rebalance that it began."""
    answer = act(cluster, action, *nodes, **options)
    assert answer.status == 200, answer
    return answer.text
