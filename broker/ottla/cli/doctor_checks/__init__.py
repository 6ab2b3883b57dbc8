"""The checks of `ottla doctor`: one module per concern. Each check yields `Finding`s with remedies."""
