"""pandas, pyarrow and polars: a parquet file that each reads, with the threads of both; CSV, time zones, a pool of processes."""
import concurrent.futures
import os
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

rows = 200_000
frame = pd.DataFrame({
    "n": np.arange(rows),
    "x": np.sin(np.arange(rows)),
    "c": pd.Categorical(np.where(np.arange(rows) % 3, "a", "b")),
    "t": pd.date_range("2026-01-01", periods=rows, freq="s", tz="Europe/Berlin"),
})
os.mkdir("outputs")
frame.to_parquet("outputs/frame.parquet")
assert pd.read_parquet("outputs/frame.parquet").equals(frame)

table = pq.read_table("outputs/frame.parquet", use_threads=True)
assert pc.sum(table["n"]).as_py() == rows * (rows - 1) // 2 and pa.cpu_count() >= 1

lazy = pl.scan_parquet("outputs/frame.parquet").group_by("c").agg(pl.col("n").sum(), pl.col("x").mean()).sort("c")
expected = frame.groupby("c", observed=True).agg({"n": "sum", "x": "mean"}).sort_index()
got = lazy.collect()
assert got["n"].to_list() == expected["n"].to_list() and np.allclose(got["x"], expected["x"])
assert pl.thread_pool_size() >= 1 and len(os.listdir("/proc/self/task")) > 1

frame.to_csv("frame.csv", index=False)
assert len(pl.read_csv("frame.csv")) == rows


def square(n):
    return n * n, os.getpid()


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: square(n)[0], range(100))) == 328350
assert threading.active_count() >= 1
_return = {"pandas": pd.__version__, "polars": pl.__version__, "pyarrow": pa.__version__}
