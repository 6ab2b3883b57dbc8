"""Where nodes run: `host` is the port, `kubernetes` and `local` are the two who implement it."""
