"""Namespaces of the public API: one class per noun, with methods that call the modules of `client`."""
