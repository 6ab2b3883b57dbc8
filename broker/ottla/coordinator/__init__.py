"""What every coordinator needs (groups today; transactions and share groups come next)."""
