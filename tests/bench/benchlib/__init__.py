"""Benches of millwright beside other tools: see docs/benchmarks.md. tests/bench/run is the command."""
