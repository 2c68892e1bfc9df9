"""Steps of workers with a parameter server: see `benchmarks.scaling.points`.

python -m benchmarks.scaling.cluster_points --json=points.json
"""

from benchmarks.scaling import points

if __name__ == "__main__":
    points.run(points.CLUSTER_MODES)
