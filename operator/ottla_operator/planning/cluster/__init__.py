"""Planning for one Cluster."""
