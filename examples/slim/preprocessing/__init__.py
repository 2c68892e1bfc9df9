"""What is done to images before a network; `factory.get_preprocessing` finds it by its name."""
