"""Planning for one Topic."""
