from pathlib import Path

from spack.package import *


class Symm(CMakePackage, CudaPackage):
    """Symmetric memory for any language."""

    license("Apache-2.0")
    git = f"file://{Path(__file__).resolve().parents[4]}"
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("highway", type="build")
    depends_on("libsodium", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("cuda@12.8:", when="+cuda", type="build")

    def cmake_args(self):
        cuda = "on" if self.spec.satisfies("+cuda") else "off"
        args = {
            "SYMM_TESTS": False,
            "SYMM_BENCH": False,
            "SYMM_SODIUM": "on",
            "SYMM_UNITY": "all",
            "SYMM_CUDA": cuda,
        }
        if cuda == "on" and not self.spec.satisfies("cuda_arch=none"):
            args["SYMM_CUDA_ARCHITECTURES"] = self.spec.variants["cuda_arch"].value
        return [self.define(*one) for one in args.items()]
