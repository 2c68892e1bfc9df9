"""Steps of workers on one machine, in all modes: see `benchmarks.scaling.points`.

python -m benchmarks.scaling --workers=1,2 --shapes=0 --json=points.json
"""

from benchmarks.scaling import points

if __name__ == "__main__":
    points.run(list(dict.fromkeys([*points.CLUSTER_MODES, *points.EQUAL_MODES])))
