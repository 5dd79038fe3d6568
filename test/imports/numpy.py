"""OpenBLAS with its threads, and random numbers."""
import numpy as np

rng = np.random.default_rng(7)
a = rng.standard_normal((500, 500))
q, r = np.linalg.qr(a)
assert np.allclose(q @ r, a)
assert np.allclose(np.linalg.inv(a) @ a, np.eye(500), atol=1e-6)
np.save("a.npy", a)
assert np.array_equal(np.load("a.npy", mmap_mode="r"), a)
_return = np.__version__
