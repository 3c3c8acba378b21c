"""Starts bqemulator without DuckDB's geography extension, which it would
download from the network at each start. No SQL of ours has geography."""

from bqemulator import cli
from bqemulator.storage.engine import DuckDBEngine

DuckDBEngine._load_spatial = lambda self: None

if __name__ == "__main__":
    cli.main()
