"""The papers' experiments: each application beside its MPI twin, in turn, and what the papers say about the outcome."""
