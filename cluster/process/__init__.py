"""The processes of a node: supervisor, controller, broker, admin."""
