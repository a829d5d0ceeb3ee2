"""Pure decisions over facts; no devices, no files, no clocks."""
