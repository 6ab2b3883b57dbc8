"""What `ottla doctor` looks at: one file per concern. Each check yields `Finding`s, with what to do next."""
