"""Arrays a person would want to look at; the README's examples query them."""

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Enum, Spec

DAY_NS = 86_400 * 10**9


@case("quickstart_dense", "the 4 x 4 array of every TileDB tutorial", "dense", rows=16)
def quickstart_dense(path):
    spec = Spec([Dim("rows", "INT32", 1, 4, 4), Dim("cols", "INT32", 1, 4, 4)], [Attr("a", "INT32")])
    Array(path).create(spec, 1000).write({"a": np.arange(1, 17, dtype="i4")}, 1000, [(1, 4), (1, 4)])


@case("quickstart_sparse", "three cells in a 4 x 4 domain", "sparse", rows=3)
def quickstart_sparse(path):
    spec = Spec([Dim("rows", "INT32", 1, 4, 4), Dim("cols", "INT32", 1, 4, 4)], [Attr("a", "INT32")], sparse=True)
    Array(path).create(spec, 1000).write({"rows": [1, 2, 2], "cols": [1, 4, 3], "a": [1, 2, 3]}, 1000)


@case("weather_stations", "a realistic table: string and time dimensions, enumeration, nullable text, corrected readings", "sparse", "string_dim",
      "datetime_dim", "enumeration", "nullable", "overwrite", windows=[(0, 1000), (2000, 2000)], rows=2000)
def weather_stations(path):
    """Eight stations, 250 six-hourly readings each from 2024-01-01; 60 readings are corrected a day later (timestamp 2000)."""
    lo, hi = int(np.datetime64("1990-01-01", "ns").astype("i8")), int(np.datetime64("2100-01-01", "ns").astype("i8"))
    conditions = ["clear", "cloudy", "rain", "snow", "fog", "storm"]
    spec = Spec(
        [Dim("station", "STRING_ASCII", filters=["rle"]), Dim("time", "DATETIME_NS", lo, hi, 30 * DAY_NS, filters=["double_delta", "zstd"])],
        [Attr("temperature", "FLOAT64", filters=["byteshuffle", "zstd"]), Attr("wind", "FLOAT32", nullable=True, filters=["byteshuffle", "zstd"]),
         Attr("condition", "UINT8", filters=["zstd"], enum="conditions"), Attr("note", "STRING_UTF8", VAR, nullable=True, filters=["zstd"])],
        sparse=True, capacity=500, offsets_filters=["positive_delta", "zstd"], enums=[Enum("conditions", "STRING_UTF8", conditions)])
    rng = np.random.default_rng(20240101)
    mean = {"Bergen": 4.0, "Cairo": 17.5, "Denver": 3.0, "Lima": 23.0, "Mumbai": 27.0, "Nuuk": -8.0, "Osaka": 9.0, "Zurich": 3.5}
    start = int(np.datetime64("2024-01-01", "ns").astype("i8"))
    data = {k: [] for k in ("station", "time", "temperature", "wind", "condition", "note")}
    remarks = {17: "sensor cleaned", 42: "thermometer replaced – see log", 99: "gust of the month", 150: "観測所 relocated", 200: ""}
    for name, base in mean.items():
        for i in range(250):
            t = base + i / 50 + 4 * np.sin((i % 4) * np.pi / 2) + rng.normal(0, 2)
            w = round(float(rng.gamma(2.0, 2.5)), 1)
            c = 3 if t < 0 and rng.random() < 0.4 else int(rng.choice([0, 1, 2, 4, 5], p=[0.45, 0.3, 0.17, 0.05, 0.03]))
            data["station"].append(name)
            data["time"].append(start + i * DAY_NS // 4)
            data["temperature"].append(round(float(t), 1))
            data["wind"].append(None if rng.random() < 0.03 else w)
            data["condition"].append(c)
            data["note"].append(remarks.get(i))
    a = Array(path).create(spec, 1000)
    a.write(data, 1000)
    fixes = sorted(int(i) for i in rng.choice(2000, 60, replace=False))
    a.write({
        "station": [data["station"][i] for i in fixes], "time": [data["time"][i] for i in fixes],
        "temperature": [round(data["temperature"][i] - 1.5, 1) for i in fixes], "wind": [data["wind"][i] for i in fixes],
        "condition": [data["condition"][i] for i in fixes], "note": ["corrected: sensor drift"] * len(fixes)}, 2000)


@case("elevation", "a 64 x 64 terrain of int16 in 16 x 16 tiles, byteshuffle + zstd", "dense", "filters", rows=4096)
def elevation(path):
    y, x = np.mgrid[0:64, 0:64].astype("f8")
    hills = sum(h * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / s) for h, cx, cy, s in [(2200, 18, 20, 180), (1400, 45, 40, 260), (900, 50, 12, 90), (-350, 30, 55, 140)])
    terrain = np.rint(320 + hills + 12 * np.sin(x / 3) * np.cos(y / 4)).astype("<i2")
    spec = Spec([Dim("y", "INT32", 0, 63, 16), Dim("x", "INT32", 0, 63, 16)], [Attr("height", "INT16", filters=["byteshuffle", "zstd"])])
    Array(path).create(spec, 1000).write({"height": terrain}, 1000, [(0, 63), (0, 63)])
