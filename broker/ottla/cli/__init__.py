"""The ``ottla`` command. One module per noun, imported when it is used: `main` lists them, `lazy` loads them.

Conventions, for every command:

- data on stdout, talk on stderr; ``-o table|wide|json|yaml|name`` chooses the data's form (`output`);
- what changes something takes ``--dry-run``; what destroys asks on a terminal and demands ``--yes`` elsewhere;
- exit codes: 0 done, 1 error, 2 wrong usage, 3 not found, 4 denied, 5 no answer, 10 unhealthy (`exit_codes`).
"""
