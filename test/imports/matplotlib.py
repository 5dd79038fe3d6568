"""A plot for the caller. The backend and the place of the cache are the sandbox's default."""
import os

import matplotlib
import matplotlib.pyplot as plt

assert matplotlib.get_backend().lower() == "agg", matplotlib.get_backend()
assert matplotlib.get_cachedir() == matplotlib.get_configdir() == "/work/.matplotlib"
figure, axes = plt.subplots()
axes.plot([1, 4, 9], label="π")
axes.set_title("A title with ∑ and ß")
axes.legend()
os.mkdir("outputs")
figure.savefig("outputs/plot.png")
figure.savefig("outputs/plot.pdf")
figure.savefig("outputs/plot.svg")
_return = matplotlib.__version__
