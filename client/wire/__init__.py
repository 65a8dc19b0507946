"""Connections to brokers and requests to the brokers that answer them."""
