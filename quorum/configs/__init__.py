"""Configs of a node and their description by DescribeConfigs, for brokers and controllers.

layers      static settings with the dynamic configs of the metadata over them
entries     each config's value, where it comes from, and what else decides it
describe    the answer to a request
"""
