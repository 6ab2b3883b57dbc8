"""The ``ottla`` command. One module per noun, imported on first use: `main` lists them, `lazy` loads them.

Conventions, for every command:

- data on stdout, messages on stderr; ``-o table|wide|json|yaml|name`` chooses the format of the data (`output`);
- commands with changes have ``--dry-run``; destructive ones prompt on a terminal and need ``--yes`` without one;
- exit codes: 0 done, 1 error, 2 wrong usage, 3 not found, 4 denied, 5 no response, 10 unhealthy (`exit_codes`).
"""
