"""Compares DECK with its peers: installs them, runs them and DECK in turn, and writes what was found. See bench/README.md."""
