"""Configs of a node and their description by DescribeConfigs, for brokers and controllers.

layers      static settings with the dynamic configs of the metadata over them
entries     each config's value, its source and its synonyms
describe    the response to a request
"""
