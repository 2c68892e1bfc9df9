"""Synchronous steps of equal workers: all-reduce, a parameter server, and Keras.

python -m benchmarks.scaling.all_reduce_points --workers=1,2,3,4 --json=points.json
"""

from benchmarks.scaling import points

if __name__ == "__main__":
    points.run(points.EQUAL_MODES)
