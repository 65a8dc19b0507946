"""Values of the public API: one frozen class per noun, and the functions that make them from Kafka's messages."""
