"""Groups: their members, offsets, lags and resets."""
