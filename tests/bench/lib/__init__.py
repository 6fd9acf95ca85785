"""What tests/bench/run is made of: `rows` and their targets, the `stage` on which they are measured, a module for each kind."""
