"""Workers without parameter servers: settings, collectives, and the sums over workers in a step."""
