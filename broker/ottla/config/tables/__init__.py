"""The rows of the broker's keys, by area; `ottla.config.table` reads them."""
