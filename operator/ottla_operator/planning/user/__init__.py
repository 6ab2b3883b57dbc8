"""Planning for one User."""
