"""What configs a node has, and what DescribeConfigs says of them: a broker and a controller alike.

layers      static settings with the dynamic configs of the metadata over them
entries     each config's value, where it comes from, and what else decides it
describe    the answer to a request
"""
