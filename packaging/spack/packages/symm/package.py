import os

from spack.package import *


class Symm(CMakePackage, CudaPackage):
    """Symmetric memory for any language."""

    license("Apache-2.0")
    has_code = True
    # What `./dev release` made of the tree that this recipe lies in.
    url = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), "../../../../dist/libsymm-0.2.0.tar.gz"))
    version("0.2.0")  # install with --no-checksum, or take it from dist/SHA256SUMS

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("cuda@12.8:", when="+cuda", type="build")

    def cmake_args(self):
        args = [self.define("SYMM_TESTS", False), self.define("SYMM_BENCH", False), self.define("SYMM_CUDA", "on" if "+cuda" in self.spec else "off")]
        if "+cuda" in self.spec:
            args.append(self.define("SYMM_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value)))
        return args
