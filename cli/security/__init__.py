"""Commands for certificates and checks of security."""
