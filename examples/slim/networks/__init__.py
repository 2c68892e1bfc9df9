"""Networks of the image classifier; `factory.get_network_fn` finds one by its name."""
