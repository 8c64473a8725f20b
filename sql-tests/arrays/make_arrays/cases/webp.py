"""WebP: tiles as images. Lossy ones restore to what libwebp makes of them, not to what was written.

libtiledb 2.30 sets up the filter of the last attribute alone, so an array has one attribute of images, behind all others.
"""

import numpy as np

from cases import case
from tdbarray import Array, Attr, Dim, Spec

FORMATS = {"rgb": (1, 3), "bgr": (2, 3), "rgba": (3, 4), "bgra": (4, 4)}


def picture(height, width, seed):
    y, x = np.mgrid[0:height, 0:width]
    smooth = 128 + 90 * np.sin(y / 7.0) * np.cos(x / 11.0)
    return (smooth + np.random.default_rng(seed).integers(0, 30, (height, width))).astype("u1").ravel()


def images(name, quality=None, tile=(7, 5), box=((2, 16), (0, 8)), **orders):
    """`tile` and `box` in pixels; lossless without a quality. Tiles at the edges are written in part."""
    code, depth = FORMATS[name]

    def build(path):
        x0, x1 = box[1][0] * depth, (box[1][1] + 1) * depth - 1
        height, width = box[0][1] - box[0][0] + 1, x1 - x0 + 1
        options = {"format": code, "lossless": int(quality is None), "quality": 100 if quality is None else quality}
        dims = [Dim("y", "INT32", 0, 39, tile[0]), Dim("x", "INT32", 0, 20 * depth - 1, tile[1] * depth)]
        attrs = [Attr("plain", "UINT8"), Attr("image", "UINT8", filters=[("webp", options)])]
        cells = picture(height, width, code)
        Array(path).create(Spec(dims, attrs, **orders), 1000).write({"plain": cells, "image": cells}, 1000, [box[0], (x0, x1)])

    return build


for n in FORMATS:
    case(f"webp_{n}_lossless", f"lossless images of {n} pixels, tiles written in part", "dense", "webp")(images(n))
    for q in (0, 60, 100):
        case(f"webp_{n}_quality_{q}", f"lossy images of {n} pixels at quality {q}", "dense", "webp")(images(n, q))
case("webp_columns", "images in arrays ordered by columns: the lines of the image are the cells as stored", "dense", "webp")(
    images("rgb", 80, tile=(6, 4), box=((0, 11), (0, 7)), cell_order="col", tile_order="col"))
case("webp_larger", "an image of many blocks", "dense", "webp")(images("bgra", 75, tile=(40, 20), box=((0, 39), (0, 19))))
