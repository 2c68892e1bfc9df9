"""The parts of the image classifier: each one can be taken into a program of your own."""
