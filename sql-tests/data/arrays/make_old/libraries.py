"""Which release writes which format: the `tiledb` wheels on PyPI that bundle old libtiledb libraries, pinned by their hashes."""

import glob
import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile

# format -> (tiledb on PyPI, libtiledb inside, wheel's Python, platform, SHA-256 of the wheel)
WHEELS = {
    2: ("0.4.1", "1.5.0", "37", "manylinux1", "c6f0f652c12a40080cfadbbac3754ea15725039a7935d23b707ed1102726f826"),
    3: ("0.4.4", "1.6.3", "37", "manylinux1", "b24bc2d306fb030ef4b2483c3fcf7a9d9fdfe04f0c3aa45d0697ce49669ea0e0"),
    4: ("0.5.9", "1.7.7", "37", "manylinux1", "248597dd7e8cd163a6d9a98284cebb7e4351e73b274e334f8a38fb2787c8d044"),
    5: ("0.6.6", "2.0.8", "37", "manylinux1", "87fc00ac85d594a58be7976252a73260b1da69ed017f7db006d9772f24c63214"),
    6: ("0.7.7", "2.1.6", "37", "manylinux1", "fac8be75964d7f5c3be9bf79f5371b1193c44ee816bfa7277b9985739b1fef9d"),
    7: ("0.8.0", "2.2.2", "37", "manylinux1", "09322368b8893634d3bfca58c9709c20d6877681878997693109ebb6a0c1dcbf"),
    8: ("0.8.11", "2.2.9", "37", "manylinux2010", "2763a9aaab48b6c32333024f2edec038365770d9add3a1fa97d2975aeb7b576e"),
    9: ("0.9.5", "2.3.3", "37", "manylinux2010", "038e7641e6699609a543ba8157f4b240c0d930c7d4b1edec89ae3d55cfc0817e"),
    10: ("0.10.5", "2.4.3", "37", "manylinux2010", "bcef06c29977293da3f85382cff54f69eba5e8e8a1125992094d0e36c4d506ed"),
    11: ("0.13.3", "2.7.2", "37", "manylinux2010", "5209762f04284788646c245926b5481bc9e117582af15a72661d993fa9bc7012"),
    12: ("0.14.5", "2.8.3", "37", "manylinux2010", "d18bf313b7afa0037afc4e061c327883b3335766c8e0f5716c5c9be3c4e6fa9c"),
    13: ("0.15.3", "2.9.3", "37", "manylinux2010", "1b7d9f079209f1a73ae7743a566912c542eaf99f12537f944a796fb6a156b722"),
    14: ("0.16.5", "2.10.4", "37", "manylinux2010", "1320ef3c796bf6ed0c0e856f575d9ed14bea5bf4a7dde9b938e9e43605288c8e"),
    15: ("0.17.6", "2.11.3", "37", "manylinux2014", "9678538a67af5934cb677a32c4fd5796c7634e0f9a7aacba0c9b5b9d3f3ef307"),
    16: ("0.18.3", "2.12.3", "37", "manylinux2014", "525dcb42859820d92a5fce1456e9d9dabfa0cb2984d063c645ad58e98b7fa827"),
    17: ("0.20.0", "2.14.0", "37", "manylinux2014", "6ff81cfdcc8a5d15147f17ca156d09978cd034e4c2a9e34f04e919483d5ddc56"),
    18: ("0.21.6", "2.15.4", "37", "manylinux2014", "4e684a4ba52181fc7bd561d4c340b3fcfd3da717d7206e6bdb1be0925df8aad0"),
    19: ("0.22.3", "2.16.3", "37", "manylinux2014", "1f8dcbd043b946a03cdd0d9276da52b16350f043f03702c1b5ec38fea0a41e38"),
    20: ("0.24.0", "2.18.2", "37", "manylinux2014", "9fa24559a71f42d031f3bf9aff57b830429fe88cd47eb326069094cf3fff31ab"),
    21: ("0.30.0", "2.24.0", "38", "manylinux2014", "c4e23952a261fa660e9f7275dc57ba33915a78a7a315e2a21cae5824d4ea40ee"),
}
BUNDLED = 22  # the library the oracle itself uses: make_arrays/requirements.txt


def fetch(folder):
    """Downloads what is missing, checks every hash and unpacks the shared objects."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for version, (release, _, python, platform, digest) in WHEELS.items():
        if not list(folder.glob(f"tiledb-{release}-*.whl")):
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python,
                            "--platform", f"{platform}_x86_64", "-d", folder, f"tiledb=={release}"], check=True)
        (wheel,) = folder.glob(f"tiledb-{release}-*.whl")
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{wheel} is not the file this was written with")
        target = folder / f"v{version:02}"
        if not target.is_dir():
            with zipfile.ZipFile(wheel) as z:
                z.extractall(target, [n for n in z.namelist() if ".so" in n])


def path(folder, version):
    """The shared object that writes format `version`."""
    names = glob.glob(os.path.join(folder, f"v{version:02}", "**", "libtiledb*.so*"), recursive=True, include_hidden=True)
    (found,) = [n for n in names if "cpython" not in n]
    return found
