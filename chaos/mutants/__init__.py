"""Known protocol mistakes, put into production code for a while: whoever looks for faults must find each of them."""
