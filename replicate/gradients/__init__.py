"""TowerOptimizer, and the stages of an update: sum → judge → accumulate → clip → apply."""
