"""Market data: canonical schema, readers, book building, validation and the dataset store."""
