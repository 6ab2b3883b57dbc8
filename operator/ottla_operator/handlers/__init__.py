"""kopf wiring, one file per kind: handlers mark keys dirty and do nothing else."""
