"""What integration and fault tests share.

  cluster.py   a cluster of real programs in a directory of the test: start, kill, logs, metrics, objects
  client.py    HTTP by hand: raw connections for malformed requests, and a client that follows redirects
  waiting.py   wait for a condition with a deadline; tests never just sleep
  fixtures.py  the pytest fixtures and the report that tests/run reads
  run.py       tests/run: what is asked for, in which phases; suites.py: the suites and what they count

Environment: TARN_BIN (programs; default build/release/test), TARN_TEST_SEED (repeat a random run), TARN_TEST_SLOWDOWN
(factor on all deadlines, for sanitizers), TARN_TEST_KEEP (do not remove data of failed tests), TARN_SABOTAGE_POINT
(a safety switched off in every node, see tests/sabotage), TARN_TEST_EVIDENCE (where histories, and logs of failed
tests, are kept; tests/soak), TARN_PORT_SHARE (K/N: the ports of this process, one of N that run tests side by side).
"""
