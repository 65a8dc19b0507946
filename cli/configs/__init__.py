"""Commands on configs, quotas and features; validation of config files."""
